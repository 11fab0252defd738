"""Arrays on a device: which one, and what torch does there in the place of compiled kernels.

A solver asks an array for its module (`xp_of`), NumPy or torch, and uses what both have. Numbers
as long as the rows are in single precision where the tolerance allows, sums in double.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices, is_sparse, xp_of
from colabel.learn.glm import fused

Tensor = Any  # torch.Tensor: torch is imported only where a device is asked for

# The rows, their products and transposes, in numbers of 4 bytes.
_COPIES = 6
# From these tolerances on, factors of products may be rounded to TF32, or be in single precision.
# Rounding n residuals to TF32 moves a gradient by about 3e-4 of its standard error in each
# coordinate: by .013 with 1800 of them.
_COARSE, _SINGLE = 0.05, 1e-3


def checked_device(device: Any) -> str | None:
    """Return the parameter `device` if it names one.

    Examples
    --------
    >>> checked_device("gpu")
    Traceback (most recent call last):
    ...
    ValueError: device='gpu' must be None, "cpu", "cuda", "cuda:N" or "auto".
    """
    kind, _, number = str(device).partition(":")
    numbered = kind == "cuda" and number.isdecimal()
    named = isinstance(device, str) and (device in ("cpu", "cuda", "auto") or numbered)
    if device is None or named:
        return device if named else None
    raise ValueError(f'device={device!r} must be None, "cpu", "cuda", "cuda:N" or "auto".')


def torch_device(device: str | None) -> str | None:
    """Return the torch device that a model's `device` asks for; None for the compiled kernels.

    "auto" is a GPU where torch sees one, and the compiled kernels where not.
    """
    if device is None:
        return None
    try:
        import torch
    except ModuleNotFoundError:
        if device == "auto":
            return None
        raise ModuleNotFoundError(
            f"device={device!r} needs torch, which is not installed. Run"
            ' pip install torch, or set device=None, or "auto" to use a GPU only where'
            " there is one.",
            name="torch",
        ) from None
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if n_devices else None
    if device != "cpu" and int(device.partition(":")[2] or 0) >= n_devices:
        raise ValueError(
            f"device={device!r}, but torch {torch.__version__} sees {n_devices} CUDA devices here."
            ' Set device=None to use the processor, or "auto" to use a GPU only where there is one.'
        )
    return device


def free_memory(device: str) -> int:
    """Bytes that a device has free; torch's own reserve counts as free."""
    import torch

    if device == "cpu":
        return 1 << 31
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)


def device_for_rows(
    device: str | None, n_rows: int, n_coordinates: int, n_stored: int | None = None
) -> tuple[str | None, bool]:
    """See `torch_device`; second, whether it holds the rows as a dense matrix.

    Where sparse ones of `n_stored` numbers do not fit so, they stay as they are. "auto" leaves rows
    that fit neither way to the compiled kernels.
    """
    chosen = torch_device(device)
    if chosen is None:
        return None, True
    free, needed = free_memory(chosen), _COPIES * 4 * n_rows * n_coordinates
    if needed <= free or chosen == "cpu":
        return chosen, needed <= free or n_stored is None
    if n_stored is not None:
        needed = _COPIES * 12 * n_stored  # an index of 8 bytes and a value of 4
        if needed <= free:
            return chosen, False
    if device == "auto":
        return None, True
    raise ValueError(
        f"device={device!r} has {free / 1e9:.1f} GB free, and {n_rows:,} rows of"
        f" {n_coordinates:,} features need {needed / 1e9:.1f} GB there."
        " Set device=None to use the processor."
    )


