"""The Gaussian kernel, its landmarks and features, and which of them predict labels best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, dense, is_sparse, row_slices
from colabel.core.hashing import row_keys
from colabel.core.numeric import eigenvectors
from colabel.core.progress import Advance
from colabel.core.threads import map_threads, one_blas_thread
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, HeldOutScores, RowGroup, TrainingData, random_folds
from colabel.learn.linear import LinearLearner

# Eigenvalues below this share of the largest are rounding: dividing by their root would show it.
_RANK_TOLERANCE = 1e-10


def squared_distances(rows: Any, landmarks: Any) -> Array:
    """|x - l|^2 (n, m) of rows (n, p) and landmarks (m, p), either of them dense or CSR."""
    inner = rows @ landmarks.T
    product: Array = dense(inner)
    distances = squared_norms(rows)[:, None] + squared_norms(landmarks) - 2.0 * product
    return np.maximum(distances, 0.0, out=distances)


def squared_norms(rows: Any) -> Array:
    """|x|^2 (n,) of dense or sparse rows (n, p)."""
    if is_sparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("np,np->n", rows, rows))


def gaussian(distances: Array, width: float) -> Array:
    """k(x, l) = exp(-|x - l|^2 / (2 width^2)), of squared distances (n, m)."""
    # divided twice: the square of a tiny width would be zero
    return np.asarray(np.exp(distances / width / (-2.0 * width)))


def inverse_root(kernel: Array) -> Array:
    """R (m, r) with R' K R = I for a kernel matrix K (m, m) of numerical rank r.

    With K = U S U', R = U S^(-1/2), widest eigenvalue first. Then phi(x) = k(x, landmarks) R has
    phi(x)'phi(z) = k(x, landmarks) K^-1 k(landmarks, z): the kernel itself where x or z is a
    landmark, and its projection on the landmarks elsewhere.
    """
    if not len(kernel):
        return np.zeros((0, 0))
    values, vectors = eigenvectors(kernel)
    kept = np.flatnonzero(values > _RANK_TOLERANCE * values[-1])[::-1]
    chosen = vectors[:, kept]
    # an eigenvector's sign is arbitrary: its largest entry is made positive
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(len(kept))]
    return np.asarray(chosen * (np.sign(largest) / np.sqrt(values[kept])))


Sampling = Literal["kmeans", "uniform"]
SAMPLINGS: tuple[Sampling, ...] = ("kmeans", "uniform")

# Means of clusters hardly move after that (Zhang, Tsang & Kwok, 2008, take as many).
_LLOYD_STEPS = 5
_ROWS_AT_ONCE = 1 << 11


def find_landmarks(
    rows: Any,
    n_landmarks: int,
    sampling: Sampling,
    random: np.random.RandomState,
    n_jobs: int | None,
) -> Any:
    """Landmarks (m, p) among rows (n, p), dense or CSR as the rows are.

    Where there are no more distinct rows than landmarks asked for, all of them are landmarks, and
    the features are exact.
    """
    _, first = np.unique(row_keys(rows), return_index=True)
    distinct = rows[np.sort(first)]
    if distinct.shape[0] <= n_landmarks:
        return distinct
    drawn = distinct[np.sort(random.choice(distinct.shape[0], n_landmarks, replace=False))]
    return drawn if sampling == "uniform" else _cluster_means(rows, drawn, n_jobs)


def _cluster_means(rows: Any, centres: Any, n_jobs: int | None) -> Any:
    """Means of clusters (m, p): a few of Lloyd's steps from the centres given."""
    n_rows, size = rows.shape[0], centres.shape[0]
    parts = [rows[part] for part in row_slices(n_rows, _ROWS_AT_ONCE)]
    for _ in range(_LLOYD_STEPS):
        nearest = np.concatenate(
            map_threads(partial(_nearest, centres), parts, n_jobs, lambda: None)
        )
        counts = np.bincount(nearest, minlength=size)
        members = (1.0 / counts[nearest], (nearest, np.arange(n_rows)))
        means = sp.csr_array(members, shape=(size, n_rows)) @ rows
        empty = np.flatnonzero(counts == 0)
        # a centre without rows stays where it is
        stay = sp.csr_array((np.ones(len(empty)), (empty, empty)), shape=(size, size))
        centres = means + stay @ centres
    return centres


