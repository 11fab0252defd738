"""What was seen in a table, before anything is learned from it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from colabel.core.arrays import Indices
from colabel.labels import LabelSpace
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
    space : LabelSpace
    n_rows : int
    counts : tuple of d arrays
        Rows that have each value of a label.
    vectors : frozenset
        The label vectors of fully labelled rows.
    digests : tuple of d bytes
        Of the columns: labels that are always the same have the same.
    """

    space: LabelSpace
    n_rows: int
    counts: tuple[Indices, ...]
    vectors: frozenset[Any]
    digests: tuple[bytes, ...]

    @classmethod
    def of(cls, labels: Labels) -> LabelTally:
        """Count in labels."""
        codes = np.ascontiguousarray(labels.codes, dtype=np.int32)
        pairs = list(zip(labels.space.classes, codes.T, strict=True))
        complete = codes[(codes >= 0).all(axis=1)]
        rows = complete.view(np.dtype((np.void, complete.itemsize * complete.shape[1])))
        return cls(
            labels.space,
            len(codes),
            tuple(np.bincount(own[own >= 0], minlength=len(values)) for values, own in pairs),
            frozenset(np.unique(rows.ravel()).tolist()),
            tuple(_digest(repr(v.tolist()).encode() + own.tobytes()) for v, own in pairs),
        )

    def __add__(self, other: LabelTally) -> LabelTally:
        return LabelTally(
            self.space,
            self.n_rows + other.n_rows,
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            self.vectors | other.vectors,
            tuple(_digest(a + b) for a, b in zip(self.digests, other.digests, strict=True)),
        )

    def summary(
        self, path: str, choice: ColumnChoice, counted: ColumnStatistics, n_unlabelled: int
    ) -> TableSummary:
        """Return what was seen in a table with these labels."""
        labels = []
        alike: dict[bytes, list[str]] = {}
        for name, classes, times, digest in zip(
            self.space.names, self.space.classes, self.counts, self.digests, strict=True
        ):
            pairs = zip(map(str, classes.tolist()), times.tolist(), strict=True)
            counts = dict(sorted((p for p in pairs if p[1]), key=lambda pair: (-pair[1], pair[0])))
            labels.append(LabelCount(name, counts, self.n_rows - sum(counts.values())))
            alike.setdefault(digest, []).append(name)
        used = [column.name for column in choice.used]
        kinds = {kind: choice.of_kind(kind) for kind in get_args(Kind)}
        n_present = sum(int(t[1]) for t in self.counts) if self.space.is_indicator else 0
        return TableSummary(
            path=path,
            n_rows=self.n_rows,
            kinds={kind: names for kind, names in kinds.items() if names},
            left_out=dict(choice.left_out),
            missing_share=counted.n_missing(used) / max(1, self.n_rows * len(used)),
            is_sparse=counted.is_sparse,
            labels=tuple(labels),
            labels_per_row=n_present / self.n_rows if self.space.is_indicator else None,
            n_label_sets=len(self.vectors),
            warnings=tuple(_warnings(n_unlabelled, labels, list(alike.values()))),
        )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _warnings(n_unlabelled: int, labels: list[LabelCount], alike: list[list[str]]) -> list[str]:
    def listed(names: list[str]) -> str:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(names[:_LISTED]) + more

    def it(names: list[str]) -> str:
        return "it" if len(names) == 1 else "them"

    found = []
    if n_unlabelled:
        rows = f"{n_unlabelled:,} row{'s' * (n_unlabelled != 1)}"
        found.append(f"{rows} without any known label left out.")
    constant = [own.name for own in labels if len(own.counts) < 2]
    if constant:
        found.append(
            f"The same in every row: {listed(constant)}. Nothing can be learned about "
            f"{it(constant)}."
        )
    same = [names for names in alike if len(names) > 1]
    found += [f"The labels {listed(names)} are the same in every row." for names in same]
    rare = [o.name for o in labels if len(o.counts) > 1 and min(o.counts.values()) < _RARE]
    if rare:
        found.append(
            f"Fewer than {_RARE} rows have a value of {listed(rare)}: expect little for {it(rare)}."
        )
    n_missing = sum(own.n_missing for own in labels)
    if n_missing:
        found.append(
            f"{n_missing:,} label {'entry' if n_missing == 1 else 'entries'} missing: such rows "
            "serve the labels they have. Exact match is of the rows that lack none, all else of "
            "the known labels."
        )
    return found
