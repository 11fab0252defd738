"""What features are measured against: the label set as a whole, or each label."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Indices
from colabel.labels import MISSING, LabelSpace

Target = Literal["label set", "each label"]
TARGETS: tuple[Target, ...] = ("label set", "each label")


class TargetColumn(NamedTuple):
    """One class variable: the rows where it is known (m,), its codes there (m,), its name."""

    rows: Indices
    codes: Indices
    n_values: int


def target_columns(Y: Any, n_rows: int, target: Target) -> list[TargetColumn]:
    """Class variables to measure features against.

    "label set" makes one, whose values are the distinct label vectors of the rows without
    missing labels; "each label" one per label, of the rows where that label is known.
    """
    if target not in TARGETS:
        raise ValueError(f"target={target!r} is not known: choose one of {TARGETS}.")
    _, codes = LabelSpace.infer(Y)
    if len(codes) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {len(codes)}. Give one row of labels for each row of X."
        )
    if target == "each label":
        return [_column(codes[:, [i]]) for i in range(codes.shape[1])]
    return [_column(codes)]


def _column(codes: NDArray[Any]) -> TargetColumn:
    rows = np.flatnonzero((codes != MISSING).all(axis=1))
    distinct, place = np.unique(codes[rows], axis=0, return_inverse=True)
    return TargetColumn(rows, place.ravel().astype(np.intp), len(distinct))