def _nearest(centres: Any, rows: Any) -> Indices:
    return np.asarray((squared_norms(centres) / 2.0 - dense(rows @ centres.T)).argmin(axis=1))


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

    def log_prob(
        self,
        features: Any,
        variances: Sequence[float] = _PRIOR_VARIANCES,
        tol: float = _TOLERANCE,
    ) -> Array:
        """Held-out log-probability (m,) of the labels of each row, each label on its own.

        Parameters
        ----------
        features : (m, q) array or CSR
            Of the rows that are compared on.
        variances : sequence of float
            Values of C to choose from, times the total variance of the features.
        tol : float
            Of the regressions.
        """
        data = TrainingData(features, self.codes, self.cardinalities)
        grid = np.array(variances) / total_variance(features)
        learner = LinearLearner(grid, tol, _MAX_ITER, self.n_jobs, False)
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
    total = rows.multiply(rows).sum() if is_sparse(rows) else np.einsum("np,np->", rows, rows)
    squares = float(total) / max(1, rows.shape[0])
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


def choose_kernel(
    rows: Any,
    judge: LabelsAlone,
    landmarks: Callable[[int], Any],
    variance: float,
    linear: bool,
    advance: Advance,
    width: float | None,
    number: int | None,
    without: Array | None,
) -> tuple[GaussianFeatures | None, float | None]:
    """Return the best kernel columns, None for none, and what they gain in nats per row.

    Parameters
    ----------
    rows : (m, p) array or CSR
        Standardised rows that are compared on.
    judge : LabelsAlone
        Their labels and folds.
    landmarks : function
        From a number to so many landmarks, fewer where there are no more distinct rows.
    variance : float
        Of the kernel columns, in total.
    linear : bool
        Whether the standardised columns stand beside them.
    advance : function
        Called after each comparison.
    width, number
        None for what is to be chosen: first the width, at one number of landmarks, then the
        number. No kernel is chosen only with the width, and beside columns.
    without : (m,) or None
        Held-out log-probability of the rows with the columns alone; None where the labels do
        not tell features apart.
    """

    def candidate(distances: Distances, width: float) -> tuple[GaussianFeatures, Array]:
        features = GaussianFeatures.of(distances, width, variance)
        with one_blas_thread:
            columns = gaussian(distances.of_rows, width) @ features.components
        log_prob = judge.log_prob(beside(rows, columns) if linear else columns)
        advance()
        return features, log_prob

    may_be_none = width is None and linear
    if without is None and may_be_none:
        return None, None
    distances = Distances.of(rows, landmarks(NUMBERS[_FIRST_NUMBER] if number is None else number))
    widths = [factor * distances.median for factor in FACTORS]
    first = widths[FIRST_WIDTH] if width is None else width
    if without is None:
        return GaussianFeatures.of(distances, first, variance), None
    best = candidate(distances, first)
    # climb from the middle of the grid, up or else down
    for step in (1, -1) if width is None else ():
        middle, at = best, FIRST_WIDTH + step
        while 0 <= at < len(widths):
            found = candidate(distances, widths[at])
            if found[1].sum() <= best[1].sum():
                break
            best, at = found, at + step
        if best is not middle:
            break  # the maximum lies on this side
    if number is None:
        # more landmarks while they are clearly better, or fewer if they are no worse
        middle, at = best, _FIRST_NUMBER + 1
        while at < len(NUMBERS):
            distances = Distances.of(rows, landmarks(NUMBERS[at]))
            if len(distances.among) <= len(best[0].components):
                break  # all distinct rows are landmarks already
            found = candidate(distances, best[0].width)
            if not clearly_better(found[1], best[1], _ERRORS):
                break
            best, at = found, at + 1
        at = _FIRST_NUMBER - 1 if best is middle else -1
        while at >= 0:
            found = candidate(Distances.of(rows, landmarks(NUMBERS[at])), best[0].width)
            if found[1].sum() < best[1].sum():
                break
            best, at = found, at - 1
    gain = float((best[1] - without).mean())
    if may_be_none and not clearly_better(best[1], without, _ERRORS_OF_NONE):
        return None, gain
    return best[0], gain


def beside(rows: Any, columns: Array) -> Any:
    """Rows and further columns side by side: CSR if the rows are."""
    if is_sparse(rows):
        return sp.csr_array(sp.hstack([rows, sp.csr_array(columns)], format="csr"))
    return np.hstack([rows, columns])
