"""Regressions of rows in memory, solved on a device.

`TorchLBFGS` solves many regressions at once on a device; see `colabel.learn.glm.lbfgs`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Targets, is_sparse
from colabel.learn.design import Design
from colabel.learn.glm.device import kernels
from colabel.learn.glm.device.devices import coarse_products, dense_fits, let_products_round
from colabel.learn.glm.device.objective import (
    DeviceRows,
    SparseMatrix,
    Tensor,
    TorchObjective,
    aligned,
)
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge, Solution
from colabel.learn.glm.losses import Loss
from colabel.learn.glm.objective import Objective

_SUFFICIENT_DECREASE = 1e-4
_MOST_HALVINGS = 30
_SHARE_TO_LEAVE = 0.15
# Relative rounding error of a sum of losses, by the size of a number in bytes.
_VALUE_NOISE = {4: 1e-7, 8: 1e-13}
# Newton decrements down to which TF32 (factors of 10 bits), single and double precision serve.
# Rounding n residuals to TF32 moves a gradient by about 3e-4 of its standard error in each
# coordinate: by .013 with 1800 of them.
_BOUNDS = (0.05, 1e-3, 0.0)
# Share of tasks that must be near before products become more exact.
_SHARE_NEAR = 0.9


@dataclass(frozen=True)
class DeviceRidge:
    """An L2 penalty, see `Ridge`; both are (1 or P, 1 or c, 1 or K, q)."""

    strength: Tensor
    free: Tensor | None = None

    def value(self, coef: Tensor) -> Tensor:
        """Penalties (P, c) of coefficients (P, c, K, q), in double precision."""
        return 0.5 * _dot(self.strength * coef, coef, double=True)

    def along(self, coef: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivatives (P, c) of the penalties along a direction."""
        penalised = self.strength * direction
        return _dot(penalised, coef, double=True), _dot(penalised, direction, double=True)

    def add_gradient(self, coef: Tensor, gradient: Tensor) -> Tensor:
        """Add the penalty's gradient to that of the losses."""
        gradient = gradient.addcmul_(self.strength.expand_as(coef), coef)
        return gradient if self.free is None else gradient * self.free

    def take(self, left: Tensor, axis: int) -> DeviceRidge:
        """Return the penalty of some blocks or tasks."""
        free = None if self.free is None else _taken(self.free, left, axis)
        return DeviceRidge(_taken(self.strength, left, axis), free)

    def double(self) -> DeviceRidge:
        """Return the same in double precision."""
        free = None if self.free is None else self.free.double()
        return DeviceRidge(self.strength.double(), free)


class Found(NamedTuple):
    """Where the solver ended: coefficients (P, c, K, q), and (P, c) each."""

    coef: Tensor
    decrement: Tensor
    n_iter: Tensor


@dataclass
class _Pairs:
    """The last steps and gradient changes of every task, in a ring; see `CurvaturePairs`."""

    steps: Tensor  # (m, P, c, K, q)
    changes: Tensor  # (m, P, c, K, q)
    inverse: Tensor  # (m, P, c)
    newest: int = -1
    n_filled: int = 0

    @classmethod
    def empty(cls, size: int, like: Tensor) -> _Pairs:
        """Room for `size` pairs of tasks with coefficients (P, c, K, q)."""
        steps = like.new_empty((size, *like.shape))
        return cls(steps, steps.new_empty(steps.shape), like.new_zeros((size, *like.shape[:2])))

    def begin(self, length: Tensor, direction: Tensor) -> Tensor:
        """Overwrite the oldest pair's step by lengths (P, c) times a direction; return it."""
        import torch

        self.newest = (self.newest + 1) % len(self.steps)
        self.n_filled = min(self.n_filled + 1, len(self.steps))
        return torch.mul(length[..., None, None], direction, out=self.steps[self.newest])

    def end(self, gradient: Tensor, previous: Tensor) -> None:
        """Complete the newest pair by the gradients after its step and before."""
        import torch

        change = torch.sub(gradient, previous, out=self.changes[self.newest])
        product = _dot(self.steps[self.newest], change)
        usable = product > 1e-30
        self.inverse[self.newest] = usable / product.where(usable, 1.0)

    def keep(self, left: Tensor, axis: int) -> None:
        """Drop all but some blocks or tasks."""
        self.steps = self.steps.index_select(axis + 1, left)
        self.changes = self.changes.index_select(axis + 1, left)
        self.inverse = self.inverse.index_select(axis + 1, left)

    def double(self) -> None:
        """Go on in double precision."""
        self.steps, self.changes = self.steps.double(), self.changes.double()
        self.inverse = self.inverse.double()

    def direction(self, gradient: Tensor, diagonal: Tensor) -> Tensor:
        """The two-loop recursion from a diagonal initial Hessian."""
        parts = (self.steps, self.changes, self.inverse, self.newest, self.n_filled)
        wide = gradient.shape[2:].numel()
        fused = kernels.usable(gradient) and kernels.holds(wide)
        return (kernels.direction if fused else direction)(gradient, diagonal, *parts)


