"""Regressions of rows in memory, solved on a device."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Targets, is_sparse
from colabel.learn.design import Design
from colabel.learn.glm.device.devices import coarse_products, dense_fits
from colabel.learn.glm.device.lbfgs import DeviceRidge, TorchLBFGS
from colabel.learn.glm.device.objective import DeviceRows, Tensor, TorchObjective, aligned
from colabel.learn.glm.device.sparse_rows import SparseMatrix
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge, Solution
from colabel.learn.glm.losses import Loss
from colabel.learn.glm.objective import Objective

# Below this many multiplications a pass, the device's launches cost more than the work.
LEAST_WORK = 1 << 28
_IN_USE = threading.Lock()  # one batch at a time: it has the whole device, and its precision


@dataclass(frozen=True)
class Matrix:
    """A design's rows as a dense matrix on a device.

    Attributes
    ----------
    rows : (n, q')
        In single precision; q padded by zeros.
    constant : int
        Column of the constant, q - 1.
    halfway : bool
        Whether scales are those of sparse columns.
    """

    rows: Tensor
    constant: int
    halfway: bool
    gathers = True  # rows of a part may be taken out of it

    @classmethod
    def of(cls, design: Design, device: str) -> Matrix:
        """Send the rows of a design; sparse ones are spread out on the device."""
        import torch

        sent = design.rows
        n_rows, q = sent.shape
        whole = torch.zeros((n_rows, aligned(q)), dtype=torch.float32, device=device)
        if is_sparse(sent):
            of_row = np.repeat(np.arange(n_rows), np.diff(sent.indptr))
            index = (
                torch.as_tensor(of_row).to(device),
                torch.as_tensor(sent.indices).long().to(device),
            )
            values = torch.as_tensor(sent.data.astype(np.float32)).to(device)
            whole.index_put_(index, values, accumulate=True)
        else:
            whole[:, :q] = torch.as_tensor(np.asarray(sent, dtype=np.float32)).to(device)
        return cls(whole, q - 1, is_sparse(sent))

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.rows.device

    @property
    def width(self) -> int:
        """Number of coordinates, the padding included."""
        return int(self.rows.shape[1])

    def one_block(self, rows: Tensor | None, weight: Tensor) -> DeviceRows:
        """Some rows (all by default), with weights (m,), as the only block."""
        import torch

        taken = self.rows if rows is None else self.rows[rows]
        size = aligned(len(taken))
        padded = torch.nn.functional.pad(taken, (0, 0, 0, size - len(taken)))
        weight = torch.nn.functional.pad(weight.float(), (0, size - len(weight)))
        return DeviceRows.of(padded[None], weight[None], self.constant, self.halfway)

    def scores_of(self, rows: Tensor, coef: Tensor) -> Tensor:
        """Scores (1, c, m) of some rows, for coefficients (1, c, q)."""
        return coef @ self.rows[rows].T


AnyMatrix = Matrix | SparseMatrix


def matrix_of(design: Design, device: str) -> AnyMatrix:
    """Send the rows of a design: as a dense matrix, or sparse ones as they are if it won't fit."""
    if is_sparse(design.rows) and not dense_fits(device, design.n_rows, design.n_coordinates):
        return SparseMatrix.of(design, device)
    return Matrix.of(design, device)


@dataclass(frozen=True)
class _Problem:
    """Tasks that wait for the device."""

    design: Design
    targets: Targets
    scores: Array
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class DeviceLBFGS(LBFGS):
    """Solves large blocks of tasks on a device, small ones by the compiled kernels.

    Parameters
    ----------
    device : str
        A torch device.
    known : (rows, AnyMatrix) or None
        Rows of a design that are on the device already.
    """

    device: str = "cpu"
    known: tuple[Any, AnyMatrix] | None = None

    def objective(self, design: Any, loss: Loss, targets: Targets, scores: Array) -> Any:
        n_tasks, n_scores, _ = scores.shape
        work = scores.size * design.n_coordinates
        if not isinstance(design, Design) or design.shared or work < LEAST_WORK:
            return super().objective(design, loss, targets, scores)
        shape = (n_tasks, n_scores, design.n_coordinates)
        return _Problem(design, targets, scores, shape)

    def solve(
        self,
        objective: Objective | _Problem,
        ridge: Ridge,
        start: Array,
        pairs: CurvaturePairs | None = None,
    ) -> Solution:
        """See `LBFGS.solve`; curvature is not handed on between device and processor."""
        if not isinstance(objective, _Problem):
            return super().solve(objective, ridge, start, pairs)
        with _IN_USE:
            return self._on_device(objective, ridge, start)

    def _on_device(self, problem: _Problem, ridge: Ridge, start: Array) -> Solution:
        import torch

        def sent(array: Any, dtype: Any) -> Tensor:
            return torch.tensor(array).to(self.device, dtype)

        def padded(array: Array, width: int) -> Tensor:
            whole = sent(array, torch.float64)
            return torch.nn.functional.pad(whole, (0, width - array.shape[-1]))[None]

        design = problem.design
        known = self.known is not None and self.known[0] is design.rows
        matrix = self.known[1] if known and self.known else matrix_of(design, self.device)
        weight = np.ones(design.n_rows) if design.weight is None else design.weight
        rows = matrix.one_block(None, sent(weight, torch.float32))
        n_rows, width = rows.n_rows, rows.width
        coef = padded(start, width)
        strength = padded(
            np.broadcast_to(ridge.strength, (len(start), *ridge.strength.shape[1:])), width
        )
        free = None if ridge.free is None else padded(ridge.free, width).float()
        fixed = padded(problem.scores, n_rows)
        fixed -= rows.double().scores(coef.flatten(1, 2)).reshape(fixed.shape)
        targets = sent(problem.targets, torch.int16)
        targets = torch.nn.functional.pad(targets, (0, n_rows - targets.shape[1]), value=-1)[None]
        with coarse_products(False):
            scores = rows.all_scores(coef.float(), fixed)
        found = TorchLBFGS(self.tol, self.max_iter).solve(
            TorchObjective(rows, targets, scores, fixed),
            DeviceRidge(strength.float(), free),
            coef.float(),
            torch.zeros(targets.shape[:2], dtype=torch.bool, device=self.device),
        )
        decrement = found.decrement[0].double().cpu().numpy()
        return Solution(
            found.coef[0, :, :, : start.shape[2]].double().cpu().numpy(),
            decrement,
            found.n_iter[0].cpu().numpy().astype(np.intp),
            decrement <= self.tol,
            None,
        )
