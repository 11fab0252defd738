"""The kinds of values that a field may hold."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.schema import LARGEST, Dims, Node, bind, is_unicode, refuse_unless

Kind = Any
Size = int | str | None

_ROUNDING = 1e-6


def _short(value: Any) -> str:
    return reprlib.repr(value)


def _require(holds: Any, value: Any, where: str, wanted: str) -> None:
    """Raise unless something holds; the message, which may be long to make, only then."""
    if not holds:
        refuse_unless(False, f"{where} is {_short(value)}, not {wanted}")


def _bind_shape(array: Any, shape: str, dims: Dims, where: str) -> None:
    """Bind a shape such as "d p+1"; "_" stands for any size."""
    sizes = shape.split()
    refuse_unless(array.ndim == len(sizes), f"{where} has {array.ndim} axes, not {len(sizes)}")
    for axis, (size, found) in enumerate(zip(sizes, array.shape, strict=True)):
        wanted: Size = None if size == "_" else int(size) if size.isdigit() else size
        bind(dims, wanted, int(found), f"axis {axis} of {where}")


def _is_whole(value: Any) -> bool:
    return type(value) is int or isinstance(value, np.integer)


def _limit(limit: int | str, dims: Dims) -> int:
    return int(dims[limit]) if isinstance(limit, str) else limit


@dataclass(frozen=True)
class Whole:
    """A whole number between two, both allowed; `size` binds it to a name."""

    low: int = 0
    high: int = 2**53
    size: Size = None

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require(_is_whole(value), value, where, "a whole number")
        inside = self.low <= value <= self.high
        _require(inside, value, where, f"between {self.low} and {self.high}")
        bind(dims, self.size, int(value), where)


@dataclass(frozen=True)
class Real:
    """A number between two, both allowed; infinite ones only where asked for."""

    low: float = -LARGEST
    high: float = LARGEST

    def check(self, value: Any, dims: Dims, where: str) -> None:
        number = _is_whole(value) or isinstance(value, float)
        _require(number, value, where, "a number")
        inside = self.low <= value <= self.high
        _require(inside, value, where, f"between {self.low:g} and {self.high:g}")


@dataclass(frozen=True)
class YesNo:
    """True or False."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, bool), value, where, "true or false")


@dataclass(frozen=True)
class Text:
    """A string that can be written."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, str) and is_unicode(value), value, where, "a text")


class OneOf:
    """One of some values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def check(self, value: Any, dims: Dims, where: str) -> None:
        known = any(type(value) is type(v) and value == v for v in self.values)
        _require(known, value, where, f"one of {_short(self.values)}")


@dataclass(frozen=True)
class Maybe:
    """Another kind, or None, or absent."""

    kind: Kind

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if value is not None:
            self.kind.check(value, dims, where)


@dataclass(frozen=True)
class OrNone:
    """Another kind, or None; but not absent."""

    kind: Kind

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if value is not None:
            self.kind.check(value, dims, where)


@dataclass(frozen=True)
class Numbers:
    """An array of numbers within a range: of doubles, or of `dtypes` if others may be.

    None is NaN, unless `nan` says that some may be missing.
    """

    shape: str
    low: float = -LARGEST
    high: float = LARGEST
    dtypes: tuple[str, ...] = ("float64",)
    nan: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require_array(value, self.dtypes, where)
        _bind_shape(value, self.shape, dims, where)
        value = value[~np.isnan(value)] if self.nan else value
        if value.size:
            least, most = float(value.min()), float(value.max())  # NaN if one is
            refuse_unless(
                least >= self.low and most <= self.high,
                f"{where} holds numbers that are not between {self.low:g} and {self.high:g}",
            )


