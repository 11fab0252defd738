"""L-BFGS for many regressions at once, on a device; see `colabel.learn.glm.lbfgs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from colabel.learn.glm.device.objective import Tensor, TorchObjective, fused

_SUFFICIENT_DECREASE = 1e-4
_MOST_HALVINGS = 30
_SHARE_TO_LEAVE = 0.15
# Relative rounding error of a sum of losses, by the size of a number in bytes.
_VALUE_NOISE = {4: 1e-7, 8: 1e-13}


@dataclass(frozen=True)
class DeviceRidge:
    """An L2 penalty, see `Ridge`; both are (1 or P, 1 or c, 1 or K, q)."""

    strength: Tensor
    free: Tensor | None = None

    def value(self, coef: Tensor) -> Tensor:
        """Penalties (P, c) of coefficients (P, c, K, q), in double precision."""
        return 0.5 * (self.strength * coef * coef).flatten(2).double().sum(dim=2)

    def along(self, coef: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivatives (P, c) of the penalties along a direction."""
        return fused(_penalty_along, coef)(self.strength, coef, direction)

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
    """The last steps, gradient changes and inverses of their products; the youngest last."""

    size: int
    pairs: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def remember(self, step: Tensor, change: Tensor) -> None:
        product = _dot(step, change)
        usable = product > 1e-30
        inverse = usable / product.where(usable, 1.0)
        self.pairs = [*self.pairs, (step, change, inverse)][-self.size :]

    def keep(self, left: Tensor, axis: int) -> None:
        self.pairs = [
            (step.index_select(axis, left), change.index_select(axis, left), inverse[left])
            if axis == 0
            else tuple(part.index_select(1, left) for part in (step, change, inverse))
            for step, change, inverse in self.pairs
        ]

    def direction(self, gradient: Tensor, diagonal: Tensor) -> Tensor:
        """The two-loop recursion from a diagonal initial Hessian."""
        pull, push = (fused(function, gradient) for function in (_pull, _push))
        direction = -gradient
        shares = []
        for step, change, inverse in reversed(self.pairs):
            direction, share = pull(direction, step, change, inverse)
            shares.append(share)
        direction = direction / diagonal
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            direction = push(direction, step, change, inverse, share)
        return direction


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).flatten(2).sum(dim=2)


def _penalty_along(strength: Tensor, coef: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    penalised = strength * direction
    slope = (penalised * coef).double().sum(dim=(2, 3))
    return slope, (penalised * direction).double().sum(dim=(2, 3))


def _pull(p: Tensor, step: Tensor, change: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    share = inverse * (step * p).sum(dim=(2, 3))
    return p - share[..., None, None] * change, share


def _push(p: Tensor, step: Tensor, change: Tensor, inverse: Tensor, share: Tensor) -> Tensor:
    rest = share - inverse * (change * p).sum(dim=(2, 3))
    return p + rest[..., None, None] * step


def _taken(part: Tensor, left: Tensor, axis: int) -> Tensor:
    return part if part.shape[axis] == 1 else part.index_select(axis, left)


@dataclass(frozen=True)
class TorchLBFGS:
    """Limited-memory BFGS over all tasks of a `TorchObjective` in lockstep; see `LBFGS`."""

    tol: float
    max_iter: int
    n_pairs: int = 10

    def solve(
        self, objective: TorchObjective, ridge: DeviceRidge, start: Tensor, done: Tensor
    ) -> Found:
        """Fit every task from `start` (P, c, K, q); those that are `done` (P, c) stay there."""
        import torch

        axis = 1 if len(start) == 1 else 0  # whole blocks leave, or tasks of the only one
        place = torch.arange(start.shape[axis], device=start.device)
        never = torch.zeros_like(done, dtype=torch.int32)
        found = Found(start.clone(), torch.zeros_like(objective.value()), never)
        coef, pairs = start, _Pairs(self.n_pairs)
        stalled = torch.zeros_like(done)
        decrement, n_iter = found.decrement.clone(), found.n_iter.clone()
        value, penalty = objective.value() + ridge.value(coef), ridge.value(coef)
        gradient = ridge.add_gradient(coef, objective.gradient())
        for iteration in range(self.max_iter + 1):
            diagonal = (objective.diagonal() + ridge.strength).clamp_min(1e-30)
            direction = pairs.direction(gradient, diagonal)
            slope = _dot(gradient, direction).double()
            now = (-slope).clamp_min(0.0).sqrt()
            ready = (now <= self.tol) | stalled
            decrement = torch.where(done, decrement, now)
            n_iter = n_iter.where(done, iteration)
            done = done | ready
            gone = done.all(dim=1 - axis)
            n_gone = int(gone.sum())
            if n_gone == len(gone) or iteration == self.max_iter:
                break
            if n_gone >= _SHARE_TO_LEAVE * len(gone):
                out, left = gone.nonzero()[:, 0], (~gone).nonzero()[:, 0]
                _store(found, place, out, axis, coef, decrement, n_iter)
                objective.keep(left, axis)
                pairs.keep(left, axis)
                ridge, place = ridge.take(left, axis), place[left]
                coef, direction, gradient = (
                    part.index_select(axis, left) for part in (coef, direction, gradient)
                )
                done, slope, value, penalty, decrement, n_iter = (
                    part.index_select(axis, left)
                    for part in (done, slope, value, penalty, decrement, n_iter)
                )
            length, value, penalty = _search_line(
                objective, ridge.along(coef, direction), direction, slope, value, penalty, done
            )
            stalled = length == 0.0
            step = length[..., None, None] * direction
            coef = coef + step
            previous = gradient
            gradient = ridge.add_gradient(coef, objective.gradient())
            pairs.remember(step, gradient - previous)
        every = torch.arange(len(place), device=place.device)
        _store(found, place, every, axis, coef, decrement, n_iter)
        return found


def _store(found: Found, place: Tensor, which: Tensor, axis: int, *parts: Tensor) -> None:
    for whole, part in zip(found, parts, strict=True):
        whole.index_copy_(axis, place[which], part.index_select(axis, which))


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
    tilt, bend = of_penalty
    curvature = (line.curvature + bend).clamp_min(1e-30)
    length = torch.minimum(-slope / curvature, line.farthest).masked_fill(done, 0.0)
    noise = _VALUE_NOISE[direction.element_size()]
    for _ in range(_MOST_HALVINGS):
        there = penalty + length * (tilt + 0.5 * length * bend)
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
