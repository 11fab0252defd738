"""What the data sets of a study look like, beside what a paper prints of them."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from colabel.tables import TableError
from studies.datasets import Dataset
from studies.evaluate import load_data
from studies.plan import Plan

COLUMNS = {
    "rows": "rows",
    "features": "features",
    "labels": "labels",
    "cardinality": "labels a row",
    "distinct": "distinct label sets",
}
"""The characteristics by the names that plans use, and as columns are headed."""


def size_words(value: float) -> str:
    """Write a characteristic.

    Examples
    --------
    >>> size_words(6000), size_words(1.86847)
    ('6000', '1.868')
    """
    return f"{round(value, 3):.9g}"


class Characteristics(NamedTuple):
    """Sizes of a data set.

    Attributes
    ----------
    rows, features, labels : int
    cardinality : float
        Mean number of labels of a row.
    distinct : int
        Number of distinct label vectors.
    """

    rows: int
    features: int
    labels: int
    cardinality: float
    distinct: int

    @classmethod
    def of(cls, data: Dataset) -> Characteristics:
        """Count them."""
        Y = np.asarray(data.Y)
        on = np.count_nonzero(Y.astype(float) == 1.0) if Y.dtype.kind in "iufb" else np.nan
        distinct = len(np.unique(Y.astype(str) if Y.dtype == object else Y, axis=0))
        n_rows, n_features = data.X.shape
        return cls(n_rows, n_features, Y.shape[1], float(on) / n_rows, distinct)


def sizes(plan: Plan, data_home: str | None = None) -> dict[str, Characteristics]:
    """Return those of the data sets that are here and of which a paper prints some."""
    found = {}
    for data in plan.datasets:
        known = _here(data.name, data_home) if data.printed else None
        if known is not None:
            found[data.name] = Characteristics.of(known)
    return found


def _here(name: str, data_home: str | None) -> Dataset | None:
    """Return a data set that comes with the library or lies in a folder."""
    with contextlib.suppress(TableError):
        return load_data(name, data_home)
    return None
