"""Label vectors of a chain: all of them where they are few, else draws; and sums over them.

Known values are handled by what they are: a value whose earlier labels are all known only
clamps its link. Otherwise the prefixes up to the last known value have to be weighed, all of
them (exact) or a sample of them (importance weights). Behind the last known value a chain is
its own answer, since the labels there sum to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import bin_sums, log_sum_exp
from colabel.joint.chain import prefixes as grown
from colabel.joint.chain._links import Links
from colabel.joint.chain.prefixes import Prefixes, children, root
from colabel.joint.vectors.lists import drawn_entries, row_log_sum
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


def every(links: Links, known: Codes, length: int | None = None) -> tuple[Codes, Array]:
    """All prefixes (M, length) that agree with `known` (d,), by default all vectors.

    They are in lexicographic order, and their log-probabilities (n, M) -inf where they cannot
    occur.
    """
    codes, log_prob = np.empty((1, 0), dtype=np.int32), np.zeros((links.n_rows, 1))
    for value in known[:length].tolist():
        table = links.log_prob_grid(codes)
        table += log_prob[:, :, None]
        values = (
            np.arange(table.shape[2], dtype=np.int32) if value == MISSING else np.array([value])
        )
        column = np.tile(values, len(codes))
        codes = np.column_stack([np.repeat(codes, len(values), axis=0), column])
        log_prob = np.ascontiguousarray(table[:, :, values]).reshape(links.n_rows, len(codes))
    return codes.astype(np.int32), log_prob


def alike(links: Links, rows: Indices, known: Codes, bits: Array) -> Iterator[Indices]:
    """Cut rows into groups with the same known values, small enough for one grid.

    Parameters
    ----------
    rows : (m,)
        Rows of `known` to be cut.
    known : (n, d)
        Values, MISSING where unknown.
    bits : (n,)
        Log2 of the number of prefixes of each row that will be asked for.
    """
    if not len(rows):
        return
    _, group = np.unique(known[rows], axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=len(rows)))
    for start, stop in pairwise(bounds):
        members = rows[order[start:stop]]
        step = max(1, int(links.codes_at_once // 8 // 2.0 ** bits[members[0]]))
        for first in range(0, len(members), step):
            yield members[first : first + step]


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
    # what all values have together weighs a draw too, where that is not one; none is a dead end
    total = np.zeros(len(table)) if links.normalised else log_sum_exp(table)
    value = _inverted(np.where(np.isneginf(total)[:, None], 0.0, table), which, uniform)
    wanted = known[draws.columns, vectors.codes.shape[1]]
    fixed = wanted != MISSING
    value[:, fixed] = wanted[fixed]
    log_weight = draws.log_weight
    if fixed.any() or not links.normalised:
        log_weight = log_weight + np.where(fixed, table[which, value], total[which])
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


def is_enumerable(links: Links, known: Codes, effort: Effort) -> Flags:
    """Rows (n,) whose label vectors that agree with `known` can all be enumerated."""
    return effort.allows(grown.log_completions(known, links.cardinalities))


def parts(links: Links, known: Codes, effort: Effort) -> Iterator[tuple[Indices, bool]]:
    """Yield some rows at a time: those whose vectors can be enumerated, alike in what is known."""
    bits = grown.log_completions(known, links.cardinalities)
    few = effort.allows(bits)
    for part in alike(links, np.flatnonzero(few), known, bits):
        yield part, True
    for part in grown.chunks_of(links, np.flatnonzero(~few), effort.n_samples):
        yield part, False


def is_mass_enumerable(links: Links, known: Codes, effort: Effort) -> Flags:
    """Rows (n,) in which the probability of what is known can be enumerated."""
    return effort.allows(_bits_before_last(links, known))


def _bits_before_last(links: Links, known: Codes) -> Array:
    """Log2 of the number (n,) of prefixes that agree with `known` up to its last value."""
    before = np.arange(known.shape[1]) < _last_weighed(links, known)[:, None]
    return grown.log_completions(np.where(before, known, np.int32(0)), links.cardinalities)


def log_mass(links: Links, known: Codes, effort: Effort) -> Array:
    """Log-probability (n,) of the known values; estimated where enumeration is too much."""
    result = np.full(links.n_rows, -np.inf)
    bits = _bits_before_last(links, known)
    few = effort.allows(bits)
    small = few & (bits <= _SMALL_BITS)
    for part in grown.chunks_of(links, np.flatnonzero(small), 2.0**_SMALL_BITS):
        result[part] = _mass_of_pairs(links.take(part), known[part])
    for part in alike(links, np.flatnonzero(few & ~small), known, bits):
        evidence = known[part[0]]
        length = int(_last_weighed(links, evidence[None])[0]) + 1
        result[part] = log_sum_exp(every(links.take(part), evidence, length)[1])
    for part in grown.chunks_of(links, np.flatnonzero(~few), effort.n_samples):
        log_weight = sampled(links.take(part), known[part], effort).log_weight
        result[part] = log_sum_exp(log_weight, axis=0) - np.log(effort.n_samples)
    return result


def _mass_of_pairs(links: Links, known: Codes) -> Array:
    """Log-probability (n,) of values that differ from row to row, such as complete vectors."""
    result = np.full(links.n_rows, -np.inf)
    last = _last_weighed(links, known)
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


def sampled(links: Links, known: Codes, effort: Effort) -> Draws:
    uniforms = shared_uniforms(effort.n_samples, known.shape[1], effort.seed)
    return draw_vectors(links, known, np.arange(links.n_rows), uniforms)


def _last_weighed(links: Links, known: Codes) -> Indices:
    """Last position (n,) whose link weighs prefixes, -1 if none does: the last that is known."""
    d = known.shape[1]
    if not links.normalised:
        return np.full(len(known), d - 1)
    last: Indices = np.where(known != MISSING, np.arange(d), -1).max(axis=1, initial=-1)
    return last


def _pending(links: Links, known: Codes) -> Indices:
    """Last position (n,) that weighs prefixes while an earlier one is not known; -1 if none is."""
    unknown = known == MISSING
    first_unknown = np.where(unknown.any(axis=1), unknown.argmax(axis=1), known.shape[1])
    last = _last_weighed(links, known)
    return np.where(last > first_unknown, last, -1) if links.normalised else last


def sampled_marginals(links: Links, known: Codes, effort: Effort) -> list[Array]:
    """P(y_k | known) for each position, (n, K): averages of the links over draws (Rao-Blackwell).

    Where later values are known, weighted draws are counted.
    """
    n_rows, d = known.shape
    pending = int(_pending(links, known).max(initial=-1))
    tables: list[Array] = [np.empty(0)] * d
    draws = begin(np.arange(n_rows), effort.n_samples)
    uniforms = shared_uniforms(effort.n_samples, d, effort.seed)
    for position, uniform in enumerate(uniforms):
        before = draws
        draws, table = step(links, known, before, uniform)
        weighted = before.vector_weight[:, None] * np.exp(table)
        averaged = _row_sums(before.vectors.rows, weighted, n_rows)
        with np.errstate(invalid="ignore"):  # a row may have dead ends only
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


def _weighed(links: Links, known: Codes, length: int) -> tuple[Prefixes, Array]:
    """All prefixes (rows ascending) of rows that share what is known, and their probabilities."""
    codes, log_prob = every(links, known, length)
    rows, place = np.nonzero(log_prob > -np.inf)
    found = Prefixes(rows, codes[place], log_prob[rows, place])
    return found, np.exp(found.log_prob - _log_sums(found, links.n_rows)[rows])


def sample(links: Links, known: Codes, effort: Effort, size: int, rng: Generator) -> Codes:
    """Draw vectors given what is known, (size, n, d)."""
    n_rows, d = known.shape
    result = np.empty((size, n_rows, d), dtype=np.int32)
    bits = _bits_before_last(links, known)
    few = effort.allows(bits)
    pending = _pending(links, known)

    def extend(part: Indices, prefixes: Prefixes, weight: Array) -> None:
        some, values = links.take(part), known[part]
        result[:, part] = _continued(some, values, prefixes, weight, size, rng)

    for part in grown.chunks_of(links, np.flatnonzero(pending < 0), size):
        extend(part, grown.root(np.arange(len(part))), np.ones(len(part)))
    for part in alike(links, np.flatnonzero(few & (pending >= 0)), known, bits):
        length = int(pending[part[0]]) + 1
        extend(part, *_weighed(links.take(part), known[part[0]], length))
    for part in grown.chunks_of(links, np.flatnonzero(~few), effort.n_samples + size):
        uniforms = rng.random((d, effort.n_samples, len(part)))
        draws = draw_vectors(links.take(part), known[part], np.arange(len(part)), uniforms)
        extend(part, draws.vectors, draws.vector_weight)  # importance resampling
    return result


def _continued(
    links: Links, known: Codes, prefixes: Prefixes, weight: Array, size: int, rng: Generator
) -> Codes:
    """Draw a prefix of each row by its weight, then the labels after it: codes (size, n, d).

    The prefixes are those of all rows, ascending; their weights (m,) sum to one in each row.
    """
    n_rows = links.n_rows
    starts = np.searchsorted(prefixes.rows, np.arange(n_rows + 1))
    which = drawn_entries(weight, starts, rng.random((size, n_rows)).T).T
    draws = Draws(prefixes, np.arange(n_rows), which, np.zeros(which.shape))
    while draws.vectors.codes.shape[1] < known.shape[1]:
        draws, _ = step(links, known, draws, rng.random((size, n_rows)))
    return draws.vectors.codes[draws.which]


def _row_sums(rows: Indices, values: Array, n_rows: int) -> Array:
    """Sum values (m, K) by row, (n, K)."""
    return np.stack([bin_sums(rows, column, n_rows) for column in values.T], axis=1)
