"""Searches for the most probable label vectors of a chain, for all rows together.

The probability of a prefix bounds that of every vector it begins. So at most 1/p prefixes of
each length are as probable as a vector of probability p, and an exact search that drops what
cannot reach the best vector seen visits about d / P(mode) prefixes of a row, or fewer where the
links to come have bounds of their own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.schema import Between, stored
from colabel.joint.chain import prefixes as grown
from colabel.joint.chain._links import Links
from colabel.joint.chain._sums import draw_vectors, shared_uniforms
from colabel.joint.chain.prefixes import Prefixes, children

MAX_PREFIXES = 1_000_000  # prefixes of one row that an exact search visits before it gives up
# The same for "auto": all prefixes of 14 labels, a thousand times what a row of sparse tags needs.
AUTO_PREFIXES = 1 << 15

_SEED_WIDTH = 4  # beam that finds the first bound of an exact search, at most
_UNPROVEN_WIDTH = 256  # prefixes that a listing keeps of a row, once it cannot list all there are
_USUAL_WIDTH = 1024  # prefixes of a row and length for which a listing plans its memory
_SLACK = 1e-9  # nats; the same prefix may differ by rounding between two calls of a classifier


class Found(NamedTuple):
    """What a search came back with.

    Attributes
    ----------
    vectors : Prefixes
        Complete vectors, among them those the search takes for the k best of each row.
    cut : (n,)
        Rows in which a search for the very best was stopped before its end.
    """

    vectors: Prefixes
    cut: Flags


class ChainSearch(Protocol):
    """A way to find the most probable label vectors."""

    @property
    def exact(self) -> bool:
        """Whether the vectors found are the most probable ones."""
        ...

    @property
    def how(self) -> str:
        """One sentence for `Joint.how`."""
        ...

    def candidates(self, links: Links, known: Codes, k: int) -> Found:
        """Return the best vectors of each row.

        Parameters
        ----------
        known : (n, d)
            Values the vectors must have, in chain order, MISSING elsewhere.
        k : int
            A search that is not exact may find fewer.
        """
        ...


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

    def candidates(self, links: Links, known: Codes, k: int) -> Found:
        width = max(self.width, k)
        rows = np.arange(links.n_rows)
        chunks = grown.chunks_of(links, rows, width)
        found = [_beam(links, known, part, width) for part in chunks]
        return _uncut(links, grown.joined([grown.nothing(known.shape[1]), *found]))


def _uncut(links: Links, vectors: Prefixes) -> Found:
    return Found(vectors, np.zeros(links.n_rows, dtype=bool))


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

    def candidates(self, links: Links, known: Codes, k: int) -> Found:
        n_rows, d = links.n_rows, len(links.cardinalities)
        best = (
            BeamSearch(max(k, min(_SEED_WIDTH, self.beam_width)))
            .candidates(links, known, k)
            .vectors
        )
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
            beams = _beams(links, known, np.flatnonzero(cut), max(k, self.beam_width))
            best = _best(grown.joined([best, *beams]), n_rows, k)
        if self.warns:
            _warn_of_cut(int(cut.sum()), self.max_prefixes)
        return Found(best, cut)


def _beams(links: Links, known: Codes, rows: Indices, widest: int) -> Iterator[Prefixes]:
    """Yield what a wide beam and a greedy search find in some of the rows.

    A beam may drop the prefix that greedy search follows, so it is not sure to do better.
    """
    for width in (1, widest):
        for part in grown.chunks_of(links, rows, width):
            yield _beam(links, known, part, width)


def above(links: Links, known: Codes, least: Array, width: int) -> Found:
    """Return all vectors of log-probability at least `least` (n,), at most `width` of a row.

    There are never more than exp(-least). Level by level, the prefixes that may still begin one
    are kept. Where there are more than `width` of a row, or a search would have given up, nothing
    can be proven any more: the most probable prefixes go on, and they are few.
    """
    wanted = np.flatnonzero(least < np.inf)
    least = least[:, None] - _SLACK - _log_ahead(links, known)
    cut = np.zeros(links.n_rows, dtype=bool)
    visited = np.zeros(links.n_rows, dtype=np.intp)
    found = [grown.nothing(known.shape[1])]
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
        found.append(prefixes)
    return Found(grown.joined(found), cut)


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


def _warn_of_cut(n_cut: int, limit: int) -> None:
    if n_cut:
        warnings.warn(
            f"The exact search stopped at {limit} prefixes in {n_cut} rows: their vectors are the "
            'best found, not surely the most probable. Choose inference="epsilon" or "beam" to '
            "search less on purpose.",
            RuntimeWarning,
            stacklevel=4,
        )


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

    def candidates(self, links: Links, known: Codes, k: int) -> Found:
        if self.exact:
            return BranchAndBound().candidates(links, known, k)
        d = len(links.cardinalities)
        greedy = BeamSearch(1).candidates(links, known, 1).vectors
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

    def candidates(self, links: Links, known: Codes, k: int) -> Found:
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
