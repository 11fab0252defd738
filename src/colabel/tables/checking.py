"""What was seen in a table, before anything is learned from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.tables.loading import TableData

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RARE = 10  # rows; below this a label can hardly be learned, nor its score trusted
_LISTED = 5


@dataclass(frozen=True)
class LabelCount:
    """How often each value of a label occurs, most frequent first."""

    name: str
    counts: dict[str, int]
    n_missing: int


@dataclass(frozen=True)
class TableSummary:
    """What was seen in a table.

    Attributes
    ----------
    path : str
    n_rows : int
        Rows with at least one known label.
    kinds : {kind: names of the columns}
    left_out : {name: reason}
    missing_share : float
        Share of the used features' cells that are empty.
    is_sparse : bool
    labels : tuple of LabelCount
    labels_per_row : float or None
        Mean number of labels of a row; None for class variables.
    n_label_sets : int
        Different label vectors among the fully labelled rows.
    warnings : tuple of str
        Sentences about what may go wrong.
    """

    path: str
    n_rows: int
    kinds: dict[str, list[str]]
    left_out: dict[str, str]
    missing_share: float
    is_sparse: bool
    labels: tuple[LabelCount, ...]
    labels_per_row: float | None
    n_label_sets: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def summarise(data: TableData) -> TableSummary:
    r"""Count rows, columns, labels and missing values, and look for what may go wrong.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table, summarise
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,a,b\n" + "1,0,1\n2,1,1\n5,1,1\n" * 10)
    >>> summary = summarise(load_table(TableRequest(file, ["a", "b"])))
    >>> summary.labels[0].counts, summary.labels_per_row.__round__(2)
    ({'1': 20, '0': 10}, 1.67)
    >>> summary.warnings
    ('The same in every row: b. Nothing can be learned about it.',)
    >>> folder.cleanup()
    """
    Y, missing = data.labels.Y, data.labels.missing
    labels = tuple(_count(name, Y[:, i], missing[:, i]) for i, name in enumerate(data.labels.names))
    complete = Y[~missing.any(axis=1)]
    per_row = float(np.nansum(Y) / len(Y)) if data.labels.is_zero_one else None
    kinds = {kind: data.choice.of_kind(kind) for kind in ("number", "category", "text")}
    return TableSummary(
        path=str(data.path),
        n_rows=len(Y),
        kinds={kind: names for kind, names in kinds.items() if names},
        left_out=dict(data.choice.left_out),
        missing_share=_missing_share(data),
        is_sparse=data.features.is_sparse,
        labels=labels,
        labels_per_row=per_row,
        n_label_sets=len({tuple(row) for row in complete.tolist()}),
        warnings=tuple(_warnings(data, labels)),
    )


def _count(name: str, column: NDArray[Any], missing: NDArray[np.bool_]) -> LabelCount:
    known = column[~missing].tolist()
    counted = Counter(int(v) if isinstance(v, float) else v for v in known)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], str(item[0])))
    return LabelCount(name, {str(v): n for v, n in ordered}, int(missing.sum()))


def _missing_share(data: TableData) -> float:
    names = [column.name for column in data.choice.used]
    numeric = data.choice.of_kind("number")
    block = data.features.block(numeric)
    values = block if isinstance(block, np.ndarray) else block.data
    n_missing = int(np.isnan(values).sum())
    for name in set(names) - set(numeric):
        n_missing += sum(text is None for text in data.features.texts[name])
    return n_missing / max(1, data.features.n_rows * len(names))


def _warnings(data: TableData, labels: tuple[LabelCount, ...]) -> list[str]:
    found = []
    if data.n_unlabelled:
        found.append(f"{_n(data.n_unlabelled, 'row')} without any known label left out.")
    constant = [label.name for label in labels if len(label.counts) < 2]
    if constant:
        found.append(
            f"The same in every row: {_listed(constant)}. Nothing can be learned about "
            f"{_it(constant)}."
        )
    for names in _duplicates(data):
        found.append(f"The labels {_listed(names)} are the same in every row.")
    rare = [
        label.name
        for label in labels
        if len(label.counts) > 1 and min(label.counts.values()) < _RARE
    ]
    if rare:
        found.append(
            f"Fewer than {_RARE} rows have a value of {_listed(rare)}: expect little for "
            f"{_it(rare)}."
        )
    n_missing = sum(label.n_missing for label in labels)
    if n_missing:
        found.append(
            f"{_n(n_missing, 'label entry', 'label entries')} missing: such rows serve the labels "
            "they have. Exact match is of the rows that lack none, all else of the known labels."
        )
    return found


def _duplicates(data: TableData) -> list[list[str]]:
    groups: dict[bytes, list[str]] = {}
    for name, column in zip(data.labels.names, data.labels.Y.T, strict=True):
        values = np.array([str(v) for v in column.tolist()])
        groups.setdefault(values.tobytes(), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _n(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
