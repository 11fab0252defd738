"""Losses of many tasks over rows on a device; see `colabel.learn.glm.objective`.

Tasks lie in P blocks of c each: the tasks of a block share rows, and all blocks are one batched
product. P is 1 where all tasks share rows and each has a mask.

`SparseRows` are kept sparse where they would not fit the device as a dense matrix.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from colabel.core.arrays import Array
from colabel.learn.design import Design
from colabel.learn.glm.device import kernels
from colabel.learn.glm.objective import Line

Tensor = Any  # torch.Tensor: torch is imported only where a device is asked for

# As in `colabel.learn.glm.objective`.
_CURVATURE_PER_RESIDUAL = 0.1
_LARGEST_CHANGE = 20.0
_STEEPEST = 10.0
# The matrix units want rows of a multiple of so many numbers.
ALIGNMENT = 32


def aligned(size: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class AnyRows(ABC):
    """What an objective asks of rows on a device, dense or sparse.

    Attributes
    ----------
    weight : (P, 1, n)
        Weights; zero for padding.
    scale : (P, q)
        Curvature of every coordinate if each row had curvature one, roughly.
    """

    weight: Tensor
    scale: Tensor

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows n of a block."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of coordinates q."""

    @abstractmethod
    def scores(self, coef: Tensor) -> Tensor:
        """(P, c, q) -> (P, c, n)."""

    @abstractmethod
    def pulled(self, residual: Tensor) -> Tensor:
        """(P, c, n) -> (P, c, q), the transposed product."""

    @abstractmethod
    def double(self) -> AnyRows:
        """Return the same in double precision."""

    @abstractmethod
    def take(self, blocks: Tensor) -> AnyRows:
        """Return some of the blocks."""

    def all_scores(self, coef: Tensor, fixed: Tensor | None) -> Tensor:
        """Scores (P, c, K, n) of coefficients (P, c, K, q) and a fixed part."""
        scores = self.scores(coef.flatten(1, 2)).reshape(*coef.shape[:3], -1)
        return scores if fixed is None else scores + fixed.to(scores.dtype)


def coordinate_scale(energy: Tensor, constant: int, halfway: bool) -> Tensor:
    """Scales (P, q) of coordinates with weighted sums of squares `energy`.

    With `halfway`, they are those of sparse columns, see `Design.scale`.
    """
    import torch

    if halfway and constant > 0:
        own = energy[:, :constant]
        mean = energy[:, : constant + 1].mean(dim=1, keepdim=True)
        energy[:, :constant] = torch.minimum((own * mean).sqrt(), _STEEPEST * own)
    return energy


@dataclass(frozen=True)
class DeviceRows(AnyRows):
    """Rows of P blocks, padded by zeros to a multiple of the alignment.

    Attributes
    ----------
    rows : (P, n, q)
    columns : (P, q, n)
        The same, transposed; contiguous where that is worth its memory.
    weight, scale
        See `AnyRows`.
    """

    rows: Tensor
    columns: Tensor
    weight: Tensor
    scale: Tensor

    @classmethod
    def of(cls, rows: Tensor, weight: Tensor, constant: int, halfway: bool) -> DeviceRows:
        """Rows (P, n, q) with weights (P, n); column `constant` is the constant."""
        import torch

        energy = torch.einsum("pnq,pn,pnq->pq", rows, weight, rows)
        scale = coordinate_scale(energy, constant, halfway)
        shared = rows.shape[0] == 1
        columns = rows.transpose(1, 2).contiguous() if shared else rows.transpose(1, 2)
        return cls(rows, columns, weight[:, None, :], scale)

    @property
    def n_rows(self) -> int:
        """Number of rows n of a block, the padding included."""
        return int(self.rows.shape[1])

    @property
    def width(self) -> int:
        """Number of coordinates q, the padding included."""
        return int(self.rows.shape[2])

    def scores(self, coef: Tensor) -> Tensor:
        """(P, c, q) -> (P, c, n)."""
        if len(coef) == 1:
            return (coef[0] @ self.rows[0].T)[None]
        return coef @ self.rows.transpose(1, 2)

    def pulled(self, residual: Tensor) -> Tensor:
        """(P, c, n) -> (P, c, q), the transposed product."""
        if len(residual) == 1:
            return (residual[0] @ self.columns[0].T)[None]
        return residual @ self.columns.transpose(1, 2)

    def double(self) -> DeviceRows:
        """Return the same in double precision."""
        parts = (self.rows, self.columns, self.weight, self.scale)
        return DeviceRows(*(part.double() for part in parts))

    def take(self, blocks: Tensor) -> DeviceRows:
        """Return some of the blocks."""
        parts = (self.rows, self.columns, self.weight, self.scale)
        return DeviceRows(*(part[blocks] for part in parts))


