"""Searches for the most probable label vectors of a chain, for all rows together.

The probability of a prefix bounds that of every vector it begins. So at most 1/p prefixes of
each length are as probable as a vector of probability p, and an exact search that drops what
cannot reach the best vector seen visits about d / P(mode) prefixes of a row, or fewer where the
links to come have bounds of their own.

Label vectors of a chain: all of them where they are few, else draws; and sums over them.

Known values are handled by what they are: a value whose earlier labels are all known only
clamps its link. Otherwise the prefixes up to the last known value have to be weighed, all of
them (exact) or a sample of them (importance weights). Behind the last known value a chain is
its own answer, since the labels there sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Protocol

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import bin_sums, log_sum_exp
from colabel.core.schema import Between, stored
from colabel.core.warning import warn
from colabel.joint.chain import prefixes as grown
from colabel.joint.chain.links import Links
from colabel.joint.chain.prefixes import Prefixes, children, root
from colabel.joint.vectors.vector_list import drawn_entries, row_log_sum
from colabel.labels import MISSING

# Below 2^this prefixes per row, rows with different evidence are better summed together.
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
        Log2 of the number of prefixes of each row that will be requested.
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
    # the total probability of all values also weighs a draw where it is not one; zero is a dead end
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


def parts(links: Links, known: Codes, effort: Effort) -> Iterator[tuple[Indices, bool]]:
    """Yield some rows at a time: those whose vectors can be enumerated, alike in what is known."""
    bits = grown.log_completions(known, links.cardinalities)
    few = effort.allows(bits)
    for part in alike(links, np.flatnonzero(few), known, bits):
        yield part, True
    for part in grown.chunks_of(links, np.flatnonzero(~few), effort.n_samples):
        yield part, False


def bits_before_last(links: Links, known: Codes) -> Array:
    """Log2 of the number (n,) of prefixes that agree with `known` up to its last value."""
    before = np.arange(known.shape[1]) < _last_weighed(links, known)[:, None]
    return grown.log_completions(np.where(before, known, np.int32(0)), links.cardinalities)


def log_mass(links: Links, known: Codes, effort: Effort) -> Array:
    """Log-probability (n,) of the known values; estimated where enumeration is too much."""
    result = np.full(links.n_rows, -np.inf)
    bits = bits_before_last(links, known)
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
        sums = [bin_sums(before.vectors.rows, column, n_rows) for column in weighted.T]
        averaged = np.stack(sums, axis=1)
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
    prefixes = Prefixes(rows, codes[place], log_prob[rows, place])
    return prefixes, np.exp(prefixes.log_prob - _log_sums(prefixes, links.n_rows)[rows])


def sample(links: Links, known: Codes, effort: Effort, size: int, rng: Generator) -> Codes:
    """Draw vectors given what is known, (size, n, d)."""
    n_rows, d = known.shape
    result = np.empty((size, n_rows, d), dtype=np.int32)
    bits = bits_before_last(links, known)
    few = effort.allows(bits)
    pending = _pending(links, known)

    def extend(part: Indices, prefixes: Prefixes, weight: Array) -> None:
        """Draw a prefix of each row by its weight (m,), which sums to one; then what comes after.

        The prefixes are those of all rows of the part, ascending.
        """
        every = np.arange(len(part))
        starts = np.searchsorted(prefixes.rows, np.arange(len(part) + 1))
        which = drawn_entries(weight, starts, rng.random((size, len(part))).T).T
        draws = Draws(prefixes, every, which, np.zeros(which.shape))
        while draws.vectors.codes.shape[1] < d:
            draws, _ = step(links.take(part), known[part], draws, rng.random((size, len(part))))
        result[:, part] = draws.vectors.codes[draws.which]

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


MAX_PREFIXES = 1_000_000  # an exact search stops after so many prefixes of one row
# The same for "auto": all prefixes of 14 labels, a thousand times what a row of sparse tags needs.
AUTO_PREFIXES = 1 << 15

_SEED_WIDTH = 4  # beam that finds the first bound of an exact search, at most
_UNPROVEN_WIDTH = 256  # prefixes of a row that a listing keeps once it cannot be complete
_USUAL_WIDTH = 1024  # prefixes of a row and length for which a listing plans its memory
_SLACK = 1e-9  # nats; the same prefix may differ by rounding between two calls of a classifier


# Complete vectors, among them those that a search found to be the k best of each row; and rows
# (n,) in which a search for the best one stopped early.
Candidates = tuple[Prefixes, Flags]


class ChainSearch(Protocol):
    """A way to find the most probable label vectors."""

    @property
    def exact(self) -> bool:
        """Whether the vectors found are the most probable ones."""

    @property
    def how(self) -> str:
        """One sentence for `Joint.how`."""

    def candidates(self, links: Links, known: Codes, k: int) -> Candidates:
        """Return the best vectors of each row.

        Parameters
        ----------
        known : (n, d)
            Values the vectors must have, in chain order, MISSING elsewhere.
        k : int
            A search that is not exact may find fewer.
        """


@stored("beam-search")
@dataclass(frozen=True)
class BeamSearch:
    """Keep the `width` most probable prefixes of every length (Kumar et al., 2013).

    Width 1 is the greedy search of classifier chains (Read et al., 2009).

    Examples
    --------
    >>> BeamSearch(3).how
    'Modes by beam search of width 3.'
    """

    width: Annotated[int, Between(1, 10**3)] = 10
    exact: bool = False

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"beam_width={self.width!r} must be at least 1.")

    @property
    def how(self) -> str:
        if self.width == 1:
            return "Modes by greedy search: label by label, the most probable value each time."
        return f"Modes by beam search of width {self.width}."

    def candidates(self, links: Links, known: Codes, k: int) -> Candidates:
        beams = _beams(links, known, np.arange(links.n_rows), [max(self.width, k)])
        return _uncut(links, grown.joined([grown.nothing(known.shape[1]), *beams]))


def _uncut(links: Links, vectors: Prefixes) -> Candidates:
    return vectors, np.zeros(links.n_rows, dtype=bool)


def _beam(links: Links, known: Codes, rows: Indices, width: int) -> Prefixes:
    prefixes = grown.root(rows)
    for _ in links.cardinalities:
        table = children(links, prefixes, known)
        grown_all = prefixes.grow(table, table > -np.inf)
        prefixes = _most_probable(grown_all, np.full(links.n_rows, width))
    return prefixes


def _most_probable(prefixes: Prefixes, width: Indices) -> Prefixes:
    """Return the `width` (n,) best prefixes of each row; in a tie the smaller code stays."""
    order = np.lexsort((-prefixes.log_prob, prefixes.rows))
    rows = prefixes.rows[order]
    ranked = order[grown.rank_in_row(rows) < width[rows]]
    return prefixes.take(np.sort(ranked))  # in the order of codes again


@stored("branch-and-bound")
@dataclass(frozen=True)
class BranchAndBound:
    """Drop every prefix less probable than the best vectors seen so far: exact.

    Prefixes of all rows grow together, level by level; a level that is too large for memory is
    halved, and the first half is finished before the second is looked at again.

    A row that needs more than `max_prefixes` is cut: it keeps the best vectors of a beam, of the
    greedy search and of those seen. It says so by a warning, unless `warns` is false.

    Examples
    --------
    >>> BranchAndBound().exact
    True
    >>> BranchAndBound(1000, warns=False).how
    'Modes by branch and bound: exact in rows that need at most 1000 prefixes, else by beam search.'
    """

    max_prefixes: Annotated[int, Between(1, MAX_PREFIXES)] = MAX_PREFIXES
    exact: bool = True
    warns: bool = True
    beam_width: Annotated[int, Between(1, 10**3)] = 32

    @property
    def how(self) -> str:
        if self.warns:
            return "Modes exact, by branch and bound."
        return (
            f"Modes by branch and bound: exact in rows that need at most {self.max_prefixes} "
            "prefixes, else by beam search."
        )

    def candidates(self, links: Links, known: Codes, k: int) -> Candidates:
        n_rows, d = links.n_rows, len(links.cardinalities)
        beam = BeamSearch(max(k, min(_SEED_WIDTH, self.beam_width)))
        best, _ = beam.candidates(links, known, k)
        bound = _kth(best, n_rows, k)
        ahead = _log_ahead(links, known)
        visited = np.zeros(n_rows, dtype=np.intp)
        stack = [grown.root(np.arange(n_rows))]
        while stack:
            prefixes = stack.pop()
            length = prefixes.codes.shape[1]
            least = bound - _SLACK - ahead[:, length]
            wanted = prefixes.log_prob >= least[prefixes.rows]
            prefixes = prefixes.take(wanted & (visited[prefixes.rows] <= self.max_prefixes))
            if length == d:
                best = _best(grown.joined([best, prefixes]), n_rows, k)
                bound = _kth(best, n_rows, k)
            elif len(prefixes) * d > links.codes_at_once and len(prefixes) > 1:
                half = len(prefixes) // 2
                stack += [prefixes.take(slice(half, None)), prefixes.take(slice(half))]
            elif len(prefixes):
                visited += np.bincount(prefixes.rows, minlength=n_rows)
                table = children(links, prefixes, known)
                least = (bound - _SLACK - ahead[:, length + 1])[prefixes.rows, None]
                stack.append(prefixes.grow(table, (table >= least) & (table > -np.inf)))
        cut = visited > self.max_prefixes
        if cut.any():
            # a beam may drop the prefix that greedy search follows: it is not sure to do better
            beams = _beams(links, known, np.flatnonzero(cut), [1, max(k, self.beam_width)])
            best = _best(grown.joined([best, *beams]), n_rows, k)
        if self.warns and cut.any():
            warn(
                f"The exact search stopped at {self.max_prefixes} prefixes in {int(cut.sum())} "
                "rows: their vectors are the best found, not surely the most probable. Choose "
                'inference="epsilon" or "beam" to search less on purpose.',
                RuntimeWarning,
            )
        return best, cut


def _beams(links: Links, known: Codes, rows: Indices, widths: list[int]) -> Iterator[Prefixes]:
    """Yield what beams of some widths, 1 being greedy search, find in some of the rows."""
    for width in widths:
        for part in grown.chunks_of(links, rows, width):
            yield _beam(links, known, part, width)


def above(links: Links, known: Codes, least: Array, width: int) -> Candidates:
    """Return all vectors of log-probability at least `least` (n,), at most `width` of a row.

    There are never more than exp(-least). Level by level, the prefixes that may still begin one
    are kept. Where there are more than `width` of a row, or a search would have given up, nothing
    can be proven any more: the most probable prefixes go on, and they are few.
    """
    wanted = np.flatnonzero(least < np.inf)
    least = least[:, None] - _SLACK - _log_ahead(links, known)
    cut = np.zeros(links.n_rows, dtype=bool)
    visited = np.zeros(links.n_rows, dtype=np.intp)
    parts = [grown.nothing(known.shape[1])]
    for part in grown.chunks_of(links, wanted, min(width, _USUAL_WIDTH)):
        prefixes = grown.root(part)
        for position in range(known.shape[1]):
            table = children(links, prefixes, known)
            reach = least[prefixes.rows, position + 1, None]
            prefixes = prefixes.grow(table, (table >= reach) & (table > -np.inf))
            count = np.bincount(prefixes.rows, minlength=links.n_rows)
            visited += count
            cut |= (count > width) | (visited > AUTO_PREFIXES)
            most = np.where(cut, min(width, _UNPROVEN_WIDTH), width)
            if (count > most).any():
                prefixes = _most_probable(prefixes, most)
        parts.append(prefixes)
    return grown.joined(parts), cut


def _log_ahead(links: Links, known: Codes) -> Array:
    """Upper bounds (n, d + 1) of what the links from each position on can contribute."""
    ceiling = links.log_ceiling(known)
    summed = np.cumsum(ceiling[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([summed, np.zeros(len(ceiling))])


def _best(prefixes: Prefixes, n_rows: int, k: int) -> Prefixes:
    """Return the k best distinct vectors of every row."""
    codes, log_prob, _ = grown.best_distinct(prefixes, n_rows, k)
    rows, rank = np.nonzero(log_prob > -np.inf)
    return Prefixes(rows, codes[rows, rank], log_prob[rows, rank])


def _kth(prefixes: Prefixes, n_rows: int, k: int) -> Array:
    """Log-probability (n,) of every row's k-th best vector, -inf where there are fewer."""
    return grown.best_distinct(prefixes, n_rows, k)[1][:, -1]


