"""The tables of a pairwise field: one per label, one per edge, for each row of a batch.

Shapes: n rows, d labels, label i has K_i values. `unary[i]` is (n, K_i). `tables[e]`, of the edge
e = (i, j), is (n, K_i, K_j), or (1, K_i, K_j) where all rows share it. Scores are natural logs up
to a constant per row; -inf forbids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.joint._long_sums import is_far
from colabel.labels import MISSING, LabelSpace

Edge = tuple[int, int]


@dataclass(frozen=True, eq=False)
class FieldTables:
    """The potentials of a pairwise field.

    score(y) = sum_i unary_i[y_i] + sum_(i, j) table_ij[y_i, y_j]

    Attributes
    ----------
    unary : tuple of d arrays of shape (n, K_i)
        Score of each value of each label.
    edges : tuple of E pairs (i, j)
        All different, with i < j.
    tables : tuple of E arrays of shape (n, K_i, K_j) or (1, K_i, K_j)
        Score of each pair of values.
    """

    unary: tuple[Array, ...]
    edges: tuple[Edge, ...]
    tables: tuple[Array, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.unary[0])

    @property
    def n_labels(self) -> int:
        """Number of labels d."""
        return len(self.unary)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of each label."""
        return tuple(table.shape[1] for table in self.unary)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The labels that share an edge with each label, ascending."""
        neighbours: list[list[int]] = [[] for _ in self.unary]
        for i, j in self.edges:
            neighbours[i].append(j)
            neighbours[j].append(i)
        return tuple(tuple(sorted(others)) for others in neighbours)

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some score is -inf."""
        return any(bool(np.isneginf(part).any()) for part in (*self.unary, *self.tables))

    @cached_property
    def possible(self) -> tuple[bytes, ...]:
        """Which values (K_i,) and pairs (K_i, K_j) are possible in some row, as bytes of flags."""
        every = (*self.unary, *self.tables)
        return tuple(
            (~np.isneginf(part).all(axis=0, where=self.n_rows > 0)).tobytes() for part in every
        )

    @cached_property
    def is_far(self) -> bool:
        """Whether some score is so far from zero that sums of scores need more than a double."""
        return is_far((*self.unary, *self.tables))

    def score_terms(self, codes: Codes) -> Iterator[Array]:
        """Yield the terms (n,) whose sum is the score of label vectors (n, d)."""
        rows = np.arange(self.n_rows)
        for i, unary in enumerate(self.unary):
            yield unary[rows, codes[:, i]]
        for (i, j), table in zip(self.edges, self.tables, strict=True):
            yield table[rows if len(table) > 1 else 0, codes[:, i], codes[:, j]]

    def rows(self, index: Rows) -> FieldTables:
        """Return the tables of some of the rows."""
        tables = tuple(t if len(t) == 1 else _not_empty(t[index]) for t in self.tables)
        return FieldTables(tuple(u[index] for u in self.unary), self.edges, tables)

    def score(self, codes: Codes) -> Array:
        """Return the scores (..., n) of label vectors (..., n, d), none of them missing."""
        rows = np.arange(self.n_rows)
        found = np.zeros(codes.shape[:-1])
        for i, unary in enumerate(self.unary):
            found += unary[rows, codes[..., i]]
        for ends, tables in self._batches:
            if tables.shape[1] > 1:
                (i, j), table = ends[0], tables[0]
                found += table[rows, codes[..., i], codes[..., j]]
                continue
            every = np.arange(len(ends))
            scores = tables[every, 0, codes[..., ends[:, 0]], codes[..., ends[:, 1]]]
            found += scores.sum(axis=-1)
        return found

    @cached_property
    def _batches(self) -> list[tuple[Indices, Array]]:
        """Edges (m, 2) and their tables (m, 1, K, L) that all rows share, or one edge's (n, K, L).

        A batch has no more edges than there are labels: it adds few times rows by labels at once.
        """
        batches = []
        ends = np.array(self.edges, dtype=np.intp).reshape(-1, 2)
        shapes: dict[tuple[int, ...], list[int]] = {}
        for e, table in enumerate(self.tables):
            if len(table) > 1:
                batches.append((ends[e : e + 1], table[None]))
            else:
                shapes.setdefault(table.shape, []).append(e)
        for alike in shapes.values():
            for first in range(0, len(alike), self.n_labels):
                some = alike[first : first + self.n_labels]
                batches.append((ends[some], np.stack([self.tables[e] for e in some])))
        return batches

    def entropy(
        self, log_partition: Array, single: Sequence[Array], pairs: Sequence[Array]
    ) -> Array:
        """Return H = log Z - E[score], (n,), by marginals (n, K_i) and those of edges."""
        entropies = log_partition.copy()
        for unary, prob in zip(self.unary, single, strict=True):
            entropies -= (_finite(unary) * prob).sum(axis=1)
        for table, prob in zip(self.tables, pairs, strict=True):
            entropies -= (_finite(table) * prob).sum(axis=(1, 2))
        return np.maximum(entropies, 0.0)

    def centred(self) -> tuple[FieldTables, Array]:
        """Return the field with the largest score of every table at 0, and what that took (n,)."""
        offset = np.zeros(self.n_rows)
        parts = []
        for table in (*self.unary, *self.tables):
            top = table.max(axis=tuple(range(1, table.ndim)), keepdims=True)
            top[np.isneginf(top)] = 0.0
            parts.append(table - top)
            offset += top.reshape(len(top))
        d = self.n_labels
        return FieldTables(tuple(parts[:d]), self.edges, tuple(parts[d:])), offset

    def components(self) -> list[Indices]:
        """Return the labels of each connected component, ascending; smallest label first."""
        ends = np.array(self.edges, dtype=np.intp).reshape(-1, 2).T
        graph = sp.coo_array((np.ones(ends.shape[1]), ends), shape=(self.n_labels,) * 2)
        _, of_label = connected_components(graph, directed=False)
        first = np.sort(np.unique(of_label, return_index=True)[1])
        return [np.flatnonzero(of_label == of_label[i]) for i in first]

    def restricted(self, labels: Indices) -> FieldTables:
        """Return the field of some of the labels (ascending) and the edges among them."""
        place = {int(i): p for p, i in enumerate(labels)}
        kept = [e for e, (i, j) in enumerate(self.edges) if i in place and j in place]
        return FieldTables(
            tuple(self.unary[i] for i in labels),
            tuple((place[self.edges[e][0]], place[self.edges[e][1]]) for e in kept),
            tuple(self.tables[e] for e in kept),
        )

    def clamped(self, i: int, value: int) -> FieldTables:
        """Return the field in which label i has one value in all rows; the edges stay."""
        allowed = np.arange(self.cardinalities[i]) == value
        unary = list(self.unary)
        unary[i] = np.where(allowed, unary[i], -np.inf)
        return FieldTables(tuple(unary), self.edges, self.tables)

    def conditioned(self, evidence: Codes) -> FieldTables:
        """Return the field in which labels that disagree with evidence (n, d) score -inf.

        The scores of vectors that agree do not change. A label known in every row takes its edges
        with it, folded into the scores of its neighbours: so the graph gets simpler. Not where
        scores are far from zero, whose sum would lose digits.
        """
        known = evidence != MISSING
        unary = list(self.unary)
        for i in np.flatnonzero(known.any(axis=0)).tolist():
            agrees = evidence[:, i, None] == np.arange(unary[i].shape[1])
            unary[i] = np.where(agrees | ~known[:, i, None], unary[i], -np.inf)
        certain = known.all(axis=0) & (self.n_rows > 0 and not self.is_far)
        edges: list[Edge] = []
        tables: list[Array] = []
        for (i, j), table in zip(self.edges, self.tables, strict=True):
            if not certain[i] and not certain[j]:
                edges.append((i, j))
                tables.append(table)
                continue
            at = np.arange(self.n_rows) if len(table) > 1 else 0
            if certain[i]:
                unary[j] = unary[j] + table[at, evidence[:, i], :]
            else:
                unary[i] = unary[i] + table[at, :, evidence[:, j]]
        return FieldTables(tuple(unary), tuple(edges), tuple(tables))


