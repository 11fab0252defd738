"""Sums over the label vectors of a chain: by enumeration where it is small, else by sampling.

Known values are handled by what they are: a value whose earlier labels are all known only
clamps its link. Otherwise the prefixes up to the last known value have to be weighed, all of
them (exact) or a sample of them (importance weights). Behind the last known value a chain is
its own answer, since the labels there sum to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import bin_sums, log_sum_exp
from colabel.joint.chain import _draws as drawn
from colabel.joint.chain import _grid as gridded
from colabel.joint.chain import prefixes as grown
from colabel.joint.chain._links import Links
from colabel.joint.chain.prefixes import Prefixes, children
from colabel.joint.vectors.lists import row_log_sum
from colabel.labels import MISSING

# Below 2^this prefixes a row, rows with different evidence are better summed together.
_SMALL_BITS = 6.0


@dataclass(frozen=True)
class Effort:
    """How much work a sum may be.

    Attributes
    ----------
    limit : int
        Most label vectors of a row that are enumerated.
    n_samples : int
        Draws per row where there are more.
    seed : int
        Seed of these draws.
    """

    limit: int
    n_samples: int
    seed: int

    def allows(self, bits: Array) -> Flags:
        """Whether 2^bits label vectors may be enumerated."""
        allowed: Flags = bits <= np.log2(self.limit) + 1e-9  # a sum of logarithms is rounded
        return allowed


def is_enumerable(links: Links, known: Codes, effort: Effort) -> Flags:
    """Rows (n,) whose label vectors that agree with `known` can all be enumerated."""
    return effort.allows(grown.log_completions(known, links.cardinalities))


def parts(links: Links, known: Codes, effort: Effort) -> Iterator[tuple[Indices, bool]]:
    """Yield some rows at a time: those whose vectors can be enumerated, alike in what is known."""
    bits = grown.log_completions(known, links.cardinalities)
    few = effort.allows(bits)
    for part in gridded.alike(np.flatnonzero(few), known, bits):
        yield part, True
    for part in grown.chunks_of(np.flatnonzero(~few), effort.n_samples, known.shape[1]):
        yield part, False


def is_mass_enumerable(links: Links, known: Codes, effort: Effort) -> Flags:
    """Rows (n,) in which the probability of what is known can be enumerated."""
    return effort.allows(_bits_before_last(links, known))


def _bits_before_last(links: Links, known: Codes) -> Array:
    """Log2 of the number (n,) of prefixes that agree with `known` up to its last value."""
    before = np.arange(known.shape[1]) < grown.last_known(known)[:, None]
    return grown.log_completions(np.where(before, known, np.int32(0)), links.cardinalities)


def log_mass(links: Links, known: Codes, effort: Effort) -> Array:
    """Log-probability (n,) of the known values; estimated where enumeration is too much."""
    result = np.full(links.n_rows, -np.inf)
    bits = _bits_before_last(links, known)
    few = effort.allows(bits)
    small = few & (bits <= _SMALL_BITS)
    for part in grown.chunks_of(np.flatnonzero(small), 2.0**_SMALL_BITS, known.shape[1]):
        result[part] = _mass_of_pairs(links.take(part), known[part])
    for part in gridded.alike(np.flatnonzero(few & ~small), known, bits):
        evidence = known[part[0]]
        length = int(grown.last_known(evidence[None])[0]) + 1
        result[part] = gridded.grid(links.take(part), evidence, length).log_total()
    for part in grown.chunks_of(np.flatnonzero(~few), effort.n_samples, known.shape[1]):
        log_weight = sampled(links.take(part), known[part], effort).log_weight
        result[part] = log_sum_exp(log_weight, axis=0) - np.log(effort.n_samples)
    return result


def _mass_of_pairs(links: Links, known: Codes) -> Array:
    """Log-probability (n,) of values that differ from row to row, such as complete vectors."""
    result = np.full(links.n_rows, -np.inf)
    last = grown.last_known(known)
    prefixes = grown.root(np.arange(links.n_rows))
    for position in range(last.max(initial=-1) + 1):
        done = last[prefixes.rows] < position
        if done.any():
            finished = prefixes.take(done)
            result = np.maximum(result, _log_sums(finished, links.n_rows))
            prefixes = prefixes.take(~done)
        table = children(links, prefixes, known)
        prefixes = prefixes.grow(table, table > -np.inf)
    total: Array = np.maximum(result, _log_sums(prefixes, links.n_rows))
    return total


def _log_sums(prefixes: Prefixes, n_rows: int) -> Array:
    """Log of the summed probabilities (n,) of prefixes, whose rows ascend."""
    return row_log_sum(prefixes.log_prob, np.searchsorted(prefixes.rows, np.arange(n_rows + 1)))


def sampled(links: Links, known: Codes, effort: Effort) -> drawn.Draws:
    uniforms = drawn.shared_uniforms(effort.n_samples, known.shape[1], effort.seed)
    return drawn.draw_vectors(links, known, np.arange(links.n_rows), uniforms)


def _pending(known: Codes) -> Indices:
    """Last position (n,) that is known while an earlier one is not; -1 if none is."""
    d = known.shape[1]
    unknown = known == MISSING
    first_unknown = np.where(unknown.any(axis=1), unknown.argmax(axis=1), d)
    pending = (np.arange(d) > first_unknown[:, None]) & ~unknown
    last: Indices = np.where(pending, np.arange(d), -1).max(axis=1, initial=-1)
    return last


def sampled_marginals(links: Links, known: Codes, effort: Effort) -> list[Array]:
    """P(y_k | known) for each position, (n, K): averages of the links over draws (Rao-Blackwell).

    Where later values are known, weighted draws are counted.
    """
    n_rows, d = known.shape
    pending = int(_pending(known).max(initial=-1))
    tables: list[Array] = [np.empty(0)] * d
    draws = drawn.begin(np.arange(n_rows), effort.n_samples)
    uniforms = drawn.shared_uniforms(effort.n_samples, d, effort.seed)
    for position, uniform in enumerate(uniforms):
        before = draws
        draws, table = drawn.step(links, known, before, uniform)
        weighted = before.vector_weight[:, None] * np.exp(table)
        averaged = _row_sums(before.vectors.rows, weighted, n_rows)
        averaged /= averaged.sum(axis=1, keepdims=True)
        wanted = known[:, position, None]
        certain = (wanted == np.arange(table.shape[1])).astype(np.float64)
        tables[position] = np.where(wanted == MISSING, averaged, certain)
    for position in range(pending + 1):
        k = links.cardinalities[position]
        cell = draws.vectors.rows * k + draws.vectors.codes[:, position]
        counted = bin_sums(cell, draws.vector_weight, n_rows * k)
        tables[position] = counted.reshape(n_rows, k)
    return tables


def every(links: Links, known: Codes) -> tuple[Codes, Array]:
    """All vectors (M, d) that agree with `known` (d,), and their log-probabilities (n, M)."""
    found = gridded.grid(links, known, len(known))
    return found.codes, found.log_prob


def _weighed(links: Links, known: Codes, length: int) -> tuple[Prefixes, Array]:
    """All prefixes (rows ascending) of rows that share what is known, and their probabilities."""
    grid = gridded.grid(links, known, length)
    return grid.flat(), grid.weight()[grid.log_prob > -np.inf]


def sample(links: Links, known: Codes, effort: Effort, size: int, rng: Generator) -> Codes:
    """Draw vectors given what is known, (size, n, d)."""
    n_rows, d = known.shape
    result = np.empty((size, n_rows, d), dtype=np.int32)
    bits = _bits_before_last(links, known)
    few = effort.allows(bits)
    pending = _pending(known)

    def extend(part: Indices, prefixes: Prefixes, weight: Array) -> None:
        some, values = links.take(part), known[part]
        result[:, part] = drawn.continue_from(some, values, prefixes, weight, size, rng)

    for part in grown.chunks_of(np.flatnonzero(pending < 0), size, d):
        extend(part, grown.root(np.arange(len(part))), np.ones(len(part)))
    for part in gridded.alike(np.flatnonzero(few & (pending >= 0)), known, bits):
        length = int(pending[part[0]]) + 1
        extend(part, *_weighed(links.take(part), known[part[0]], length))
    for part in grown.chunks_of(np.flatnonzero(~few), effort.n_samples + size, d):
        uniforms = rng.random((d, effort.n_samples, len(part)))
        draws = drawn.draw_vectors(links.take(part), known[part], np.arange(len(part)), uniforms)
        extend(part, draws.vectors, draws.vector_weight)  # importance resampling
    return result


def _row_sums(rows: Indices, values: Array, n_rows: int) -> Array:
    """Sum values (m, K) by row, (n, K)."""
    return np.stack([bin_sums(rows, column, n_rows) for column in values.T], axis=1)
