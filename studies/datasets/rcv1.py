"""The five RCV1 subsets: reading the stored arrays, repairing them, and the top-ten versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from scipy import sparse

from colabel.datasets import Dataset
from colabel.tables import TableError, read_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Where the labels slipped into the last k feature columns: first row, row after the last, k.
_SLIPPED = {
    "rcv1subset1": (3000, 6000, 1),
    "rcv1subset2": (3000, 6000, 12),
    "rcv1subset3": (3000, 6000, 14),
    "rcv1subset4": (3000, 6000, 24),
    "rcv1subset5": (0, 3000, 11),
}


def read_rcv1(folder: Path) -> Dataset:
    """Read X.npz (a SciPy CSR matrix) and Y.csv.gz of one subset."""
    try:
        stored: Any = sparse.load_npz(folder / "X.npz")
        X: Any = sparse.csr_array(stored, dtype=np.float64)
    except (OSError, ValueError, BadZipFile, KeyError) as error:
        raise TableError(
            f"{folder / 'X.npz'} is not a sparse matrix that SciPy saved ({error}): fetch it again."
        ) from error
    table = read_frame(folder / "Y.csv.gz")
    Y = np.asarray(table.numbers).astype(np.int64)
    return Dataset(folder.name, X, Y, (), table.number_names)


def repair_rcv1(data: Dataset) -> Dataset:
    """Undo the slip of the labels in one half of the rows.

    In each published file the first k labels of one half of the rows stand in the last k feature
    columns, and the others have moved k places to the left. The published figures were measured
    on the files as they are, so this is done only on request.

    Parameters
    ----------
    data : Dataset
        One of rcv1subset1 to rcv1subset5, as stored.

    Returns
    -------
    Dataset
        With the labels put back and those feature columns set to zero in the rows concerned.
    """
    first, end, k = _SLIPPED[data.name]
    X = sparse.csr_array(data.X)
    n_kept = X.shape[1] - k
    slipped = X[first:end][:, n_kept:].toarray()
    Y = data.Y.copy()
    Y[first:end] = np.hstack([slipped, Y[first:end]])[:, : data.n_labels]
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    X = X.copy()
    X.data[(rows >= first) & (rows < end) & (X.indices >= n_kept)] = 0.0
    X.eliminate_zeros()
    return replace(data, X=X, Y=Y)


def most_common_labels(data: Dataset, n_labels: int = 10, min_rows: int = 4) -> Dataset:
    """Keep the most common labels, and the features that are not zero in enough rows.

    Parameters
    ----------
    data : Dataset
        A set with 0/1 labels and sparse features.
    n_labels : int, default=10
        How many labels to keep.
    min_rows : int, default=4
        In how many rows a feature has to occur.

    Returns
    -------
    Dataset
        With the columns that are kept in their old order; all rows stay.
    """
    X = sparse.csr_array(data.X)
    by_count = np.argsort(-data.Y.sum(axis=0), kind="stable")
    labels = np.sort(by_count[:n_labels])
    occurs: NDArray[np.int64] = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    features = np.flatnonzero(occurs >= min_rows)
    return replace(
        data,
        X=sparse.csr_array(X[:, features]),
        Y=data.Y[:, labels],
        feature_names=tuple(data.feature_names[j] for j in features),
        label_names=tuple(data.label_names[j] for j in labels),
    )
