"""Fields on rows in chunks: what is asked of their rows, each a sum over chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.learn.chunks import ChunkedData, RowPart
from colabel.learn.chunks.chunked_design import ChunkedDesign
from colabel.learn.chunks.row_parts import joined_rows
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters, pair_sums
from colabel.learn.design import Design, half_way
from colabel.learn.structure.screening import score_statistics


@dataclass(frozen=True)
class SummedDesign(Design):
    """A design whose rows are in chunks: of them only the energies (q,) are here.

    Attributes
    ----------
    chunked : ChunkedDesign or None
        None for one constant that all rows share.
    energies : (q,)
    """

    chunked: ChunkedDesign | None = None
    energies: Any = None

    @property
    def n_coordinates(self) -> int:
        return len(self.energies)

    def energy(self) -> Array:
        return np.array(self.energies)

    def scale(self) -> Array:
        energy = self.energy()
        sparse = self.chunked is not None and self.chunked.axes is None
        return half_way(energy, energy.mean()) if sparse else energy

    def of_part(self, part: RowPart, *, turned: bool) -> Design:
        """Rows of a part, turned to the coordinates or (cheaper) only centred."""
        if self.chunked is None:
            return Design.constant(part.n_features, part.row_weights)
        design = self.chunked.turned(part) if turned else self.chunked.rows(part)
        if self.level == 1.0:
            return design
        if is_sparse(design.rows):
            constant = sp.csr_array(np.full((part.n_rows, 1), self.level))
            rows = sp.csr_array(sp.hstack([design.rows[:, :-1], constant], format="csr"))
            return replace(design, rows=rows, columns=sp.csr_array(rows.T), level=self.level)
        design.rows[:, -1] = self.level
        return replace(design, level=self.level)

    def of_rows(self, theta: Array) -> Array:
        """Parameters (q, c) of coordinates as those of centred rows."""
        return theta if self.chunked is None else self.chunked.of_rows(theta.T).T

    def gradient(self, slope: Array) -> Array:
        """Gradients by parameters of centred rows as gradients by coordinates."""
        return slope if self.chunked is None else self.chunked.gradient(slope.T).T


@dataclass(frozen=True)
class ChunkedFieldData:
    """Rows in chunks to learn a field from; see `FieldData`."""

    data: ChunkedData
    nodes: SummedDesign
    edges: SummedDesign

    @classmethod
    def of(cls, data: ChunkedData, design: Any, edge_columns: Indices) -> ChunkedFieldData:
        """Find the energies of the coordinates in one pass."""
        if len(edge_columns) not in (0, data.n_features):
            raise TypeError(
                "edge_features as a list of columns does not learn from Dask arrays: give"
                ' "all" or "none".'
            )
        energy, total = data.total(_energy, design), data.total_weight
        known = (None, None, None, design.coordinates)
        nodes = SummedDesign(*known, chunked=design, energies=energy)
        if not len(edge_columns):
            constant = Design.constant(data.n_features)
            shared = SummedDesign(
                None, None, None, constant.coordinates, shared=True, energies=np.array([total])
            )
            return cls(data, nodes, shared)
        level = float(np.sqrt(energy[:-1].sum() / total)) or 1.0
        energies = np.append(energy[:-1], level**2 * total)
        return cls(data, nodes, replace(nodes, level=level, energies=energies))

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.data.total_weight

    def objective(self, make: Callable[..., Any], layout: FieldLayout) -> ChunkedLikelihood:
        """See `FieldData.objective`."""
        return ChunkedLikelihood(self, layout, make)

    def varied(self) -> Flags:
        """See `FieldData.varied`."""
        return np.array([(own > 0).sum() > 1 for own in self.data.value_counts])

    def dependence(self, node: Array, layout: FieldLayout) -> Array:
        """See `FieldData.dependence`."""
        sums = self.data.total(_pair_sums, self._designs, self.nodes.of_rows(node), layout)
        return score_statistics(sums, layout.cardinalities)

    def sample(self, n_rows: int) -> FieldData:
        """See `FieldData.sample`: the same rows, brought here."""
        step = max(1, self.data.n_rows // n_rows)
        part = self.data.total(_every, step, combine=joined_rows)
        return self._designs.at(part, turned=True)

    @property
    def _designs(self) -> _Designs:
        return _Designs(self.nodes, self.edges)


@dataclass(frozen=True)
class _Designs:
    """Of a field's rows what travels to them."""

    nodes: SummedDesign
    edges: SummedDesign

    def at(self, part: RowPart, *, turned: bool = False) -> FieldData:
        """Return a part in memory."""
        nodes = self.nodes.of_part(part, turned=turned)
        edges = self.edges.of_part(part, turned=turned)
        codes = np.ascontiguousarray(part.codes, dtype=np.int32)
        return FieldData(nodes, edges, codes, part.row_weights)


@dataclass(frozen=True)
class ChunkedLikelihood:
    """A negative log-likelihood of rows in chunks: that of each part, added up.

    Attributes
    ----------
    data : ChunkedFieldData
    layout : FieldLayout
    make : callable (FieldData, FieldLayout) -> Objective
    """

    data: Any
    layout: FieldLayout
    make: Callable[..., Any]

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient: one pass."""
        value, slope = self._total(_value_and_gradient, theta)
        gradient = self.data.nodes.gradient(slope.node), self.data.edges.gradient(slope.edge)
        return value, Parameters(*gradient)

    def value(self, theta: Parameters) -> float:
        """Return the objective alone."""
        return float(self._total(_value, theta))

    def _total(self, function: Callable[..., Any], theta: Parameters) -> Any:
        rows = self.data
        of_rows = Parameters(rows.nodes.of_rows(theta.node), rows.edges.of_rows(theta.edge))
        return rows.data.total(function, rows._designs, self.make, self.layout, of_rows)


def _energy(part: RowPart, design: ChunkedDesign) -> Array:
    return design.turned(part).energy()


def _pair_sums(
    part: RowPart, designs: _Designs, node: Array, layout: FieldLayout
) -> tuple[Array, Array]:
    return pair_sums(designs.at(part), node, layout)


def _every(part: RowPart, step: int) -> RowPart:
    return part.take(slice(-part.first % step, None, step))


def _value_and_gradient(
    part: RowPart, designs: _Designs, make: Any, layout: FieldLayout, theta: Parameters
) -> Any:
    return make(designs.at(part), layout).value_and_gradient(theta)


def _value(
    part: RowPart, designs: _Designs, make: Any, layout: FieldLayout, theta: Parameters
) -> float:
    return float(make(designs.at(part), layout).value(theta))
