"""Which device a model computes on, and how exact its products are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DEVICES = ("cpu", "cuda", "auto")
# The rows, those of a fold and their transpose, and as much again for scores.
_COPIES = 6
_BYTES_STORED = 12  # a number of sparse rows: an index of 8 bytes and a value of 4


def checked_device(device: Any) -> str | None:
    """Return the parameter `device` if it names one.

    Examples
    --------
    >>> checked_device("gpu")
    Traceback (most recent call last):
    ...
    ValueError: device='gpu' must be None, "cpu", "cuda", "cuda:N" or "auto".
    """
    named = isinstance(device, str) and (device in DEVICES or _numbered(device))
    if device is None or named:
        return device if named else None
    raise ValueError(f'device={device!r} must be None, "cpu", "cuda", "cuda:N" or "auto".')


def _numbered(device: str) -> bool:
    kind, _, number = device.partition(":")
    return kind == "cuda" and number.isdecimal()


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
    if device == "cpu":
        return device
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if n_devices else None
    if int(device.partition(":")[2] or 0) >= n_devices:
        raise ValueError(
            f"device={device!r}, but torch {torch.__version__} sees {n_devices} CUDA devices here."
            ' Set device=None to use the processor, or "auto" to use a GPU only where there is one.'
        )
    return device


def free_memory(device: str) -> int:
    """Bytes that a device has free; torch's own reserve counts as free."""
    import torch

    if device == "cpu":
        return 1 << 62
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)


def dense_fits(device: str, n_rows: int, n_coordinates: int) -> bool:
    """Whether a device holds rows as dense matrices."""
    return _COPIES * 4 * n_rows * n_coordinates <= free_memory(device)


def device_for_rows(
    device: str | None, n_rows: int, n_coordinates: int, n_stored: int | None = None
) -> str | None:
    """See `torch_device`; the device must also hold the rows.

    It holds them as dense matrices or, where sparse ones of `n_stored` numbers do not fit so, as
    they are. "auto" leaves rows that fit neither way to the compiled kernels.
    """
    found = torch_device(device)
    if found is None or dense_fits(found, n_rows, n_coordinates):
        return found
    free = free_memory(found)
    needed = _COPIES * 4 * n_rows * n_coordinates
    if n_stored is not None:
        needed = _COPIES * _BYTES_STORED * n_stored
        if needed <= free:
            return found
    if device == "auto":
        return None
    raise ValueError(
        f"device={device!r} has {free / 1e9:.1f} GB free, and {n_rows:,} rows of"
        f" {n_coordinates:,} features need {needed / 1e9:.1f} GB there."
        " Set device=None to use the processor."
    )


@contextmanager
def coarse_products(coarse: bool) -> Iterator[None]:
    """Let products of single precision round their factors to TF32, or not, meanwhile."""
    import torch

    before = torch.get_float32_matmul_precision()
    let_products_round(coarse)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def let_products_round(coarse: bool) -> None:
    """Let products of single precision round their factors to TF32, or not, from now on."""
    import torch

    torch.set_float32_matmul_precision("high" if coarse else "highest")
