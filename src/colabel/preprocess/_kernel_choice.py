"""Kernels compared by how well each label alone is predicted on rows held out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, is_sparse
from colabel.core.progress import Advance
from colabel.core.threads import one_blas_thread
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, HeldOutScores, RowGroup, TrainingData, random_folds
from colabel.learn.linear import LinearLearner
from colabel.preprocess._kernel import gaussian, inverse_root, squared_distances

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
            return learning.cross_validate(
                [group], self.folds, summed, "comparing features", keep=True
            )[0]


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


# Widths to choose from, as multiples of the median distance of a row and a landmark; the search
# goes up or down from the one in the middle as long as that helps.
FACTORS = (0.125, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
FIRST_WIDTH = FACTORS.index(0.5)
# Numbers of landmarks to choose from; widths are compared at the second.
NUMBERS = (100, 200, 400, 800)
_FIRST_NUMBER = 1
# More landmarks cost time, but little else: half a standard error is evidence enough.
_ERRORS = 0.5
# The best of several kernels looks better than it is: it must beat none by two standard errors.
_ERRORS_OF_NONE = 2.0
MOST_CANDIDATES = 2 + len(FACTORS) + len(NUMBERS)


@dataclass(frozen=True)
class GaussianFeatures:
    """Kernel columns: phi(x) = k(x, landmarks) @ components.

    Attributes
    ----------
    landmarks : (m, p) array or CSR
        In standardised columns.
    width : float
        Of the kernel.
    components : (m, r)
        Inverse root of the landmarks' own kernel matrix times the root of `variance`.
    variance : float
        phi(x)'phi(z) approximates `variance` k(x, z).
    """

    landmarks: Any
    width: float
    components: Array
    variance: float

    @classmethod
    def of(cls, distances: Distances, width: float, total_variance: float) -> GaussianFeatures:
        """Scale the features so that their variances on the rows sum to `total_variance`."""
        with one_blas_thread:
            root = inverse_root(gaussian(distances.among, width))
            unscaled = gaussian(distances.of_rows, width) @ root
        spread = float(unscaled.var(axis=0).sum()) if len(unscaled) else 0.0
        variance = total_variance / spread if spread > 1e-12 else 1.0
        return cls(distances.landmarks, width, root * np.sqrt(variance), variance)


@dataclass(frozen=True)
class Distances:
    """Squared distances from landmarks: of some rows (n, m), and among themselves (m, m)."""

    landmarks: Any
    of_rows: Array
    among: Array

    @classmethod
    def of(cls, rows: Any, landmarks: Any) -> Distances:
        """Compute them, once for all widths."""
        with one_blas_thread:
            of_rows = squared_distances(rows, landmarks)
            return cls(landmarks, of_rows, squared_distances(landmarks, landmarks))

    @property
    def median(self) -> float:
        """Median distance of a row and a landmark that differ; one where none do."""
        apart = self.of_rows[self.of_rows > 1e-12 * self.of_rows.max(initial=0.0)]
        return float(np.sqrt(np.median(apart))) if len(apart) else 1.0


@dataclass(frozen=True)
class Candidate:
    """Kernel columns, and the held-out log-probability (m,) of the rows compared on."""

    features: GaussianFeatures
    log_prob: Array


@dataclass(frozen=True)
class KernelSearch:
    """What candidates are made of and compared by.

    Attributes
    ----------
    rows : (m, p) array or CSR
        Standardised rows that are compared on.
    judge : LabelsAlone
        Their labels and folds.
    landmarks : function
        From a number to so many landmarks, fewer where there are no more distinct rows.
    total_variance : float
        Of the kernel columns.
    linear : bool
        Whether the standardised columns stand beside them.
    advance : function
        Called after each comparison.
    """

    rows: Any
    judge: LabelsAlone
    landmarks: Callable[[int], Any]
    total_variance: float
    linear: bool
    advance: Advance

    def chosen(
        self, width: float | None, number: int | None, without: Array | None
    ) -> tuple[GaussianFeatures | None, float | None]:
        """Return the best kernel columns, None for none, and what they gain in nats a row.

        Parameters
        ----------
        width, number
            None for what is to be chosen: first the width, at one number of landmarks, then the
            number. No kernel is chosen only with the width, and beside columns.
        without : (m,) or None
            Held-out log-probability of the rows with the columns alone; None where the labels do
            not tell features apart.
        """
        may_be_none = width is None and self.linear
        if without is None and may_be_none:
            return None, None
        distances = self._distances(NUMBERS[_FIRST_NUMBER] if number is None else number)
        if without is None:
            width = FACTORS[FIRST_WIDTH] * distances.median if width is None else width
            return GaussianFeatures.of(distances, width, self.total_variance), None
        best = self._best_width(distances) if width is None else self._candidate(distances, width)
        best = self._best_number(best) if number is None else best
        gain = float((best.log_prob - without).mean())
        if may_be_none and not clearly_better(best.log_prob, without, _ERRORS_OF_NONE):
            return None, gain
        return best.features, gain

    def _best_width(self, distances: Distances) -> Candidate:
        """Climb from the middle of the grid, up or else down."""
        scored = [factor * distances.median for factor in FACTORS]
        best = self._candidate(distances, scored[FIRST_WIDTH])
        for step in (1, -1):
            middle, at = best, FIRST_WIDTH + step
            while 0 <= at < len(scored):
                next_one = self._candidate(distances, scored[at])
                if next_one.log_prob.sum() <= best.log_prob.sum():
                    break
                best, at = next_one, at + step
            if best is not middle:
                break  # the maximum lies on this side
        return best

    def _best_number(self, first: Candidate) -> Candidate:
        """More landmarks while they are clearly better, or fewer if they are no worse."""
        best, width = first, first.features.width
        for number in NUMBERS[_FIRST_NUMBER + 1 :]:
            distances = self._distances(number)
            if len(distances.among) <= len(best.features.components):
                break  # all distinct rows are landmarks already
            more = self._candidate(distances, width)
            if not clearly_better(more.log_prob, best.log_prob, _ERRORS):
                break
            best = more
        if best is not first:
            return best
        for number in NUMBERS[:_FIRST_NUMBER][::-1]:
            fewer = self._candidate(self._distances(number), width)
            if fewer.log_prob.sum() < best.log_prob.sum():
                break
            best = fewer
        return best

    def _distances(self, number: int) -> Distances:
        return Distances.of(self.rows, self.landmarks(number))

    def _candidate(self, distances: Distances, width: float) -> Candidate:
        features = GaussianFeatures.of(distances, width, self.total_variance)
        with one_blas_thread:
            columns = gaussian(distances.of_rows, width) @ features.components
        log_prob = self.judge.log_prob(beside(self.rows, columns) if self.linear else columns)
        self.advance()
        return Candidate(features, log_prob)


def beside(rows: Any, columns: Array) -> Any:
    """Rows and further columns side by side: CSR if the rows are."""
    if is_sparse(rows):
        return sp.csr_array(sp.hstack([rows, sp.csr_array(columns)], format="csr"))
    return np.hstack([rows, columns])
