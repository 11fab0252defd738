"""Reliability: how often what was said with probability p came true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.optional import require

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predictions in bins of equal width; empty bins are left out.

    Attributes
    ----------
    predicted : (B,)
        Mean probability in each bin.
    observed : (B,)
        Share of them that came true.
    counts : (B,)
    """

    predicted: Array
    observed: Array
    counts: Indices

    @property
    def error(self) -> float:
        """Expected calibration error: how far observed is from predicted, averaged by counts."""
        if not self.counts.sum():
            return float("nan")
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.counts))

    def to_frame(self) -> pd.DataFrame:
        """Return the bins as a data frame (needs pandas)."""
        require("pandas", "A data frame")
        import pandas as pd

        columns = {"predicted": self.predicted, "observed": self.observed, "count": self.counts}
        return pd.DataFrame(columns)


def reliability(prob: ArrayLike, came_true: ArrayLike, n_bins: int = 10) -> Reliability:
    """Sort predictions into bins of equal width and compare them with what came true.

    Parameters
    ----------
    prob : (n,)
        Probabilities.
    came_true : (n,)
        0 or 1; NaN where it is not known.
    n_bins : int

    Examples
    --------
    >>> from colabel.report import reliability
    >>> found = reliability([0.1, 0.2, 0.9, 0.8], [0, 1, 1, 1], n_bins=2)
    >>> found.predicted.round(2).tolist(), found.observed.tolist()
    ([0.15, 0.85], [0.5, 1.0])
    """
    if n_bins < 1:
        raise ValueError(f"n_bins is {n_bins}: give at least 1.")
    p = np.asarray(prob, dtype=np.float64).ravel()
    y = np.asarray(came_true, dtype=np.float64).ravel()
    if p.shape != y.shape:
        raise ValueError(f"There are {len(p)} probabilities but {len(y)} outcomes.")
    known = ~np.isnan(y)
    p, y = p[known], y[known]
    if len(p) and not (p.min() >= 0 and p.max() <= 1 + 1e-9):
        raise ValueError(f"Probabilities are between 0 and 1, but go from {p.min()} to {p.max()}.")
    bins = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    used = counts > 0
    each = np.maximum(counts, 1)
    predicted = np.bincount(bins, weights=p, minlength=n_bins) / each
    observed = np.bincount(bins, weights=y, minlength=n_bins) / each
    return Reliability(predicted[used], observed[used], counts[used])
