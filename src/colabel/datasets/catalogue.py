"""The data sets the literature uses: their files, checksums, shapes and where OpenML has them.

No file is part of this package: `load` reads them from a folder or fetches them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from colabel.datasets.arff import ArffSource
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.rcv1 import read_rcv1
from colabel.datasets.readers import read_arff_source, read_csv, read_mulan


@dataclass(frozen=True)
class CatalogueEntry:
    """What is known about a data set before it is read.

    Attributes
    ----------
    name : str
        The name `load` takes; also the name of its folder.
    description : str
        A sentence for people.
    shape : tuple of int
        Rows, features and labels. Features are columns of X: identifiers left out, nominal columns
        encoded.
    label_cardinality : float or None
        Mean labels a row, rounded to three digits; None when labels are not 0/1.
    distinct_label_sets : int
        Number of different label vectors.
    files : tuple of (str, str)
        File names in its folder, and their SHA-256 checksums.
    n_attributes : int or None
        Feature columns of the file, where identifiers and encoding make it differ from the shape.
    openml_id : int or None
        Number of the set on OpenML, where it could be confirmed in public material.
    openml_names : tuple of str
        Names to search on OpenML when there is no number; only a set of the right size is taken.
    drop : tuple of str
        Columns that are identifiers.
    derived_from : str
        The set this one is cut from (`most_common_labels`); empty otherwise.
    repaired : bool
        Whether labels that slipped are put back in place first (`repair_rcv1`).
    """

    name: str
    description: str
    shape: tuple[int, int, int]
    distinct_label_sets: int
    label_cardinality: float | None = None
    files: tuple[tuple[str, str], ...] = ()
    n_attributes: int | None = None
    openml_id: int | None = None
    openml_names: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    derived_from: str = ""
    repaired: bool = False

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.shape[2]

    def read(self, folder: Path) -> Dataset:
        """Read its files: as those of Mulan, MEKA or another ARFF, as CSV, or as stored arrays."""
        endings = [Path(file).suffix for file, _ in self.files]
        first = folder / self.files[0][0]
        if ".npz" in endings:
            return read_rcv1(folder)
        if ".xml" in endings:
            return read_mulan(first, drop=self.drop)
        if ".csv" in endings:
            return read_csv(first, labels=self.n_labels)
        source = ArffSource.open(first)
        labels = source.labels or source.names[-self.n_labels :]
        return read_arff_source(source, labels, self.drop, None)


def _entries() -> dict[str, CatalogueEntry]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    found: dict[str, CatalogueEntry] = {}
    for name, told in tomllib.loads(text).items():
        told["files"] = tuple(told["files"].items())
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
        cut = {
            key: plain.pop(key) for key in ("top10", "repaired", "top10_repaired") if key in told
        }
        full = found[name] = CatalogueEntry(name, **plain)
        for key, figures in cut.items():
            found[f"{name}_{key}"] = _cut(full, key, figures)
    # The MLCRF paper's rcv1 is subset 5: cardinality and label sets agree with its table.
    found["rcv1_top10"] = replace(found["rcv1subset5_top10"], name="rcv1_top10")
    return found


def _cut(full: CatalogueEntry, key: str, figures: tuple[Any, ...]) -> CatalogueEntry:
    """Return an RCV1 subset with the ten most common labels, or with its labels put back."""
    n_features, cardinality, label_sets = figures
    is_top, is_repaired = "top10" in key, "repaired" in key
    number = full.name[-1]
    description = (
        f"Reuters news stories and their topics, subset {number}: the ten most common labels, "
        "features in at least four rows."
    )
    if is_repaired:
        of = f"{full.name}_top10" if is_top else full.name
        description = f"{of} with the labels that slipped put back in place."
    return CatalogueEntry(
        f"{full.name}_{key}",
        description,
        (full.shape[0], n_features, 10 if is_top else full.n_labels),
        label_sets,
        cardinality,
        derived_from=full.name,
        repaired=is_repaired,
    )


CATALOGUE: dict[str, CatalogueEntry] = _entries()


def list_datasets() -> dict[str, tuple[int, int, int]]:
    """Names of the data sets `load` knows, each with its rows, features and labels.

    Examples
    --------
    >>> from colabel.datasets import list_datasets
    >>> list_datasets()["yeast"]
    (2417, 103, 14)
    """
    return {name: entry.shape for name, entry in CATALOGUE.items()}


def describe(name: str) -> CatalogueEntry:
    """Say what the catalogue knows of a data set, without reading it.

    Examples
    --------
    >>> from colabel.datasets import describe
    >>> describe("emotions").label_cardinality
    1.868
    """
    if name not in CATALOGUE:
        close = get_close_matches(name.lower(), CATALOGUE, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "choose one of "
        if not close:
            originals = [known for known, entry in CATALOGUE.items() if not entry.derived_from]
            hint += f"{', '.join(originals)}, or of list_datasets()."
        raise DatasetError(
            f"There is no data set {name!r} in the catalogue: {hint} A file of your own is read "
            "with read_mulan, read_meka, read_arff, read_csv or read_parquet; the bundled one with "
            "load_digit_traits()."
        )
    return CATALOGUE[name]
