"""Values of one class variable: the observed ones, in order, as codes.

:func:`tidy` separates the observed values of a column from the missing ones, :func:`distinct` and
:func:`lookup` turn values into codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Codes, Flags

Values = NDArray[Any]

MISSING = -1  # the code of a label that was not observed
SEPARATORS = (";", "|", ",")
"""Separators between the labels in a text, the most likely first."""

ABSENT_PRESENT = (
    *(("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on")),
    *(("absent", "present"), ("non", "oui")),
)
"""Pairs of words, in any case, for a label that is absent and one that is present."""


class MissingLabelsError(ValueError):
    """A model cannot learn from rows that lack some of their labels."""


# Kinds of dtype with one sortable type per column; all others are handled value by value.
_PLAIN_KINDS = "biufUSMm"
_NUMERIC_KINDS = "biuf"
_MAX_TABLE = 1 << 16  # widest range of integers worth a lookup table instead of a sort
_EXACT_FLOAT = 2.0**53  # integers beyond this have gaps in float64


def says_presence(classes: Values) -> bool:
    """Whether the two values of a variable mean that a label is absent, and present."""
    if len(classes) != 2:
        return False
    first, second = classes.tolist()
    if isinstance(first, str) and isinstance(second, str):
        return (first.lower(), second.lower()) in ABSENT_PRESENT
    return classes.dtype.kind in "biuf" and bool(first == 0) and bool(second == 1)


def all_vectors(cardinalities: Sequence[int]) -> Codes:
    """Return every vector of labels of these sizes, (N, d), the last label changing fastest.

    Examples
    --------
    >>> from colabel.labels import all_vectors
    >>> all_vectors((2, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    rest = np.arange(math.prod(cardinalities))
    vectors = np.empty((len(rest), len(cardinalities)), dtype=np.int32)
    for i in reversed(range(len(cardinalities))):  # NumPy's own grids have at most 64 axes
        rest, vectors[:, i] = np.divmod(rest, cardinalities[i])
    return vectors


# A column (n,) cleaned: its observed values, and where they are (None: everywhere).
Tidy = tuple[Values, Flags | None]


def is_missing(value: Any) -> bool:
    """Whether a single value stands for "not observed": None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)  # true of NaN and NaT only
    except (TypeError, ValueError):  # arrays and other values that are not scalars
        return False


def tidy(column: Values, name: str) -> Tidy:
    """Separate a column's observed values from its missing ones; ValueError for what is no class.

    Parameters
    ----------
    column : array of shape (n,)
        Raw values of any dtype.
    name : str
        The variable's name, for messages.
    """
    kind = column.dtype.kind
    if kind == "O" or kind == "T":
        return _tidy_objects(column.tolist(), name)
    if kind not in _PLAIN_KINDS:
        raise ValueError(
            f"Unknown label type: variable {name!r} of Y has dtype {column.dtype}. Give classes "
            "as integers, booleans, strings or dates."
        )
    if kind == "f":
        missing = np.isnan(column)
    elif kind in "Mm":
        missing = np.isnat(column)
    else:
        return column, None
    observed = ~missing if missing.any() else None
    values = column if observed is None else column[observed]
    if kind == "f":
        _require_classes(values, name)
    return values, observed


def _require_classes(values: Values, name: str) -> None:
    """Floats must be class numbers: finite and whole."""
    whole = np.rint(values) == values
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(
            f"Y contains infinity in variable {name!r}: a class must be finite. Mark labels that "
            "were not observed as NaN."
        )
    if not whole.all():
        example = float(values[~whole][0])
        raise ValueError(
            f"Unknown label type: continuous. Variable {name!r} of Y holds {example!r}, and "
            "colabel classifies: give classes (integers, strings, booleans), for instance by "
            "cutting the values into bins, or use a regressor."
        )


def _tidy_objects(column: list[Any], name: str) -> Tidy:
    if set(map(type, column)) == {str}:
        return object_array(column), None
    observed = np.array([not is_missing(value) for value in column], dtype=bool)
    present = [value for value, seen in zip(column, observed, strict=True) if seen]
    where = None if observed.all() else observed
    if all(isinstance(value, bool | int | float | np.number | np.bool_) for value in present):
        numbers = np.array(present)  # one dtype for them all, as if the column had had no gaps
        if numbers.dtype.kind in _NUMERIC_KINDS:
            return tidy(numbers, name)[0], where
    if present and all(isinstance(value, np.datetime64 | np.timedelta64) for value in present):
        return np.array(present), where
    plain = [_plain(value) for value in present]
    if any(isinstance(value, float) and np.isinf(value) for value in plain):
        _require_classes(np.array([np.inf]), name)
    return object_array(plain), where


def _plain(value: Any) -> Any:
    """Turn a NumPy scalar into Python's, so that np.str_("a") and "a" sort as one type."""
    return value.item() if isinstance(value, np.bool_ | np.number | np.character) else value


def object_array(values: Sequence[Any]) -> Values:
    """Make a 1-d object array, also when the values are sequences themselves."""
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array


def distinct(values: Values, name: str) -> tuple[Values, Codes]:
    """Sorted distinct values, and the position of each value among them.

    Parameters
    ----------
    values : array of shape (m,)
        Observed values, from :func:`tidy`.
    name : str
        The variable's name, for messages.

    Returns
    -------
    classes : array of shape (k,)
        In ascending order, of the same dtype. Values of several types are ordered by the name of
        their type first, so that the order never depends on the rows.
    codes : int32 array of shape (m,)
        Such that ``classes[codes]`` gives the values back.
    """
    if values.dtype.kind == "O":
        classes = object_array(ordered(values.tolist(), name))
        return classes, lookup(classes, values)
    if values.dtype.kind in _NUMERIC_KINDS and values.size:
        low, high = float(values.min()), float(values.max())
        if max(abs(low), abs(high)) < _EXACT_FLOAT and high - low < _MAX_TABLE:
            # counting is faster than sorting, as labels usually are a few small integers
            offsets = values.astype(np.int64) - int(low)
            present = np.zeros(int(high) - int(low) + 1, dtype=bool)
            present[offsets] = True
            codes = (np.cumsum(present) - 1).astype(np.int32)
            return (np.flatnonzero(present) + int(low)).astype(values.dtype), codes[offsets]
    found, inverse = np.unique(values, return_inverse=True)
    return found, inverse.astype(np.int32)


def ordered(values: Iterable[Any], name: str) -> list[Any]:
    """Sorted distinct Python values of one or several types."""
    try:
        typed = {(type(value), value) for value in map(_plain, values)}
    except TypeError as error:
        raise ValueError(
            f"Variable {name!r} of Y holds values that cannot be classes ({error}): give one "
            "number, string or other hashable value per row and variable."
        ) from None
    try:
        in_order = sorted(typed, key=lambda pair: (pair[0].__name__, pair[1]))
    except TypeError:  # hashable but without an order, such as enumeration members
        in_order = sorted(typed, key=lambda pair: (pair[0].__name__, repr(pair[1])))
    return list(dict.fromkeys(value for _, value in in_order))


def lookup(classes: Values, values: Values) -> Codes:
    """Position of each value (m,) among sorted classes (k,); -1 where it is none of them."""
    kinds = classes.dtype.kind + values.dtype.kind
    if classes.dtype.kind in "Mm":
        try:
            values = values.astype(classes.dtype)
        except (TypeError, ValueError):  # no dates at all
            return np.full(len(values), -1, dtype=np.int32)
    elif not (set(kinds) <= set(_NUMERIC_KINDS) or kinds in ("UU", "SS")):
        codes = {value: code for code, value in enumerate(classes.tolist())}
        positions = (codes.get(value, -1) for value in values.tolist())
        return np.fromiter(positions, dtype=np.int32, count=len(values))
    if len(classes) == 0:
        return np.full(len(values), -1, dtype=np.int32)
    if len(classes) == 2:
        second = values == classes[1]
        return np.where(second | (values == classes[0]), second, np.int32(-1)).astype(np.int32)
    at = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    return np.where(classes[at] == values, at, -1).astype(np.int32)


def few(values: Iterable[Any], limit: int = 6) -> str:
    """List the first few values, for a message."""
    listed = [repr(_plain(value)) for value in values]
    more = f", … ({len(listed)} in all)" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


def common_dtype(classes: tuple[Values, ...]) -> np.dtype[Any]:
    """Find the dtype that holds the values of all variables: object for several kinds."""
    kinds = {c.dtype.kind for c in classes}
    if kinds <= set(_NUMERIC_KINDS) or (len(kinds) == 1 and kinds <= set("USMm")):
        return np.result_type(*(c.dtype for c in classes))
    return np.dtype(object)
