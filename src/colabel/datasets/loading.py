"""Loading a data set by name: from a folder, from the cache, or from OpenML."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from colabel.datasets import _openml
from colabel.datasets._http import Report
from colabel.datasets.catalogue import CatalogueEntry, describe
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.rcv1 import most_common_labels, repair_rcv1
from colabel.datasets.text import FilePath

Source = Literal["auto", "local", "cache", "openml"]


def load(
    name: str,
    *,
    data_home: FilePath | None = None,
    source: Source = "auto",
    repaired: bool = False,
    cache_home: FilePath | None = None,
    openml_url: str | None = None,
    progress: bool | Report = True,
) -> Dataset:
    """Load a data set of the catalogue (see `list_datasets`).

    The set is looked for in a local folder, then in the cache, then on OpenML.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    data_home : str or path, optional
        Folder with one folder a data set, as published by Mulan and MEKA; by default the
        environment variable ``COLABEL_DATA``. Files there are verified by their SHA-256 checksums.
    source : {"auto", "local", "cache", "openml"}
        Where to look; "openml" fetches anew.
    repaired : bool, default=False
        For the rcv1 sets: put the labels that slipped in one half of the rows back in place; the
        names that end in "_repaired" do so too. The published figures were measured without.
    cache_home : str or path, optional
        Where fetched files are kept; by default ``COLABEL_CACHE`` or the user's cache folder.
    openml_url : str, optional
        Address of the OpenML server; by default ``COLABEL_OPENML`` or the public one.
    progress : bool or callable, default=True
        Show a progress bar on standard error while fetching, or a function that is called with
        the bytes received and the bytes expected (None when unknown).

    Returns
    -------
    Dataset
        The data set; the names of columns are those of the file it was read from.

    Raises
    ------
    DatasetError
        When the set is unknown, not to be found, damaged, or the server cannot be reached.

    Examples
    --------
    >>> from colabel.datasets import load
    >>> load("emotions")  # doctest: +SKIP
    Dataset('emotions': 593 rows, 72 features, 6 labels)
    """
    entry = describe(name)
    if source not in ("auto", "local", "cache", "openml"):
        raise DatasetError(f'source is {source!r}: choose "auto", "local", "cache" or "openml".')
    stored = describe(entry.derived_from) if entry.derived_from else entry
    if repaired and not stored.name.startswith("rcv1"):
        raise DatasetError(
            f"repaired=True is for the rcv1 sets; {name!r} has nothing to repair: leave it out."
        )
    data = _load_stored(stored, source, data_home, cache_home, openml_url, progress)
    data = replace(data, name=stored.name)
    if repaired or entry.repaired:
        data = repair_rcv1(data)
    if entry.n_labels < stored.n_labels:
        data = most_common_labels(data, entry.n_labels)
    return replace(data, name=entry.name, description=entry.description)


def _load_stored(
    entry: CatalogueEntry,
    source: Source,
    data_home: FilePath | None,
    cache_home: FilePath | None,
    openml_url: str | None,
    progress: bool | Report,
) -> Dataset:
    """Try the sources in their order."""
    home = data_home or os.environ.get("COLABEL_DATA")
    cache = Path(cache_home or os.environ.get("COLABEL_CACHE") or default_cache())
    if source in ("auto", "local") and home and (data := _from_folder(entry, Path(home))):
        return data
    if source in ("auto", "cache") and (data := _openml.from_cache(entry, cache)):
        return data
    files = ", ".join(file for file, _ in entry.files)
    help_text = (
        f"Put the files {files} into a folder named {entry.name}, and pass the folder above it as "
        "data_home or set COLABEL_DATA to it"
    )
    if source in ("local", "cache"):
        where = f"the folder {home}" if source == "local" else f"the cache {cache}"
        if source == "local" and not home:
            where = "a local folder (data_home and COLABEL_DATA are not set)"
        raise DatasetError(f"{entry.name!r} was not found in {where}. {help_text}.")
    if entry.openml_id is None and not entry.openml_names:
        raise DatasetError(
            f"{entry.name!r} was not found locally, and OpenML is not known to have it. "
            f"{help_text}."
        )
    base = (openml_url or os.environ.get("COLABEL_OPENML") or _openml.OPENML).rstrip("/")
    try:
        with _reporting(entry.name, progress) as report:
            return _openml.fetch(entry, cache, base, report)
    except DatasetError as error:
        raise DatasetError(
            f"{entry.name!r} could not be had from OpenML. {error} {help_text}; or try again later "
            "with a connection to the internet."
        ) from error


def _from_folder(entry: CatalogueEntry, home: Path) -> Dataset | None:
    """Read a set from a local folder; None when its files are not there."""
    folder = home / entry.name
    if entry.read is None or not all((folder / file).is_file() for file, _ in entry.files):
        return None
    for file, expected in entry.files:
        try:
            with (folder / file).open("rb") as stream:
                actual = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise DatasetError(f"{folder / file} cannot be read: {error}.") from error
        if actual != expected:
            raise DatasetError(
                f"{folder / file} is not the file the catalogue knows (its SHA-256 is {actual}, "
                f"expected {expected}): fetch it again, or read your own version with one of the "
                "readers, such as read_mulan."
            )
    return entry.read(folder)


def default_cache() -> Path:
    """Folder for fetched files when nothing else is said, as each system has it."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = None
    else:
        base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "colabel"


@contextmanager
def _reporting(name: str, progress: bool | Report) -> Iterator[Report]:
    """Turn the progress argument into a function; a bar is shown while the block runs."""
    if not isinstance(progress, bool):
        yield progress
        return
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not (progress and console.is_terminal),
    )
    with bar:
        task = bar.add_task(f"fetching {name}", total=None)
        yield lambda received, expected: bar.update(task, completed=received, total=expected)
