"""What labels are there: the variables of training labels and their values.

Nothing here knows a `LabelSpace`, which is made from what :func:`infer_fields` finds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from colabel.core.arrays import Codes
from colabel.labels.columns import MISSING, Values, distinct, few, is_missing, ordered, tidy
from colabel.labels.inputs import (
    Columns,
    Indicator,
    LabelRows,
    chosen_names,
    read,
    set_codes,
    unique_names,
)

Kind = Literal["vector", "matrix", "sparse", "sets"]


class Inferred(NamedTuple):
    """The fields of a `LabelSpace`, in its order."""

    names: tuple[str, ...]
    classes: tuple[Values, ...]
    kind: Kind
    members: tuple[Hashable, ...] = ()


def infer_fields(
    Y: Any, names: Sequence[str] | None, *, allow_unobserved: bool, strings_are_labels: bool
) -> tuple[Inferred, Codes]:
    """Names, values and kind of labels Y, with the codes (n, d); see `labels.infer_space`."""
    given = read(Y, strings_are_labels=strings_are_labels)
    if isinstance(given, LabelRows):
        fields = _infer_sets(given, names, allow_unobserved)
        codes = set_codes(given, fields.names)
    elif isinstance(given, Indicator):
        codes = given.codes
        d = codes.shape[1]
        fields = Inferred(chosen_names(names, None, d), (np.array([0, 1]),) * d, "sparse")
    else:
        chosen = chosen_names(names, given.names, len(given.arrays))
        fields, codes = _infer_columns(given, chosen)
    observed = (codes != MISSING).any(axis=0)
    if not (allow_unobserved or observed.all()):
        none = [name for name, seen in zip(fields.names, observed, strict=True) if not seen]
        raise ValueError(
            f"Y has no observed value for {few(none)}: every entry is missing (NaN or None). Leave "
            "the variable out, or give at least one observed label."
        )
    return fields, codes


def _infer_columns(given: Columns, names: tuple[str, ...]) -> tuple[Inferred, Codes]:
    codes = np.full((len(given.arrays[0]), len(names)), MISSING, dtype=np.int32)
    classes: list[Values] = []
    for i, (array, name) in enumerate(zip(given.arrays, names, strict=True)):
        values, observed = tidy(array, name)
        found, column = distinct(values, name)
        codes[slice(None) if observed is None else observed, i] = column
        classes.append(found)
    if given.is_vector:
        return Inferred(names, tuple(classes), "vector"), codes
    if all(c.dtype.kind in "biuf" and np.isin(c, (0, 1)).all() for c in classes):
        for i, found in enumerate(classes):
            if len(found) == 1 and found[0] == 1:
                codes[codes[:, i] == 0, i] = 1
        classes = [np.array([0, 1]).astype(c.dtype) for c in classes]
    return Inferred(names, tuple(classes), "matrix"), codes


def _infer_sets(given: LabelRows, names: Sequence[Any] | None, allow_empty: bool) -> Inferred:
    labels: list[Any]
    if names is None:
        labels = ordered((label for row in given.rows for label in row or ()), "Y")
    else:
        labels = list(names) if not isinstance(names, str) else [*unique_names(names)]
    if any(is_missing(label) for label in labels):
        raise ValueError(
            "A set of labels in Y holds a missing value (None or NaN): leave it out of the set, or "
            "give None for the whole row if its labels were not observed."
        )
    if not (labels or allow_empty):
        raise ValueError(
            f"Y is empty: none of its {len(given.rows)} sets holds a label. Give at least one "
            "label, or all label names with `label_names=` (`names=` of LabelSpace.infer)."
        )
    members = () if all(isinstance(label, str) for label in labels) else tuple(labels)
    classes = (np.array([0, 1]),) * len(labels)
    return Inferred(unique_names(labels), classes, "sets", members)
