"""Linear conditionals of labels, and their compiled Gibbs sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_softmax

from colabel.core.arrays import Array, Codes, Rows
from colabel.core.label_features import column_owner, label_columns
from colabel.joint.gibbs.kernels import Network

# Share of weights that are not zero up to which going through them one by one pays.
_SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class LinearConditionals:
    r"""Conditionals whose scores are linear in the other labels.

    .. math:: s = b(x) + c(y) W, \qquad p(y_i \mid x, y_{-i}) = \sigma(s_i)

    where c(y) writes the labels as e columns of 0 and 1 (`label_columns`): one for a label of two
    values, whose score is the log-odds of the second, and K for a label of K values, whose K
    scores go through a softmax. A label never counts in its own scores.

    Parameters
    ----------
    base : (n, e) array
        The part b(x) of the scores that depends on the row, intercept included.
    weights : (e, e) array
        Entry [c, s]: what label column c adds to score s. Entries within a label are ignored.
    cardinalities : sequence of d int
        Number of values of each label.
    floor : (e,) array, optional
        Probability kept for values of multi-valued labels that were never seen: their
        probabilities are floor + (1 - sum of floor) softmax. Zero by default.

    Examples
    --------
    >>> import numpy as np
    >>> two = LinearConditionals(np.zeros((1, 2)), np.array([[0.0, 3.0], [3.0, 0.0]]), (2, 2))
    >>> np.exp(two.log_prob(np.array([[[0, 1]]]), 0)).round(2)  # y1 = 1 makes y0 = 1 likely
    array([[[0.05, 0.95]]])
    """

    base: Array
    weights: Array
    cardinalities: tuple[int, ...]
    floor: Array = field(default_factory=lambda: np.zeros(0))

    def __init__(
        self,
        base: Array,
        weights: Array,
        cardinalities: Sequence[int],
        floor: Array | None = None,
    ) -> None:
        owner = column_owner(cardinalities)
        base = np.require(base, np.float64, ["C", "W"])
        if base.ndim != 2 or base.shape[1] != len(owner):
            raise ValueError(
                f"base has shape {base.shape}, but labels with {tuple(cardinalities)} values have"
                f" {len(owner)} scores: give an array (n, {len(owner)})."
            )
        if np.shape(weights) != (len(owner), len(owner)):
            raise ValueError(
                f"weights has shape {np.shape(weights)} but must have ({len(owner)}, {len(owner)}):"
                " what each label column adds to each score."
            )
        # A label that pushed its own score would not be a conditional given the others.
        others = np.where(owner[:, None] == owner, 0.0, np.asarray(weights, dtype=np.float64))
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "weights", np.ascontiguousarray(others))
        object.__setattr__(self, "cardinalities", tuple(int(size) for size in cardinalities))
        absent = np.zeros(len(owner)) if floor is None else np.array(floor, dtype=np.float64)
        object.__setattr__(self, "floor", absent)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.base)

    @property
    def network(self) -> Network:
        """What the compiled sampler needs besides the rows."""
        owner = column_owner(self.cardinalities)
        first = np.searchsorted(owner, np.arange(len(self.cardinalities)))
        size = np.array(self.cardinalities, dtype=np.intp)
        column, reached = np.nonzero(self.weights)
        start = np.searchsorted(column, np.arange(len(owner) + 1))
        if len(reached) > _SPARSE * self.weights.size:
            start, reached = start[:0], reached[:0]
        return Network(
            self.weights, first.astype(np.intp), size, self.floor, start.astype(np.intp), reached
        )

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return ``log p(y_i = v | x, y_-i)``, (m, n, K_i), for label vectors (m, n, d)."""
        own = np.flatnonzero(column_owner(self.cardinalities) == i)
        columns = label_columns(labels.reshape(-1, labels.shape[2]), self.cardinalities)
        added = (columns @ self.weights[:, own]).reshape(*labels.shape[:2], len(own))
        scores = self.base[:, own] + added
        if self.cardinalities[i] == 2:
            return np.concatenate([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)], axis=2)
        log_prob: Array = log_softmax(scores, axis=2)
        floor = self.floor[own]
        if not floor.any():
            return log_prob
        mixed: Array = np.log(np.exp(log_prob) * (1.0 - floor.sum()) + floor)
        return mixed

    def rows(self, index: Rows) -> LinearConditionals:
        """Return the conditionals of some of the rows."""
        return LinearConditionals(self.base[index], self.weights, self.cardinalities, self.floor)
