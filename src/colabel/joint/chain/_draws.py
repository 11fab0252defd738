"""Random label vectors of a chain, drawn label by label for all rows together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.numeric import bin_sums
from colabel.joint.chain._links import Links
from colabel.joint.chain.prefixes import Prefixes, root
from colabel.labels import MISSING


@dataclass(frozen=True)
class Draws:
    """S draws of n rows, as far as they have been drawn; equal draws are stored once.

    Attributes
    ----------
    vectors : Prefixes
        The distinct draws.
    columns : (n,)
        Rows of the batch that are drawn.
    which : (S, n)
        Position of each draw in `vectors`.
    log_weight : (S, n)
        Importance weights: log-probability of the known values, given the values drawn before
        them; zero where nothing is known.
    """

    vectors: Prefixes
    columns: Indices
    which: Indices
    log_weight: Array

    @property
    def weight(self) -> Array:
        """Weights (S, n) that sum to one in every row; zero where no draw is possible."""
        largest = self.log_weight.max(axis=0)
        weight = np.exp(self.log_weight - np.where(np.isfinite(largest), largest, 0.0))
        total = weight.sum(axis=0)
        normalised: Array = weight / np.where(total > 0, total, 1.0)
        return normalised

    @property
    def vector_weight(self) -> Array:
        """Summed weight (m,) of the draws of each distinct vector."""
        return bin_sums(self.which.ravel(), self.weight.ravel(), len(self.vectors))


def begin(rows: Indices, n_samples: int) -> Draws:
    """Return draws of nothing yet."""
    which = np.tile(np.arange(len(rows)), (n_samples, 1))
    return Draws(root(rows), rows, which, np.zeros(which.shape))


def step(links: Links, known: Codes, draws: Draws, uniform: Array) -> tuple[Draws, Array]:
    """Draw the next label of every draw by inverting its distribution function.

    Returns the longer draws and the log-probabilities (m, K) they were drawn from.

    Parameters
    ----------
    known : (n_rows, d)
        Known values in chain order are taken instead of drawn, and weigh the draw.
    uniform : (S, n) or (S, 1)
        Uniform numbers in [0, 1).
    """
    vectors, which = draws.vectors, draws.which
    table = links.log_prob(vectors.rows, vectors.codes)
    value = _inverted(table, which, uniform)
    wanted = known[draws.columns, vectors.codes.shape[1]]
    fixed = wanted != MISSING
    value[:, fixed] = wanted[fixed]
    log_weight = draws.log_weight
    if fixed.any():
        log_weight = log_weight + np.where(fixed, table[which, value], 0.0)
    # Marking what occurs finds the distinct pairs (prefix, value) without sorting.
    n_values = table.shape[1]
    pair = which * n_values + value
    occurs = np.zeros(table.size, dtype=bool)
    occurs[pair] = True
    parents, values = np.divmod(np.flatnonzero(occurs), n_values)
    longer = vectors.extend(parents, values, vectors.log_prob[parents] + table[parents, values])
    return Draws(longer, draws.columns, (np.cumsum(occurs) - 1)[pair], log_weight), table


def _inverted(table: Array, which: Indices, uniform: Array) -> Indices:
    cumulated = np.exp(table).cumsum(axis=1)
    # Dividing makes the last value exactly 1, so a value of probability zero is never drawn.
    cumulated /= cumulated[:, -1:]
    value = np.zeros(which.shape, dtype=np.intp)
    for below in cumulated.T[:-1]:
        value += uniform >= below[which]
    return value


def shared_uniforms(n_samples: int, n_labels: int, seed: int) -> Array:
    """Uniform numbers (d, S, 1) that all rows share.

    Sharing them makes the answer for a row independent of the rows it is asked with.
    """
    return np.random.default_rng(seed).random((n_labels, n_samples, 1))


def draw_vectors(
    links: Links, known: Codes, rows: Indices, uniforms: Sequence[Array] | Array
) -> Draws:
    """Draw complete vectors of some rows from uniforms (d, S, n) or (d, S, 1)."""
    draws = begin(rows, uniforms[0].shape[0])
    for uniform in uniforms:
        draws, _ = step(links, known, draws, uniform)
    return draws


def continue_from(
    links: Links, known: Codes, prefixes: Prefixes, weight: Array, size: int, rng: Generator
) -> Codes:
    """Draw a prefix of each row by its weight, then the labels after it: codes (size, n, d).

    Parameters
    ----------
    prefixes : Prefixes
        Of all rows of the batch, rows ascending.
    weight : (m,)
        Probability of each prefix among those of its row; they sum to one in each row.
    """
    n_rows = links.n_rows
    # One search over all rows: row r owns the stretch from r to r + 1 of the summed weights.
    start = np.searchsorted(prefixes.rows, np.arange(n_rows))
    stop = np.searchsorted(prefixes.rows, np.arange(n_rows), side="right")
    cumulated = np.concatenate([[0.0], np.cumsum(weight)])
    low, high = cumulated[start], cumulated[stop]
    target = low + rng.random((size, n_rows)) * (high - low)
    which = np.searchsorted(cumulated, target, side="right") - 1
    # rounding may step over an end of the row, or onto a prefix of weight zero there
    which = np.clip(which, start, _last_positive(weight, start, stop))
    draws = Draws(prefixes, np.arange(n_rows), which, np.zeros(which.shape))
    while draws.vectors.codes.shape[1] < known.shape[1]:
        draws, _ = step(links, known, draws, rng.random((size, n_rows)))
    return draws.vectors.codes[draws.which]


def _last_positive(weight: Array, start: Indices, stop: Indices) -> Indices:
    """Position of the last prefix of each row whose weight is not zero, (n,)."""
    positive = np.flatnonzero(weight > 0)
    last: Indices = positive[np.searchsorted(positive, stop) - 1]
    return np.maximum(last, start)