@stored("epsilon-search")
@dataclass(frozen=True)
class EpsilonSearch:
    """Explore the prefixes whose probability exceeds epsilon (Dembczynski et al., 2012).

    From a prefix none of whose children exceeds epsilon the search goes on greedily; the most
    probable vector reached wins. It is the mode if P(mode) > epsilon. With epsilon=0 the search
    is exact (by `BranchAndBound`), with epsilon=.5 greedy. At most d / epsilon prefixes of a
    row are visited.

    Examples
    --------
    >>> EpsilonSearch(0.5).how
    'Modes by epsilon-approximate search: exact where P(mode) > 0.5.'
    """

    epsilon: Annotated[float, Between(0.0, 1.0)] = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon!r} must be at least 0 and less than 1.")

    @property
    def exact(self) -> bool:
        return self.epsilon == 0

    @property
    def how(self) -> str:
        if self.exact:
            return BranchAndBound().how
        return f"Modes by epsilon-approximate search: exact where P(mode) > {self.epsilon:g}."

    def candidates(self, links: Links, known: Codes, k: int) -> Candidates:
        if self.exact:
            return BranchAndBound().candidates(links, known, k)
        d = len(links.cardinalities)
        greedy, _ = BeamSearch(1).candidates(links, known, 1)
        # the greedy vector is among those reached, so less probable prefixes cannot win
        bound = _kth(greedy, links.n_rows, 1) if k == 1 else np.full(links.n_rows, -np.inf)
        widest = min(
            1 / self.epsilon,
            2.0 ** grown.log_completions(known, links.cardinalities).max(initial=0.0),
        )
        rows = np.arange(links.n_rows)
        parts = [
            self._reached(links, known, part, bound - _SLACK)
            for part in grown.chunks_of(links, rows, widest * (1 if k == 1 else d))
        ]
        return _uncut(links, grown.joined([greedy, *parts]))

    def _reached(self, links: Links, known: Codes, rows: Indices, least: Array) -> Prefixes:
        alive, led = grown.root(rows), grown.root(rows[:0])
        threshold = math.log(self.epsilon)
        for _ in links.cardinalities:
            table = children(links, alive, known)
            survives = table > threshold
            ends = np.asarray(~survives.any(axis=1))
            newly_led = _greedy_step(alive.take(ends), table[ends])
            led = grown.joined([newly_led, _greedy_step(led, children(links, led, known))])
            possible = led.log_prob > -np.inf
            led = led.take(possible & (led.log_prob >= least[led.rows]))
            alive = alive.grow(table, survives & (table >= least[alive.rows, None]))
        return grown.joined([alive, led])


