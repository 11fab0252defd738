"""Engines of a pairwise field: options, reports, and the exact ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices, row_slices
from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.core.threads import map_threads
from colabel.joint import elimination as passes
from colabel.joint._long_sums import long_sum, rounded
from colabel.joint.base import EXACT, Exactness, common
from colabel.joint.elimination import Elimination, ListedElimination
from colabel.joint.field.tables import FieldTables
from colabel.joint.user_terms import fill_impossible
from colabel.joint.vectors.vector_list import drawn_entries, leading_entries
from colabel.labels import all_vectors

Engine = Literal["auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"]

# Bytes per entry: the tables in double precision, and as much again for temporary arrays.
_BYTES = 16
_LEAST = {"memory": 1, "max_iter": 1, "n_chains": 1, "n_sweeps": 1, "burn_in": 0}


@dataclass(frozen=True)
class FieldOptions:
    """Options of `PairwiseField`; see there."""

    engine: Engine = "auto"
    memory: int = 2**24
    damping: float = 0.3
    tol: float = 1e-6
    max_iter: int = 200
    n_chains: int = 4
    n_sweeps: int = 500
    burn_in: int = 100
    random_state: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, get_args(Engine))
        for name, least in _LEAST.items():
            check_integer(name, getattr(self, name), least)
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(
                f"damping={self.damping!r} must be at least 0 and below 1: it is the share of the "
                "old message that stays."
            )
        check_positive("tol", self.tol)

    @property
    def most_entries(self) -> int:
        """How many entries the tables of one row may have in all."""
        return self.memory // _BYTES


_SHOWN = 6  # how many labels of a component the report names


@dataclass(frozen=True, eq=False)
class ComponentReport:
    """How one connected component of the graph is answered.

    Attributes
    ----------
    labels : tuple of str
        Names of its labels.
    engine : str
        "closed_form" for a label without edges, otherwise the engine's name.
    exact : Exactness
        The questions answered exactly.
    treewidth : int or None
        Width of the elimination order, where one was sought and found within the budget.
    ended : (converged, iterations, residual), arrays (n,), or None
        Of belief propagation: whether the largest change of a message, in nats, was at most the
        tolerance after so many iterations. Of Gibbs sampling, whether R-hat - 1 is small.
    note : str
        Anything else worth knowing, such as how the mode was found.
    """

    labels: tuple[str, ...]
    engine: str
    exact: Exactness
    treewidth: int | None = None
    ended: tuple[Flags, Indices, Array] | None = None
    note: str = ""

    @property
    def converged(self) -> Flags | None:
        """Whether each row converged (n,); None if nothing iterates."""
        return None if self.ended is None else self.ended[0]

    def to_text(self) -> str:
        """Return one line for people."""
        shown = ", ".join(self.labels[:_SHOWN]) + (", …" if len(self.labels) > _SHOWN else "")
        parts = [
            f"{len(self.labels)} label{'s' * (len(self.labels) > 1)} ({shown}): {self.engine}",
            str(self.exact),
        ]
        if self.treewidth is not None:
            parts.append(f"treewidth at most {self.treewidth}")
        if self.ended is not None and len(self.ended[0]):
            converged, iterations, residual = self.ended
            parts.append(
                f"{int(converged.sum())} of {len(converged)} rows converged, "
                f"{int(np.median(iterations))} iterations (median), "
                f"largest residual {residual.max():.1e}"
            )
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class FieldReport:
    """How a pairwise field is answered, component by component.

    Attributes
    ----------
    components : tuple of ComponentReport
        One per connected component of the graph.
    """

    components: tuple[ComponentReport, ...]

    @property
    def exact(self) -> Exactness:
        """The questions answered exactly in all components."""
        return common(part.exact for part in self.components)

    @property
    def converged(self) -> Flags | None:
        """Whether each row converged in all components (n,); None if nothing iterates."""
        converged = [c.converged for c in self.components if c.converged is not None]
        return np.logical_and.reduce(converged) if converged else None

    def to_text(self) -> str:
        """Return one line per component."""
        return "\n".join(part.to_text() for part in self.components)

    def __repr__(self) -> str:
        return self.to_text()


class FieldSums(NamedTuple):
    """The sums over all label vectors of a field.

    Attributes
    ----------
    log_partition : (n,)
        log sum_y exp(score(y)); -inf where no vector is possible.
    marginals : list of d arrays (n, K_i)
        P(y_i).
    long_partition : (m, n), optional
        Terms whose sum is `log_partition`, where a double does not hold it.
    """

    log_partition: Array
    marginals: list[Array]
    long_partition: Array | None = None


class FieldEngine:
    """Answers about a connected field of d labels for n rows; codes and scores, no names.

    Parameters
    ----------
    field : FieldTables
    options : FieldOptions
    """

    name = ""
    note = ""  # what else a reader of the report should know
    exact: Exactness = EXACT  # a search that is cut short takes "mode" back
    treewidth: int | None = None  # of the elimination order, if the engine has one

    def __init__(self, field: FieldTables, options: FieldOptions) -> None:
        self._field, self._options = field, options

    def _of(self, field: FieldTables) -> FieldEngine:
        """Return the same engine for a field with the same edges."""
        return type(self)(field, self._options)

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        raise NotImplementedError

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        raise NotImplementedError

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first; fewer if there are fewer.

        Where scores are far from zero, these are up to a constant per row.
        """
        raise NotImplementedError

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        raise NotImplementedError

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) of any two different labels, (n, K_i, K_j).

        That of an edge, else P(y_i) P(y_j | y_i), by one summary per value of y_i.
        """
        edge = (min(i, j), max(i, j))
        if edge in self._field.edges:
            table = self.edge_tables()[self._field.edges.index(edge)]
            return table if i < j else table.transpose(0, 2, 1)
        first = self.sums().marginals[i]
        given = [
            self._of(self._field.clamped(i, v)).sums().marginals[j] for v in range(first.shape[1])
        ]
        return first[:, :, None] * np.stack(given, axis=1)

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        sums = self.sums()
        return self._field.entropy(sums.log_partition, sums.marginals, self.edge_tables())

    def ended(self) -> tuple[Flags, Indices, Array] | None:
        """Return how the iteration behind the sums ended, see `ComponentReport`."""
        return None


_CHUNK_ELEMENTS = 2**19  # entries of all tables or lists of a chunk of rows: 4 MB
# Below this many rows NumPy's own time for an operation outweighs that of the numbers.
_FEWEST_ROWS = 64


class JunctionTree(FieldEngine):
    """Exact answers by variable elimination; of one label without edges, a closed form."""

    name = "junction_tree"

    def __init__(self, field: FieldTables, options: FieldOptions, elimination: Elimination) -> None:
        super().__init__(field, options)
        self._elimination = elimination
        self.treewidth = elimination.width
        if field.n_labels == 1:
            self.name = "closed_form"
        else:
            self.note = f"{elimination.n_entries} table entries per row"

    def _of(self, field: FieldTables) -> JunctionTree:
        return JunctionTree(field, self._options, self._elimination)

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        return self._summed[0]

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        return self._summed[1]

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        return self._summed[2] if self._field.is_far else super().entropy()

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first, up to a constant per row."""
        return k_best_rows(self._field, self._elimination, k, self._options)

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): labels in reverse order, each given its scope."""
        parts = (self._upward(chunk)[0] for chunk in self._chunks())
        drawn = [passes.sample(self._elimination, part, size, rng) for part in parts]
        return np.concatenate(drawn, axis=1)

    def _upward(self, chunk: slice) -> tuple[list[Array], Array]:
        far = self._field.is_far
        tables = own_tables(self._field.rows(chunk), self._elimination, far)
        return passes.upward(self._elimination, tables, far)

    @cached_property
    def _summed(self) -> tuple[FieldSums, list[Array], Array]:
        """The sums, the tables of edges, and the entropy (n,) where scores are far from zero."""
        elimination, field = self._elimination, self._field
        owner = [min(edge, key=elimination.place.__getitem__) for edge in field.edges]
        edges_of = [[e for e, own in enumerate(owner) if own == v] for v in range(field.n_labels)]

        def work(chunk: slice) -> tuple[Array, ...]:
            conditionals, total = self._upward(chunk)
            single, pairs = [np.empty(0)] * field.n_labels, [np.empty(0)] * len(owner)
            entropy = np.zeros(total.shape[-1])
            for v, prob in passes.downward(elimination, conditionals):
                single[v] = elimination.marginal(v, prob, (v,)).T
                for e in edges_of[v]:
                    pairs[e] = elimination.marginal(v, prob, field.edges[e]).transpose(2, 0, 1)
                if field.is_far:
                    entropy -= passes.expected_log(prob, conditionals[v])
            return np.atleast_2d(total).T, entropy, *single, *pairs

        parts = map_threads(work, self._chunks(), self._options.n_jobs, lambda: None)
        total, entropy, *tables = (np.concatenate(part) for part in zip(*parts, strict=True))
        long, d = total.T, field.n_labels
        log_partition = rounded(long) if field.is_far else long[0]
        return FieldSums(log_partition, tables[:d], long), tables[d:], entropy

    def _chunks(self) -> list[slice]:
        entries = self._elimination.n_entries
        most = max(1, self._options.memory // (8 * entries))
        step = min(most, max(_FEWEST_ROWS, _CHUNK_ELEMENTS // entries))
        return row_slices(self._field.n_rows, step)


def own_tables(field: FieldTables, elimination: Elimination, far: bool = False) -> list[Array]:
    """Return the scores that enter at each label, as `elimination` takes them.

    An edge enters at that end of it which is eliminated first.
    """
    place = elimination.place
    terms = [[elimination.own(v, unary.T)] for v, unary in enumerate(field.unary)]
    for (i, j), table in zip(field.edges, field.tables, strict=True):
        pair = table.transpose(1, 2, 0)
        first, second = (i, j) if place[i] < place[j] else (j, i)
        pair = pair if first == i else pair.transpose(1, 0, 2)
        terms[first].append(elimination.own(first, pair, second))
    tables = []
    for v, own in enumerate(terms):
        tables.append(elimination.empty(v, field.n_rows))
        if far:
            tables[v] = long_sum(own, tables[v].shape)
            continue
        for term in own:
            tables[v] += term
    return tables


def k_best_rows(
    field: FieldTables, elimination: Elimination, k: int, options: FieldOptions
) -> tuple[Codes, Array]:
    """Return codes (n, k, d) and scores (n, k), best first; k at most the number of vectors."""
    k = min(k, math.prod(elimination.sizes))

    def work(chunk: slice) -> tuple[Codes, Array]:
        tables = own_tables(field.rows(chunk), elimination, field.is_far)
        if field.is_far:
            # Log-conditionals are never positive, so that nothing cancels in their sums.
            tables, _ = passes.upward(elimination, tables, far=True)
        return passes.k_best(elimination, tables, k)

    chunks = row_slices(field.n_rows, _CHUNK_ELEMENTS, elimination.n_entries * k)
    parts = map_threads(work, chunks, options.n_jobs, lambda: None)
    codes, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
    if isinstance(elimination, ListedElimination):
        codes = np.pad(codes, ((0, 0), (0, k - codes.shape[1]), (0, 0)))
        scores = np.pad(scores, ((0, 0), (0, k - scores.shape[1])), constant_values=-np.inf)
        fill_impossible(codes, (scores > -np.inf).sum(axis=1), elimination.sizes)
    return codes, scores


Answer = TypeVar("Answer")

# In a product, 0 times -inf would be NaN: this stands for -inf, and no sum of scores reaches it.
_FORBIDDEN = -1e200
_SCORES_AT_ONCE = 2**18  # of a chunk of rows: 2 MB


class Half(NamedTuple):
    """Some of the labels, and all their vectors.

    Attributes
    ----------
    labels : (h,)
        Positions of the labels, consecutive.
    codes : (S, h)
        All their vectors, the last label changing fastest.
    one_hot : (S, C)
        Column `first[i] + v` tells whether label i has value v; C is the number of values.
    first : (h,)
        First column of each label.
    """

    labels: Indices
    codes: Codes
    one_hot: Array
    first: Indices

    @classmethod
    def of(cls, labels: Indices, sizes: tuple[int, ...]) -> Half:
        """Write out all vectors of labels with these numbers of values."""
        codes = all_vectors(sizes)
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        one_hot = np.zeros((len(codes), first[-1]))
        one_hot[np.arange(len(codes))[:, None], first[:-1] + codes] = 1.0
        return cls(labels, codes, one_hot, first[:-1])


class Enumeration(FieldEngine):
    """Exact answers from the scores of all label vectors, whose number fits the memory.

    The labels are cut into a left and a right half with S and T vectors each. With a and b running
    over these, A and B their one-hot codes and W the tables across the cut,

        score(a, b) = left(a) + right(b) + A(a)' W B(b),

    where left and right are quadratic forms of the same kind. So all S T scores of a row are one
    product of (S, columns of B) with (columns of B, T): a few multiplications per label vector
    instead of one per edge. The same products turned round give the marginals and the pair
    marginals. Rows are taken in chunks that fit the processor's cache.
    """

    name = "enumeration"

    def __init__(self, field: FieldTables, options: FieldOptions) -> None:
        super().__init__(field, options)
        sizes = field.cardinalities
        cut = _cut(sizes)
        self._left = Half.of(np.arange(cut), sizes[:cut])
        self._right = Half.of(np.arange(cut, len(sizes)), sizes[cut:])
        self._n_states = len(self._left.codes) * len(self._right.codes)
        self._first = np.concatenate(
            [self._left.first, self._right.first + self._left.one_hot.shape[1]]
        )
        self.note = f"all {self._n_states} label vectors"
        self._known: tuple[Any, ...] = ()

    # Answers

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        log_partition, _, single, *_ = self._moments(with_pairs=False)
        return FieldSums(log_partition, np.split(single, self._first[1:], axis=1))

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        return [self.pair_table(i, j) for i, j in self._field.edges]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) of any two different labels, (n, K_i, K_j)."""
        pairs: Array = self._moments(with_pairs=True)[3]
        return pairs[:, self._columns(i), self._columns(j)]

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first."""
        k = min(k, self._n_states)
        if k == 1:
            best = self._moments(with_pairs=False)[1][:, None]
            codes = self._codes_at(best)
            return codes, self._field.score(codes[:, 0])[:, None]

        def leading(chunk: slice) -> tuple[Indices, Array]:
            scores = self._scores(self._field.rows(chunk))
            starts = np.arange(len(scores) + 1) * self._n_states
            entry = leading_entries(scores.ravel(), starts, k).reshape(-1, k)
            return entry - starts[:-1, None], scores.ravel()[entry]

        parts = self._by_chunks(leading)
        place = np.concatenate([p for p, _ in parts])
        return self._codes_at(place), np.concatenate([s for _, s in parts])

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d), by inverting each row's distribution function."""
        uniform = rng.random((self._field.n_rows, size))

        def drawn(chunk: slice) -> Indices:
            weights = self._scores(self._field.rows(chunk))
            weights -= weights.max(axis=1, keepdims=True)
            starts = np.arange(len(weights) + 1) * self._n_states
            entry = drawn_entries(np.exp(weights).ravel(), starts, uniform[chunk])
            return entry - starts[:-1, None]

        return self._codes_at(np.concatenate(self._by_chunks(drawn)).T)

    # Scores and sums

    def _scores(self, field: FieldTables) -> Array:
        """Return the scores (m, S T) of all label vectors of a chunk of rows."""
        left, right = self._left, self._right
        n_left = left.one_hot.shape[1]
        within_left, across, within_right = _blocks(self._matrix(field), n_left)
        coupled = np.matmul(left.one_hot, across)
        # Every vector has one value of the first label on the right: its columns carry left(a).
        coupled[:, :, self._columns_of_first_right] += _forms(within_left, left)[:, :, None]
        flat = coupled.reshape(-1, coupled.shape[2]) @ right.one_hot.T
        scores: Array = flat.reshape(field.n_rows, len(left.codes), len(right.codes))
        scores += _forms(within_right, right)[:, None, :]
        if self._field.has_zeros:
            scores[scores <= _FORBIDDEN / 2] = -np.inf
        return scores.reshape(field.n_rows, self._n_states)

    def _matrix(self, field: FieldTables) -> Array:
        """Return all tables as one matrix (m, C, C) over the values: unary on the diagonal."""
        n_values = sum(field.cardinalities)
        matrix = np.zeros((field.n_rows, n_values, n_values))
        for i, unary in enumerate(field.unary):
            at = np.arange(n_values)[self._columns(i)]
            matrix[:, at, at] = unary
        for (i, j), table in zip(field.edges, field.tables, strict=True):
            matrix[:, self._columns(i), self._columns(j)] = table
        np.maximum(matrix, _FORBIDDEN, out=matrix)
        return matrix

    def _sum(self, field: FieldTables, with_pairs: bool) -> tuple[Any, ...]:
        """Return the sums of a chunk of rows, see `_moments`."""
        left, right = self._left, self._right
        weights = self._scores(field)
        best = weights.argmax(axis=1)
        top = np.take_along_axis(weights, best[:, None], axis=1)
        top[np.isneginf(top)] = 0.0  # -inf - -inf would be NaN
        weights -= top
        np.exp(weights, out=weights)
        table = weights.reshape(field.n_rows, len(left.codes), len(right.codes))
        across = table.reshape(-1, len(right.codes)) @ right.one_hot
        across = across.reshape(field.n_rows, len(left.codes), right.one_hot.shape[1])
        of_left = across[:, :, self._columns_of_first_right].sum(axis=2)
        total = of_left.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_partition = np.log(total) + top[:, 0]
        scale = np.where(total > 0, total, 1.0)[:, None]
        of_left /= scale
        across /= scale[:, None]
        single = np.concatenate([of_left @ left.one_hot, across.sum(axis=1)], axis=1)
        if not with_pairs:
            return log_partition, best, single
        n_left = left.one_hot.shape[1]
        pairs = np.empty((*single.shape, single.shape[1]))
        within_left, between, within_right = _blocks(pairs, n_left)
        within_left[...] = _squares(of_left, left)
        between[...] = np.matmul(left.one_hot.T, across)
        within_right[...] = _squares(table.sum(axis=1) / scale, right)
        pairs[:, n_left:, :n_left] = between.transpose(0, 2, 1)
        return log_partition, best, single, pairs

    def _moments(self, *, with_pairs: bool) -> tuple[Any, ...]:
        """Return log Z (n,), positions (n,) of the best vectors, and marginals (n, C).

        The marginals have a column per value; with pairs come those of all pairs, (n, C, C).
        """
        if len(self._known) < 3 + with_pairs:
            parts = self._by_chunks(lambda chunk: self._sum(self._field.rows(chunk), with_pairs))
            self._known = tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        return self._known

    # Helpers

    def _by_chunks(self, work: Callable[[slice], Answer]) -> list[Answer]:
        chunks = row_slices(self._field.n_rows, _SCORES_AT_ONCE, self._n_states)
        return map_threads(work, chunks, self._options.n_jobs, lambda: None)

    @property
    def _columns_of_first_right(self) -> slice:
        return slice(0, self._field.cardinalities[len(self._left.labels)])

    def _columns(self, i: int) -> slice:
        start = int(self._first[i])
        return slice(start, start + self._field.cardinalities[i])

    def _codes_at(self, place: Indices) -> Codes:
        """Return the codes (..., d) of the vectors at these positions."""
        a, b = np.divmod(place, len(self._right.codes))
        codes = np.concatenate([self._left.codes[a], self._right.codes[b]], axis=-1)
        return codes.astype(np.int32)


def _cut(sizes: tuple[int, ...]) -> int:
    """Return how many labels go left so that the halves have about the same number of vectors."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(sizes))])
    return int(np.abs(logs - logs[-1] / 2).argmin())


def _blocks(matrix: Array, n_left: int) -> tuple[Array, Array, Array]:
    """Cut (m, C, C) into the blocks within the left half, across, and within the right half."""
    left, right = slice(None, n_left), slice(n_left, None)
    return matrix[:, left, left], matrix[:, left, right], matrix[:, right, right]


def _forms(matrix: Array, half: Half) -> Array:
    """Quadratic forms h(s)' M h(s) of a half's one-hot vectors, (m, S)."""
    forms: Array = np.einsum("msc,sc->ms", np.matmul(half.one_hot, matrix), half.one_hot)
    return forms


def _squares(prob: Array, half: Half) -> Array:
    """Pair marginals (m, C, C) of a half from the probabilities (m, S) of its vectors."""
    pairs: Array = np.matmul(half.one_hot.T, prob[:, :, None] * half.one_hot)
    return pairs
