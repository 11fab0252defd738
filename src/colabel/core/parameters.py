"""Checks of parameters, rows and weights; each error says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_non_negative

from colabel.core.arrays import Array, Flags, is_sparse
from colabel.core.schema import LARGEST, Between, declared_base, parts_of

# Squares are summed over rows and columns, and multiplied by weights, all below 1.8e308.
_LARGEST_SQUARED = 1e140
# Solvers keep gradients, sums of features over rows, in single precision, all below 3.4e38.
LARGEST_FEATURE = 1e30
_WEIGHTS = (1e-100, 1e20)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise ValueError unless a parameter is one of some names.

    Examples
    --------
    >>> check_choice("gate", "open", ("linear", "constant"))
    Traceback (most recent call last):
    ValueError: gate='open' must be one of 'linear', 'constant'.
    """
    known = tuple(choices)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}.")


def check_flag(name: str, value: object) -> None:
    """Raise ValueError unless a parameter is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False.")


def check_positive(name: str, value: object, *, or_zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a positive number (or zero)."""
    no_number = isinstance(value, bool) or not isinstance(value, Real)
    number = np.nan if no_number else float(value)  # type: ignore[arg-type]
    if not (0 < number < np.inf or (or_zero and number == 0)):
        wanted = "a number that is not negative" if or_zero else "a positive number"
        raise ValueError(f"{name}={value!r} must be {wanted}.")


def check_integer(name: str, value: object, least: int, otherwise: str = "") -> None:
    """Raise ValueError unless a parameter is an integer of at least `least`.

    `otherwise` names in the sentence what the caller takes besides.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        also = f", or {otherwise}" if otherwise else ""
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}{also}.")


def check_annotated(estimator: Any) -> None:
    """Raise ValueError for the first parameter that is not what its annotation says.

    Checked are flags (``bool``), names (``Literal``), the lower limits of integers (``Between``)
    and numbers that are positive or not negative. Upper limits of integers hold for files alone.
    """
    declared = declared_base(type(estimator))
    if declared is None:
        return
    for name in declared.defaults:
        value, (kinds, marks) = getattr(estimator, name), parts_of(declared.fields[name])
        literals = [kind for kind in kinds if get_origin(kind) is Literal]
        words = [word for kind in literals for word in get_args(kind)]
        besides = [*words, None] if NoneType in kinds else words
        if isinstance(value, str | None) and value in besides:
            continue
        least, most = next(((m.low, m.high) for m in marks if isinstance(m, Between)), (-1, -1))
        if kinds == (bool,):
            check_flag(name, value)
        elif int in kinds and least >= 0:
            check_integer(name, value, int(least), " or ".join(map(repr, besides)))
        elif float in kinds and least >= 0 and most == LARGEST:
            check_positive(name, value, or_zero=least == 0)
        elif literals and len(literals) == len(kinds):
            check_choice(name, value, words)


def check_jobs(n_jobs: object) -> None:
    """Raise ValueError unless `n_jobs` is a number of threads or workers, or None."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs={n_jobs!r} must be a number of threads or workers, -1 for all cores, or None."
        )


def checked_grid(name: str, value: Any) -> tuple[float, ...]:
    """Return a positive number, or several, as a tuple; raise ValueError otherwise."""
    if hasattr(value, "fit"):
        raise ValueError(
            f"{name}={value!r} must be a positive number or a sequence of positive numbers. A"
            f" classifier is given by name: estimator={value!r}."
        )
    try:
        grid = np.atleast_1d(np.asarray(value))
        grid = grid.astype(np.float64) if grid.dtype.kind in "iuf" else np.array([])
    except (TypeError, ValueError):
        grid = np.array([])
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(
            f"{name}={value!r} must be a positive number or a sequence of positive numbers."
        )
    return tuple(grid.tolist())


def check_magnitude(X: Any, names: Any = None, most: float = _LARGEST_SQUARED) -> None:
    """Raise ValueError for the first column of X (n, p) with a number that is too large.

    A column that is huge but never varies is refused too: its mean and variance overflow.
    """
    values = X.data if is_sparse(X) else X
    if not values.size:
        return
    # NaN, which some models take, is left out unless there is nothing else
    largest = float(np.fmax.reduce(values, axis=None))
    smallest = float(np.fmin.reduce(values, axis=None))
    if largest > most or smallest < -most:
        worst, _, called = _first(X, names, np.abs(values) > most)
        raise ValueError(
            f"X holds {worst:g} in {called}; squares of numbers beyond {most:g} cannot be "
            "summed. Divide the column by a power of ten, or leave it out."
        )


