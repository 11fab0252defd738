"""Loading a data set by name: from a folder, from the cache, or from OpenML.

The cache holds, for each data set, OpenML's description of it and the ARFF file under the name of
its MD5 checksum. Files are fetched by pooch, which gives them their names when they are whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import urllib.parse
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from colabel.core.optional import require
from colabel.datasets.arff import ArffSource
from colabel.datasets.catalogue import CatalogueEntry, describe
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.rcv1 import most_common_labels, repair_rcv1
from colabel.datasets.readers import read_arff_source
from colabel.datasets.text import FilePath

Source = Literal["auto", "local", "cache", "openml"]

OPENML = "https://www.openml.org"
_TIMEOUT = 30  # seconds without an answer
_TRIES = 3


def load(
    name: str,
    *,
    data_home: FilePath | None = None,
    source: Source = "auto",
    repaired: bool = False,
    cache_home: FilePath | None = None,
    openml_url: str | None = None,
    progress: bool = True,
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
        Where to look; "openml" fetches anew (this needs the package pooch).
    repaired : bool, default=False
        For the rcv1 sets: put the labels that slipped in one half of the rows back in place; the
        names that end in "_repaired" do so too. The published figures were measured without.
    cache_home : str or path, optional
        Where fetched files are kept; by default ``COLABEL_CACHE`` or the user's cache folder.
    openml_url : str, optional
        Address of the OpenML server; by default ``COLABEL_OPENML`` or the public one.
    progress : bool, default=True
        Show a progress bar on standard error while fetching, if it is a terminal.

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
    home = data_home or os.environ.get("COLABEL_DATA")
    cache = Path(cache_home or os.environ.get("COLABEL_CACHE") or default_cache())
    base = (openml_url or os.environ.get("COLABEL_OPENML") or OPENML).rstrip("/")
    data = None
    if source in ("auto", "local") and home:
        data = _from_folder(stored, Path(home) / stored.name)
    if data is None and source in ("auto", "cache"):
        data = _from_cache(stored, cache / "openml" / stored.name)
    if data is None:
        data = _fetched(stored, source, home, cache, base, progress=progress)
    data = replace(data, name=stored.name)
    if repaired or entry.repaired:
        data = repair_rcv1(data)
    if entry.n_labels < stored.n_labels:
        data = most_common_labels(data, entry.n_labels)
    return replace(data, name=entry.name, description=entry.description)


def default_cache() -> Path:
    """Folder for fetched files when nothing else is said, as each system has it."""
    variable = {"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME")
    return Path(os.environ.get(variable) or Path.home() / ".cache") / "colabel"


def _from_folder(entry: CatalogueEntry, folder: Path) -> Dataset | None:
    """Read a set from a local folder; None when its files are not there."""
    if not entry.files or not all((folder / file).is_file() for file, _ in entry.files):
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


def _from_cache(entry: CatalogueEntry, folder: Path) -> Dataset | None:
    """Return the data set from the cache, or None when it is not there or not whole."""
    try:
        told = json.loads((folder / "description.json").read_text(encoding="utf-8"))
        _, md5, _ = _remote(told, "")
        file = folder / f"{md5 or 'unchecked'}.arff"
        with file.open("rb") as stream:
            # OpenML publishes MD5; it guards against damage here, not against forgery
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
        return _read(file, entry, told) if md5 in ("", found.hexdigest()) else None
    except (OSError, ValueError, KeyError, TypeError):  # a DatasetError is a ValueError
        return None  # or kept by a version of this library that expected something else


def _fetched(
    entry: CatalogueEntry,
    source: Source,
    home: Any,
    cache: Path,
    base: str,
    *,
    progress: bool,
) -> Dataset:
    """Fetch a data set from OpenML into the cache and read it, or say how to get it."""
    files = ", ".join(file for file, _ in entry.files)
    advice = (
        f"Put the files {files} into a folder named {entry.name}, and pass the folder above it as "
        "data_home or set COLABEL_DATA to it"
    )
    if source in ("local", "cache"):
        where = f"the folder {home}" if source == "local" else f"the cache {cache}"
        if source == "local" and not home:
            where = "a local folder (data_home and COLABEL_DATA are not set)"
        raise DatasetError(f"{entry.name!r} was not found in {where}. {advice}.")
    if entry.openml_id is None and not entry.openml_names:
        raise DatasetError(
            f"{entry.name!r} was not found locally, and OpenML is not known to have it. {advice}."
        )
    require("pooch", "Fetching a data set")
    import pooch

    folder = cache / "openml" / entry.name
    try:
        number = entry.openml_id or _search(entry, base)
        told = _json(f"{base}/api/v1/json/data/{number}")
        url, md5, _ = _remote(told, base)
        pooch.get_logger().setLevel("ERROR")
        shown = progress and sys.stderr.isatty()
        file = folder / f"{md5 or 'unchecked'}.arff"
        file.unlink(missing_ok=True)
        downloader = pooch.HTTPDownloader(progressbar=shown and _Bar(), timeout=_TIMEOUT)
        known = pooch.create(folder, base_url="", retry_if_failed=_TRIES - 1)
        known.registry, known.urls = {file.name: f"md5:{md5}" if md5 else None}, {file.name: url}
        known.fetch(file.name, downloader=downloader)
        try:
            data = _read(file, entry, told)
        except DatasetError:
            file.unlink()
            raise
        (folder / "description.json").write_text(json.dumps(told), encoding="utf-8")
        return data
    except Exception as error:
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
            raise DatasetError(
                f"The cache folder {folder} cannot be written ({error}): set COLABEL_CACHE to a "
                "folder that can."
            ) from error
        if not isinstance(error, ValueError | OSError):  # those of requests are OSErrors
            raise
        raise DatasetError(
            f"{entry.name!r} could not be had from OpenML: {str(error).rstrip('.')}. {advice}; or "
            "try again later with a connection to the internet."
        ) from error


class _Bar:
    """A progress bar as pooch wants it."""

    total = 0

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn()
        self._shown = Progress(*columns, transient=True)
        self._task = self._shown.add_task("fetching", total=None)
        self._shown.start()

    def update(self, n: int) -> None:
        """Add so many bytes."""
        self._shown.update(self._task, advance=n, total=self.total)

    def reset(self) -> None:
        """Begin again."""
        self._shown.reset(self._task)

    def close(self) -> None:
        """Take it away."""
        self._shown.stop()


def _json(url: str) -> Any:
    """Fetch a small JSON document, again where the server may recover; None for "not found"."""
    import requests

    for attempt in range(_TRIES):
        answer = requests.get(url, timeout=_TIMEOUT, headers={"User-Agent": "colabel"})
        if answer.status_code < 500 or attempt == _TRIES - 1:
            break
    if answer.status_code == 412:  # OpenML's way of saying that nothing was found
        return None
    answer.raise_for_status()
    try:
        return answer.json()
    except ValueError as error:
        raise DatasetError(
            f"{url} did not answer with JSON: is this the address of an OpenML server?"
        ) from error


def _remote(told: Any, base: str) -> tuple[str, str, list[str]]:
    """Address, MD5 checksum and targets in OpenML's description of a data set."""
    try:
        found = told["data_set_description"]
        url, targets = str(found["url"]), found.get("default_target_attribute") or ""
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"The description of the data set at {base} has no {error}: is this an OpenML server?"
        ) from error
    if base.startswith("https:") and url.startswith("http:"):
        url = "https:" + url.removeprefix("http:")  # old entries; the server offers both
    names = targets if isinstance(targets, list) else re.split(r"\s*,\s*", targets)
    md5 = str(found.get("md5_checksum") or "").lower()
    if md5 and not re.fullmatch("[0-9a-f]{32}", md5):
        raise DatasetError(f"OpenML gives the checksum {md5!r}: it is no MD5.")
    return url, md5, [str(name) for name in names if name]