def direction(
    gradient: Tensor,
    diagonal: Tensor,
    steps: Tensor,
    changes: Tensor,
    inverse: Tensor,
    newest: int,
    n_filled: int,
) -> Tensor:
    """The two-loop recursion of L-BFGS for every task; see `quasi_newton_direction`."""
    slots = [(newest - age) % len(steps) for age in range(n_filled)]
    found = -gradient
    shares = {}
    for slot in slots:
        shares[slot] = inverse[slot] * _dot(steps[slot], found)
        found = found - shares[slot][..., None, None] * changes[slot]
    found = found / diagonal
    for slot in reversed(slots):
        rest = shares[slot] - inverse[slot] * _dot(changes[slot], found)
        found = found + rest[..., None, None] * steps[slot]
    return found


def _dot(left: Tensor, right: Tensor, double: bool = False) -> Tensor:
    """Inner product of every task: (P, c, K, q), (P, c, K, q) -> (P, c)."""
    import torch

    return (left * right).sum(dim=(2, 3), dtype=torch.float64 if double else None)


def _taken(part: Tensor, left: Tensor, axis: int) -> Tensor:
    return part if part.shape[axis] == 1 else part.index_select(axis, left)


@dataclass(frozen=True)
class TorchLBFGS:
    """Limited-memory BFGS over all tasks of a `TorchObjective` in lockstep; see `LBFGS`.

    Products round their factors to TF32 until most tasks are near their optimum, and no longer
    where the tolerance asks for more; then single precision serves, and at last double.
    """

    tol: float
    max_iter: int
    n_pairs: int = 10

    def solve(
        self, objective: TorchObjective, ridge: DeviceRidge, start: Tensor, done: Tensor
    ) -> Found:
        """Fit every task from `start` (P, c, K, q); those that are `done` (P, c) stay there."""
        import torch

        with coarse_products(True):
            run = _Run.of(objective, ridge, start, done, self.n_pairs)
            never = torch.zeros_like(done, dtype=torch.int32)
            found = Found(start.clone(), torch.zeros_like(run.value), never)
            level = 0
            for iteration in range(self.max_iter + 1):
                direction, slope = run.direction()
                near = run.done | run.stalled | (run.decrement <= max(self.tol, _BOUNDS[level]))
                last = self.tol >= _BOUNDS[level]
                run.n_iter = run.n_iter.where(run.done, iteration)
                if last:
                    run.done = near
                elif float(near.double().mean()) >= _SHARE_NEAR:
                    level += 1
                    run.sharpen(double=level == 2)
                    continue
                gone = run.done.all(dim=1 - run.axis)
                n_gone = int(gone.sum())
                if n_gone == len(gone):
                    break
                if n_gone >= _SHARE_TO_LEAVE * len(gone):
                    found = run.store(found, gone.nonzero()[:, 0])
                    left = (~gone).nonzero()[:, 0]
                    run.keep(left)
                    direction = direction.index_select(run.axis, left)
                    slope = slope.index_select(run.axis, left)
                run.step(direction, slope)
            return run.store(found, torch.arange(len(run.place), device=run.place.device))


