"""Sparse rows on a device, where they would not fit it as a dense matrix."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from colabel.core.arrays import Array
from colabel.learn.design import Design
from colabel.learn.glm.device.objective import AnyRows, Tensor, coordinate_scale


@dataclass(frozen=True)
class SparseRows(AnyRows):
    """Rows of one block as compressed rows, and as those of the transpose.

    A product reads what is stored, and not at the matrix units' rate: it pays where a dense matrix
    would not fit.

    Attributes
    ----------
    rows : CSR tensor (n, q)
    columns : CSR tensor (q, n)
    """

    rows: Tensor
    columns: Tensor
    weight: Tensor
    scale: Tensor

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.rows.shape[0])

    @property
    def width(self) -> int:
        """Number of coordinates q."""
        return int(self.rows.shape[1])

    def scores(self, coef: Tensor) -> Tensor:
        """(1, c, q) -> (1, c, n)."""
        return (self.rows @ coef[0].T).T.contiguous()[None]

    def pulled(self, residual: Tensor) -> Tensor:
        """(1, c, n) -> (1, c, q), the transposed product."""
        return (self.columns @ residual[0].T).T.contiguous()[None]

    def double(self) -> SparseRows:
        """Return the same in double precision."""
        parts = (self.rows, self.columns, self.weight, self.scale)
        return SparseRows(*(part.double() for part in parts))

    def take(self, blocks: Tensor) -> SparseRows:
        """Return the only block, or nothing is left to do."""
        return self


@dataclass(frozen=True)
class SparseMatrix:
    """A design's sparse rows on a device; see `Matrix`.

    Attributes
    ----------
    starts : (n + 1,)
        Where the entries of each row begin.
    columns, values : (stored,)
        In single precision.
    width : int
        Number of coordinates q, the constant's included.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int
    gathers = False  # rows of a part would have to be spread out

    @classmethod
    def of(cls, design: Design, device: str) -> SparseMatrix:
        """Send the rows of a design, which are CSR."""
        import torch

        def sent(array: Array, dtype: Any) -> Tensor:
            return torch.as_tensor(array).to(device, dtype)

        rows = design.rows
        return cls(
            sent(rows.indptr, torch.int64),
            sent(rows.indices, torch.int64),
            sent(rows.data, torch.float32),
            rows.shape[1],
        )

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.values.device

    @property
    def constant(self) -> int:
        """Column of the constant."""
        return self.width - 1

    def one_block(self, rows: Tensor | None, weight: Tensor) -> SparseRows:
        """Some rows (all by default), with weights (m,), as the only block."""
        of_row, columns, values = self._entries(rows)
        n_rows = len(weight)
        weight = weight.float()
        energy = weight.new_zeros(self.width).index_add_(
            0, columns, weight[of_row] * values * values
        )
        order = columns.argsort(stable=True)
        return SparseRows(
            _csr(of_row, columns, values, (n_rows, self.width)),
            _csr(columns[order], of_row[order], values[order], (self.width, n_rows)),
            weight[None, None],
            coordinate_scale(energy[None], self.constant, halfway=True),
        )

    def scores_of(self, rows: Tensor, coef: Tensor) -> Tensor:
        """Scores (1, c, m) of some rows, for coefficients (1, c, q)."""
        of_row, columns, values = self._entries(rows)
        return (_csr(of_row, columns, values, (len(rows), self.width)) @ coef[0].T).T[None]

    def _entries(self, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Row (counted anew), column and value of the entries of some rows, row by row."""
        import torch

        lengths = self.starts.diff()
        if rows is None:
            return _repeated(lengths), self.columns, self.values
        lengths = lengths[rows]
        of_row = _repeated(lengths)
        first = lengths.cumsum(0) - lengths
        place = self.starts[rows][of_row] + torch.arange(len(of_row), device=self.device)
        place -= first[of_row]
        return of_row, self.columns[place], self.values[place]


def _repeated(lengths: Tensor) -> Tensor:
    import torch

    return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)


def _csr(of_row: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of entries that come row by row."""
    import torch

    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=values.device)
    starts[1:] = torch.bincount(of_row, minlength=shape[0]).cumsum(0)
    with warnings.catch_warnings():  # torch calls the layout a beta once in a process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, size=shape)
