"""Features judged by labels: how well each label alone is predicted on rows held out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, is_sparse
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, HeldOutScores, RowGroup, TrainingData, random_folds
from colabel.learn.linear import LinearLearner

# A choice among features is a measurement of differences: a sample of rows, the labels that vary
# the most and a coarse grid show them.
_MOST_ROWS = 2000
_MOST_LABELS = 32
_N_FOLDS = 3
# Values of C, by the total variance of the features: variances of log-odds before any row is seen.
_PRIOR_VARIANCES = (1.0, 10.0, 100.0)
_TOLERANCE = 0.05
_MAX_ITER = 200


@dataclass(frozen=True)
class LabelsAlone:
    """Rows on which features are compared, by one regression for each label.

    Attributes
    ----------
    rows : (m,)
        Positions of the rows that are compared on, in ascending order.
    codes : (m, d)
        Their labels, those that vary the most; MISSING where a label was not observed.
    cardinalities : d ints
    folds : Folds
        Which of them are held out together; equal rows always are.
    n_jobs : int or None
        Threads.
    """

    rows: Indices
    codes: Codes
    cardinalities: tuple[int, ...]
    folds: Folds
    n_jobs: int | None

    @classmethod
    def of(cls, X: Any, y: Any, random: np.random.RandomState, n_jobs: int | None) -> LabelsAlone:
        """Draw rows and folds for features X (n, p) and labels that `LabelSpace` reads."""
        space, codes = LabelSpace.infer(y)
        if len(codes) != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows but y has {len(codes)}. Give one row of labels for each"
                " row of X."
            )
        sizes = np.array(space.cardinalities)
        labels = _most_varied(codes, sizes)
        observed = np.flatnonzero((codes[:, labels] != MISSING).any(axis=1))
        n_rows = min(_MOST_ROWS, len(observed))
        rows = np.sort(random.choice(observed, n_rows, replace=False)) if n_rows else observed
        seed = int(random.randint(np.iinfo(np.int32).max))
        cardinalities = tuple(int(size) for size in sizes[labels])
        data = TrainingData(X[rows], codes[rows][:, labels], cardinalities)
        folds = random_folds(data, _N_FOLDS, seed) if n_rows else Folds(rows, 1)
        return cls(rows, data.codes, cardinalities, folds, n_jobs)

    @property
    def informative(self) -> bool:
        """Whether there are labels to compare by, and rows to hold out."""
        return bool(self.cardinalities) and self.folds.n_folds >= 2

    def log_prob(self, features: Any) -> Array:
        """Held-out log-probability (m,) of the labels of each row, each label on its own.

        Parameters
        ----------
        features : (m, q) array or CSR
            Of the rows that are compared on.
        """
        data = TrainingData(features, self.codes, self.cardinalities)
        grid = np.array(_PRIOR_VARIANCES) / total_variance(features)
        learner = LinearLearner(grid, _TOLERANCE, _MAX_ITER, self.n_jobs, False)
        group = RowGroup(None, np.arange(data.n_labels))

        def summed(_: RowGroup, scores: HeldOutScores) -> Array:
            return np.asarray(scores.log_prob.sum(axis=0))

        with warnings.catch_warnings():
            # a regression that stops early is a comparison of what it has reached
            warnings.simplefilter("ignore", ConvergenceWarning)
            learning = learner.on(data)
            return learning.cross_validate([group], self.folds, summed, "comparing features")[0]


def clearly_better(one: Array, other: Array, errors: float = 1.0) -> bool:
    """Whether log-probabilities (m,) exceed others of the same rows by some standard errors."""
    gain = one - other
    error = gain.std() / np.sqrt(len(gain))
    return bool(gain.mean() > errors * error)


def total_variance(rows: Any) -> float:
    """Sum of the variances of all columns of rows (n, p); one where none varies."""
    if is_sparse(rows):
        squares = float(rows.multiply(rows).sum()) / max(1, rows.shape[0])
    else:
        squares = float(np.einsum("np,np->", rows, rows)) / max(1, rows.shape[0])
    mean = np.asarray(rows.mean(axis=0)).ravel()
    variance = squares - float(mean @ mean)
    return variance if variance > 1e-12 * squares else 1.0


def _most_varied(codes: Codes, sizes: Indices) -> Indices:
    """Labels of the highest entropy, in their order; none of those with a single value."""
    entropy = np.zeros(len(sizes))
    for label, size in enumerate(sizes):
        seen = codes[:, label]
        seen = seen[seen != MISSING]
        if len(seen):
            share = np.bincount(seen, minlength=int(size)) / len(seen)
            entropy[label] = -(share[share > 0] * np.log(share[share > 0])).sum()
    varied = np.argsort(-entropy, kind="stable")[:_MOST_LABELS]
    return np.sort(varied[entropy[varied] > 0])
