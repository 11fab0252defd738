"""What was seen in a table, before anything is learned from it."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from colabel.tables.columns import ColumnChoice, ColumnStatistics, Kind
from colabel.tables.loading import TableData
from colabel.tables.table_labels import Labels

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
    tally = LabelTally.of(data.labels)
    return tally.summary(str(data.path), data.choice, data.counted, data.n_unlabelled)


@dataclass(frozen=True)
class LabelTally:
    """What is counted in the labels of some rows; that of several parts adds up.

    Attributes
    ----------
    names : tuple of d str
    is_zero_one : bool
    n_rows : int
    n_present : int
        Of 0/1 labels, how many are there in all the rows.
    counts : tuple of d {value: rows}
    vectors : frozenset
        The label vectors of fully labelled rows.
    columns : tuple of d bytes
        Digests of the columns: labels that are always the same have the same.
    """

    names: tuple[str, ...]
    is_zero_one: bool
    n_rows: int
    n_present: int
    counts: tuple[Counter[Any], ...]
    vectors: frozenset[Any]
    columns: tuple[bytes, ...]

    @classmethod
    def of(cls, labels: Labels) -> LabelTally:
        """Count in labels."""
        codes = np.ascontiguousarray(labels.codes, dtype=np.int32)
        counts = []
        for values, column in zip(labels.values, codes.T, strict=True):
            times = np.bincount(column[column >= 0], minlength=len(values)).tolist()
            counts.append(Counter({v: n for v, n in zip(values, times, strict=True) if n}))
        complete = codes[(codes >= 0).all(axis=1)]
        rows = complete.view(np.dtype((np.void, complete.itemsize * complete.shape[1])))
        columns = tuple(
            _digest(repr(values).encode() + column.tobytes())
            for values, column in zip(labels.values, codes.T, strict=True)
        )
        vectors = frozenset(np.unique(rows.ravel()).tolist())
        n_present = int((codes == 1).sum())
        return cls(
            labels.names,
            labels.is_zero_one,
            len(codes),
            n_present,
            tuple(counts),
            vectors,
            columns,
        )

    def __add__(self, other: LabelTally) -> LabelTally:
        return LabelTally(
            self.names,
            self.is_zero_one,
            self.n_rows + other.n_rows,
            self.n_present + other.n_present,
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            self.vectors | other.vectors,
            tuple(_digest(a + b) for a, b in zip(self.columns, other.columns, strict=True)),
        )

    def summary(
        self, path: str, choice: ColumnChoice, counted: ColumnStatistics, n_unlabelled: int
    ) -> TableSummary:
        """Return what was seen in a table with these labels."""
        labels = tuple(map(self._count, self.names, self.counts))
        used = [column.name for column in choice.used]
        kinds = {kind: choice.of_kind(kind) for kind in get_args(Kind)}
        return TableSummary(
            path=path,
            n_rows=self.n_rows,
            kinds={kind: names for kind, names in kinds.items() if names},
            left_out=dict(choice.left_out),
            missing_share=counted.n_missing(used) / max(1, self.n_rows * len(used)),
            is_sparse=counted.is_sparse,
            labels=labels,
            labels_per_row=self.n_present / self.n_rows if self.is_zero_one else None,
            n_label_sets=len(self.vectors),
            warnings=tuple(_warnings(n_unlabelled, labels, self._duplicates())),
        )

    def _count(self, name: str, counts: Counter[Any]) -> LabelCount:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        n_missing = self.n_rows - sum(counts.values())
        return LabelCount(name, {str(v): n for v, n in ordered}, n_missing)

    def _duplicates(self) -> list[list[str]]:
        groups: dict[bytes, list[str]] = {}
        for name, column in zip(self.names, self.columns, strict=True):
            groups.setdefault(column, []).append(name)
        return [names for names in groups.values() if len(names) > 1]


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _warnings(
    n_unlabelled: int, labels: tuple[LabelCount, ...], duplicates: list[list[str]]
) -> list[str]:
    found = []
    if n_unlabelled:
        found.append(f"{_n(n_unlabelled, 'row')} without any known label left out.")
    constant = [label.name for label in labels if len(label.counts) < 2]
    if constant:
        found.append(
            f"The same in every row: {_listed(constant)}. Nothing can be learned about "
            f"{_it(constant)}."
        )
    for names in duplicates:
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


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _n(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
