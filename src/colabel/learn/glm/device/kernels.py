"""Passes over the arrays of a GPU, fused by Triton: each number is read once.

The functions in `objective`, `lbfgs` and `gains` say the same in torch; they serve where there is
no Triton, in double precision, and tests compare the two.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Tensor = Any

_ROWS_AT_ONCE = 1024
_WIDEST = 1 << 14  # coefficients of a task that one program can hold


def usable(tensor: Tensor) -> bool:
    """Whether the kernels serve a tensor."""
    return bool(tensor.is_cuda) and tensor.element_size() == 4 and _installed()


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def logistic_move(
    scores: Tensor, change: Tensor, steps: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, ...]:
    """See `objective.logistic_move`; the scores are overwritten."""
    import torch

    blocks, n_tasks, _, n_rows = scores.shape
    residual = torch.empty_like(scores)
    value = scores.new_empty((blocks, n_tasks), dtype=torch.float64)
    curvature, absolute = (scores.new_empty((blocks, n_tasks, 1)) for _ in range(2))
    _kernels().move[(blocks * n_tasks,)](
        scores,
        change,
        steps.contiguous(),
        targets,
        weight.contiguous(),
        residual,
        value,
        curvature,
        absolute,
        n_rows,
        n_tasks,
        BLOCK=_ROWS_AT_ONCE,
    )
    return scores, residual, value, curvature, absolute


def logistic_along(
    residual: Tensor, change: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Directional curvature and sup-norm of a change of scores, by one launch."""
    blocks, n_tasks, _, n_rows = residual.shape
    curvature, sup_norm = (residual.new_empty((blocks, n_tasks)) for _ in range(2))
    _kernels().along[(blocks * n_tasks,)](
        residual,
        change,
        targets,
        weight.contiguous(),
        curvature,
        sup_norm,
        n_rows,
        n_tasks,
        BLOCK=_ROWS_AT_ONCE,
    )
    return curvature, sup_norm


def holds(n_coordinates: int) -> bool:
    """Whether a program of `direction` can hold so many coefficients."""
    return n_coordinates <= _WIDEST


def direction(
    gradient: Tensor,
    diagonal: Tensor,
    steps: Tensor,
    changes: Tensor,
    inverse: Tensor,
    newest: int,
    n_filled: int,
) -> Tensor:
    """See `lbfgs.direction`: one program holds a task, and reads each pair twice."""
    import torch

    n_tasks, width = gradient.shape[:2].numel(), gradient.shape[2:].numel()
    out = torch.empty_like(gradient)
    block = 1 << max(7, (width - 1).bit_length())
    _kernels().direction[(n_tasks,)](
        gradient.contiguous(),
        diagonal.contiguous(),
        steps,
        changes,
        inverse,
        out,
        n_tasks,
        width,
        newest,
        n_filled,
        len(steps),
        SLOTS=1 << (len(steps) - 1).bit_length(),
        BLOCK=block,
        num_warps=4 if block <= 1024 else 8,
    )
    return out


@functools.cache
def _kernels() -> Any:
    kernels: tuple[Callable[..., Any], ...] = (_move_kernel(), _along_kernel(), _direction_kernel())
    return SimpleNamespace(**dict(zip(("move", "along", "direction"), kernels, strict=True)))


def _move_kernel() -> Any:
    import triton
    import triton.language as tl

    @triton.jit
    def move(  # type: ignore[no-untyped-def]
        scores,
        change,
        steps,
        targets,
        weight,
        residual,
        value,
        curvature,
        absolute,
        n_rows,
        n_tasks,
        BLOCK: tl.constexpr,
    ):
        task = tl.program_id(0).to(tl.int64)
        step = tl.load(steps + task)
        own, block = task * n_rows, (task // n_tasks) * n_rows
        lost = tl.zeros([BLOCK], tl.float32)
        curved = tl.zeros([BLOCK], tl.float32)
        wrong = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n_rows, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = rows < n_rows
            s = tl.load(scores + own + rows, inside, 0.0)
            s += step * tl.load(change + own + rows, inside, 0.0)
            y = tl.load(targets + own + rows, inside, -1).to(tl.float32)
            w = tl.where(y >= 0.0, tl.load(weight + block + rows, inside, 0.0), 0.0)
            y = tl.maximum(y, 0.0)
            e = tl.exp(-tl.abs(s))
            odds = 1.0 / (1.0 + e)
            r = w * (tl.where(s > 0.0, odds, e * odds) - y)
            tl.store(scores + own + rows, s, inside)
            tl.store(residual + own + rows, r, inside)
            lost += w * (tl.maximum(s, 0.0) - y * s + tl.log(1.0 + e))
            curved += w * e * odds * odds
            wrong += tl.abs(r)
        tl.store(value + task, tl.sum(lost.to(tl.float64)))
        tl.store(curvature + task, tl.sum(curved))
        tl.store(absolute + task, tl.sum(wrong))

    return move


def _along_kernel() -> Any:
    import triton
    import triton.language as tl

    @triton.jit
    def along(  # type: ignore[no-untyped-def]
        residual, change, targets, weight, curvature, sup_norm, n_rows, n_tasks, BLOCK: tl.constexpr
    ):
        task = tl.program_id(0).to(tl.int64)
        own, block = task * n_rows, (task // n_tasks) * n_rows
        curved = tl.zeros([BLOCK], tl.float32)
        highest = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n_rows, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = rows < n_rows
            wrong = tl.abs(tl.load(residual + own + rows, inside, 0.0))
            c = tl.load(change + own + rows, inside, 0.0)
            y = tl.load(targets + own + rows, inside, -1)
            c = tl.where(y >= 0, c, 0.0)
            w = tl.maximum(tl.load(weight + block + rows, inside, 1.0), 1e-30)
            curved += wrong * (1.0 - wrong / w) * c * c
            highest = tl.maximum(highest, tl.abs(c))
        tl.store(curvature + task, tl.sum(curved))
        tl.store(sup_norm + task, tl.max(highest))

    return along


def _direction_kernel() -> Any:
    import triton
    import triton.language as tl

    @triton.jit(do_not_specialize=["newest", "n_filled"])
    def direction(  # type: ignore[no-untyped-def]
        gradient,
        diagonal,
        steps,
        changes,
        inverse,
        out,
        n_tasks,
        width,
        newest,
        n_filled,
        n_slots,
        SLOTS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        task = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        inside = columns < width
        every = tl.arange(0, SLOTS)
        shares = tl.zeros([SLOTS], tl.float32)
        p = -tl.load(gradient + task * width + columns, inside, 0.0)
        for age in range(n_filled):
            slot = (newest - age + n_slots) % n_slots
            pair = slot * n_tasks + task
            rho = tl.load(inverse + pair)
            step = tl.load(steps + pair * width + columns, inside, 0.0)
            share = rho * tl.sum(step * p)
            shares = tl.where(every == slot, share, shares)
            p -= share * tl.load(changes + pair * width + columns, inside, 0.0)
        p = p / tl.load(diagonal + task * width + columns, inside, 1.0)
        for back in range(n_filled):
            slot = (newest - (n_filled - 1 - back) + n_slots) % n_slots
            pair = slot * n_tasks + task
            rho = tl.load(inverse + pair)
            change = tl.load(changes + pair * width + columns, inside, 0.0)
            share = tl.sum(tl.where(every == slot, shares, 0.0)) - rho * tl.sum(change * p)
            p += share * tl.load(steps + pair * width + columns, inside, 0.0)
        tl.store(out + task * width + columns, p, inside)

    return direction
