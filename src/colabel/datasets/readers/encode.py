"""From a table to X and Y: numbers for features, values for labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from colabel.core.arrays import Array
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers.arff_header import Attribute
from colabel.datasets.readers.table import Table
from colabel.datasets.readers.text import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features, SparseFeatures

# Columns that one-hot coding may add to a table, as cells: 400 MB of numbers.
_MOST_CELLS = 50_000_000

_WORDS = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0}
_TRUTH = {"false": 0, "true": 1}


def to_dataset(
    table: Table,
    labels: Sequence[int],
    *,
    name: str,
    dropped: Sequence[int] = (),
    description: str = "",
) -> Dataset:
    """Split a table into features and labels.

    Parameters
    ----------
    table : Table
        The table.
    labels, dropped : sequence of int
        Positions of the label columns, and of columns that are left out.
    name, description : str
        Passed on.

    Returns
    -------
    Dataset
        With the columns in the order of the table.
    """
    chosen, gone = set(labels), set(dropped)
    if chosen & gone:
        both = table.names[min(chosen & gone)]
        raise DatasetError(
            f"The column {both!r} of {table.path} is a label and in drop: choose one."
        )
    features = [j for j in range(len(table.attributes)) if j not in chosen and j not in gone]
    if not chosen or not features:
        raise DatasetError(
            f"{table.path} leaves {len(chosen)} label and {len(features)} feature columns: at "
            "least one of each is needed."
        )
    X, feature_names = _features(table, features)
    Y, label_names = _labels(table, sorted(chosen))
    return Dataset(name, X, Y, feature_names, label_names, description)


@dataclass(frozen=True)
class _Code:
    """How one column becomes output columns: output = lookup[code] or the number itself."""

    how: Literal["number", "lookup", "one-hot"]
    lookup: Array
    names: tuple[str, ...]

    @property
    def keeps_zeros(self) -> bool:
        """Whether a value that a sparse table does not store becomes 0."""
        return self.how == "number" or (self.how == "lookup" and float(self.lookup[0]) == 0.0)


def _feature_code(attribute: Attribute) -> _Code:
    """Choose the code of a feature.

    Two numbers such as {0,1} and two words such as {NO,YES} fill one column; other value lists
    become one 0/1 column for each value, named feature=value.
    """
    values = attribute.values
    if attribute.kind == "numeric":
        return _Code("number", np.zeros(0), (attribute.name,))
    if len(values) <= 2:
        numbers = [_number(value) for value in values]
        words = [_WORDS.get(value.lower()) for value in values]
        for found in (numbers, words):
            if None not in found:
                return _Code("lookup", np.array(found, dtype=np.float64), (attribute.name,))
    names = tuple(f"{attribute.name}={value}" for value in values)
    return _Code("one-hot", np.zeros(0), names)


def is_number(attribute: Attribute) -> bool:
    """Whether a feature fills one column of numbers: numeric, two numbers, or two words."""
    return attribute.kind != "other" and _feature_code(attribute).how != "one-hot"


def numbers_of(
    values: Features, attributes: Sequence[Attribute], columns: Sequence[int]
) -> Features:
    """Return columns for which `is_number` holds as numbers (n_rows, len(columns))."""
    codes = [_feature_code(attributes[j]) for j in columns]
    if not isinstance(values, np.ndarray):
        return _sparse_features(values, columns, codes)
    blocks = [_encode(values[:, j], code) for j, code in zip(columns, codes, strict=True)]
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(values), 0))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in text else None


def _features(table: Table, columns: Sequence[int]) -> tuple[Features, tuple[str, ...]]:
    """Encode the feature columns: X of shape (n_rows, n_features) and its names."""
    codes = [_feature_code(table.attributes[j]) for j in columns]
    names = tuple(name for code in codes for name in code.names)
    values = table.values
    n_rows, is_sparse = values.shape[0], sparse.issparse(values)
    # What a table would fill up with: 0/1 columns, and in a sparse one values that are not 0.
    wide = [c for c in codes if c.how == "one-hot" or (is_sparse and not c.keeps_zeros)]
    n_cells = n_rows * sum(len(code.names) for code in wide)
    if n_cells > _MOST_CELLS:
        widest = max(zip(codes, columns, strict=True), key=lambda pair: len(pair[0].names))[1]
        raise DatasetError(
            f"Encoding the nominal columns of {table.path} would take {n_cells} numbers (the "
            f"widest is {table.names[widest]!r}): list such columns in drop."
        )
    if isinstance(values, np.ndarray):
        blocks = [_encode(values[:, j], code) for j, code in zip(columns, codes, strict=True)]
        return np.concatenate(blocks, axis=1), names
    return _sparse_features(values, columns, codes), names


def _encode(column: Array, code: _Code) -> Array:
    """Encode one full column (n_rows,) as (n_rows, n_columns)."""
    if code.how == "number":
        return column[:, None]
    missing = np.isnan(column)
    positions = np.where(missing, 0, column).astype(np.intp)
    if code.how == "lookup":
        out = code.lookup[positions][:, None]
    else:
        out = np.zeros((len(column), len(code.names)))
        out[np.arange(len(column)), positions] = 1.0
    out[missing] = np.nan
    return out


def _sparse_features(
    values: SparseFeatures, columns: Sequence[int], codes: Sequence[_Code]
) -> SparseFeatures:
    """Encode sparse columns without storing the zeros of those that keep them."""
    kept = [k for k, code in enumerate(codes) if code.keeps_zeros]
    narrow = values[:, [columns[k] for k in kept]].tocsc()
    for position, k in enumerate(kept):
        # In a value list such as {0,1} the position is the number already.
        lookup = codes[k].lookup
        if codes[k].how == "lookup" and not np.array_equal(lookup, np.arange(len(lookup))):
            part = slice(*narrow.indptr[position : position + 2])
            narrow.data[part] = _encode(narrow.data[part], codes[k])[:, 0]
    blocks: list[Any] = [narrow]
    starts = np.cumsum([0, *(len(code.names) for code in codes)])
    order = [int(starts[k]) for k in kept]
    if len(kept) < len(codes):
        by_column = values.tocsc()
        for k, code in enumerate(codes):
            if not code.keeps_zeros:
                full = by_column[:, [columns[k]]].toarray()[:, 0]
                blocks.append(sparse.csc_array(_encode(full, code)))
                order += range(int(starts[k]), int(starts[k + 1]))
    stacked = sparse.hstack(blocks, format="csc")
    X = sparse.csr_array(stacked[:, np.argsort(order)], dtype=np.float64)
    X.eliminate_zeros()
    X.sort_indices()
    return X


def _labels(table: Table, columns: Sequence[int]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Decode the label columns: Y of shape (n_rows, n_labels) and its names."""
    block = table.values[:, columns]
    full = block if isinstance(block, np.ndarray) else block.toarray()
    decoded = [_label_values(full[:, k], table.attributes[j], table) for k, j in enumerate(columns)]
    names = tuple(table.attributes[j].name for j in columns)
    missing = np.isnan(full)
    texts = any(column.dtype.kind == "U" for column in decoded)
    # A set with one textual variable is textual as a whole: an array has one type.
    Y = np.stack([column.astype(str) if texts else column for column in decoded], axis=1)
    if missing.any():
        Y = Y.astype(object if texts else np.float64)
        Y[missing] = None if texts else np.nan
    return Y, names


def _label_values(
    codes: Array, attribute: Attribute, table: Table
) -> NDArray[np.int64] | NDArray[np.str_]:
    """Values (n_rows,) of one class variable; entries that are missing get any value."""
    known = np.where(np.isnan(codes), 0.0, codes)
    if attribute.kind == "numeric":
        if (known != np.round(known)).any() or (np.abs(known) > 2**53).any():
            odd = known[(known != np.round(known)) | (np.abs(known) > 2**53)][0]
            raise DatasetError(
                f"The label column {attribute.name!r} of {table.path} holds {shown(str(odd))}: "
                "labels are whole numbers or names. Is this column a feature?"
            )
        return known.astype(np.int64)
    values = attribute.values
    if all(value.lower() in _TRUTH for value in values):
        lookup: NDArray[Any] = np.array([_TRUTH[value.lower()] for value in values])
    elif all(_is_integer(value) for value in values):
        lookup = np.array([int(value) for value in values], dtype=np.int64)
    else:
        lookup = np.array(values, dtype=np.str_)
    decoded: NDArray[Any] = lookup[known.astype(np.intp)]
    return decoded


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isdecimal() and len(digits) < 16