class TorchObjective:
    """An objective over rows on a device: the methods of `Objective` on tensors.

    Parameters
    ----------
    rows : AnyRows
    targets : (P, c, n)
        Classes, negative where a row does not belong to the task.
    scores : (P, c, K, n)
        Scores to begin with, the fixed part of them included; they may be overwritten.
    fixed : (P, c, K, n) or None
        Fixed part of the scores.
    """

    def __init__(
        self, rows: AnyRows, targets: Tensor, scores: Tensor, fixed: Tensor | None = None
    ) -> None:
        self._rows = rows
        self._targets = targets
        self._fixed = fixed
        self._begin(scores)

    def _begin(self, scores: Tensor) -> None:
        rows = self._rows
        self._scores = scores
        self._change = scores  # not moved along
        self._total_weight = rows.weight.sum(dim=2).clamp_min(1e-30)  # (P, 1)
        self._length = scores.new_zeros(scores.shape[:2])
        if scores.shape[2] > 1:
            self._move_losses, self._look = _softmax_move, _softmax_along
        elif kernels.usable(scores):
            self._move_losses, self._look = kernels.logistic_move, kernels.logistic_along
        else:
            self._move_losses, self._look = logistic_move, logistic_along
        self._evaluate(self._length)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of blocks P, tasks c, scores K and coordinates q."""
        return (*self._scores.shape[:3], self._rows.width)

    def _evaluate(self, steps: Tensor) -> None:
        self._scores, self._residual, *self._sums = self._move_losses(
            self._scores, self._change, steps, self._targets, self._rows.weight
        )

    def value(self) -> Tensor:
        """Losses (P, c) at the present point, in double precision."""
        return self._sums[0]

    def gradient(self) -> Tensor:
        """Gradients (P, c, K, q) at the present point."""
        return self._rows.pulled(self._residual.flatten(1, 2)).reshape(self.shape)

    def diagonal(self) -> Tensor:
        """About the diagonal of the Hessians, (P, c, K, q)."""
        _, curvature, absolute = self._sums
        floor = absolute * (_CURVATURE_PER_RESIDUAL / self._scores.shape[3])
        mean = (curvature / self._total_weight[:, :, None]).maximum(floor)
        return mean[..., None] * self._rows.scale[:, None, None, :]

    def along(self, direction: Tensor) -> Line:
        """Look along a direction (P, c, K, q) from the present point."""
        self._change = self._rows.scores(direction.flatten(1, 2)).reshape(self._scores.shape)
        self._length = self._scores.new_zeros(self._scores.shape[:2])
        curvature, sup_norm = self._look(
            self._residual, self._change, self._targets, self._rows.weight
        )
        return Line(curvature, _LARGEST_CHANGE / sup_norm.clamp_min(1e-30))

    def move(self, length: Tensor) -> Tensor:
        """Go to the point where `along` looked from plus lengths (P, c) times the direction."""
        self._evaluate(length - self._length)
        self._length = length
        return self._sums[0]

    def sharpen(self, coef: Tensor) -> None:
        """Begin again at coefficients (P, c, K, q), in their precision."""
        if coef.dtype != self._scores.dtype:
            self._rows = self._rows.double()
        self._change = self._residual = None
        self._begin(self._rows.all_scores(coef, self._fixed))

    def keep(self, left: Tensor, axis: int) -> None:
        """Drop all blocks (axis 0) or tasks (axis 1) but those at the positions `left`."""
        self._change = self._length = None
        self._targets = self._targets.index_select(axis, left)
        self._scores = self._scores.index_select(axis, left)
        self._residual = self._residual.index_select(axis, left)
        if self._fixed is not None:
            self._fixed = self._fixed.index_select(axis, left)
        self._sums = [part.index_select(axis, left) for part in self._sums]
        if axis == 0:
            self._rows = self._rows.take(left)
            self._total_weight = self._total_weight[left]


def logistic_move(
    scores: Tensor, change: Tensor, steps: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, ...]:
    """See `logistic_move` of the compiled kernels; scores are (P, c, 1, n)."""
    import torch

    moved = scores[:, :, 0] + steps[..., None] * change[:, :, 0]
    decay = (-moved.abs()).exp()
    w = weight * (targets >= 0)
    y = targets.clamp_min(0).to(moved.dtype)
    odds = 1.0 / (1.0 + decay)
    residual = w * ((moved > 0).to(moved.dtype) * (odds - decay * odds) + decay * odds - y)
    losses = w * (moved.clamp_min(0.0) - y * moved + decay.log1p())
    value = losses.sum(dim=2, dtype=torch.float64)
    curvature = (w * decay * odds * odds).sum(dim=2)
    absolute = residual.abs().sum(dim=2)
    return (
        moved[:, :, None],
        residual[:, :, None],
        value,
        curvature[..., None],
        absolute[..., None],
    )


def logistic_along(
    residual: Tensor, change: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """See `logistic_along` of the compiled kernels."""
    wrong, c = residual[:, :, 0].abs(), change[:, :, 0] * (targets >= 0)
    curved = wrong * (1.0 - wrong / weight.clamp_min(1e-30)) * c * c
    return curved.sum(dim=2), c.abs().amax(dim=2)


def _softmax_move(
    scores: Tensor, change: Tensor, steps: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, ...]:
    """See `softmax_move` of the compiled kernels; scores are (P, c, K, n)."""
    moved = scores + steps[..., None, None] * change
    log_prob = moved.log_softmax(dim=2)
    prob = log_prob.exp()
    w = weight * (targets >= 0)
    own = targets.clamp_min(0).long()[:, :, None]
    value = -(w * log_prob.gather(2, own)[:, :, 0]).double().sum(dim=2)
    w = w[:, :, None]
    curvature = (w * prob * (1.0 - prob)).sum(dim=3)
    residual = w * prob.scatter_add(2, own, -prob.new_ones(()).expand(own.shape))
    return moved, residual, value, curvature, residual.abs().sum(dim=3)


def _softmax_along(
    residual: Tensor, change: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """See `softmax_along` of the compiled kernels."""
    w = (weight * (targets >= 0))[:, :, None]
    c = change * (targets >= 0)[:, :, None]
    own = targets.clamp_min(0).long()[:, :, None]
    mass = residual.scatter_add(2, own, w)  # w p, rebuilt from the residual w (p - [y])
    mean = (mass * c).sum(dim=2, keepdim=True) / w.clamp_min(1e-30)
    curved = (mass * (c - mean) ** 2).sum(dim=(2, 3))
    return curved, c.abs().amax(dim=(2, 3))


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
