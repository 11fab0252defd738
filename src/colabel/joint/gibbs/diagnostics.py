"""Has the sampler converged? Split R-hat, effective sample size and flips per sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from colabel.core.arrays import Array

SUSPICIOUS = 1.05  # chains with a larger R-hat are commonly not trusted


@dataclass(frozen=True, eq=False, repr=False)
class GibbsDiagnostics:
    """How well the Gibbs sampler mixed, for each row and label.

    Attributes
    ----------
    names : tuple of d str
        The labels.
    n_samples : int
        Samples per row: chains times kept sweeps.
    r_hat : (n, d) array
        Split R-hat of each label: between-chain against within-chain variance, each chain cut
        in two. Near 1 when the halves agree; above about 1.05 sample longer. A label that never
        changed has 1, or infinity if the chains froze at different values.
    ess : (n, d) array
        Bulk effective sample size: how many independent samples the chains are worth.
    flips : (n, d) array
        Changes of the label a sweep.

    Examples
    --------
    >>> import numpy as np
    >>> frozen = np.zeros((1, 2, 100, 1), dtype=int)  # one row, two chains of 100 sweeps, one label
    >>> print(diagnose(("a",), frozen, (2,)).to_text())
    1 row, 1 label, 200 samples per row. R-hat above 1.05: 0.0 % of rows and labels.
    label  R-hat worst  median  ESS least  median  flips/sweep
    a            1.000   1.000        200     200        0.000
    """

    names: tuple[str, ...]
    n_samples: int
    r_hat: Array
    ess: Array
    flips: Array

    def to_text(self) -> str:
        """Return a table with one line per label: the worst row and the median row."""
        n_rows, n_labels = self.r_hat.shape
        plural = ("row" if n_rows == 1 else "rows", "label" if n_labels == 1 else "labels")
        share = float((self.r_hat > SUSPICIOUS).mean()) if self.r_hat.size else 0.0
        lines = [
            f"{n_rows} {plural[0]}, {n_labels} {plural[1]}, {self.n_samples} samples per row. "
            f"R-hat above {SUSPICIOUS}: {100 * share:.1f} % of rows and labels."
        ]
        if not n_rows:
            return lines[0]
        width = max(5, *(len(name) for name in self.names))
        lines.append(f"{'label':<{width}}  R-hat worst  median  ESS least  median  flips/sweep")
        for i, name in enumerate(self.names):
            r_hat, ess = self.r_hat[:, i], self.ess[:, i]
            lines.append(
                f"{name:<{width}}  {r_hat.max():11.3f}  {np.median(r_hat):6.3f}"
                f"  {ess.min():9.0f}  {np.median(ess):6.0f}  {self.flips[:, i].mean():11.3f}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()


def diagnose(
    names: Sequence[str], samples: NDArray[Any], cardinalities: Sequence[int]
) -> GibbsDiagnostics:
    """Diagnose samples (n, chains, sweeps, d) of labels with the given numbers of values."""
    n_rows, n_chains, n_sweeps, n_labels = samples.shape
    r_hat, ess = np.ones((n_rows, n_labels)), np.zeros((n_rows, n_labels))
    for i, size in enumerate(cardinalities):
        traces = np.moveaxis(samples[..., i], 0, -1)  # (chains, sweeps, n)
        ess[:, i] = np.inf
        # A trace has the values 0 and 1, and ranks of two numbers are an affine map of them: the
        # rank-normalised (bulk) figures of a trace of 0 and 1 are the plain ones.
        for value in range(1, size) if size == 2 else range(size):
            indicator = (traces == value).astype(np.float64)
            r_hat[:, i] = np.maximum(r_hat[:, i], split_r_hat(indicator))
            ess[:, i] = np.minimum(ess[:, i], effective_sample_size(indicator))
    changed = (samples[:, :, 1:] != samples[:, :, :-1]).sum(axis=(1, 2))
    flips = changed / max(1, n_chains * (n_sweeps - 1))
    return GibbsDiagnostics(tuple(names), n_chains * n_sweeps, r_hat, ess, flips)


def _split(traces: Array) -> Array:
    """Cut traces (chains, sweeps, ...) in two: (2 chains, sweeps // 2, ...)."""
    half = traces.shape[1] // 2
    return np.concatenate([traces[:, :half], traces[:, traces.shape[1] - half :]])


def _variances(halves: Array) -> tuple[Array, Array]:
    """Return the variance within chains and the estimate that adds the one between them."""
    length = halves.shape[1]
    within: Array = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    pooled: Array = within * (length - 1) / length + between
    return within, pooled


def split_r_hat(traces: Array) -> Array:
    r"""Split R-hat of traces (chains, sweeps, ...), shape (...).

    .. math:: \hat R = \sqrt{\left(\tfrac{N-1}{N} W + B\right) / W}

    with W the mean variance within, B the variance of the means of the half chains, and N their
    length (Vehtari et al., 2021). One where nothing varies, or with fewer than four sweeps.
    """
    if traces.shape[1] < 4:
        return np.ones(traces.shape[2:])
    within, pooled = _variances(_split(traces))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(pooled / within)
    return np.where(pooled == 0, 1.0, ratio)


def effective_sample_size(traces: Array) -> Array:
    r"""Effective sample size of traces (chains, sweeps, ...), shape (...).

    .. math:: \mathrm{ESS} = \frac{M N}{-1 + 2 \sum_k P_k}, \qquad P_k = \rho_{2k} + \rho_{2k+1}

    with M half chains of length N, the autocorrelations pooled over them, and the sum over
    Geyer's initial positive sequence made monotone. All samples count where nothing varies;
    antithetic chains count at most log10(M N) times their number.
    """
    n_samples = float(traces.shape[0] * traces.shape[1])
    if traces.shape[1] < 4:
        return np.full(traces.shape[2:], n_samples)
    halves = _split(traces)
    n_halves, length = halves.shape[:2]
    within, pooled = _variances(halves)
    centred = halves - halves.mean(axis=1, keepdims=True)
    size = scipy.fft.next_fast_len(2 * length, real=True)
    spectrum = scipy.fft.rfft(centred, n=size, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    covariance = scipy.fft.irfft(power, n=size, axis=0)[:length] / length
    constant = pooled == 0
    correlation = 1.0 - (within - covariance) / np.where(constant, 1.0, pooled)
    correlation[0] = 1.0
    even = length // 2 * 2
    pairs = correlation[0:even:2] + correlation[1:even:2]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(-1.0 + 2.0 * pairs.sum(axis=0), 1.0 / np.log10(n_halves * length))
    return np.where(constant, n_samples, n_halves * length / time)
