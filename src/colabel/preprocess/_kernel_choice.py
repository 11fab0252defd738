"""Width and number of landmarks, chosen by how well labels are predicted on rows held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, is_sparse
from colabel.core.progress import Advance
from colabel.core.threads import one_blas_thread
from colabel.preprocess._held_out import LabelsAlone, clearly_better
from colabel.preprocess._kernel import gaussian, inverse_root, squared_distances

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
