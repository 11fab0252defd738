"""What an inference engine of a pairwise field answers, and the engine for a label alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from scipy.special import entr

from colabel.core.arrays import Array, Codes
from colabel.core.numeric import log_sum_exp
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.field._report import Convergence
from colabel.joint.field._tables import FieldTables
from colabel.joint.tree.passes import draw


class FieldSums(NamedTuple):
    """The sums over all label vectors of a field.

    Attributes
    ----------
    log_partition : (n,)
        log sum_y exp(score(y)); -inf where no vector is possible.
    marginals : list of d arrays (n, K_i)
        P(y_i).
    long_partition : (m, n), optional
        Terms whose sum is `log_partition`, where a double does not hold it.
    """

    log_partition: Array
    marginals: list[Array]
    long_partition: Array | None = None


class FieldEngine(Protocol):
    """Answers about a connected field of d labels for n rows; codes and scores, no names."""

    name: ClassVar[str]

    @property
    def exact(self) -> Exactness:
        """The questions answered exactly; a search that is cut short takes "mode" back."""
        ...

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        ...

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        ...

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) of any two different labels, (n, K_i, K_j)."""
        ...

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        ...

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first; fewer if there are fewer.

        Where scores are far from zero, these are up to a constant per row.
        """
        ...

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        ...

    def treewidth(self) -> int | None:
        """Return the width of the elimination order, if the engine has one."""
        ...

    def convergence(self) -> Convergence | None:
        """Return how the iteration behind the summary ended, if there is one."""
        ...

    def note(self) -> str:
        """Return what else a reader of the report should know."""
        ...


def pair_by_conditioning(
    field: FieldTables,
    i: int,
    j: int,
    first: Array,
    sums_of: Callable[[FieldTables], FieldSums],
) -> Array:
    """Return P(y_i, y_j) = P(y_i) P(y_j | y_i), (n, K_i, K_j), by one summary per value of i.

    Parameters
    ----------
    first : (n, K_i)
        P(y_i).
    sums_of : callable
        Returns the summary of a field with the same edges, in which y_i is fixed.
    """
    found = [sums_of(field.clamped(i, v)).marginals[j] for v in range(first.shape[1])]
    return first[:, :, None] * np.stack(found, axis=1)


class ClosedForm:
    """One label without edges: a softmax."""

    name: ClassVar[str] = "closed_form"
    exact: Exactness = EXACT

    def __init__(self, field: FieldTables) -> None:
        self._scores, self._is_far = field.unary[0], field.is_far

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals."""
        top = self._scores.max(axis=1)
        top[np.isneginf(top)] = 0.0
        shifted = self._scores - top[:, None]
        log_sum = log_sum_exp(shifted)
        scale = np.where(np.isneginf(log_sum), 0.0, log_sum)[:, None]
        marginals = [np.exp(shifted - scale)]
        return FieldSums(top + log_sum, marginals, np.stack([top, log_sum]))

    def edge_tables(self) -> list[Array]:
        """Return nothing: there are no edges."""
        return []

    def pair_table(self, i: int, j: int) -> Array:
        """Refuse: there is one label only."""
        raise IndexError(f"There is no pair ({i}, {j}) in a component of one label.")

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        return np.asarray(entr(self.sums().marginals[0]).sum(axis=1))

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, 1) and scores (n, k), best first."""
        order = np.argsort(-self._scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(self._scores, order, axis=1)
        if self._is_far:
            scores = np.where(np.isneginf(scores), scores, scores - scores[:, :1])
        return order[:, :, None].astype(np.int32), scores

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, 1)."""
        shifted = self._scores - self._scores.max(axis=1, keepdims=True)
        drawn = draw(shifted, rng.random((size, len(shifted))))
        return drawn[:, :, None].astype(np.int32)

    def treewidth(self) -> int | None:
        """Return 0."""
        return 0

    def convergence(self) -> Convergence | None:
        """Return None: nothing iterates."""
        return None

    def note(self) -> str:
        """Return nothing."""
        return ""