def _greedy_step(prefixes: Prefixes, table: Array) -> Prefixes:
    """Follow every prefix by its most probable value; `table` (m, K) scores the children."""
    every = np.arange(len(prefixes))
    value = table.argmax(axis=1)
    return prefixes.extend(every, value, table[every, value])


@stored("monte-carlo")
@dataclass(frozen=True)
class MonteCarlo:
    """Draw label vectors along the chain and keep the most probable (Read et al., 2014).

    Examples
    --------
    >>> MonteCarlo(100).how
    'Modes: the most probable of 100 sampled vectors.'
    """

    n_samples: Annotated[int, Between(1, 20_000)] = 1000
    seed: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        if self.n_samples < 1:
            raise ValueError(f"n_samples={self.n_samples!r} must be at least 1.")

    @property
    def how(self) -> str:
        return f"Modes: the most probable of {self.n_samples} sampled vectors."

    def candidates(self, links: Links, known: Codes, k: int) -> Candidates:
        rows = np.arange(links.n_rows)
        uniforms = shared_uniforms(self.n_samples, len(links.cardinalities), self.seed)
        chunks = grown.chunks_of(links, rows, self.n_samples)
        parts = [draw_vectors(links, known, part, uniforms).vectors for part in chunks]
        possible = grown.joined([grown.nothing(known.shape[1]), *parts])
        return _uncut(links, possible.take(possible.log_prob > -np.inf))


SEARCHES: Mapping[str, Callable[[], ChainSearch]] = MappingProxyType(
    {
        "exact": BranchAndBound,
        "auto": lambda: BranchAndBound(AUTO_PREFIXES, warns=False),
        "epsilon": EpsilonSearch,
        "beam": BeamSearch,
        "greedy": lambda: BeamSearch(1),
        "monte_carlo": MonteCarlo,
    }
)


def as_search(inference: str | ChainSearch) -> ChainSearch:
    """Return the search behind a name, or the search itself."""
    if not isinstance(inference, str):
        return inference
    if inference not in SEARCHES:
        known = ", ".join(map(repr, SEARCHES))
        raise ValueError(f"inference={inference!r} is unknown: choose one of {known}.")
    return SEARCHES[inference]()
