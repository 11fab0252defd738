"""What a stored object must hold, said by the annotations of its class.

A class that may stand in a model file is decorated by `stored` with a short tag, which is what
files call it. Its annotations say the rest: types, and behind them in `Annotated` the shape and
*marks* such as `Between`. Sizes have names, and a name stands for the same size in all fields of an
object: ``Annotated[Array, "d p"]`` beside ``Annotated[Array, "d"]`` says that the first has as many
rows as the second has entries. The rules for shapes:

- ``"d p+1 _"``: one size for each axis; ``_`` is any size. Sizes are sums of numbers, names, and
  ``columns(sizes)``, ``sum(sizes)``, ``max(sizes)``, ``prod(sizes)`` of a name that stands for
  several.
- of a list or tuple the first size is its length, the others belong to its items; ``"d [sizes]"``
  says that the lengths of the d items are `sizes`.
- of an object that is stored itself, ``"d p=s+1"`` says that its d is the holder's d and its p the
  holder's s + 1, as far as it has such sizes.

Marks apply to the innermost values, but for those that speak of a list as a whole (`Is`, `Unique`).
What annotations cannot say, a static method ``_check_stored(fields, dims)`` of the class checks.
Annotations are evaluated when a file is first written or read, not when they are imported.

Examples
--------
>>> from dataclasses import dataclass
>>> from colabel.core.arrays import Array
>>> @stored("example-line")
... @dataclass(frozen=True)
... class Line:
...     slope: Annotated[Array, "p"]
...     share: Annotated[float, Between(0.0, 1.0)] = 0.5
>>> checked(declared_by_tag("example-line"), {"slope": np.ones(3)})
{'p': 3}
>>> checked(declared_by_tag("example-line"), {"slope": np.ones(3), "share": 2.0})
Traceback (most recent call last):
    ...
colabel.core.schema.NotAsDeclaredError: share is 2.0, not between 0 and 1
"""

from __future__ import annotations

import inspect
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Indices
from colabel.core.label_features import n_label_columns

Dims = dict[str, Any]
Fields = dict[str, Any]
Check = Callable[[Any, Dims, str], None]
Class = TypeVar("Class", bound=type)

# Larger numbers are no coefficients: a product of two of them would leave the range of doubles.
LARGEST = 1e150
_WHOLE = 2**53
_ROUNDING = 1e-6


class NotAsDeclaredError(ValueError):
    """A value differs from what its type declares; the message says where and how."""


def refuse_unless(holds: Any, reason: str) -> None:
    """Raise `NotAsDeclaredError` with a reason unless something holds."""
    if not holds:
        raise NotAsDeclaredError(reason)


def _require(holds: Any, value: Any, where: str, wanted: str) -> None:
    """Raise unless something holds; the message, which may be long to make, only then."""
    if not holds:
        raise NotAsDeclaredError(f"{where} is {reprlib.repr(value)}, not {wanted}")


# ------------------------------------------------------------------------ sizes

_OF_SEVERAL: dict[str, Callable[[Any], int]] = {
    "columns": n_label_columns,
    "sum": sum,
    "max": max,
    "prod": math.prod,
}


class Setting:
    """Annotation of a plain parameter: numbers, texts, flags, None, or a stored object."""


class _UnknownSizeError(NotAsDeclaredError):
    """A size is asked for that no field has given yet: the field is checked after the others."""


def size_of(size: str, dims: Dims) -> Any:
    """Return what a size is."""
    function, _, name = size.rstrip(")").rpartition("(")
    if name.lstrip("-").isdigit():
        return int(name)
    if name not in dims:
        raise _UnknownSizeError(f"nothing says what {name} is")
    return _OF_SEVERAL[function](dims[name]) if function else dims[name]