def _not_empty(table: Array) -> Array:
    """Give a table of no rows (0, K, L) a row of zeros, so that row 0 can always be read."""
    return table if len(table) else np.zeros((1, *table.shape[1:]))


def _finite(scores: Array) -> Array:
    """Scores with 0 for -inf: what is impossible adds nothing to an expectation."""
    return np.where(np.isneginf(scores), 0.0, scores)


def checked_field(
    space: LabelSpace, unary: Sequence[ArrayLike], edges: ArrayLike, tables: Sequence[ArrayLike]
) -> FieldTables:
    """Return a user's potentials as `FieldTables`, or raise ValueError with a sentence."""
    singles = _checked_unary(space, unary)
    pairs = np.asarray(edges)
    if pairs.size == 0:
        pairs = np.empty((0, 2), dtype=np.intp)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"edges has shape {pairs.shape} and type {pairs.dtype} but must be an integer array "
            "(E, 2): two label positions per edge."
        )
    if len(tables) != len(pairs):
        raise ValueError(
            f"There are {len(tables)} tables but {len(pairs)} edges: give one table per edge."
        )
    n_rows, sizes = len(singles[0]), space.cardinalities
    checked: dict[Edge, Array] = {}
    for (i, j), given in zip(pairs.tolist(), tables, strict=True):
        _check_edge(space, i, j, checked)
        table = np.asarray(given, dtype=np.float64)
        shape = (sizes[i], sizes[j])
        if table.shape not in ((n_rows, *shape), (1, *shape)):
            raise ValueError(
                f"The table of edge ({i}, {j}) has shape {table.shape} but must have "
                f"{(n_rows, *shape)}, or {(1, *shape)} if all rows share it."
            )
        _check_scores(f"The table of edge ({i}, {j})", table)
        checked[min(i, j), max(i, j)] = _not_empty(table if i < j else table.transpose(0, 2, 1))
    order = sorted(checked)
    return FieldTables(tuple(singles), tuple(order), tuple(checked[edge] for edge in order))