@dataclass
class _Run:
    """The tasks still at work."""

    objective: TorchObjective
    ridge: DeviceRidge
    coef: Tensor
    pairs: _Pairs
    axis: int  # along which they leave: whole blocks (0), or tasks of the only one (1)
    place: Tensor  # positions along the axis
    done: Tensor  # (P, c) each from here
    stalled: Tensor
    decrement: Tensor
    n_iter: Tensor
    value: Tensor
    penalty: Tensor
    gradient: Tensor  # (P, c, K, q)

    @classmethod
    def of(
        cls,
        objective: TorchObjective,
        ridge: DeviceRidge,
        start: Tensor,
        done: Tensor,
        n_pairs: int,
    ) -> _Run:
        import torch

        axis = 1 if len(start) == 1 else 0
        place = torch.arange(start.shape[axis], device=start.device)
        value = objective.value()
        penalty = ridge.value(start)
        return cls(
            objective,
            ridge,
            start,
            _Pairs.empty(n_pairs, start),
            axis,
            place,
            done,
            torch.zeros_like(done),
            torch.zeros_like(value),
            torch.zeros_like(done, dtype=torch.int32),
            value + penalty,
            penalty,
            ridge.add_gradient(start, objective.gradient()),
        )

    def direction(self) -> tuple[Tensor, Tensor]:
        """Where to go next, and the slope there; notes the Newton decrement."""
        diagonal = (self.objective.diagonal() + self.ridge.strength).clamp_min(1e-30)
        direction = self.pairs.direction(self.gradient, diagonal)
        slope = _dot(self.gradient, direction, double=True)
        self.decrement = self.decrement.where(self.done, (-slope).clamp_min(0.0).sqrt())
        return direction, slope

    def step(self, direction: Tensor, slope: Tensor) -> None:
        """Go where the objective decreases along a direction."""
        of_penalty = self.ridge.along(self.coef, direction)
        length, self.value, self.penalty = _search_line(
            self.objective, of_penalty, direction, slope, self.value, self.penalty, self.done
        )
        self.stalled = length == 0.0
        self.coef = self.coef + self.pairs.begin(length, direction)
        previous = self.gradient
        self.gradient = self.ridge.add_gradient(self.coef, self.objective.gradient())
        self.pairs.end(self.gradient, previous)

    def sharpen(self, double: bool) -> None:
        """Round factors of products no more, or go on in double precision."""
        let_products_round(False)
        if double:
            self.ridge, self.coef = self.ridge.double(), self.coef.double()
            self.pairs.double()
        self.objective.sharpen(self.coef)
        self.penalty = self.ridge.value(self.coef)
        self.value = self.objective.value() + self.penalty
        self.gradient = self.ridge.add_gradient(self.coef, self.objective.gradient())
        self.stalled = self.stalled & self.done

    def keep(self, left: Tensor) -> None:
        """Drop all blocks or tasks but those at the positions `left`."""
        self.objective.keep(left, self.axis)
        self.pairs.keep(left, self.axis)
        self.ridge, self.place = self.ridge.take(left, self.axis), self.place[left]
        for name in _PER_TASK:
            setattr(self, name, getattr(self, name).index_select(self.axis, left))

    def store(self, found: Found, which: Tensor) -> Found:
        """Write down the results of those at the positions `which`."""
        coef = found.coef.to(self.coef.dtype)
        parts = (self.coef, self.decrement, self.n_iter)
        found = Found(coef, found.decrement, found.n_iter)
        for whole, part in zip(found, parts, strict=True):
            whole.index_copy_(self.axis, self.place[which], part.index_select(self.axis, which))
        return found


_PER_TASK = ("coef", "gradient", "done", "stalled", "decrement", "n_iter", "value", "penalty")


def _search_line(
    objective: TorchObjective,
    of_penalty: tuple[Tensor, Tensor],
    direction: Tensor,
    slope: Tensor,
    value: Tensor,
    penalty: Tensor,
    done: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Lengths, values and penalties (P, c) where the objective has decreased.

    `of_penalty` are its derivatives along the line, on which it is quadratic.
    """
    import torch

    line = objective.along(direction)
    penalty_slope, penalty_curvature = of_penalty
    curvature = (line.curvature + penalty_curvature).clamp_min(1e-30)
    length = torch.minimum(-slope / curvature, line.farthest).masked_fill(done, 0.0)
    noise = _VALUE_NOISE[direction.element_size()]
    for _ in range(_MOST_HALVINGS):
        there = penalty + length * (penalty_slope + 0.5 * length * penalty_curvature)
        new = objective.move(length.to(direction.dtype)) + there
        allowed = value + _SUFFICIENT_DECREASE * length * slope + noise * value.abs()
        enough = done | (new <= allowed)
        if bool(enough.all()):
            return length.to(direction.dtype), value.where(done, new), penalty.where(done, there)
        length = torch.where(enough, length, 0.5 * length)
    moved = enough & ~done
    length = length.where(moved, 0.0).to(direction.dtype)
    objective.move(length)
    return length, new.where(moved, value), there.where(moved, penalty)


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
