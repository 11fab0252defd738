"""The data sets the literature uses: their files, checksums and shapes.

No file is part of the repository: `load` reads them from a folder, as published by Mulan and MEKA.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from colabel.datasets import Dataset, read_dataset
from colabel.tables import TableError
from studies.datasets.rcv1 import most_common_labels, read_rcv1, repair_rcv1


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
    drop: tuple[str, ...] = ()
    derived_from: str = ""
    repaired: bool = False

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.shape[2]

    def read(self, folder: Path) -> Dataset:
        """Read its files: as those of Mulan, MEKA or another ARFF, as CSV, or as stored arrays."""
        files = [folder / file for file, _ in self.files]
        if any(file.suffix == ".npz" for file in files):
            return read_rcv1(folder)
        is_said = any(file.suffix == ".xml" for file in files) or "-C " in _first_line(files[0])
        return read_dataset(files[0], () if is_said else -self.n_labels, drop=self.drop)


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as text:
        return text.readline()


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


def describe(name: str) -> CatalogueEntry:
    """Say what the catalogue knows of a data set, without reading it."""
    if name not in CATALOGUE:
        close = get_close_matches(name.lower(), CATALOGUE, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "choose one of "
        if not close:
            originals = [known for known, entry in CATALOGUE.items() if not entry.derived_from]
            hint += f"{', '.join(originals)}."
        raise TableError(f"There is no data set {name!r} in the catalogue: {hint}")
    return CATALOGUE[name]


def load(name: str, *, data_home: str | Path | None = None, repaired: bool = False) -> Dataset:
    """Load a data set of the catalogue from a folder.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    data_home : str or path, optional
        Folder with one folder a data set; by default the environment variable ``COLABEL_DATA``.
        The files are verified by their SHA-256 checksums.
    repaired : bool, default=False
        For the rcv1 sets: put the labels that slipped in one half of the rows back in place; the
        names that end in "_repaired" do so too. The published figures were measured without.
    """
    entry = describe(name)
    stored = describe(entry.derived_from) if entry.derived_from else entry
    if repaired and not stored.name.startswith("rcv1"):
        raise TableError(
            f"repaired=True is for the rcv1 sets; {name!r} has nothing to repair: leave it out."
        )
    home = data_home or os.environ.get("COLABEL_DATA")
    folder = Path(home or ".") / stored.name
    if not home or not all((folder / file).is_file() for file, _ in stored.files):
        files = ", ".join(file for file, _ in stored.files)
        raise TableError(
            f"{name!r} was not found in {folder if home else 'a folder: COLABEL_DATA is not set'}. "
            f"Put the files {files} into a folder named {stored.name}, and pass the folder above "
            "it as data_home or set COLABEL_DATA to it."
        )
    for file, expected in stored.files:
        with (folder / file).open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
        if actual != expected:
            raise TableError(
                f"{folder / file} is not the file the catalogue knows (its SHA-256 is {actual}, "
                f"expected {expected}): fetch it again, or read your own version with read_dataset."
            )
    data = replace(stored.read(folder), name=stored.name)
    if repaired or entry.repaired:
        data = repair_rcv1(data)
    if entry.n_labels < stored.n_labels:
        data = most_common_labels(data, entry.n_labels)
    return replace(data, name=entry.name, description=entry.description)