def bind(dims: Dims, size: int | str | None, found: Any, where: str) -> None:
    """Require that a size is the one found; a name that has no size yet gets it.

    Parameters
    ----------
    dims : {name: size}
    size : int, sum of sizes such as "p+columns(sizes)+1", or None for any
    found : int, or tuple of int for names that stand for several sizes
    where : what has the size, for the message
    """
    if size is None:
        return
    wanted: Any = size
    if isinstance(size, str):
        first, *more = size.replace("-", "+-").split("+")
        rest = sum(size_of(term, dims) for term in more)
        if first.isidentifier() and first not in dims:
            value = tuple(n - rest for n in found) if isinstance(found, tuple) else found - rest
            too_short = min(value, default=0) if isinstance(value, tuple) else value
            refuse_unless(too_short >= 0, f"{where} is too short")
            dims[first] = value
            return
        known = size_of(first, dims)
        wanted = tuple(n + rest for n in known) if isinstance(known, tuple) else known + rest
    if found != wanted:
        short = reprlib.repr
        raise NotAsDeclaredError(f"{where} has {short(found)} where {short(wanted)} belong")


def bind_alike(dims: Dims, part: Node, names: Sequence[str], where: str) -> None:
    """Require that a part has these sizes, as far as it knows them, of what it is a part of."""
    for name in names:
        if name in part.dims:
            bind(dims, name, part.dims[name], where)


