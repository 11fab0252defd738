"""Reading Y from any container: as columns, as an indicator, or as rows of labels.

Nothing here knows a `LabelSpace`. :func:`read` recognises the container; what its columns hold is
the matter of `labels.columns`. Data frames of any library are read through narwhals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from colabel.core.arrays import Codes, Flags
from colabel.labels.columns import Values, few, is_missing, object_array

Lists: TypeAlias = Literal["asked", "sets", "table"]


@dataclass(frozen=True)
class Columns:
    """A table: one 1-d array per variable. ``is_vector`` says that Y was one-dimensional."""

    arrays: tuple[Values, ...]
    names: tuple[str, ...] | None
    is_vector: bool


# One collection of labels per row; None for a row whose labels were not observed.
LabelRows: TypeAlias = list[tuple[Any, ...] | None]


def read(Y: Any, *, lists: Lists = "asked") -> Columns | Codes | LabelRows:
    """Recognise the container of Y; a sparse 0/1 matrix is returned as codes (n, d).

    Parameters
    ----------
    Y : array, sparse matrix, frame, series, or list
        Labels, as `LabelSpace.infer` describes them.
    lists : {"asked", "sets", "table"}
        What lists of strings of one length are: sets of labels, or the rows of a table. "asked"
        raises an error for them.
    """
    if Y is None:
        raise ValueError(
            "colabel requires y to be passed, but the target y is None: give the labels as an "
            "array of shape (n, d), a data frame, a sparse 0/1 matrix or a list of label sets."
        )
    if sparse.issparse(Y):
        return _read_sparse(Y)
    if isinstance(Y, list | tuple):
        return _read_rows(Y, lists)
    if np.ma.isMaskedArray(Y):
        masked = np.ma.getmaskarray(Y)
        Y = np.ma.getdata(Y).astype(object)
        Y[masked] = None
    if not isinstance(Y, np.ndarray):
        if hasattr(Y, "collect_schema") and hasattr(Y, "sink_parquet"):
            raise ValueError("Y is a LazyFrame, whose rows are not there yet: give Y.collect().")
        if hasattr(Y, "columns"):
            unique_names(getattr(Y, "column_names", Y.columns))
        Y = nw.from_native(Y, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(Y, nw.DataFrame):
        _require_cells(Y.shape)
        columns = tuple(map(_series_values, Y.iter_columns()))
        return Columns(columns, unique_names(Y.columns), is_vector=False)
    if isinstance(Y, nw.Series):
        name = None if Y.name in (None, "") else (str(Y.name),)
        return _read_array(_series_values(Y), name, lists)
    return _read_array(np.asarray(Y), None, lists)


def _read_sparse(Y: Any) -> Codes:
    if len(Y.shape) != 2:
        raise ValueError(
            f"Y is sparse with shape {Y.shape}: give a sparse matrix of shape (n, d), one row per "
            "instance and one column per label."
        )
    _require_cells(Y.shape)
    coo = Y.tocsr().tocoo()  # a CSR matrix has summed the entries that COO input may repeat
    stored = coo.data
    missing = np.isnan(stored) if stored.dtype.kind == "f" else np.zeros(len(stored), dtype=bool)
    wrong = ~missing & (stored != 0) & (stored != 1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"Sparse Y holds {stored[at]!s} at row {coo.row[at]}, column {coo.col[at]}, but a "
            "sparse Y is read as a 0/1 indicator matrix: give class variables with more than two "
            "values as a dense array."
        )
    codes = np.zeros(Y.shape, dtype=np.int32)
    codes[coo.row, coo.col] = np.where(missing, -1, stored != 0)
    return codes


def _series_values(series: Any) -> Values:
    # with gaps, whole numbers would become floats
    if series.null_count() and not (series.dtype.is_float() or series.dtype.is_temporal()):
        return object_array(series.to_list())
    values = np.asarray(series.to_numpy())
    if values.ndim != 1:
        raise ValueError(
            f"Column {series.name!r} of Y has {values.ndim} dimensions: give one value per row."
        )
    return values


def _read_rows(Y: Sequence[Any], lists: Lists) -> Columns | Codes | LabelRows:
    """Read a list: of sets, of rows, or of single values."""
    rows = list(Y)
    if any(isinstance(row, set | frozenset) for row in rows):
        return _label_rows(rows)
    nested = [row for row in rows if isinstance(row, list | tuple)]
    lengths = sorted({len(row) for row in nested})
    ragged = bool(nested) and (len(nested) != len(rows) or len(lengths) > 1)
    only_strings = any(nested) and all(isinstance(value, str) for row in nested for value in row)
    if only_strings and (ragged or lists == "sets"):
        return _label_rows(rows)
    if only_strings and lists == "asked":
        raise ValueError(
            f"Y is a list of {len(rows)} lists of {lengths[0]} string{'s' * (lengths[0] != 1)} "
            "each: sets or class variables? Give sets, [set(row) for row in Y], where they are the "
            "labels that a row has; give an array, numpy.array(Y), where each column is a class "
            "variable."
        )
    if ragged:
        raise ValueError(
            f"Y is ragged: its {len(rows)} rows are not all lists of one length (lengths seen: "
            f"{few(lengths)}). Give every row the same number of values, one per class variable, "
            "or give each row as a set of labels."
        )
    # numbers, strings, arrays: NumPy's own rules, except that they turn 1 into "1"
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise ValueError(
            f"Y is ragged: its {len(rows)} rows do not have one shape ({error}). Give every row "
            "the same number of values, or give each row as a set of labels."
        ) from None
    if array.dtype.kind in "US":
        objects = np.array(rows, dtype=object)
        if not all(isinstance(value, str | bytes) for value in objects.flat):
            array = objects
    return _read_array(array, None, "table")


def _label_rows(rows: Iterable[Any]) -> LabelRows:
    collected: LabelRows = []
    for position, row in enumerate(rows):
        if isinstance(row, set | frozenset | list | tuple | np.ndarray):
            collected.append(tuple(row))
        elif is_missing(row):
            collected.append(None)
        else:
            raise ValueError(
                f"Row {position} of Y is {row!r}, but other rows are sets of labels: give every "
                "row as a set (empty for no label, None for labels that were not observed)."
            )
    return collected


def _read_array(
    array: Values, names: tuple[str, ...] | None, lists: Lists
) -> Columns | Codes | LabelRows:
    if array.ndim == 1 and array.dtype == object:
        rows = array.tolist()
        if any(isinstance(row, set | frozenset | list | tuple | np.ndarray) for row in rows):
            rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
            # a column of lists of strings is a column of label lists, whatever their lengths
            return _read_rows(rows, "sets")
    if array.ndim not in (1, 2):
        raise ValueError(
            f"Y has shape {array.shape}, that is {array.ndim} dimensions: give labels of shape "
            "(n, d), one row per instance and one column per class variable, or of shape (n,)."
        )
    _require_cells(array.shape)
    if lists == "sets" and array.ndim == 2 and array.dtype.kind == "U":
        return _label_rows(array.tolist())
    if array.ndim == 1:
        return Columns((array,), names, is_vector=True)
    return Columns(tuple(array.T), names, is_vector=False)


def _require_cells(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        what = "rows" if shape[0] == 0 else "columns"
        raise ValueError(
            f"Y is empty: its shape is {tuple(shape)}, with 0 {what}. Give at least one row and "
            "one class variable."
        )


def unique_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Names as strings; ValueError when two are the same."""
    if isinstance(names, str):
        raise ValueError(
            f"names is the single string {names!r}: give a sequence of names, one per variable."
        )
    texts = tuple(str(name) for name in names)
    seen: set[str] = set()
    repeated = {text for text in texts if text in seen or seen.add(text)}  # type: ignore[func-returns-value]
    if repeated:
        raise ValueError(
            f"Label names must differ, but some occur more than once: {few(sorted(repeated))}. "
            "Rename them, since a label is asked for by its name."
        )
    return texts