def check_no_nan(X: Any, names: Any, model: str) -> None:
    """Raise ValueError for the first NaN of X (n, p), and say which models take it."""
    missing = np.isnan(X.data if is_sparse(X) else X)
    if missing.any():
        _, row, called = _first(X, names, missing)
        raise ValueError(
            f"Input X contains NaN (first in row {row}, {called}), which {model} cannot learn from."
            " JointStack and JointForest take missing features as they are. Or fill them in first: "
            f"make_pipeline(SimpleImputer(), {model}())."
        )


def _first(X: Any, names: Any, marked: Flags) -> tuple[float, int, str]:
    """Value, row and called column of the first marked entry of X (n, p), or of its data."""
    entry = int(np.argmax(marked))
    if is_sparse(X):
        value, (row, column) = X.data[entry], (each[entry] for each in X.tocoo().coords)
    else:
        row, column = np.unravel_index(entry, X.shape)
        value = X[row, column]
    called = f"column {column}" if names is None else f"the column {str(names[column])!r}"
    return float(value), int(row), called


def check_weight_range(weight: Array) -> None:
    """Raise ValueError for weights (n,) so small or large that sums of them lose precision."""
    low, high = _WEIGHTS
    positive = weight[weight > 0]
    worst = positive.max() if positive.max() > high else positive.min()
    if not low <= worst <= high:
        raise ValueError(
            f"sample_weight holds {worst:g}. A weight says how many rows a row counts for: give "
            f"numbers between {low:g} and {high:g}, or zero."
        )


def checked_weights(sample_weight: Any, X: Any) -> Array:
    """Return the weights (n,) of rows; ValueError unless they are weights, not all of them zero."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    given = 1.0 if sample_weight is None else sample_weight
    if isinstance(given, Real):
        given = np.full(n_rows, given)
    weight: Array = check_array(
        given, ensure_2d=False, dtype=np.float64, order="C", input_name="sample_weight"
    )
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weight.shape}, but there are {n_rows} rows: give a "
            "weight per row."
        )
    check_non_negative(weight, "`sample_weight`")
    if not weight.any():
        raise ValueError("All sample weights are zero. Give at least one row a positive weight.")
    check_weight_range(weight)
    return weight


def check_column_names(X: Any) -> None:
    """Raise ValueError for the first name that two columns of a data frame share.

    A lazy frame of polars is refused too: its rows are not there yet.
    """
    if hasattr(X, "collect_schema") and hasattr(X, "sink_parquet"):
        raise ValueError("X is a LazyFrame, whose rows are not there yet: give X.collect().")
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))  # of pyarrow, or others
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(
            f"X has more than one column {twice!r}: rename all but one, or leave them out."
        )


def check_no_text(X: Any) -> None:
    """Raise ValueError for the first column of X that holds text or dates, by name."""
    for called, column in _columns(X):
        kind = column.dtype.kind
        if kind in "Mm":
            found = f"a {'date' if kind == 'M' else 'span of time'}"
        elif kind in "OUST":
            text = next((own for own in column.tolist() if _is_text(own)), None)
            if text is None:
                continue
            found = f"the text {text[:30]!r}"
        else:
            continue
        raise ValueError(
            f"X holds {found} in {called}: models take numbers. Encode it first (OneHotEncoder, "
            "TfidfVectorizer, or a ColumnTransformer of several), or use colabel.compare, "
            "TableModel or colabel fit, which prepare the columns of a table themselves."
        )


def _columns(X: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the values of each column that may hold something other than numbers."""
    if is_sparse(X):
        return
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name in X.columns:
            if getattr(X[name].dtype, "kind", "O") not in "biufc":
                yield f"the column {name!r}", np.asarray(X[name])
        return
    kind = getattr(X, "dtype", None)
    if getattr(kind, "kind", "O") in "biufc":
        return
    try:
        values = np.asarray(X)
    except (TypeError, ValueError):  # rows of different lengths: said better elsewhere
        return
    if values.ndim == 1:
        yield "each of its rows", values
    elif values.ndim == 2 and values.dtype.kind not in "biufc":
        yield from ((f"column {j}", column) for j, column in enumerate(values.T))


def _is_text(value: Any) -> bool:
    """Whether a value is text that cannot be read as a number."""
    if not isinstance(value, str | bytes):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
