"""DiscreteDependencyNetwork: conditionals that only decide, answered by fixed-point iteration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.joint.base import Joint
from colabel.joint.exactness import APPROXIMATE, Exactness
from colabel.joint.gibbs.dependency_network import check_conditionals, shared_order
from colabel.joint.gibbs.sampler import Conditionals
from colabel.joint.user_terms import merged_evidence
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

CONVERGED, CYCLED, CAPPED = range(3)


@dataclass(frozen=True, eq=False, repr=False)
class FixedPointReport:
    """How discrete inference ended for each row.

    Attributes
    ----------
    status : (n,) array of str
        "converged": a pass changed nothing. "cycled": the labels came back to an earlier vector
        and would go round for ever. "capped": neither happened within the passes allowed.
    passes : (n,) array of int
        Passes over the labels until then.
    """

    status: NDArray[np.str_]
    passes: Indices

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each status."""
        return {name: int((self.status == name).sum()) for name in STATUS_NAMES}

    def to_text(self) -> str:
        """Return one line with the counts."""
        found = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        most = int(self.passes.max()) if self.passes.size else 0
        return f"{len(self.status)} rows: {found}; at most {most} passes."

    def __repr__(self) -> str:
        return f"FixedPointReport({self.to_text()})"


STATUS_NAMES = ("converged", "cycled", "capped")


class Settled(NamedTuple):
    """Labels (n, d), how each row ended (n,) and the passes it took (n,)."""

    labels: Codes
    status: Indices
    passes: Indices


def settle(
    model: Conditionals,
    initial: Codes,
    order: Indices,
    evidence: Codes,
    max_iterations: int,
) -> Settled:
    """Set each label in turn to its most probable value given the others, until none changes.

    A pass is a function of the label vector, so a row that meets a vector it has met before
    will go round for ever. Such a row is decided as Algorithm 1 decides its samples: by the
    marginals of the vectors it visits for ever, a tie going to the smaller code.

    Parameters
    ----------
    initial : (n, d)
        Where to start; labels known by the evidence start there.
    order : (d,)
        In which a pass visits the labels.
    evidence : (n, d)
        Known labels, MISSING elsewhere; they never change.
    """
    labels = np.where(evidence == MISSING, initial, evidence).astype(np.int32)
    status = np.full(len(labels), CAPPED, dtype=np.intp)
    passes = np.full(len(labels), max_iterations, dtype=np.intp)
    moving = np.arange(len(labels))
    past = labels[None].copy()  # (passes + 1, moving rows, d)
    for number in range(1, max_iterations + 1):
        if not len(moving):
            break
        part = model if len(moving) == len(labels) else model.rows(moving)
        now = one_pass(part, past[-1], order, evidence[moving])
        met = (past == now).all(axis=2)  # (passes + 1, moving rows)
        settled, repeated = met[-1], met.any(axis=0)
        labels[moving] = now
        for row in np.flatnonzero(repeated & ~settled):
            since = int(met[:, row].argmax())
            labels[moving[row]] = _majority(past[since:, row], model.cardinalities)
        status[moving[settled]], status[moving[repeated & ~settled]] = CONVERGED, CYCLED
        passes[moving[repeated]] = number
        past = np.concatenate([past, now[None]])[:, ~repeated]
        moving = moving[~repeated]
    return Settled(labels, status, passes)


def one_pass(model: Conditionals, labels: Codes, order: Indices, evidence: Codes) -> Codes:
    """Set every label that is not known to its most probable value, in order; all rows at once."""
    labels = labels.copy()
    for i in order:
        best = model.log_prob(labels[None], int(i))[0].argmax(axis=1)
        labels[:, i] = np.where(evidence[:, i] == MISSING, best, labels[:, i])
    return labels


def _majority(vectors: Codes, cardinalities: tuple[int, ...]) -> Codes:
    """Return the most frequent value of each label in vectors (m, d)."""
    counts = [
        np.bincount(column, minlength=size)
        for column, size in zip(vectors.T, cardinalities, strict=True)
    ]
    return np.array([count.argmax() for count in counts], dtype=np.int32)