def _search(entry: CatalogueEntry, base: str) -> int:
    """Return the number of the newest set that bears one of the names and has the size."""
    n_rows, n_features, n_labels = entry.shape
    # OpenML counts columns of the file: before nominal ones are encoded, with identifiers
    wanted = (float(n_rows), float((entry.n_attributes or n_features) + n_labels))
    sizes: list[str] = []
    for name in entry.openml_names:
        url = f"{base}/api/v1/json/data/list/data_name/{urllib.parse.quote(name)}/limit/100"
        matches = []
        answer = _json(url)
        if answer is None:
            continue
        try:
            for one in answer["data"]["dataset"]:
                size = {str(q["name"]): q["value"] for q in one.get("quality", [])}
                found = [float(size.get(f"NumberOf{of}", -1)) for of in ("Instances", "Features")]
                sizes.append(f"{one['did']} ({found[0]:.0f} rows, {found[1]:.0f} columns)")
                matches += [int(one["did"])] if tuple(found) == wanted else []
        except (KeyError, TypeError, AttributeError) as error:
            raise DatasetError(
                f"{url} did not answer with a list of data sets: is this an OpenML server?"
            ) from error
        if matches:
            return max(matches)
    tried = f"; it has {', '.join(sizes)}" if sizes else ""
    raise DatasetError(
        f"OpenML has no active data set named {' or '.join(entry.openml_names) or entry.name} with "
        f"{wanted[0]:.0f} rows and {wanted[1]:.0f} columns{tried}."
    )


def _read(file: Path, entry: CatalogueEntry, told: Any) -> Dataset:
    """Read OpenML's ARFF of an entry and check its shape."""
    source = ArffSource.open(file)
    drop = [name for name in entry.drop if name in source.names]
    labels = _labels(source, entry.n_labels, _remote(told, "")[2])
    data = read_arff_source(source, labels, drop, entry.name)
    if (data.n_rows, data.n_features, data.n_labels) != entry.shape:
        raise DatasetError(
            f"OpenML's data set has {data.n_rows} rows, {data.n_features} features and "
            f"{data.n_labels} labels where {entry.name!r} should have {entry.shape}: it is another "
            "version of the data."
        )
    return data


def _labels(source: ArffSource, d: int, targets: list[str]) -> list[str]:
    """Names of the labels: OpenML's targets, otherwise the end that holds truth values."""
    if len(targets) == d and set(targets) <= set(source.names):
        return targets
    for attributes in (source.attributes[-d:], source.attributes[:d]):
        domains = [{value.lower() for value in attribute.values} for attribute in attributes]
        if all(values and values <= {"true", "false", "0", "1"} for values in domains):
            return [attribute.name for attribute in attributes]
    raise DatasetError(
        f"OpenML does not say which {d} of the {len(source.names)} columns are labels."
    )
