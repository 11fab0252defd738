"""Rows of a field in chunks: all that a field asks of its rows is a sum over chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from colabel.learn.design import Axes, Columns, Design, half_way
from colabel.learn.structure.screening import score_statistics


@dataclass(frozen=True)
class SummedDesign(Design):
    """A design whose rows are in chunks: of them only the energies (q,) are here.

    Attributes
    ----------
    chunked : Axes, Columns or None
        None for one constant that all rows share.
    energies : (q,)
    """

    chunked: Axes | Columns | None = None
    energies: Any = None

    @property
    def n_coordinates(self) -> int:
        return len(self.energies)

    def energy(self) -> Array:
        return np.array(self.energies)

    def scale(self) -> Array:
        energy = self.energy()
        sparse = isinstance(self.chunked, Columns)
        return half_way(energy, energy.mean()) if sparse else energy

    def of_part(self, part: TrainingData, *, turned: bool) -> Design:
        """Rows of a part, turned to the coordinates or (cheaper) only centred."""
        if self.chunked is None:
            return Design.constant(part.n_features, part.row_weights)
        design = Design.at(self.chunked, part.X, part.weight, part.extra, turned)
        return design if self.level == 1.0 else design.with_level(self.level)

    def of_rows(self, theta: Array) -> Array:
        """Parameters (q, c) of coordinates as those of centred rows."""
        return theta if self.chunked is None else self.chunked.back(theta.T).T

    def gradient(self, slope: Array) -> Array:
        """Gradients by parameters of centred rows as gradients by coordinates."""
        return slope if self.chunked is None else self.chunked.to_axes(slope.T).T


class _Look(NamedTuple):
    """Energies (q,), number of rows of positive weight, weight, weights of the labels' values."""

    energy: Array
    n_heavy: int
    weight: float
    values: tuple[Array, ...]