@dataclass(frozen=True)
class Distributions:
    """An array whose last axis holds probabilities that sum to one; `log` for their logarithms."""

    shape: str
    log: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        Numbers(self.shape, -np.inf if self.log else 0.0, _ROUNDING if self.log else 1.0).check(
            value, dims, where
        )
        sums = (np.exp(value) if self.log else value).sum(axis=-1)
        one = np.abs(sums - 1.0).max(initial=0.0) <= _ROUNDING
        refuse_unless(one, f"{where} holds probabilities that do not sum to one")


@dataclass(frozen=True)
class Positions:
    """An array of integers from `least` up to, but not including, `below`, a number or a size."""

    shape: str
    below: int | str
    least: int = 0

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require_array(value, ("int64", "int32", "uint32"), where)
        _bind_shape(value, self.shape, dims, where)
        below = _limit(self.below, dims)
        if value.size:
            inside = self.least <= int(value.min()) and int(value.max()) < below
            refuse_unless(inside, f"{where} holds positions outside {self.least} to {below - 1}")


@dataclass(frozen=True)
class LabelVectors:
    """An array (v, d) of label vectors, one at least, each with codes of its labels' values."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        Positions("_ d", below=1 << 31).check(value, dims, where)
        inside = len(value) > 0 and bool((value < np.asarray(dims["sizes"])).all())
        refuse_unless(inside, f"{where} holds a value that no label has, or no vector")


@dataclass(frozen=True)
class Values:
    """An array of any values: numbers, texts, dates, or plain objects."""

    shape: str

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, np.ndarray), value, where, "an array")
        _bind_shape(value, self.shape, dims, where)


@dataclass(frozen=True)
class Many:
    """A list or tuple of values of one kind; `size` says how many."""

    kind: Kind
    size: Size = None

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require_sequence(value, where)
        bind(dims, self.size, len(value), where)
        for i, each in enumerate(value):
            self.kind.check(each, dims, f"{where}[{i}]")


@dataclass(frozen=True)
class Table:
    """A dict; `kind` says what its values are."""

    kind: Kind | None = None

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, dict), value, where, "a table")
        if self.kind is not None:
            for key, each in value.items():
                self.kind.check(each, dims, f"{where}.{key}")


class Record:
    """A tuple with a kind for each place."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    def check(self, value: Any, dims: Dims, where: str) -> None:
        _require_sequence(value, where)
        bind(dims, len(self.kinds), len(value), where)
        for i, (kind, each) in enumerate(zip(self.kinds, value, strict=True)):
            kind.check(each, dims, f"{where}[{i}]")


class Part:
    """An object of one of some declared types.

    Parameters
    ----------
    *tags : str
        Tags of the types.
    **sizes : str
        ``m="d"`` says that what the part calls m is what the holder calls d; sizes that the part
        does not have are left out of account.
    """

    def __init__(self, *tags: str, **sizes: str) -> None:
        self.tags, self.sizes = tags, sizes

    def check(self, value: Any, dims: Dims, where: str) -> None:
        declared = value.declared if isinstance(value, Node) else None
        known = declared is not None and declared.tag in self.tags
        _require(known, value, where, " or ".join(self.tags))
        for theirs, ours in self.sizes.items():
            if theirs in value.dims:
                bind(dims, ours, value.dims[theirs], f"{theirs} of {where}")


@dataclass(frozen=True)
class Setting:
    """A plain parameter: a number, a text, true or false, None; or a declared object."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        plain = value is None or isinstance(value, bool | int | float | str | Node)
        _require(plain, value, where, "a plain value")


@dataclass(frozen=True)
class Anything:
    """Plain values of any nesting, numbers finite; declared objects among them."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            refuse_unless(np.isfinite(value).all(), f"{where} holds numbers that are not finite")


def _require_array(value: Any, dtypes: Sequence[str], where: str) -> None:
    known = isinstance(value, np.ndarray) and value.dtype.name in dtypes
    _require(known, value, where, f"an array of {' or '.join(dtypes)}")


def _require_sequence(value: Any, where: str) -> None:
    _require(isinstance(value, list | tuple), value, where, "a sequence")
