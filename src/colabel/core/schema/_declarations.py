"""The register of declared types."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from colabel.core.schema._kinds import Anything, Maybe, Numbers, Positions, Record, Whole, bind
from colabel.core.schema._records import (
    Declared,
    Dims,
    Fields,
    Kind,
    NotAsDeclaredError,
    refuse_unless,
)

Class = TypeVar("Class", bound=type)

_BY_TAG: dict[str, Declared] = {}
_BY_TYPE: dict[type, Declared] = {}
# unless a type declares them
_NOT_KEPT = frozenset({"_metadata_request", "_sklearn_output_config", "_sklearn_version"})


def stored(
    tag: str, *, check: Callable[[Fields, Dims], None] | None = None, **fields: Kind
) -> Callable[[Class], Class]:
    """Declare a class as one that may stand in a file.

    The fields of a dataclass or a NamedTuple are those of its constructor; of an estimator its
    parameters and its attributes. A class with `to_fields()` and `from_fields(fields)` says itself
    what they are. Fields of a dataclass or parameters that are not named may hold `Anything`; an
    attribute of an estimator must be declared, here or by a base class (`stored_fields`).
    """

    def register(cls: Class) -> Class:
        declare(cls, tag, fields, check)
        return cls

    return register


def declare(
    cls: type,
    tag: str,
    fields: Mapping[str, Kind],
    check: Callable[[Fields, Dims], None] | None = None,
    *,
    take: Callable[[Any], Fields] | None = None,
    make: Callable[[Fields], Any] | None = None,
    has_state: bool = True,
    others: Kind = Anything(),  # noqa: B008
) -> None:
    """Do what `stored` does, for a class that is not ours to decorate.

    An estimator without state of its own (`has_state` false) is always checked in full; `others`
    says what parameters that are not named may hold.
    """
    named = {**getattr(cls, "stored_fields", {}), **fields}
    # what was declared for a name first is checked first: sizes are bound in that order
    given = _constructor_fields(cls)
    every = {**named, **dict.fromkeys(sorted(given - set(named)), others)}
    parameters = frozenset(given if hasattr(cls, "get_params") and has_state else ())
    known = Declared(
        tag, cls, every, parameters, check, take or _taker(cls, every), make or _maker(cls)
    )
    _BY_TAG[tag] = _BY_TYPE[cls] = known


def declared_for(value: Any) -> Declared | None:
    """Return the declaration of an object's type."""
    return _BY_TYPE.get(type(value))


def declared_by_tag(tag: str) -> Declared:
    """Return the declaration with a tag; KeyError if there is none."""
    return _BY_TAG[tag]


def all_declared() -> Iterator[Declared]:
    """Every declared type."""
    yield from _BY_TAG.values()


def checked(declared: Declared, fields: Fields) -> Dims:
    """Check the fields of an object against its declaration; return the sizes they have."""
    unknown = sorted(set(fields) - set(declared.fields))
    if unknown:
        raise NotAsDeclaredError(f"{declared.type.__name__} has no {unknown[0]}")
    dims: Dims = {}
    # an estimator that only tells how others are to be made has parameters and nothing else
    fitted = not declared.parameters or not declared.parameters.issuperset(fields)
    if declared.parameters:
        dims["fitted"] = fitted
    for name, kind in declared.fields.items():
        if name in fields:
            kind.check(fields[name], dims, name)
        elif name in declared.parameters or (fitted and not isinstance(kind, Maybe)):
            raise NotAsDeclaredError(f"{declared.type.__name__} has lost its {name}")
    if declared.check is not None and fitted:
        declared.check(fields, dims)
    return dims


def _constructor_fields(cls: type) -> set[str]:
    if hasattr(cls, "from_fields"):
        return set()
    if hasattr(cls, "get_params"):
        return {p for p in inspect.signature(cls).parameters if p not in ("args", "kwargs")}
    if dataclasses.is_dataclass(cls):
        return {each.name for each in dataclasses.fields(cls) if each.init}
    return set(getattr(cls, "_fields", ()))


def _taker(cls: type, declared: Container[str]) -> Callable[[Any], Fields]:
    if hasattr(cls, "from_fields"):
        return lambda value: dict(value.to_fields())
    if hasattr(cls, "get_params"):
        return lambda value: {
            k: v for k, v in vars(value).items() if k not in _NOT_KEPT or k in declared
        }
    names = _constructor_fields(cls)
    return lambda value: {name: getattr(value, name) for name in sorted(names)}


def _maker(cls: type) -> Callable[[Fields], Any]:
    if hasattr(cls, "from_fields"):
        return lambda fields: cls.from_fields(fields)
    if hasattr(cls, "get_params"):

        def make(fields: Fields) -> Any:
            made: Any = object.__new__(cls)
            vars(made).update(fields)
            return made

        return make
    return lambda fields: cls(**fields)


def csr_fields(value: Any) -> Fields:
    """The parts of a CSR array, `shape` as a tuple of int."""
    return {
        "data": value.data,
        "indices": value.indices,
        "indptr": value.indptr,
        "shape": tuple(int(n) for n in value.shape),
    }


def check_csr(fields: Fields, dims: Dims) -> None:
    """Refuse a CSR array whose parts point outside of it: compiled code does not look."""
    n_rows, n_columns = fields["shape"]
    starts, indices = fields["indptr"], fields["indices"]
    bind(dims, "rows", n_rows, "shape")
    bind(dims, "columns", n_columns, "shape")
    refuse_unless(len(starts) == n_rows + 1 and starts[0] == 0, "indptr does not fit the rows")
    refuse_unless((np.diff(starts) >= 0).all(), "indptr does not ascend")
    refuse_unless(starts[-1] == len(indices), "indptr does not end where indices does")
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < n_columns)
    refuse_unless(inside, "indices holds columns that are not there")
    refuse_unless(indices.dtype == starts.dtype, "indices and indptr are of different types")


def _declare_sparse() -> None:
    fields: dict[str, Kind] = {
        "shape": Record(Whole(high=2**31), Whole(high=2**31)),
        "indptr": Positions("_", below=2**53),
        "indices": Positions("z", below=2**31),
        "data": Numbers("z"),
    }
    for cls, tag in ((sp.csr_array, "csr"), (sp.csr_matrix, "csr-matrix")):

        def make(parts: Fields, cls: Any = cls) -> Any:
            body = (parts["data"], parts["indices"], parts["indptr"])
            return cls(body, shape=parts["shape"])

        declare(cls, tag, fields, check_csr, take=csr_fields, make=make)


_declare_sparse()
