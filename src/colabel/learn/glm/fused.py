"""Passes over the arrays of a GPU, fused by Triton: each number is read once.

The functions of the same names in `colabel.learn.glm.device` say the same in torch. They serve
where there is no Triton, in double precision and for more than two classes; tests compare the two.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

Tensor = Any

_ROWS_AT_ONCE = 1024
_WIDEST = 1 << 14  # coefficients of a task that one program can hold


@functools.cache
def installed() -> bool:
    """Whether there is Triton."""
    return importlib.util.find_spec("triton") is not None


def usable(numbers: Tensor, width: int = 0) -> bool:
    """Whether the kernels serve numbers in single precision, `width` of which a program holds."""
    on_gpu = bool(numbers.is_cuda) and numbers.element_size() == 4
    return on_gpu and width <= _WIDEST and installed()


def move(
    scores: Tensor, change: Tensor, steps: Tensor, targets: Tensor, weight: Tensor, residual: Tensor
) -> tuple[Tensor, ...]:
    """See `Loss.move`, of two classes: scores (T, 1, n)."""
    n_tasks, _, n_rows = scores.shape
    value, curvature, absolute = steps.new_empty((3, n_tasks))
    stride = n_rows if weight.ndim == 2 else 0
    known = (scores, change, steps.contiguous(), targets.contiguous(), weight.contiguous())
    sums = (residual, value, curvature, absolute)
    _kernels()["move"][(n_tasks,)](*known, *sums, n_rows, stride, BLOCK=_ROWS_AT_ONCE)
    return value, curvature[:, None], absolute[:, None]


def along(
    residual: Tensor, change: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """See `Loss.along`, of two classes."""
    import torch

    n_tasks, _, n_rows = residual.shape
    curvature, sup_norm = residual.new_empty((2, n_tasks), dtype=torch.float64)
    stride = n_rows if weight.ndim == 2 else 0
    known = (residual, change.contiguous(), targets.contiguous(), weight.contiguous())
    sums = (curvature, sup_norm)
    _kernels()["along"][(n_tasks,)](*known, *sums, n_rows, stride, BLOCK=_ROWS_AT_ONCE)
    return curvature, sup_norm


def quasi_newton_direction(
    gradient: Tensor,
    steps: Tensor,
    changes: Tensor,
    inverse_products: Tensor,
    lanes: Tensor,
    newest: int,
    diagonal: Tensor,
) -> Tensor:
    """See `colabel.learn.glm.losses.quasi_newton_direction`, without known Hessians."""
    out = gradient.new_empty(gradient.shape)
    (n_tasks, width), n_pairs = gradient.shape, steps.shape[1]
    block = 1 << max(7, (width - 1).bit_length())
    known = (gradient.contiguous(), steps, changes, inverse_products, lanes, diagonal.contiguous())
    slots = 1 << (n_pairs - 1).bit_length()
    _kernels()["direction"][(n_tasks,)](
        *known, out, width, newest, n_pairs, SLOTS=slots, BLOCK=block, num_warps=max(4, block >> 9)
    )
    return out


@functools.cache
def _kernels() -> dict[str, Any]:
    import triton
    import triton.language as tl

    @triton.jit
    def move(  # type: ignore[no-untyped-def]
        scores, change, steps, targets, weight, residual, value, curvature, absolute,
        n_rows, stride, BLOCK: tl.constexpr,
    ):  # fmt: skip
        task = tl.program_id(0).to(tl.int64)
        step = tl.load(steps + task).to(tl.float32)
        own = task * n_rows
        lost = tl.zeros([BLOCK], tl.float32)
        curved = tl.zeros([BLOCK], tl.float32)
        wrong = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n_rows, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = rows < n_rows
            s = tl.load(scores + own + rows, inside, 0.0)
            s += step * tl.load(change + own + rows, inside, 0.0)
            y = tl.load(targets + own + rows, inside, -1).to(tl.float32)
            w = tl.load(weight + task * stride + rows, inside, 0.0)
            w = tl.where(y >= 0.0, w, 0.0)
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
        tl.store(curvature + task, tl.sum(curved).to(tl.float64))
        tl.store(absolute + task, tl.sum(wrong).to(tl.float64))

    @triton.jit
    def along(  # type: ignore[no-untyped-def]
        residual, change, targets, weight, curvature, sup_norm, n_rows, stride, BLOCK: tl.constexpr
    ):
        task = tl.program_id(0).to(tl.int64)
        own = task * n_rows
        curved = tl.zeros([BLOCK], tl.float32)
        highest = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n_rows, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = rows < n_rows
            wrong = tl.abs(tl.load(residual + own + rows, inside, 0.0))
            c = tl.load(change + own + rows, inside, 0.0)
            c = tl.where(tl.load(targets + own + rows, inside, -1) >= 0, c, 0.0)
            w = tl.maximum(tl.load(weight + task * stride + rows, inside, 1.0), 1e-30)
            curved += wrong * (1.0 - wrong / w) * c * c
            highest = tl.maximum(highest, tl.abs(c))
        tl.store(curvature + task, tl.sum(curved).to(tl.float64))
        tl.store(sup_norm + task, tl.max(highest).to(tl.float64))

    @triton.jit(do_not_specialize=["newest"])
    def direction(  # type: ignore[no-untyped-def]
        gradient, steps, changes, inverse_products, lanes, diagonal, out,
        width, newest, n_pairs, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        task = tl.program_id(0).to(tl.int64)
        first = tl.load(lanes + task).to(tl.int64) * n_pairs
        columns = tl.arange(0, BLOCK)
        inside = columns < width
        every = tl.arange(0, SLOTS)
        shares = tl.zeros([SLOTS], tl.float64)
        p = -tl.load(gradient + task * width + columns, inside, 0.0)
        for age in range(n_pairs):
            slot = (newest - age + n_pairs) % n_pairs
            pair = (first + slot) * width + columns
            rho = tl.load(inverse_products + first + slot)
            if rho > 0.0:
                share = rho * tl.sum(tl.load(steps + pair, inside, 0.0).to(tl.float64) * p)
                shares = tl.where(every == slot, share, shares)
                p -= share * tl.load(changes + pair, inside, 0.0).to(tl.float64)
        p = p / tl.load(diagonal + task * width + columns, inside, 1.0)
        for back in range(n_pairs):
            slot = (newest + 1 + back) % n_pairs
            pair = (first + slot) * width + columns
            rho = tl.load(inverse_products + first + slot)
            if rho > 0.0:
                change = tl.load(changes + pair, inside, 0.0).to(tl.float64)
                share = tl.sum(tl.where(every == slot, shares, 0.0)) - rho * tl.sum(change * p)
                p += share * tl.load(steps + pair, inside, 0.0).to(tl.float64)
        tl.store(out + task * width + columns, p, inside)

    return {"move": move, "along": along, "direction": direction}
