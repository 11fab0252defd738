"""Annotations that say what a stored object must hold, and the checks that follow from them.

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

Marks apply to the innermost values, but for those that speak of a list as a whole (`Is`, `UNIQUE`).
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
>>> checked(DECLARED["example-line"], {"slope": np.ones(3)})
{'p': 3}
>>> checked(DECLARED["example-line"], {"slope": np.ones(3), "share": 2.0})
Traceback (most recent call last):
    ...
colabel.core.schema.NotAsDeclaredError: share is 2.0, not between 0 and 1
"""

from __future__ import annotations

import inspect
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Indices, n_label_columns

Dims = dict[str, Any]
Fields = dict[str, Any]
Class = TypeVar("Class", bound=type)

# The product of two larger numbers would leave the range of doubles.
LARGEST = 1e150
_ROUNDING = 1e-6


class NotAsDeclaredError(ValueError):
    """A value differs from what its type declares; the message says where and how."""


def check_that(holds: Any, reason: str) -> None:
    """Raise `NotAsDeclaredError` with a reason unless something holds."""
    if not holds:
        raise NotAsDeclaredError(reason)


def _require(holds: Any, value: Any, where: str, wanted: str) -> None:
    """Raise unless something holds; the message is formatted only in that case."""
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
    """Annotation of a plain parameter: a number, a text, a flag, a type, None, or several."""


class Unchecked:
    """Annotation of what may be anything."""


class _UnknownSizeError(NotAsDeclaredError):
    """A size is not known yet: the field that needs it is checked after the others."""


def size_of(size: str, dims: Dims) -> Any:
    """Return what a size is."""
    function, _, name = size.rstrip(")").rpartition("(")
    if name.lstrip("-").isdigit():
        return int(name)
    if name not in dims:
        raise _UnknownSizeError(f"nothing says what {name} is")
    return _OF_SEVERAL[function](dims[name]) if function else dims[name]


def bind(dims: Dims, size: int | str, found: Any, where: str) -> None:
    """Require that a size is as found; a name without a size gets it.

    Parameters
    ----------
    dims : {name: size}
    size : int, sum of sizes such as "p+columns(sizes)+1", or "_" for any
    found : int, or tuple of int for names that stand for several sizes
    where : what has the size, for the message
    """
    if size == "_":
        return
    wanted: Any = size
    if isinstance(size, str):
        first, *more = size.replace("-", "+-").split("+")
        rest = sum(size_of(term, dims) for term in more)
        if first.isidentifier() and first not in dims:
            value = tuple(n - rest for n in found) if isinstance(found, tuple) else found - rest
            too_short = min(value, default=0) if isinstance(value, tuple) else value
            check_that(too_short >= 0, f"{where} is too short")
            dims[first] = value
            return
        known = size_of(first, dims)
        wanted = tuple(n + rest for n in known) if isinstance(known, tuple) else known + rest
    if found != wanted:
        short = reprlib.repr
        raise NotAsDeclaredError(f"{where} has {short(found)} where {short(wanted)} belong")