def checked_start(field: FieldTables, start: ArrayLike | None) -> Codes:
    """Return label vectors (n, d) to start from; by default each label's best own score."""
    shape = (field.n_rows, field.n_labels)
    if start is None:
        found = np.empty(shape, dtype=np.int32)
        for i, scores in enumerate(field.unary):
            found[:, i] = scores.argmax(axis=1)
        return found
    codes = np.asarray(start)
    inside = codes.shape == shape and codes.dtype.kind in "iu"
    if not (inside and ((codes >= 0) & (codes < np.array(field.cardinalities))).all()):
        raise ValueError(
            f"start has shape {codes.shape} and type {codes.dtype} but must hold codes {shape}: "
            "for each row the position of a value of each label."
        )
    return codes.astype(np.int32)


def _checked_unary(space: LabelSpace, unary: Sequence[ArrayLike]) -> list[Array]:
    """Return the scores of the labels as arrays (n, K_i)."""
    if len(unary) != space.n_labels:
        raise ValueError(
            f"There are {len(unary)} unary arrays but {space.n_labels} labels: give one array "
            "(n, K_i) of scores per label."
        )
    singles = [np.asarray(scores, dtype=np.float64) for scores in unary]
    for name, size, scores in zip(space.names, space.cardinalities, singles, strict=True):
        wanted = (len(singles[0]) if singles[0].ndim else 0, size)
        if scores.shape != wanted:
            raise ValueError(
                f"The unary scores of label {name!r} have shape {scores.shape} but must have "
                f"{wanted}: rows, then the values of the label."
            )
        _check_scores(f"The unary array of label {name!r}", scores)
    return singles


def _check_edge(space: LabelSpace, i: int, j: int, seen: dict[Edge, Array]) -> None:
    """Raise ValueError unless (i, j) joins two different labels that are not joined yet."""
    if not (0 <= i < space.n_labels and 0 <= j < space.n_labels):
        raise ValueError(
            f"Edge ({i}, {j}) names a label that does not exist: labels are numbered from 0 to "
            f"{space.n_labels - 1}."
        )
    if i == j:
        raise ValueError(
            f"Edge ({i}, {j}) joins label {space.names[i]!r} to itself: put its scores into unary."
        )
    if (min(i, j), max(i, j)) in seen:
        raise ValueError(f"Edge ({i}, {j}) is given twice: add the two tables into one.")


def _check_scores(what: str, scores: Array) -> None:
    """Raise ValueError if a score is NaN or +inf."""
    wrong = np.argwhere(np.isnan(scores) | np.isposinf(scores))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise ValueError(
            f"{what} holds {scores[first]} at {first} (row first), but scores must be numbers or "
            "-inf, which forbids."
        )
