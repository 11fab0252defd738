"""Rows of a field in chunks: all that a field asks of its rows is a sum over chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.chunks.chunked_data import ChunkedData, added, joined_rows
from colabel.learn.conditional import LabelSummary, TrainingData
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    Score,
    pair_sums,
)
from colabel.learn.design import Design
from colabel.learn.structure.screening import score_statistics


@dataclass(frozen=True)
class ChunkedFieldData:
    """Rows in chunks to learn a field from; see `FieldData`.

    Attributes
    ----------
    data : ChunkedData
    nodes, edges : Design
        Without rows; of these rows only the sums of squares are here.
    n_heavy : int
        Number of rows of positive weight.
    total_weight : float
    values : d arrays (K_i,)
        Weight of the rows with each value of each label.
    selected : AtRows or None
        Which of the rows of `data` these are; None for all.
    """

    data: ChunkedData
    nodes: Design
    edges: Design
    n_heavy: int = 0
    total_weight: float = 0.0
    values: tuple[Array, ...] = ()
    selected: Any = None

    @classmethod
    def of(cls, data: ChunkedData, coordinates: Any, edge_columns: Indices) -> ChunkedFieldData:
        """Find the sums of squares of the coordinates in one pass."""
        if len(edge_columns) not in (0, data.n_features):
            raise TypeError(
                "edge_features as a list of columns does not learn from Dask arrays: give"
                ' "all" or "none".'
            )
        nodes = Design(None, None, None, coordinates)
        if not len(edge_columns):
            edges = replace(Design.constant(data.n_features), rows=None)
            return cls(data, nodes, edges).rows(None)
        rows = cls(data, nodes, nodes).rows(None)
        squares, weight = rows.nodes.squares, rows.total_weight
        level = float(np.sqrt(squares[:-1].sum() / weight)) or 1.0
        squares = np.append(squares[:-1], level**2 * weight)
        return replace(rows, edges=replace(nodes, level=level, squares=squares))

    def rows(self, selected: Any) -> ChunkedFieldData:
        """Return some of the rows: one pass."""
        squares, n_heavy, weight, values = self.data.sum(_look, selected, self.nodes.coordinates)
        of_edges = np.append(squares[:-1], self.edges.level**2 * weight)
        of_edges = of_edges[-1:] if self.edges.shared else of_edges
        nodes, edges = replace(self.nodes, squares=squares), replace(self.edges, squares=of_edges)
        return ChunkedFieldData(self.data, nodes, edges, n_heavy, weight, values, selected)

    def sum(self, function: Callable[..., Any], *arguments: Any, combine: Any = added) -> Any:
        """Sum ``function(FieldData, *arguments)`` over the chunks of these rows: one pass."""
        designs = (self.nodes, self.edges)
        return self.data.sum(_at_part, self.selected, designs, function, arguments, combine=combine)

    def objective(self, make: Callable[..., Any], layout: FieldLayout) -> ChunkedLikelihood:
        return ChunkedLikelihood(self, layout, make)

    def scored(self, score: Score, layout: FieldLayout, theta: Parameters) -> ChunkedScores:
        return ChunkedScores(self, score, layout, self.of_rows(theta))

    def varied(self) -> Flags:
        return np.array([(own > 0).sum() > 1 for own in self.values])

    def dependence(self, node: Array, layout: FieldLayout) -> Array:
        sums = self.sum(pair_sums, _of_rows(self.nodes, node), layout)
        return score_statistics(sums, layout.cardinalities)

    def few(self, n_rows: int) -> FieldData:
        """See `FieldData.few`: the same rows, brought here."""
        step = max(1, -(-self.n_heavy // n_rows))
        counts = self.data.sum(_n_heavy, self.selected, combine=operator.add)
        first, n_heavy = np.array(counts).T
        before = np.cumsum(n_heavy) - n_heavy
        rows = self.data.sum(_every, self.selected, step, first, before, combine=joined_rows)
        return _field_data(rows, (self.nodes, self.edges), rotated=True)

    def of_rows(self, theta: Parameters) -> Parameters:
        """Parameters of coordinates as those of centred rows."""
        return Parameters(_of_rows(self.nodes, theta.node), _of_rows(self.edges, theta.edge))


def _of_rows(design: Design, theta: Array) -> Array:
    """Parameters (q, c) of coordinates as those of centred rows."""
    return theta if design.shared else design.coordinates.rotate_back(theta.T).T


def _field_data(
    part: TrainingData, designs: tuple[Design, Design], *, rotated: bool = False
) -> FieldData:
    """Return a part in memory, in the coordinates or (cheaper) only centred."""

    def local(design: Design) -> Design:
        if design.shared:
            return Design.constant(part.n_features, part.row_weights)
        rows = Design.at(design.coordinates, part.X, part.weight, part.extra, rotated)
        return rows if design.level == 1.0 else rows.with_level(design.level)

    nodes, edges = map(local, designs)
    codes = np.ascontiguousarray(part.codes, dtype=np.int32)
    return FieldData(nodes, edges, codes, part.row_weights)


@dataclass(frozen=True)
class ChunkedLikelihood:
    """A negative log-likelihood of rows in chunks: that of each part, added up.

    Attributes
    ----------
    data : ChunkedFieldData
    layout : FieldLayout
    make : callable (FieldData, FieldLayout) -> PseudoLikelihood or StateLikelihood
    """

    data: Any
    layout: FieldLayout
    make: Callable[..., Any]

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient: one pass."""
        rows = self.data
        of_rows = rows.of_rows(theta)
        value, slope = rows.sum(_asked, self.make, self.layout, "value_and_gradient", of_rows)
        parts = zip((rows.nodes, rows.edges), slope, strict=True)
        rotated = (own if d.shared else d.coordinates.rotate(own.T).T for d, own in parts)
        return value, Parameters(*rotated)

    def value(self, theta: Parameters) -> float:
        """Return the objective alone."""
        of_rows = self.data.of_rows(theta)
        return float(self.data.sum(_asked, self.make, self.layout, "value", of_rows))


