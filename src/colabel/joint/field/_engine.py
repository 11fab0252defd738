"""What an inference engine of a pairwise field answers, and the engine for a label alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.random import Generator
from scipy.special import entr

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.joint.exactness import EXACT, Exactness, common
from colabel.joint.field._tables import FieldTables
from colabel.joint.tree.passes import draw

Engine = Literal["auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"]
ModeEngine = Literal["auto", "icm", "toulbar2"]

# Bytes per entry at work: the tables in double precision, and as much again on the way.
_BYTES = 16
_LEAST = {"memory": 1, "max_iter": 1, "n_chains": 1, "n_sweeps": 1, "burn_in": 0}


@dataclass(frozen=True)
class FieldOptions:
    """Options of `PairwiseField`; see there."""

    engine: Engine = "auto"
    mode_engine: ModeEngine = "auto"
    memory: int = 2**24
    damping: float = 0.3
    tol: float = 1e-6
    max_iter: int = 200
    n_chains: int = 4
    n_sweeps: int = 500
    burn_in: int = 100
    random_state: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name, choices in (("engine", Engine), ("mode_engine", ModeEngine)):
            check_choice(name, getattr(self, name), get_args(choices))
        for name, least in _LEAST.items():
            check_integer(name, getattr(self, name), least)
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(
                f"damping={self.damping!r} must be at least 0 and below 1: it is the share of the "
                "old message that stays."
            )
        check_positive("tol", self.tol)

    @property
    def most_entries(self) -> int:
        """How many entries the tables of one row may have in all."""
        return self.memory // _BYTES


_SHOWN = 6  # how many labels of a component are named


@dataclass(frozen=True, eq=False)
class Convergence:
    """How an iteration ended for each row.

    Attributes
    ----------
    converged : (n,) array of bool
        Whether the last residual was at most the tolerance.
    iterations : (n,) array of int
        Iterations done.
    residual : (n,) array
        Largest change of a message, in nats, in the last iteration.
    """

    converged: Flags
    iterations: Indices
    residual: Array

    def to_text(self) -> str:
        """Return one line for people."""
        if not len(self.converged):
            return "no rows"
        return (
            f"{int(self.converged.sum())} of {len(self.converged)} rows converged, "
            f"{int(np.median(self.iterations))} iterations (median), "
            f"largest residual {self.residual.max():.1e}"
        )


@dataclass(frozen=True, eq=False)
class ComponentReport:
    """How one connected component of the graph is answered.

    Attributes
    ----------
    labels : tuple of str
        Names of its labels.
    engine : str
        "closed_form" for a label without edges, otherwise the engine's name.
    exact : Exactness
        The questions answered exactly.
    n_states : int
        Number of label vectors of the component.
    treewidth : int or None
        Width of the elimination order, where one was sought and found within the budget.
    convergence : Convergence or None
        Of belief propagation.
    note : str
        Anything else worth knowing, such as how the mode was found.
    """

    labels: tuple[str, ...]
    engine: str
    exact: Exactness
    n_states: int
    treewidth: int | None = None
    convergence: Convergence | None = None
    note: str = ""

    def to_text(self) -> str:
        """Return one line for people."""
        shown = ", ".join(self.labels[:_SHOWN]) + (", …" if len(self.labels) > _SHOWN else "")
        parts = [
            f"{len(self.labels)} label{'s' * (len(self.labels) > 1)} ({shown}): {self.engine}",
            str(self.exact),
        ]
        if self.treewidth is not None:
            parts.append(f"treewidth at most {self.treewidth}")
        if self.convergence is not None:
            parts.append(self.convergence.to_text())
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class FieldReport:
    """How a pairwise field is answered, component by component.

    Attributes
    ----------
    components : tuple of ComponentReport
        One per connected component of the graph.
    """

    components: tuple[ComponentReport, ...]

    @property
    def exact(self) -> Exactness:
        """The questions answered exactly in all components."""
        return common(part.exact for part in self.components)

    @property
    def converged(self) -> Flags | None:
        """Whether each row converged in all components (n,); None if nothing iterates."""
        found = [c.convergence.converged for c in self.components if c.convergence is not None]
        return np.logical_and.reduce(found) if found else None

    def to_text(self) -> str:
        """Return one line a component."""
        return "\n".join(part.to_text() for part in self.components)

    def __repr__(self) -> str:
        return self.to_text()


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