class DiscreteDependencyNetwork(Joint):
    """One rule ``y_i = f_i(x, y_-i)`` for every label; a label vector that obeys them all.

    The extension of conditional dependency networks to classifiers without probabilities, such
    as support vector machines (Guo & Gu, 2011, Algorithm 2): each label in turn is set to the
    most probable value of its conditional, until a pass over the labels changes nothing. There
    may be no such vector, or several; `report` says how it ended for each row. Rows that go
    round in a cycle are decided by the majority, label by label, over the cycle.

    It answers `mode`, also `given` some labels. It has no probabilities.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    conditionals : Conditionals
        For n rows; their most probable values count.
    initial : array-like of int of shape (d,) or (n, d), optional
        Codes to start from, by default 0.
    max_iterations : int
        Most passes over the labels.
    seed : int
        Seed of the order in which a pass visits the labels, one for all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import DiscreteDependencyNetwork, LinearConditionals
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> base, weights = np.array([[1.0, -1.0]]), np.array([[0.0, 2.0], [0.0, 0.0]])
    >>> rules = LinearConditionals(base, weights, (2, 2))  # a is 1, and brings b along
    >>> joint = DiscreteDependencyNetwork(space, rules)
    >>> joint.mode()
    array([[1, 1]])
    >>> joint.report.counts
    {'converged': 1, 'cycled': 0, 'capped': 0}
    """

    exact: Exactness = APPROXIMATE

    def __init__(
        self,
        space: LabelSpace,
        conditionals: Conditionals,
        *,
        initial: ArrayLike | None = None,
        max_iterations: int = 100,
        seed: int = 0,
    ) -> None:
        check_conditionals(space, conditionals)
        if max_iterations < 1:
            raise ValueError(f"max_iterations={max_iterations!r} must be at least 1.")
        shape = (conditionals.n_rows, space.n_labels)
        start = np.zeros(shape) if initial is None else np.broadcast_to(np.asarray(initial), shape)
        self._max_iterations = max_iterations
        self._seed = int(seed)
        evidence = np.full(shape, MISSING, dtype=np.int32)
        self._set(space, conditionals, start.astype(np.int32), evidence)

    def _set(
        self, space: LabelSpace, conditionals: Conditionals, initial: Codes, evidence: Codes
    ) -> None:
        super().__init__(space, conditionals.n_rows)
        self.conditionals = conditionals
        self._initial = initial
        self._evidence = evidence
        self.how = (
            "Approximate: labels are set in turn to what their conditionals say, at most"
            f" {self._max_iterations} times each, until none changes; see report."
        )

    def _with(
        self, conditionals: Conditionals, initial: Codes, evidence: Codes
    ) -> DiscreteDependencyNetwork:
        joint = DiscreteDependencyNetwork.__new__(DiscreteDependencyNetwork)
        joint._max_iterations, joint._seed = self._max_iterations, self._seed
        joint._set(self.space, conditionals, initial, evidence)
        return joint

    @cached_property
    def _settled(self) -> Settled:
        order = shared_order(self._seed, self.space.n_labels)
        found = settle(
            self.conditionals, self._initial, order, self._evidence, self._max_iterations
        )
        n_capped = int((found.status == CAPPED).sum())
        if n_capped:
            warnings.warn(
                f"{n_capped} of {self.n_rows} rows had not settled after {self._max_iterations}"
                " passes over the labels. Raise max_iterations.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found

    @property
    def report(self) -> FixedPointReport:
        """How the iteration ended for each row: converged, cycled or capped."""
        names = np.array(STATUS_NAMES)
        return FixedPointReport(names[self._settled.status], self._settled.passes)

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) at which the iteration ended."""
        return self._settled.labels

    def marginal_tables(self) -> list[Array]:
        """Not available: there are no probabilities."""
        self._refuse("marginals")

    def log_prob_codes(self, codes: Codes) -> Array:
        """Not available: there are no probabilities."""
        self._refuse("log_prob")

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Not available: there are no probabilities."""
        self._refuse("top_k")

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Not available: there are no probabilities."""
        self._refuse("sample")

    def pair_table(self, i: int, j: int) -> Array:
        """Not available: there are no probabilities."""
        self._refuse("pair_marginals")

    def given_codes(self, evidence: Codes) -> DiscreteDependencyNetwork:
        """Return the network with the known entries of evidence (n, d) clamped."""
        merged = merged_evidence(self.space, self._evidence, evidence)
        return self._with(self.conditionals, self._initial, merged)

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        self._refuse("subject_to")

    def rows(self, index: Rows) -> DiscreteDependencyNetwork:
        """Return the joint of some of the rows."""
        return self._with(
            self.conditionals.rows(index), self._initial[index], self._evidence[index]
        )

    def _refuse(self, question: str) -> NoReturn:
        raise NotImplementedError(
            f"{question} needs probabilities, but the classifiers of this dependency network only"
            " decide: it answers mode(), so decide by 'subset'. For probabilities learn it from"
            " classifiers with predict_proba, such as logistic regression or"
            " sklearn.calibration.CalibratedClassifierCV."
        )
