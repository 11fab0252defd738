"""Dataset: features, labels and their names, as every reader returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from colabel.tables import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.tables.frame import Features


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A multi-label or multi-dimensional data set.

    Attributes
    ----------
    name : str
        Short name, as used in tables.
    X : ndarray or scipy.sparse.csr_array of shape (n_rows, n_features)
        Features, float64. Missing values are NaN.
    Y : ndarray of shape (n_rows, n_labels)
        Labels: integers (0/1 for a multi-label set) or strings; where entries are missing, an
        array of objects with None.
    feature_names, label_names : tuple of str
        One name per column of X and of Y.
    description : str
        A sentence or two for people.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.datasets import Dataset
    >>> data = Dataset("toy", np.eye(3), np.array([[0, 1], [1, 1], [0, 1]]))
    >>> data
    Dataset('toy': 3 rows, 3 features, 2 labels)
    >>> data.label_names, data.distinct_label_sets
    (('y1', 'y2'), 2)
    >>> round(data.label_cardinality, 3)
    1.333
    """

    name: str
    X: Features
    Y: NDArray[Any]
    feature_names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.Y.ndim != 2 or self.X.shape[0] != self.Y.shape[0]:
            raise TableError(
                f"X has shape {self.X.shape} and Y has shape {self.Y.shape}: both need two "
                "dimensions and the same number of rows."
            )
        for attribute, prefix, n_columns in (
            ("feature_names", "x", self.X.shape[1]),
            ("label_names", "y", self.Y.shape[1]),
        ):
            names = getattr(self, attribute) or tuple(f"{prefix}{i + 1}" for i in range(n_columns))
            if len(names) != n_columns:
                raise TableError(
                    f"{attribute} has {len(names)} names for {n_columns} columns: give one each."
                )
            object.__setattr__(self, attribute, tuple(names))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of columns of Y."""
        return int(self.Y.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse array."""
        return sparse.issparse(self.X)

    @property
    def is_binary(self) -> bool:
        """Whether every label is 0 or 1, with none missing (multi-label)."""
        return self.Y.dtype.kind in "iub" and bool(np.isin(self.Y, (0, 1)).all())

    @property
    def label_cardinality(self) -> float:
        """Mean number of labels a row (LC); only for 0/1 labels."""
        if not self.is_binary:
            raise TableError(
                f"The label cardinality counts ones, but the labels of {self.name!r} are not all "
                "0 or 1: it has no meaning for class variables with other values."
            )
        return float(self.Y.sum(axis=1).mean())

    @property
    def distinct_label_sets(self) -> int:
        """Number of different rows of Y (DLS)."""
        return len(set(map(tuple, self.Y.tolist())))

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.n_rows} rows, {self.n_features} "
            f"{'sparse ' if self.is_sparse else ''}features, {self.n_labels} labels)"
        )