def default_names(n_labels: int) -> tuple[str, ...]:
    """Default names of variables: "y0", "y1", …."""
    return tuple(f"y{i}" for i in range(n_labels))


def chosen_names(
    given: Sequence[str] | None, found: tuple[str, ...] | None, n_labels: int
) -> tuple[str, ...]:
    """Names of n_labels variables: those given, else those found with Y, else the default."""
    if given is None:
        return found if found is not None else default_names(n_labels)
    names = unique_names(given)
    if len(names) != n_labels:
        raise ValueError(
            f"names has {len(names)} entries ({few(names)}), but Y has {n_labels} label "
            f"variable{'s' * (n_labels != 1)}: give one name per variable."
        )
    return names


def set_codes(given: LabelRows, names: tuple[str, ...]) -> Codes:
    """0/1 codes (n, d) of rows of labels; -1 throughout a row that was not observed."""
    position = {name: i for i, name in enumerate(names)}
    codes = np.zeros((len(given), len(names)), dtype=np.int32)
    unknown: dict[str, None] = {}
    for i, row in enumerate(given):
        if row is None:
            codes[i] = -1
            continue
        for label in row:
            at = position.get(str(label))
            if at is None:
                unknown[str(label)] = None
            else:
                codes[i, at] = 1
    if unknown:
        raise ValueError(
            f"Y holds the unknown labels {few(sorted(unknown))}: known are {few(names)}."
        )
    return codes


def sets_of(codes: Values, labels: tuple[Hashable, ...]) -> list[set[Hashable] | None]:
    """Turn 0/1 codes (n, d) into n sets of labels; None for a row without any observed label."""
    absent: Flags = np.all(codes < 0, axis=1)
    check_representable((codes < 0) & ~absent[:, None], "a set")
    return [
        None if none else {labels[i] for i in np.flatnonzero(row)}
        for row, none in zip(codes, absent, strict=True)
    ]


def check_representable(missing: Flags, container: str) -> None:
    """Raise where a container cannot hold the missing labels marked in (n, d) booleans."""
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"Label {column} of row {row} is missing, and {container} cannot say so: use "
            "`values(codes)` for an array that holds None there."
        )
