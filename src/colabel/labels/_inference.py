"""What labels are there: the variables of training labels and their values.

Nothing here knows a `LabelSpace`, which is made from what :func:`infer_fields` finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from colabel.core.arrays import Codes
from colabel.labels.columns import (
    MISSING,
    SEPARATORS,
    Values,
    distinct,
    few,
    is_missing,
    lookup,
    ordered,
    tidy,
)
from colabel.labels.inputs import (
    Columns,
    Indicator,
    LabelRows,
    chosen_names,
    default_names,
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
        raise _unobserved(none)
    return fields, codes


def _infer_columns(given: Columns, names: tuple[str, ...]) -> tuple[Inferred, Codes]:
    codes = np.full((len(given.arrays[0]), len(names)), MISSING, dtype=np.int32)
    classes: list[Values] = []
    for i, (array, name) in enumerate(zip(given.arrays, names, strict=True)):
        values, observed = tidy(array, name)
        found, column = distinct(values, name)
        codes[slice(None) if observed is None else observed, i] = column
        classes.append(found)
    if given.is_vector or given.names:
        _refuse_tags(classes)
    fields = _of_values(classes, names, is_vector=given.is_vector)
    for i, (found, known) in enumerate(zip(classes, fields.classes, strict=True)):
        if len(found) < len(known):  # both values of a 0/1 label, of which one was observed
            codes[codes[:, i] == 0, i] = lookup(known, found)[0] if len(found) else 0
    return fields, codes


def _refuse_tags(classes: Sequence[Values]) -> None:
    """Refuse one class variable whose values are lists of labels: "a;b", "a", "b;c".

    So it is where more than a quarter of the different values hold the separator, and more than
    half of the parts of these occur in another value too. A name such as "Paris, France" stays.
    """
    if len(classes) != 1 or not all(isinstance(value, str) for value in classes[0].tolist()):
        return
    values: list[str] = classes[0].tolist()
    for separator in SEPARATORS:
        rows = [{part.strip() for part in value.split(separator)} - {""} for value in values]
        joined = [parts for value, parts in zip(values, rows, strict=True) if separator in value]
        if 4 * len(joined) <= len(values):
            continue
        times = Counter(part for parts in rows for part in parts)
        own = set().union(*joined)
        if 2 * sum(times[part] > 1 for part in own) > len(own):
            example = next(value for value in values if separator in value)
            raise ValueError(
                f"y is a single class variable with values such as {example!r}, which look like "
                f"labels joined by {separator!r}: split them, y = [set(text.split({separator!r})) "
                "for text in y], for a label each. If they are classes as they stand, give them "
                "as an array of shape (n, 1)."
            )


def _of_values(classes: list[Values], names: tuple[str, ...], *, is_vector: bool) -> Inferred:
    """Fields of columns with these observed values; see the notes of `LabelSpace.infer`."""
    if is_vector:
        return Inferred(names, tuple(classes), "vector")
    if all(c.dtype.kind in "biuf" and np.isin(c, (0, 1)).all() for c in classes):
        classes = [np.array([0, 1]).astype(c.dtype) for c in classes]
    return Inferred(names, tuple(classes), "matrix")


class SeenLabels(NamedTuple):
    """What some rows say of the labels: names, observed values of each, and their container.

    Those of several parts can be `joined`; `fields` is then what `infer_fields` finds in all rows.
    """

    names: tuple[str, ...] | None
    values: tuple[Values, ...]
    kind: Kind

    @classmethod
    def of(cls, Y: Any) -> SeenLabels:
        """Look at labels (n, d) or (n,) in an array, a data frame or a sparse matrix."""
        given = read(Y)
        if isinstance(given, LabelRows):
            raise ValueError(
                "Y holds sets of labels, which are only known together: give chunks of a 0/1 "
                "matrix or of class variables."
            )
        if isinstance(given, Indicator):
            return cls(None, (np.array([0, 1]),) * given.codes.shape[1], "sparse")
        names = default_names(len(given.arrays)) if given.names is None else given.names
        columns = zip(given.arrays, names, strict=True)
        values = tuple(distinct(tidy(column, name).values, name)[0] for column, name in columns)
        return cls(given.names, values, "vector" if given.is_vector else "matrix")

    def joined(self, other: SeenLabels) -> SeenLabels:
        """Join what two parts say."""
        names = self.names or default_names(len(self.values))
        both = [
            a if not len(b) else b if not len(a) else distinct(np.concatenate([a, b]), name)[0]
            for a, b, name in zip(self.values, other.values, names, strict=True)
        ]
        return SeenLabels(self.names, tuple(both), self.kind)

    def fields(self, names: Sequence[str] | None) -> Inferred:
        """Return the fields of the label space."""
        chosen = chosen_names(names, self.names, len(self.values))
        none = [name for name, seen in zip(chosen, self.values, strict=True) if not len(seen)]
        if none:
            raise _unobserved(none)
        if self.kind == "sparse":
            return Inferred(chosen, self.values, "sparse")
        if self.kind == "vector" or self.names:
            _refuse_tags(self.values)
        return _of_values(list(self.values), chosen, is_vector=self.kind == "vector")


def _unobserved(names: list[str]) -> ValueError:
    return ValueError(
        f"Y has no observed value for {few(names)}: every entry is missing (NaN or None). Leave "
        "the variable out, or give at least one observed label."
    )


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