@dataclass(frozen=True)
class ChunkedFieldData:
    """Rows in chunks to learn a field from; see `FieldData`.

    Attributes
    ----------
    data : ChunkedData
    nodes, edges : SummedDesign
    look : _Look
        Of these rows.
    selected : AtRows or None
        Which of the rows of `data` these are; None for all.
    """

    data: ChunkedData
    nodes: SummedDesign
    edges: SummedDesign
    look: _Look
    selected: Any = None

    @classmethod
    def of(cls, data: ChunkedData, design: Any, edge_columns: Indices) -> ChunkedFieldData:
        """Find the energies of the coordinates in one pass."""
        if len(edge_columns) not in (0, data.n_features):
            raise TypeError(
                "edge_features as a list of columns does not learn from Dask arrays: give"
                ' "all" or "none".'
            )
        look = data.total(_look, None, design)
        nodes = SummedDesign(None, None, None, design, chunked=design)
        if len(edge_columns):
            level = float(np.sqrt(look.energy[:-1].sum() / look.weight)) or 1.0
            edges = replace(nodes, level=level)
        else:
            constant = Design.constant(data.n_features).coordinates
            edges = SummedDesign(None, None, None, constant, shared=True)
        return cls(data, nodes, edges, look)._with_energies()

    def _with_energies(self) -> ChunkedFieldData:
        energy, weight = self.look.energy, self.look.weight
        of_edges = np.append(energy[:-1], self.edges.level**2 * weight)
        if self.edges.chunked is None:
            of_edges = np.array([weight])
        nodes = replace(self.nodes, energies=energy)
        return replace(self, nodes=nodes, edges=replace(self.edges, energies=of_edges))

    def rows(self, selected: Any) -> ChunkedFieldData:
        """Return some of the rows: one pass."""
        look = self.data.total(_look, selected, self.nodes.chunked)
        return replace(self, look=look, selected=selected)._with_energies()

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.look.weight

    def total(self, function: Callable[..., Any], *arguments: Any, combine: Any = added) -> Any:
        """Sum ``function(FieldData, *arguments)`` over the chunks of these rows: one pass."""
        designs = (self.nodes, self.edges)
        return self.data.total(
            _at_part, self.selected, designs, function, arguments, combine=combine
        )

    def objective(self, make: Callable[..., Any], layout: FieldLayout) -> ChunkedLikelihood:
        return ChunkedLikelihood(self, layout, make)

    def scored(self, score: Score, layout: FieldLayout, theta: Parameters) -> ChunkedScores:
        return ChunkedScores(self, score, layout, self.of_rows(theta))

    def varied(self) -> Flags:
        return np.array([(own > 0).sum() > 1 for own in self.look.values])

    def dependence(self, node: Array, layout: FieldLayout) -> Array:
        sums = self.total(pair_sums, self.nodes.of_rows(node), layout)
        return score_statistics(sums, layout.cardinalities)

    def few(self, n_rows: int) -> FieldData:
        """See `FieldData.few`: the same rows, brought here."""
        step = max(1, -(-self.look.n_heavy // n_rows))
        counts = self.data.total(_n_heavy, self.selected, combine=operator.add)
        first, n_heavy = np.array(counts).T
        before = np.cumsum(n_heavy) - n_heavy
        found = self.data.total(_every, self.selected, step, first, before, combine=joined_rows)
        return _field_data(found, (self.nodes, self.edges), turned=True)

    def of_rows(self, theta: Parameters) -> Parameters:
        """Parameters of coordinates as those of centred rows."""
        return Parameters(self.nodes.of_rows(theta.node), self.edges.of_rows(theta.edge))


def _field_data(
    part: TrainingData, designs: tuple[SummedDesign, SummedDesign], *, turned: bool = False
) -> FieldData:
    """Return a part in memory."""
    nodes, edges = (design.of_part(part, turned=turned) for design in designs)
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
        value, slope = rows.total(_asked, self.make, self.layout, "value_and_gradient", of_rows)
        gradient = Parameters(rows.nodes.gradient(slope.node), rows.edges.gradient(slope.edge))
        return value, gradient

    def value(self, theta: Parameters) -> float:
        """Return the objective alone."""
        of_rows = self.data.of_rows(theta)
        return float(self.data.total(_asked, self.make, self.layout, "value", of_rows))


@dataclass(frozen=True)
class ChunkedScores:
    """Scores of rows in chunks, computed where they are; see `RowScores`."""

    data: Any
    score: Score
    layout: FieldLayout
    theta: Parameters  # of centred rows

    def total(self) -> float:
        """Sum of the scores, by weight: one pass."""
        return float(self.data.total(_score_sum, self._spec))

    def below(self, best: ChunkedScores) -> tuple[float, float]:
        """See `RowScores.below`: one pass."""
        lost, squared = self.data.total(_loss_sums, self._spec, best._spec)
        return float(lost), float(squared)

    @property
    def _spec(self) -> tuple[Score, FieldLayout, Parameters]:
        return self.score, self.layout, self.theta


def _look(part: TrainingData, marks: Flags | None, design: Axes | Columns) -> _Look:
    part = part if marks is None else part.take(marks)
    labels = LabelSummary.of(part)
    weight = float(part.row_weights.sum())
    n_heavy = int((part.row_weights > 0).sum())
    return _Look(Design.at(design, part.X, part.weight).energy(), n_heavy, weight, labels.weights)


def _at_part(
    part: TrainingData,
    marks: Flags | None,
    designs: tuple[SummedDesign, SummedDesign],
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


def _score_sum(data: FieldData, spec: tuple[Score, FieldLayout, Parameters]) -> float:
    score, layout, theta = spec
    return data.scored(score, layout, theta).total()


def _loss_sums(
    data: FieldData,
    spec: tuple[Score, FieldLayout, Parameters],
    best: tuple[Score, FieldLayout, Parameters],
) -> tuple[float, float]:
    return data.scored(*spec).below(data.scored(*best))
