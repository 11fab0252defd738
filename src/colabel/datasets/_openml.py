"""OpenML: finding a data set there, fetching it into the cache, and reading it.

The cache holds, for each data set, the ARFF file under the name of its MD5 checksum and
``current.json``, which is written last and says which file counts. A file gets its final name only
after it has been checked, so what is there is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from colabel.datasets._http import Report, check_address, fetch_file, fetch_json
from colabel.datasets.arff import ArffSource, Attribute
from colabel.datasets.catalogue import CatalogueEntry
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers import read_arff_source

OPENML = "https://www.openml.org"


@dataclass(frozen=True)
class Remote:
    """A data set as OpenML describes it."""

    data_id: int
    url: str
    md5: str
    targets: tuple[str, ...]


def find(entry: CatalogueEntry, base: str) -> Remote:
    """Ask OpenML for the description of a catalogue entry."""
    data_id = entry.openml_id if entry.openml_id is not None else _search(entry, base)
    answer = fetch_json(f"{base}/api/v1/json/data/{data_id}")
    try:
        found = answer["data_set_description"]
        url, targets = str(found["url"]), found.get("default_target_attribute") or ""
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"The description of data set {data_id} at {base} has no {error}: is this an OpenML "
            "server?"
        ) from error
    if base.startswith("https:") and url.startswith("http:"):
        url = "https:" + url.removeprefix("http:")  # old entries; the server offers both
    check_address(url, base)
    names = targets if isinstance(targets, list) else re.split(r"\s*,\s*", targets)
    md5 = str(found.get("md5_checksum") or "").lower()
    if md5 and not re.fullmatch("[0-9a-f]{32}", md5):
        raise DatasetError(f"OpenML gives the checksum {md5!r} for {entry.name!r}: it is no MD5.")
    return Remote(data_id, url, md5, tuple(str(name) for name in names if name))


def _search(entry: CatalogueEntry, base: str) -> int:
    """Return the number of the newest set that bears one of the names and has the size."""
    sizes: list[str] = []
    for name in entry.openml_names:
        address = f"{base}/api/v1/json/data/list/data_name/{urllib.parse.quote(name)}/limit/100"
        try:
            answer = fetch_json(address)
        except DatasetError as error:
            if "answered 412" in str(error):  # OpenML's way of saying that nothing was found
                continue
            raise
        found = _listed(answer, address)
        sizes += [f"{did} ({n_rows} rows, {n_columns} columns)" for did, n_rows, n_columns in found]
        wanted = (str(float(entry.n_rows)), str(float(_n_columns(entry))))
        matches = [did for did, *size in found if tuple(size) == wanted]
        if matches:
            return max(matches)
    tried = f"; it has {', '.join(sizes)}" if sizes else ""
    raise DatasetError(
        f"OpenML has no active data set named {' or '.join(entry.openml_names) or entry.name} with "
        f"{entry.n_rows} rows and {_n_columns(entry)} columns{tried}."
    )


def _n_columns(entry: CatalogueEntry) -> int:
    # OpenML counts columns of the file: before nominal ones are encoded, with identifiers.
    return (entry.n_attributes or entry.n_features) + entry.n_labels


def _listed(answer: Any, address: str) -> list[tuple[int, str, str]]:
    """Read number, rows and columns of the sets in a list; sizes stay as OpenML writes them."""
    found = []
    try:
        for one in answer["data"]["dataset"]:
            size = {str(q["name"]): str(q["value"]) for q in one.get("quality", [])}
            n_rows, n_columns = size.get("NumberOfInstances"), size.get("NumberOfFeatures")
            if n_rows and n_columns:
                found.append((int(one["did"]), str(float(n_rows)), str(float(n_columns))))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DatasetError(
            f"{address} did not answer with a list of data sets: is this an OpenML server?"
        ) from error
    return found


def fetch(entry: CatalogueEntry, cache: Path, base: str, report: Report) -> Dataset:
    """Fetch a data set, check it, put it into the cache and return it."""
    remote = find(entry, base)
    folder = cache / "openml" / entry.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _temporary(folder, ".arff") as file:
            fetch_file(remote.url, file, report)
            actual = _md5(file)
            if remote.md5 and actual != remote.md5:
                raise DatasetError(
                    f"{remote.url} arrived with the MD5 checksum {actual} where OpenML names "
                    f"{remote.md5}: it was damaged on the way."
                )
            data = read(file, entry, remote)
            os.replace(file, folder / f"{actual}.arff")
        with _temporary(folder, ".json") as note:
            note.write_text(json.dumps(asdict(remote) | {"md5": actual}), encoding="utf-8")
            os.replace(note, folder / "current.json")
    except OSError as error:
        raise DatasetError(
            f"The cache folder {folder} cannot be written ({error}): set COLABEL_CACHE to a folder "
            "that can."
        ) from error
    return data


def from_cache(entry: CatalogueEntry, cache: Path) -> Dataset | None:
    """Return the data set from the cache, or None when it is not there or not whole."""
    folder = cache / "openml" / entry.name
    try:
        note = json.loads((folder / "current.json").read_text(encoding="utf-8"))
        remote = Remote(
            int(note["data_id"]), str(note["url"]), str(note["md5"]), tuple(note["targets"])
        )
        file = folder / f"{remote.md5}.arff"
        if not re.fullmatch("[0-9a-f]{32}", remote.md5) or _md5(file) != remote.md5:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        return read(file, entry, remote)
    except DatasetError:
        return None  # kept by a version of this library that expected something else


def read(file: Path, entry: CatalogueEntry, remote: Remote) -> Dataset:
    """Read OpenML's ARFF of an entry and check its shape."""
    source = ArffSource.open(file)
    drop = [name for name in entry.drop if name in source.names]
    places = _label_columns(source.attributes, entry, remote)
    data = read_arff_source(source, [source.names[j] for j in places], drop, entry.name)
    if (data.n_rows, data.n_features, data.n_labels) != entry.shape:
        raise DatasetError(
            f"OpenML's data set {remote.data_id} has {data.n_rows} rows, {data.n_features} "
            f"features and {data.n_labels} labels where {entry.name!r} should have "
            f"{entry.shape}: it is another version of the data."
        )
    return data


def _label_columns(
    attributes: tuple[Attribute, ...], entry: CatalogueEntry, remote: Remote
) -> list[int]:
    """Positions of the labels: OpenML's targets, otherwise the end that holds truth values."""
    position = {attribute.name: j for j, attribute in enumerate(attributes)}
    d = entry.n_labels
    if len(remote.targets) == d and all(name in position for name in remote.targets):
        return sorted(position[name] for name in remote.targets)
    for columns in (range(len(attributes) - d, len(attributes)), range(d)):
        domains = [{v.lower() for v in attributes[j].values} for j in columns if j >= 0]
        if len(domains) == d and all(v and v <= {"true", "false", "0", "1"} for v in domains):
            return list(columns)
    raise DatasetError(
        f"OpenML's data set {remote.data_id} does not say which {d} of its {len(attributes)} "
        "columns are labels."
    )


@contextmanager
def _temporary(folder: Path, suffix: str) -> Iterator[Path]:
    """Make an empty file in the folder; it is removed unless it has been renamed by then."""
    handle, name = tempfile.mkstemp(suffix=suffix, prefix="part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _md5(file: Path) -> str:
    # OpenML publishes MD5; it guards against damage here, not against forgery.
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