# ------------------------------------------------------------------------ marks


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`, both allowed; with `nan` some may be missing."""

    low: float = -LARGEST
    high: float = LARGEST
    nan: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if isinstance(value, np.ndarray):
            value = value[~np.isnan(value)] if self.nan else value
            ends = [value.min().item(), value.max().item()] if value.size else []  # NaN if one is
            said = f"{where} holds numbers that are"
        else:
            ends, said = [value], f"{where} is {reprlib.repr(value)},"
        inside = all(self.low <= end <= self.high for end in ends)
        check_that(inside, f"{said} not between {self.low:.16g} and {self.high:.16g}")


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
        check_that(one, f"{where} holds probabilities that do not sum to one")


@dataclass(frozen=True)
class Mark:
    """What ``holds(value, dims)`` says of values, or of a list as a whole."""

    holds: Callable[[Any, Dims], Any]
    otherwise: str
    of_the_whole: bool = False

    def check(self, value: Any, dims: Dims, where: str) -> None:
        check_that(self.holds(value, dims), f"{where} {self.otherwise}")


def _are_codes(value: Any, dims: Dims) -> Any:
    return (value >= 0).all() and (value < np.asarray(size_of("sizes", dims))).all()


# label vectors (v, d) of values that the labels have; entries that ascend, or at least do not
# descend; an attribute that only some fits set
CODES = Mark(_are_codes, "holds a value that no label has")
ASCENDING = Mark(lambda value, _: (value[1:] > value[:-1]).all(), "does not ascend")
SORTED = Mark(lambda value, _: (value[1:] >= value[:-1]).all(), "does not ascend")
NOT_EMPTY = Mark(lambda value, _: len(value), "is empty")
UNIQUE = Mark(lambda value, _: len(set(value)) == len(value), "has the same item twice", True)
SOMETIMES = Mark(lambda value, _: True, "")
POSITIVE = Between(1e-300)


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
        check(value, Array, dims, where, self.shape.split())


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
        check_that(fits, f"{where} is not fitted")
        check_that(value.does(self.does), f"{where} has no {self.does}")


# ------------------------------------------------------------------------ annotations


def is_unicode(text: Any) -> bool:
    """Whether something is text that can be encoded, without unpaired surrogates."""
    try:
        text.encode()
    except (UnicodeEncodeError, AttributeError):
        return False
    return isinstance(text, str)


def _is_finite(value: Any) -> bool:
    floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return not floats or bool(np.isfinite(value).all())


def _is_setting(value: Any) -> bool:
    # everything here can be hashed, as scikit-learn looks some settings up in sets
    several = value if isinstance(value, tuple) else [value]
    plain = bool | int | float | str | type | np.dtype | None
    return all(isinstance(each, plain) for each in several)


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys((Any, object, Hashable), (_is_finite, "finite numbers")),
    **dict.fromkeys((NoneType, None), (lambda value: value is None, "None")),
    Setting: (_is_setting, "a plain value"),
    Unchecked: (lambda value: True, ""),
    str: (is_unicode, "a text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    np.dtype: (lambda value: isinstance(value, np.dtype), "a type of numbers"),
}
_RANGES = {"f": Between(), "i": Between(0, 2**53)}


def check(
    value: Any,
    annotation: Any,
    dims: Dims,
    where: str,
    shape: Sequence[str] = (),
    marks: Sequence[Any] = (),
) -> None:
    """Raise `NotAsDeclaredError` unless a value is as an annotation says; bind sizes in `dims`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        sizes = [size for mark in arguments[1:] if isinstance(mark, str) for size in mark.split()]
        own = [mark for mark in arguments[1:] if not isinstance(mark, str)]
        check(value, arguments[0], dims, where, [*shape, *sizes], [*marks, *own])
    elif origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return
        errors = []
        for kind in arguments:
            bound = dict(dims)
            try:
                check(value, kind, bound, where, shape, marks)
            except _UnknownSizeError:
                raise
            except NotAsDeclaredError as error:
                errors.append(error)
            else:
                dims.update(bound)
                return
        raise errors[0]
    elif origin is Literal:
        known = any(type(value) is type(each) and value == each for each in arguments)
        _require(known, value, where, f"one of {reprlib.repr(arguments)}")
    elif origin in (list, Sequence) or (origin is tuple and arguments[-1] is Ellipsis):
        _require(isinstance(value, list | tuple), value, where, "a sequence")
        size, *inner = shape or ["_"]
        bind(dims, size, len(value), where)
        ragged = inner[0].strip("[]") if inner and inner[0].startswith("[") else None
        inner = inner if ragged is None else ["_", *inner[1:]]
        whole = [mark for mark in marks if getattr(mark, "of_the_whole", False)]
        of_items = [mark for mark in marks if mark not in whole]
        for i, each in enumerate(value):
            check(each, arguments[0], dims, f"{where}[{i}]", inner, of_items)
        if ragged is not None:
            bind(dims, ragged, tuple(map(len, value)), where)
        for mark in whole:
            mark.check(value, dims, where)
    elif origin is tuple:
        _require(isinstance(value, list | tuple), value, where, "a sequence")
        bind(dims, len(arguments), len(value), where)
        for i, (each, kind) in enumerate(zip(value, arguments, strict=True)):
            check(each, kind, dims, f"{where}[{i}]")
    elif origin in (dict, Mapping):
        _require(isinstance(value, dict), value, where, "a table")
        for key, each in value.items():
            check(each, arguments[1], dims, f"{where}.{key}", shape, marks)
    else:
        kind = _check_single(value, annotation, dims, where, shape)
        # numbers are finite and integers are counts, unless a mark says otherwise
        ranged = any(isinstance(mark, Between | Below | Distribution) for mark in marks)
        for mark in marks if ranged or kind not in _RANGES else [_RANGES[kind], *marks]:
            mark.check(value, dims, where)


def parts_of(annotation: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Split an annotation into the types that it allows, and the marks behind them."""
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else [annotation]
    return (get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)), marks


def _check_single(value: Any, annotation: Any, dims: Dims, where: str, shape: Sequence[str]) -> str:
    """Check an array, a number, another plain value or an object; return the kind of numbers."""
    if get_origin(annotation) is np.ndarray:
        scalar = get_args(get_args(annotation)[1])[0]
        scalar = get_origin(scalar) or scalar
        if scalar is Any:
            names: tuple[str, ...] = ()
        elif issubclass(scalar, np.signedinteger):
            names = ("int64", "int32", "int16", "int8")
        else:
            names = ("float64", "float32") if scalar is np.floating else (np.dtype(scalar).name,)
        known = isinstance(value, np.ndarray) and (not names or value.dtype.name in names)
        _require(known, value, where, f"an array of {' or '.join(names) or 'values'}")
        fits = not shape or value.ndim == len(shape)
        check_that(fits, f"{where} has {value.ndim} axes, not {len(shape)}")
        for axis, size in enumerate(shape):
            bind(dims, size, value.shape[axis], f"axis {axis} of {where}")
        return names[0][0] if names else ""
    if annotation in (int, float):
        whole = type(value) is int or isinstance(value, np.integer)
        number = whole or (annotation is float and isinstance(value, float))
        _require(number, value, where, "a whole number" if annotation is int else "a number")
        return "i" if annotation is int else "f"
    if annotation in _PLAIN:
        is_plain, wanted = _PLAIN[annotation]
        _require(is_plain(value), value, where, wanted)
    else:  # an object of a stored type, or of any that has what a protocol asks for
        declared = value.declared if isinstance(value, Node) else None
        if declared is None or get_origin(annotation) is not None:  # such as a function
            known = False
        elif getattr(annotation, "_is_protocol", False):
            known = all(hasattr(declared.type, name) for name in vars(annotation) if name[0] != "_")
        else:
            known = issubclass(declared.type, annotation)
        _require(known, value, where, f"a {getattr(annotation, '__name__', annotation)}")
    for theirs, _, ours in (size.partition("=") for size in shape):
        if isinstance(value, Node) and theirs in value.dims:
            bind(dims, ours or theirs, value.dims[theirs], f"{theirs} of {where}")
    return ""


# ------------------------------------------------------------------------ stored types


@dataclass(eq=False)
class Declared:
    """A type that may stand in a file.

    Attributes
    ----------
    tag : str
        What files call it, whatever module it stands in.
    type : type
    spec : type, optional
        Whose annotations, and whose ``_check_stored(fields, dims)``, are meant instead of those of
        the type. That function raises `NotAsDeclaredError` for what annotations cannot say.
    has_state : bool
        Whether an estimator has state beside its parameters; without, it is checked in full.
    taken, made
        From an object to its fields, and from the type and the fields back, where that is not
        plain.
    others
        Annotation of parameters that have none.
    accepts : function of an object, optional
        Whether the annotations allow its settings: others are foreign.
    """

    tag: str
    type: type
    spec: Any = None
    has_state: bool = True
    taken: Callable[[Any], Fields] | None = None
    made: Callable[[Any, Fields], Any] | None = None
    others: Any = Any
    accepts: Callable[[Any], bool] = lambda value: True

    @property
    def is_estimator(self) -> bool:
        """Whether it has state beside its parameters."""
        return self.has_state and hasattr(self.type, "get_params")

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """What the constructor takes, with `inspect.Parameter.empty` for what must be given."""
        if self.taken and not self.is_estimator:
            return {}
        parameters = inspect.signature(self.type).parameters.values()
        variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return {p.name: p.default for p in parameters if p.kind not in variable}

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Annotation of each field, in the order in which they are checked."""
        fields: dict[str, Any] = {}
        for base in reversed((self.spec or self.type).__mro__):
            if base.__module__.startswith("sklearn."):
                continue
            # names of stored types need no import where they only annotate
            names = {each.__name__: each for each in _BY_TYPE}
            names |= vars(sys.modules[base.__module__])
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if "ClassVar" not in str(annotation):
                    text = getattr(annotation, "__forward_arg__", annotation)  # of a NamedTuple
                    kind = eval(text, names) if isinstance(text, str) else text
                    # a mere type does not undo what a base says
                    if get_origin(kind) is Annotated or name not in fields:
                        fields[name] = kind
        if self.defaults:  # a class may say of a parameter what not all of its subclasses have
            state = hasattr(self.type, "get_params")
            for name in fields.keys() - self.defaults.keys():
                if not (state and (name.startswith("_") or name.endswith("_"))):
                    del fields[name]
        return fields | dict.fromkeys(sorted(self.defaults.keys() - fields), self.others)

    def take(self, value: Any) -> Fields:
        """Return the fields of an object."""
        if self.taken is not None:
            return self.taken(value)
        if hasattr(self.type, "get_params"):
            return {k: v for k, v in vars(value).items() if k not in _NOT_KEPT or k in self.fields}
        return {name: getattr(value, name) for name in sorted(self.defaults)}

    def make(self, fields: Fields) -> Any:
        """Make an object of its fields."""
        if self.made is not None:
            return self.made(self.type, fields)
        if hasattr(self.type, "get_params"):
            estimator: Any = object.__new__(self.type)
            vars(estimator).update(fields)
            return estimator
        return self.type(**fields)


@dataclass(eq=False, repr=False)
class Node:
    """An object read from a file: checked, but not yet made.

    `declared` is None for an object of a type that the user has said to trust. `n_objects` counts
    the object and all in it, as often as they are named; `depth` is how far they are nested.
    """

    declared: Declared | None
    fields: Fields
    dims: Dims = field(default_factory=dict)
    made: Any = None
    n_objects: int = 1
    depth: int = 1

    @property
    def last(self) -> Node:
        """What answers: of a pipeline its last step, else the object itself."""
        node: Node = self.dims.get("last", self)
        return node

    def does(self, method: str) -> bool:
        """Whether what answers has a method; of a foreign type that is not known."""
        return self.last.declared is None or hasattr(self.last.declared.type, method)

    def __repr__(self) -> str:
        return "<object of a foreign type>" if self.declared is None else f"<{self.declared.tag}>"


DECLARED: dict[str, Declared] = {}  # by tag
_BY_TYPE: dict[Any, Declared] = {}
# unless a type declares them
_NOT_KEPT = frozenset(
    {
        *("_metadata_request", "_sklearn_output_config", "_sklearn_version", "_stop_words_id"),
        "_choices",  # which models learned from other rows take over
    }
)


def stored(tag: str) -> Callable[[Class], Class]:
    """Declare a class as one that may stand in a file.

    The fields of a dataclass or a NamedTuple are those of its constructor; of an estimator its
    parameters and its attributes. Parameters that are not annotated in the class may hold anything
    plain; an attribute of an estimator must be annotated, in the class or a base.
    """
    return lambda cls: declare(cls, tag)


def declare(cls: Class, tag: str, **options: Any) -> Class:
    """Do what `stored` does, for a class that is not ours to annotate; see `Declared`."""
    DECLARED[tag] = _BY_TYPE[cls] = Declared(tag, cls, **options)
    return cls


def declared_base(cls: type) -> Declared | None:
    """Return the declaration of a class, or of the nearest of its bases that has one."""
    return next((_BY_TYPE[base] for base in cls.__mro__ if base in _BY_TYPE), None)


def declared_for(value: Any) -> Declared | None:
    """Return the declaration of an object's type, if it holds for the object."""
    declared = _BY_TYPE.get(type(value))
    return declared if declared is not None and declared.accepts(value) else None


def checked(declared: Declared, fields: Fields) -> Dims:
    """Check the fields of an object against its declaration; return the sizes they have.

    Parameters that are not there, because another version has written them, get their defaults.
    """
    called = declared.type.__name__
    unknown = sorted(set(fields) - set(declared.fields))
    if unknown:
        raise NotAsDeclaredError(f"{called} has no {unknown[0]}")
    dims: Dims = {}
    # an estimator that is a template for others has parameters and nothing else
    fitted = not declared.is_estimator or not declared.defaults.keys() >= fields.keys()
    if declared.is_estimator:
        dims["fitted"] = fitted
    pending = []
    for name in declared.fields:
        default = declared.defaults.get(name, inspect.Parameter.empty)
        if name in fields:
            pending.append(name)
        elif default is not inspect.Parameter.empty:
            fields[name] = default
        else:
            kinds, marks = parts_of(declared.fields[name])
            # an attribute without which an estimator may be fitted
            spare = NoneType in kinds or SOMETIMES in marks or name in _NOT_KEPT
            needed = name in declared.defaults or (fitted and not spare)
            check_that(not needed, f"{called} has lost its {name}")
    while pending:  # a field may name a size that a later one gives
        before, unknown_size = pending, None
        pending = []
        for name in before:
            try:
                check(fields[name], declared.fields[name], dims, name)
            except _UnknownSizeError as error:
                unknown_size = error
                pending.append(name)
        if len(pending) == len(before) and unknown_size is not None:
            raise unknown_size
    if fitted:
        by_hand = getattr(declared.spec or declared.type, "_check_stored", lambda *_: None)
        by_hand(fields, dims)
    return dims


# ------------------------------------------------------------------------ checks by hand


def check_acyclic(parents: Sequence[Sequence[int]]) -> None:
    """Refuse parents (of each node) among which a node is its own ancestor."""
    try:
        TopologicalSorter(dict(enumerate(parents))).prepare()
    except CycleError:
        raise NotAsDeclaredError("a label is its own ancestor") from None


class _Csr:
    shape: tuple[int, int]
    indptr: Annotated[Indices, "_"]
    indices: Annotated[Indices, "z"]
    data: Annotated[Array, "z"]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        """Refuse a CSR array whose parts point outside of it: compiled code does not look."""
        n_rows, n_columns = fields["shape"]
        starts, indices = fields["indptr"], fields["indices"]
        bind(dims, "rows", n_rows, "shape")
        bind(dims, "columns", n_columns, "shape")
        check_that(len(starts) == n_rows + 1 and starts[0] == 0, "indptr does not fit the rows")
        check_that((np.diff(starts) >= 0).all(), "indptr does not ascend")
        check_that(starts[-1] == len(indices), "indptr does not end where indices does")
        Below(n_columns).check(indices, dims, "indices")
        check_that(indices.dtype == starts.dtype, "indices and indptr are of different types")


def _csr_fields(value: Any) -> Fields:
    parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
    return parts | {"shape": tuple(int(n) for n in value.shape)}


def _csr(cls: Any, fields: Fields) -> Any:
    parts = (fields["data"], fields["indices"], fields["indptr"])
    return cls(parts, shape=fields["shape"])


for _cls, _tag in ((sp.csr_array, "csr"), (sp.csr_matrix, "csr-matrix")):
    declare(_cls, _tag, spec=_Csr, taken=_csr_fields, made=_csr)