# ------------------------------------------------------------------------ marks


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`, both allowed; with `nan` some may be missing."""

    low: float = -LARGEST
    high: float = LARGEST
    nan: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if not isinstance(value, np.ndarray):
            inside = self.low <= value <= self.high
            wanted = f"between {self.low:.16g} and {self.high:.16g}"
            _require(inside, value, where, wanted)
            return
        value = value[~np.isnan(value)] if self.nan else value
        if value.size:
            least, most = value.min().item(), value.max().item()  # NaN if one is
            refuse_unless(
                least >= self.low and most <= self.high,
                f"{where} holds numbers that are not between {self.low:.16g} and {self.high:.16g}",
            )


@dataclass(frozen=True)
class Below:
    """Positions from zero up to, but not including, a number or size; -1 for none if allowed."""

    limit: int | str
    or_none: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        limit = self.limit if isinstance(self.limit, int) else size_of(self.limit, dims)
        Between(-1 if self.or_none else 0, limit - 1).check(value, dims, where)


@dataclass(frozen=True)
class Distribution:
    """Probabilities that sum to one over an axis, the last; `log` for their logarithms."""

    log: bool = False
    axis: int = -1

    def check(self, value: Any, dims: Dims, where: str) -> None:
        limits = (-np.inf, _ROUNDING) if self.log else (0.0, 1.0 + _ROUNDING)
        Between(*limits).check(value, dims, where)
        sums = (np.exp(value) if self.log else value).sum(self.axis, np.float64)
        one = np.abs(sums - 1.0).max(initial=0.0) <= _ROUNDING
        refuse_unless(one, f"{where} holds probabilities that do not sum to one")


@dataclass(frozen=True)
class CodesOf:
    """An array (v, d) of label vectors, each with codes of values that its labels have."""

    sizes: str = "sizes"

    def check(self, value: Any, dims: Dims, where: str) -> None:
        inside = (value >= 0).all() and (value < np.asarray(size_of(self.sizes, dims))).all()
        refuse_unless(inside, f"{where} holds a value that no label has")


@dataclass(frozen=True)
class Ascending:
    """An array that ascends; `strictly` if no two entries are equal."""

    strictly: bool = True

    def check(self, value: Any, dims: Dims, where: str) -> None:
        ascends = value[1:] > value[:-1] if self.strictly else value[1:] >= value[:-1]
        refuse_unless(ascends.all(), f"{where} does not ascend")


@dataclass(frozen=True)
class Sometimes:
    """An attribute that only some fits set."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        pass


@dataclass(frozen=True)
class NotEmpty:
    """Something with one entry at least."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        refuse_unless(len(value) > 0, f"{where} is empty")


@dataclass(frozen=True)
class Unique:
    """A list of which no two items are equal."""

    of_the_whole = True

    def check(self, value: Any, dims: Dims, where: str) -> None:
        refuse_unless(len(set(value)) == len(value), f"{where} has the same item twice")


@dataclass(frozen=True)
class Is:
    """A number, or several, which is the size of a name."""

    size: str
    of_the_whole = True

    def check(self, value: Any, dims: Dims, where: str) -> None:
        several = isinstance(value, list | tuple)
        bind(dims, self.size, tuple(map(int, value)) if several else int(value), where)


@dataclass(frozen=True)
class Matrix:
    """A dense array of numbers with two axes, or a CSR array."""

    shape: str

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if isinstance(value, Node) and "columns" in value.dims:
            for size, name in zip(self.shape.split(), ("rows", "columns"), strict=True):
                bind(dims, size, value.dims[name], f"{name} of {where}")
            return
        _array(np.float64, self.shape.split(), ())(value, dims, where)


@dataclass(frozen=True)
class Estimator:
    """Any estimator whose type is declared, or that the user trusts; `does` names a method."""

    fitted: bool = True
    does: str = "fit"
    or_none: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if value is None and self.or_none:
            return
        known = isinstance(value, Node) and (value.declared is None or "fitted" in value.dims)
        _require(known, value, where, "an estimator")
        fits = value.declared is None or value.dims["fitted"] or not self.fitted
        refuse_unless(fits, f"{where} is not fitted")
        refuse_unless(value.does(self.does), f"{where} has no {self.does}")


# ------------------------------------------------------------------------ annotations


def check_of(annotation: Any, shape: Sequence[str] = (), marks: Sequence[Any] = ()) -> Check:
    """Return the check that an annotation stands for."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        own = [mark for mark in arguments[1:] if not isinstance(mark, str)]
        sizes = [size for mark in arguments[1:] if isinstance(mark, str) for size in mark.split()]
        return check_of(arguments[0], (*shape, *sizes), (*marks, *own))
    if origin in (Union, UnionType):
        return _one_of([check_of(each, shape, marks) for each in arguments], arguments)
    if origin is Literal:
        return _literal(arguments)
    if origin is Callable:  # which a file cannot hold
        return _none
    if origin in (list, Sequence) or (origin is tuple and arguments[-1] is Ellipsis):
        return _many(arguments[0], shape, marks)
    if origin is tuple:
        return _record([check_of(each) for each in arguments])
    if origin in (dict, Mapping):
        return _table(check_of(arguments[1], shape, marks))
    if origin is np.ndarray:
        return _array(get_args(arguments[1])[0], shape, marks)
    if annotation in (int, float):
        return _number(annotation, marks)
    if annotation is Any and shape:  # an object of a type that a mark knows
        return _with_marks(_sizes_of_part(shape), marks)
    if annotation in _PLAIN:
        return _with_marks(_PLAIN[annotation], marks)
    return _with_marks(_part(annotation, shape), marks)


def _with_marks(check: Check, marks: Sequence[Any]) -> Check:
    if not marks:
        return check

    def every(value: Any, dims: Dims, where: str) -> None:
        check(value, dims, where)
        for mark in marks:
            mark.check(value, dims, where)

    return every


def _anything(value: Any, dims: Dims, where: str) -> None:
    """Plain values of any nesting, numbers finite; stored objects among them."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        refuse_unless(np.isfinite(value).all(), f"{where} holds numbers that are not finite")


def is_unicode(text: str) -> bool:
    """Whether a text can be written: half a pair of surrogates stands for nothing."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Any, dims: Dims, where: str) -> None:
    _require(isinstance(value, str) and is_unicode(value), value, where, "a text")


def _flag(value: Any, dims: Dims, where: str) -> None:
    _require(isinstance(value, bool), value, where, "true or false")


def _none(value: Any, dims: Dims, where: str) -> None:
    _require(value is None, value, where, "None")


def _setting(value: Any, dims: Dims, where: str) -> None:
    several = value if isinstance(value, list | tuple) else [value]
    plain = all(
        each is None or isinstance(each, bool | int | float | str | type | np.dtype | Node)
        for each in several
    )
    _require(plain, value, where, "a plain value")


_PLAIN: dict[Any, Check] = {
    Setting: _setting,
    None: _none,
    Any: _anything,
    object: _anything,
    Hashable: _anything,
    str: _text,
    bool: _flag,
    NoneType: _none,
}


def _number(kind: type, marks: Sequence[Any]) -> Check:
    """A number of a range; a whole one is a count unless a mark says otherwise."""
    wanted = "a whole number" if kind is int else "a number"
    if not any(isinstance(mark, Between | Below) for mark in marks):
        marks = [Between(0, _WHOLE) if kind is int else Between(), *marks]

    def check(value: Any, dims: Dims, where: str) -> None:
        whole = type(value) is int or isinstance(value, np.integer)
        _require(whole or (kind is float and isinstance(value, float)), value, where, wanted)

    return _with_marks(check, marks)


def _array(scalar: Any, shape: Sequence[str], marks: Sequence[Any]) -> Check:
    """An array; numbers are finite, whole ones are not negative, unless a mark says otherwise."""
    scalar = get_origin(scalar) or scalar
    if scalar is Any:
        names: tuple[str, ...] = ()
    elif issubclass(scalar, np.signedinteger):
        names = ("int64", "int32", "int16", "int8")
    else:
        names = ("float64", "float32") if scalar is np.floating else (np.dtype(scalar).name,)
    if not any(isinstance(mark, Between | Below | Distribution) for mark in marks):
        limits = {"f": Between(), "i": Between(0, _WHOLE)}.get(names[0][0] if names else "")
        marks = [limits, *marks] if limits else marks

    def check(value: Any, dims: Dims, where: str) -> None:
        known = isinstance(value, np.ndarray) and (not names or value.dtype.name in names)
        _require(known, value, where, f"an array of {' or '.join(names) or 'values'}")
        if shape:
            refuse_unless(
                value.ndim == len(shape), f"{where} has {value.ndim} axes, not {len(shape)}"
            )
        for axis, size in enumerate(shape):
            bind(dims, None if size == "_" else size, value.shape[axis], f"axis {axis} of {where}")

    return _with_marks(check, marks)


def _one_of(checks: Sequence[Check], arguments: Sequence[Any]) -> Check:
    def check(value: Any, dims: Dims, where: str) -> None:
        if value is None and NoneType in arguments:
            return
        reason = None
        for kind, own in zip(arguments, checks, strict=True):
            if kind is not NoneType:
                before = dict(dims)
                try:
                    own(value, dims, where)
                    return
                except _UnknownSizeError:
                    raise
                except NotAsDeclaredError as error:
                    reason = reason or error
                    dims.clear()
                    dims.update(before)
        raise reason or NotAsDeclaredError(f"{where} is not None")

    return check


def _literal(values: Sequence[Any]) -> Check:
    def check(value: Any, dims: Dims, where: str) -> None:
        known = any(type(value) is type(each) and value == each for each in values)
        _require(known, value, where, f"one of {reprlib.repr(values)}")

    return check


def _many(item: Any, shape: Sequence[str], marks: Sequence[Any]) -> Check:
    size, *inner = shape or ("_",)
    ragged = inner[0].strip("[]") if inner and inner[0].startswith("[") else None
    if ragged is not None:
        inner[0] = "_"
    whole = [mark for mark in marks if hasattr(mark, "of_the_whole")]
    own = check_of(item, inner, [mark for mark in marks if mark not in whole])

    def check(value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, list | tuple), value, where, "a sequence")
        bind(dims, None if size == "_" else size, len(value), where)
        for i, each in enumerate(value):
            own(each, dims, f"{where}[{i}]")
        if ragged is not None:
            bind(dims, ragged, tuple(map(len, value)), where)

    return _with_marks(check, whole)


def _record(checks: Sequence[Check]) -> Check:
    def check(value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, list | tuple), value, where, "a sequence")
        bind(dims, len(checks), len(value), where)
        for i, (own, each) in enumerate(zip(checks, value, strict=True)):
            own(each, dims, f"{where}[{i}]")

    return check


def _table(own: Check) -> Check:
    def check(value: Any, dims: Dims, where: str) -> None:
        _require(isinstance(value, dict), value, where, "a table")
        for key, each in value.items():
            own(each, dims, f"{where}.{key}")

    return check


def _is_protocol(cls: Any) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def _sizes_of_part(sizes: Sequence[str]) -> Check:
    pairs = [(theirs, ours or theirs) for theirs, _, ours in (s.partition("=") for s in sizes)]

    def check(value: Any, dims: Dims, where: str) -> None:
        for theirs, ours in pairs:
            if isinstance(value, Node) and theirs in value.dims:
                bind(dims, ours, value.dims[theirs], f"{theirs} of {where}")

    return check


def _part(cls: Any, sizes: Sequence[str]) -> Check:
    """An object of a stored type, or of any that has what a protocol asks for."""
    asked = [name for name in vars(cls) if name[0] != "_"] if _is_protocol(cls) else None
    bind_parts = _sizes_of_part(sizes)

    def check(value: Any, dims: Dims, where: str) -> None:
        declared = value.declared if isinstance(value, Node) else None
        known = declared is not None and (
            issubclass(declared.type, cls)
            if asked is None
            else all(hasattr(declared.type, name) for name in asked)
        )
        _require(known, value, where, f"a {cls.__name__}")
        bind_parts(value, dims, where)

    return check


# ------------------------------------------------------------------------ stored types


@dataclass(eq=False)
class Declared:
    """A type that may stand in a file.

    Attributes
    ----------
    tag : str
        What files call it, whatever module it stands in.
    type : type
    annotations : {name: annotation}
        Beside those of the class.
    is_estimator : bool
        Whether it has state beside its parameters; without, it is always checked in full.
    check : function of (fields, dims), optional
        Raises `NotAsDeclaredError` for what annotations cannot say.
    taken, made
        From an object to its fields, and back, where that is not plain.
    others
        Annotation of parameters that have none.
    spec : type, optional
        Whose annotations are meant instead of those of the type.
    accepts : function of an object, optional
        Whether the annotations allow its settings: others are foreign.
    """

    tag: str
    type: type
    annotations: Mapping[str, Any] = field(default_factory=dict)
    is_estimator: bool = False
    check: Callable[[Fields, Dims], None] | None = None
    taken: Callable[[Any], Fields] | None = None
    made: Callable[[Fields], Any] | None = None
    others: Any = Any
    spec: Any = None
    accepts: Callable[[Any], bool] | None = None

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """What the constructor takes, with `inspect.Parameter.empty` for what must be given."""
        if hasattr(self.type, "from_fields") or (self.taken and not self.is_estimator):
            return {}
        parameters = inspect.signature(self.type).parameters.values()
        variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return {p.name: p.default for p in parameters if p.kind not in variable}

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Annotation of each field, in the order in which they are checked."""
        found: dict[str, Any] = {}
        old = self.annotations
        for base in reversed((self.spec or self.type).__mro__):
            if not base.__module__.startswith("sklearn."):
                names = _Names(vars(sys.modules[base.__module__]))
                for name, annotation in vars(base).get("__annotations__", {}).items():
                    if name not in old and "ClassVar" not in str(annotation):
                        text = getattr(annotation, "__forward_arg__", annotation)  # of a NamedTuple
                        kind = eval(text, {}, names) if isinstance(text, str) else text
                        # a mere type does not undo what a base says
                        if get_origin(kind) is Annotated or name not in found:
                            found[name] = kind
        found |= old
        if self.defaults:  # a class may say of a parameter what not all of its subclasses have
            state = hasattr(self.type, "get_params")
            for name in found.keys() - self.defaults.keys() - old.keys():
                if not (state and (name.startswith("_") or name.endswith("_"))):
                    del found[name]
        return found | dict.fromkeys(sorted(self.defaults.keys() - found), self.others)

    @cached_property
    def checks(self) -> dict[str, Check]:
        """The check of each field."""
        return {name: check_of(kind) for name, kind in self.fields.items()}

    def may_lack(self, name: str) -> bool:
        """Whether an estimator may be fitted without an attribute."""
        kind = self.fields[name]
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        optional = NoneType in get_args(kind)
        marked = any(isinstance(mark, Sometimes) for mark in get_args(self.fields[name])[1:])
        return optional or marked or name in _NOT_KEPT

    def holds(self, value: Any) -> bool:
        """Whether an object is one that the annotations allow."""
        return self.accepts is None or self.accepts(value)

    def take(self, value: Any) -> Fields:
        """Return the fields of an object."""
        if self.taken is not None:
            return self.taken(value)
        if hasattr(self.type, "from_fields"):
            return dict(value.to_fields())
        if hasattr(self.type, "get_params"):
            return {k: v for k, v in vars(value).items() if k not in _NOT_KEPT or k in self.fields}
        return {name: getattr(value, name) for name in sorted(self.defaults)}

    def make(self, fields: Fields) -> Any:
        """Make an object of its fields."""
        if self.made is not None:
            return self.made(fields)
        if hasattr(self.type, "from_fields"):
            return self.type.from_fields(fields)
        if hasattr(self.type, "get_params"):
            estimator: Any = object.__new__(self.type)
            vars(estimator).update(fields)
            return estimator
        return self.type(**fields)


class _Names(dict[str, Any]):
    """Names that annotations of a module use; those of stored types need no import."""

    def __missing__(self, name: str) -> Any:
        for cls in _BY_TYPE:
            if cls.__name__ == name:
                return cls
        raise KeyError(name)


@dataclass(eq=False, repr=False)
class Node:
    """An object read from a file: checked, but not yet made.

    `declared` is None for an object of a type that the user has said to trust.
    """

    declared: Declared | None
    fields: Fields
    dims: Dims = field(default_factory=dict)
    made: Any = None

    @property
    def last(self) -> Node:
        """What answers: of a pipeline its last step, else the object itself."""
        found: Node = self.dims.get("last", self)
        return found

    def does(self, method: str) -> bool:
        """Whether what answers has a method; of a foreign type that is not known."""
        return self.last.declared is None or hasattr(self.last.declared.type, method)

    def __repr__(self) -> str:
        return "<object of a foreign type>" if self.declared is None else f"<{self.declared.tag}>"


_BY_TAG: dict[str, Declared] = {}
_BY_TYPE: dict[Any, Declared] = {}
# unless a type declares them
_NOT_KEPT = frozenset(
    {"_metadata_request", "_sklearn_output_config", "_sklearn_version", "_stop_words_id"}
)


def stored(tag: str) -> Callable[[Class], Class]:
    """Declare a class as one that may stand in a file.

    The fields of a dataclass or a NamedTuple are those of its constructor; of an estimator its
    parameters and its attributes. A class with `to_fields()` and `from_fields(fields)` says itself
    what they are. Parameters that are not annotated in the class may hold anything plain; an
    attribute of an estimator must be annotated, in the class or a base.
    """

    def register(cls: Class) -> Class:
        declare(cls, tag)
        return cls

    return register


def declare(
    cls: type,
    tag: str,
    fields: Mapping[str, Any] | None = None,
    check: Callable[[Fields, Dims], None] | None = None,
    *,
    spec: type | None = None,
    accepts: Callable[[Any], bool] | None = None,
    take: Callable[[Any], Fields] | None = None,
    make: Callable[[Fields], Any] | None = None,
    has_state: bool = True,
    others: Any = Any,
) -> None:
    """Do what `stored` does, for a class that is not ours to annotate.

    Its fields are given as a dict or as the annotations of another class, `spec`. An estimator
    without state of its own (`has_state` false) is always checked in full; see `Declared` for the
    other arguments.
    """
    check = check or getattr(spec or cls, "_check_stored", None)
    is_estimator = has_state and hasattr(cls, "get_params")
    _BY_TAG[tag] = _BY_TYPE[cls] = Declared(
        tag, cls, fields or {}, is_estimator, check, take, make, others, spec, accepts
    )


def declared_for(value: Any) -> Declared | None:
    """Return the declaration of an object's type, if it holds for the object."""
    declared = _BY_TYPE.get(type(value))
    return declared if declared is not None and declared.holds(value) else None


def declared_by_tag(tag: str) -> Declared:
    """Return the declaration with a tag; KeyError if there is none."""
    return _BY_TAG[tag]


def all_declared() -> Iterator[Declared]:
    """Every declared type."""
    yield from _BY_TAG.values()


def checked(declared: Declared, fields: Fields) -> Dims:
    """Check the fields of an object against its declaration; return the sizes they have.

    Parameters that are not there, because another version has written them, get their defaults.
    """
    called = declared.type.__name__
    unknown = sorted(set(fields) - set(declared.fields))
    if unknown:
        raise NotAsDeclaredError(f"{called} has no {unknown[0]}")
    dims: Dims = {}
    # an estimator that only tells how others are to be made has parameters and nothing else
    fitted = not declared.is_estimator or not declared.defaults.keys() >= fields.keys()
    if declared.is_estimator:
        dims["fitted"] = fitted
    pending = []
    for name, check in declared.checks.items():
        if name in fields:
            pending.append((name, check))
        elif declared.defaults.get(name, inspect.Parameter.empty) is not inspect.Parameter.empty:
            fields[name] = declared.defaults[name]
        else:
            needed = name in declared.defaults or (fitted and not declared.may_lack(name))
            refuse_unless(not needed, f"{called} has lost its {name}")
    while pending:
        later = []
        for name, check in pending:
            try:
                check(fields[name], dims, name)
            except _UnknownSizeError:
                later.append((name, check))
        if len(later) == len(pending):
            later[0][1](fields[later[0][0]], dims, later[0][0])
        pending = later
    if declared.check is not None and fitted:
        declared.check(fields, dims)
    return dims


# ------------------------------------------------------------------------ checks by hand


def refuse_cycles(parents: Sequence[Sequence[int]]) -> None:
    """Refuse parents (of each node) among which a node is its own ancestor."""
    left = [set(above) for above in parents]
    free = [node for node, above in enumerate(left) if not above]
    children: list[list[int]] = [[] for _ in left]
    for node, above in enumerate(left):
        for parent in above:
            children[parent].append(node)
    n_ordered = 0
    while free:
        node = free.pop()
        n_ordered += 1
        for child in children[node]:
            left[child].discard(node)
            if not left[child]:
                free.append(child)
    refuse_unless(n_ordered == len(left), "a label is its own ancestor")


def _csr_fields(value: Any) -> Fields:
    shape = tuple(int(n) for n in value.shape)
    return {"data": value.data, "indices": value.indices, "indptr": value.indptr, "shape": shape}


def _check_csr(fields: Fields, dims: Dims) -> None:
    """Refuse a CSR array whose parts point outside of it: compiled code does not look."""
    n_rows, n_columns = fields["shape"]
    starts, indices = fields["indptr"], fields["indices"]
    bind(dims, "rows", n_rows, "shape")
    bind(dims, "columns", n_columns, "shape")
    refuse_unless(len(starts) == n_rows + 1 and starts[0] == 0, "indptr does not fit the rows")
    refuse_unless((np.diff(starts) >= 0).all(), "indptr does not ascend")
    refuse_unless(starts[-1] == len(indices), "indptr does not end where indices does")
    Below(n_columns).check(indices, dims, "indices")
    refuse_unless(indices.dtype == starts.dtype, "indices and indptr are of different types")


def _make_csr(cls: Any) -> Callable[[Fields], Any]:
    return lambda f: cls((f["data"], f["indices"], f["indptr"]), shape=f["shape"])


_CSR = {
    "shape": tuple[int, int],
    "indptr": Annotated[Indices, "_"],
    "indices": Annotated[Indices, "z"],
    "data": Annotated[Array, "z"],
}
for _cls, _tag in ((sp.csr_array, "csr"), (sp.csr_matrix, "csr-matrix")):
    declare(_cls, _tag, _CSR, _check_csr, take=_csr_fields, make=_make_csr(_cls))