@dataclass(frozen=True)
class ChunkedScores:
    """Scores of rows in chunks, computed where they are; see `RowScores`."""

    data: Any
    score: Score
    layout: FieldLayout
    theta: Parameters  # of centred rows

    def total(self) -> float:
        """Sum of the scores, by weight: one pass."""
        return float(self.data.sum(lambda data, own: data.scored(*own).total(), self._spec))

    def below(self, best: ChunkedScores) -> tuple[float, float]:
        """See `RowScores.below`: one pass."""

        def losses(data: FieldData, own: Any, other: Any) -> tuple[float, float]:
            return data.scored(*own).below(data.scored(*other))

        lost, squared = self.data.sum(losses, self._spec, best._spec)
        return float(lost), float(squared)

    @property
    def _spec(self) -> tuple[Score, FieldLayout, Parameters]:
        return self.score, self.layout, self.theta


def _look(part: TrainingData, marks: Flags | None, coordinates: Any) -> tuple[Any, ...]:
    """Sums of squares (q,), number of rows of positive weight, weight, and that of all values."""
    part = part if marks is None else part.take(marks)
    weight = part.row_weights
    squares = Design.at(coordinates, part.X, part.weight).sum_of_squares()
    n_heavy = int((weight > 0).sum())
    return squares, n_heavy, float(weight.sum()), LabelSummary.of(part).weights


def _at_part(
    part: TrainingData,
    marks: Flags | None,
    designs: tuple[Design, Design],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> Any:
    part = part if marks is None else part.take(marks)
    return function(_field_data(part, designs), *arguments) if part.n_rows else None


def _heavy(part: TrainingData, marks: Flags | None) -> TrainingData:
    return part.take(part.row_weights > 0 if marks is None else marks & (part.row_weights > 0))


def _n_heavy(part: TrainingData, marks: Flags | None) -> tuple[tuple[int, int], ...]:
    return ((part.first, _heavy(part, marks).n_rows),)


def _every(
    part: TrainingData, marks: Flags | None, step: int, first: Indices, n_before: Indices
) -> TrainingData:
    """Of the rows that are marked in all parts every one that is a multiple of the step."""
    before = int(n_before[np.searchsorted(first, part.first, side="right") - 1])
    return _heavy(part, marks).take(slice(-before % step, None, step))


def _asked(data: FieldData, make: Any, layout: FieldLayout, what: str, theta: Parameters) -> Any:
    return getattr(make(data, layout), what)(theta)
