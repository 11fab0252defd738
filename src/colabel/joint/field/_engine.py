"""Engines of a pairwise field: options, reports, and exact answers by elimination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.chunks import row_slices
from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.core.threads import map_threads
from colabel.joint import elimination as passes
from colabel.joint._long_sums import long_sum, rounded
from colabel.joint.elimination import Elimination
from colabel.joint.exactness import EXACT, Exactness, common
from colabel.joint.field._tables import FieldTables

Engine = Literal["auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"]

# Bytes per entry at work: the tables in double precision, and as much again on the way.
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


_SHOWN = 6  # how many labels of a component are named


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
        found = [c.converged for c in self.components if c.converged is not None]
        return np.logical_and.reduce(found) if found else None

    def to_text(self) -> str:
        """Return one line a component."""
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
            self.note = f"{elimination.n_entries} table entries a row"

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
                axes = elimination.axes(v)
                single[v] = passes.summed(prob, axes, (v,)).T
                for e in edges_of[v]:
                    pairs[e] = passes.summed(prob, axes, field.edges[e]).transpose(2, 0, 1)
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
    place, axes = elimination.place, elimination.axes
    terms = [[passes.aligned(unary.T, (v,), axes(v))] for v, unary in enumerate(field.unary)]
    for (i, j), table in zip(field.edges, field.tables, strict=True):
        pair = table.transpose(1, 2, 0)
        first, second = (i, j) if place[i] < place[j] else (j, i)
        pair = pair if first == i else pair.transpose(1, 0, 2)
        terms[first].append(passes.aligned(pair, (first, second), axes(first)))
    tables = []
    for v, own in enumerate(terms):
        shape = (*elimination.shape(v), field.n_rows)
        if far:
            tables.append(long_sum(own, shape))
            continue
        tables.append(np.zeros(shape))
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
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