@contextmanager
def products_for(tol: float) -> Iterator[None]:
    """Let products of single precision round their factors to TF32 where a tolerance allows."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tol >= _COARSE else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def sent_rows(design: Any, device: str, tol: float, dense: bool) -> Any:
    """Return a design whose rows are on a device, sparse ones spread out where that is `dense`."""
    import torch

    dtype = torch.float32 if tol >= _SINGLE else torch.float64
    rows, columns = design.rows, None
    if not is_sparse(rows):
        sent = torch.as_tensor(rows).to(device, dtype)
    elif dense:
        index = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices
        where = tuple(torch.as_tensor(part).long().to(device) for part in index)
        values = torch.as_tensor(rows.data).to(device, dtype)
        sent = torch.zeros(rows.shape, dtype=dtype, device=device)
        sent.index_put_(where, values, accumulate=True)
    else:
        sent, columns = (_csr(part, device, dtype) for part in (rows, design.columns))
    weight = np.ones(design.n_rows) if design.weight is None else design.weight
    weight = torch.as_tensor(weight).to(device, dtype)
    squares = torch.as_tensor(design.sum_of_squares()).to(device)
    return replace(design, rows=sent, columns=columns, weight=weight, squares=squares)


def _csr(matrix: Any, device: str, dtype: Any) -> Tensor:
    import torch

    index = (torch.as_tensor(part).long().to(device) for part in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():  # torch calls the layout a beta once in a process
        warnings.simplefilter("ignore", UserWarning)
        values = torch.as_tensor(matrix.data).to(device, dtype)
        return torch.sparse_csr_tensor(*index, values, size=matrix.shape)


def move(
    scores: Tensor, change: Tensor, steps: Tensor, targets: Tensor, weight: Tensor, residual: Tensor
) -> tuple[Tensor, ...]:
    """See `Loss.move`."""
    if scores.shape[1] == 1 and fused.usable(scores):
        return fused.move(scores, change, steps, targets, weight, residual)
    scores += steps.to(scores.dtype)[:, None, None] * change
    w = weight * (targets >= 0)
    if scores.shape[1] == 1:
        s, y = scores[:, 0], targets.clip(0).to(scores.dtype)
        e = (-s.abs()).exp()
        odds = 1.0 / (1.0 + e)
        residual[:, 0] = w * (odds.where(s > 0, e * odds) - y)
        losses = w * (s.clip(0.0) - y * s + e.log1p())
        curvature = (w * e * odds * odds)[:, None, :]
    else:
        own = targets.clip(0).long()[:, None]
        log_prob = scores.log_softmax(dim=1)
        losses = -w * log_prob.gather(1, own)[:, 0]
        prob, w = log_prob.exp(), w[:, None]
        curvature = w * prob * (1.0 - prob)
        residual[:] = w * prob.scatter_add(1, own, -prob.new_ones(()).expand(own.shape))
    sums = losses.sum(1, dtype=xp_of(losses).float64), curvature.sum(2), residual.abs().sum(2)
    return tuple(part.double() for part in sums)


def along(
    residual: Tensor, change: Tensor, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """See `Loss.along`."""
    if change.shape[1] == 1 and fused.usable(change):
        return fused.along(residual, change, targets, weight)
    w = (weight * (targets >= 0))[:, None]
    c = change * (targets >= 0)[:, None]
    if change.shape[1] == 1:
        wrong = residual.abs()
        curved = wrong * (1.0 - wrong / w.clip(1e-30)) * c * c
    else:
        mass = residual.scatter_add(1, targets.clip(0).long()[:, None], w)  # w p
        curved = mass * (c - (mass * c).sum(1, keepdim=True) / w.clip(1e-30)) ** 2
    return curved.sum(dim=(1, 2)).double(), c.abs().amax(dim=(1, 2)).double()


def quasi_newton_direction(
    gradient: Tensor,
    steps: Tensor,
    changes: Tensor,
    inverse_products: Tensor,
    lanes: Tensor,
    newest: int,
    diagonal: Tensor,
    inverse: Tensor,
    known: Tensor,
) -> Tensor:
    """See `colabel.learn.glm.losses.quasi_newton_direction`."""
    if not inverse.shape[1] and fused.usable(steps, steps.shape[2]):
        pairs = (steps, changes, inverse_products)
        return fused.quasi_newton_direction(gradient, *pairs, lanes, newest, diagonal)
    n_pairs = steps.shape[1]
    slots = [(newest - age) % n_pairs for age in range(n_pairs)]
    used = (inverse_products[lanes] > 0).any(dim=0).cpu().numpy()
    slots = [slot for slot in slots if used[slot]]
    direction, shares = -gradient, {}
    for slot in slots:
        rho = inverse_products[lanes, slot]
        shares[slot] = rho * (steps[lanes, slot] * direction).sum(1)
        direction = direction - shares[slot][:, None] * changes[lanes, slot]
    scaled = direction / diagonal
    if inverse.shape[1]:
        rotated = (inverse[lanes] @ direction[:, :, None])[:, :, 0]
        scaled = rotated.where(known[lanes][:, None], scaled)
    direction = scaled
    for slot in reversed(slots):
        rho = inverse_products[lanes, slot]
        rest = shares[slot] - rho * (changes[lanes, slot] * direction).sum(1)
        direction = direction + rest[:, None] * steps[lanes, slot]
    return direction


def padded(rows: list[Indices]) -> tuple[Indices, Array]:
    """Positions (P, m) of the rows of groups, padded by the first row, and ones where real."""
    lengths = np.array([len(own) for own in rows])
    real = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    index = np.zeros(real.shape, dtype=np.intp)
    index[real] = np.concatenate(rows)
    return index, real.astype(np.float64)
