"""Saving and loading models without pickle: a file is data, and never runs code of its own.

A model file is a zip archive of a manifest (`colabel.json`), a list of objects (`model.json`) and
arrays (`arrays/*.npy`). Every object is of a type that declares, in its own file, what it may hold
(`colabel.core.schema`); all of them are checked before the first is made (`colabel.core.content`).

Estimators of other packages are written by skops. What such an object holds cannot be checked, and
its code runs when it is made: it is made only if the caller has named its type, and every further
type that skops finds in it. skops reads an array anew each time it is named, and looks again at all
that an object holds whenever it is named again: how often that is, is counted before skops is asked
anything.
"""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, BadZipFile

from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from colabel import models, preprocess
from colabel._version import __version__
from colabel.core import content
from colabel.core.files import written_whole
from colabel.core.schema import NotAsDeclaredError, check_that
from colabel.core.warning import warn
from colabel.labels import LabelSpace
from colabel.models import LabelClassifier
from colabel.models.wrapped import title_of
from colabel.saving import _other_types as _other_types  # declares the types it lists
from colabel.tables.model import TableModel
from colabel.tables.source import no_file

if TYPE_CHECKING:
    from os import PathLike

FORMAT = 2
_MANIFEST = "colabel.json"
_PACKAGES = ("numpy", "scipy", "scikit-learn")
for _room in (models, preprocess):  # each declares what may stand in a file when it is imported
    for _name in _room.__all__:
        getattr(_room, _name)


class ModelFileError(ValueError):
    """A model cannot be saved or loaded; the message says what to do."""


def save(model: Any, path: str | PathLike[str]) -> None:
    """Save a fitted model to a file that is safe to load.

    The file holds the model, its label names, and the versions of the packages that made it. It
    is loaded back from memory first, and appears under its name only when it is complete: a model
    that could not be loaded again leaves an older file as it was.

    Parameters
    ----------
    model : fitted estimator of colabel, pipeline that ends in one, or TableModel
    path : str or path
        Usually ending in .colabel. A symbolic link is followed.

    Raises
    ------
    ModelFileError
        If the model is not fitted or holds something that cannot be written and read again.

    Warns
    -----
    UserWarning
        If the model holds types that `load` will want to see in `trusted`, such as a classifier
        of your own.

    Examples
    --------
    >>> import tempfile, pathlib, colabel
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = colabel.BinaryRelevance(C=0.01).fit(data.X[:300], data.Y[:300])
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "model.colabel"
    >>> colabel.save(model, file)
    >>> again = colabel.load(file)
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    >>> folder.cleanup()
    """
    space = _space_of(model, "be saved")
    name = type(model).__name__
    manifest = {
        "format": FORMAT,
        "colabel": __version__,
        "packages": {package: version(package) for package in _PACKAGES},
        "model": title_of(model.model if isinstance(model, TableModel) else model),
        "labels": list(space.names),
    }
    buffer = io.BytesIO()
    try:
        written = content.Written(model)
        foreign = [_dumped(each) for each in written.foreign]
        others = {_MANIFEST: json.dumps(manifest, indent=2, ensure_ascii=False).encode()}
        others |= {content.FOREIGN.format(i): part for i, part in enumerate(foreign)}
        content.write_archive(buffer, written, others)
    except content.CannotBeWrittenError as error:
        raise ModelFileError(f"The {name} cannot be saved: {error}.") from error
    wanted = sorted({each for part in foreign for each in _wanted_types(part)})
    try:
        with _readable(f"The {name} just written"):
            _loaded(content.Archive(buffer), f"The {name} just written", wanted)
    except ModelFileError as error:
        raise ModelFileError(
            f"The {name} cannot be saved, for it could not be loaded again. {error}"
        ) from error
    if wanted:
        warn(
            f"The model holds {', '.join(wanted)}: to load the file, pass trusted={wanted} to "
            "colabel.load, or --trust to a command.",
        )
    try:
        with written_whole(Path(path)) as part:
            part.write_bytes(buffer.getbuffer())
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written ({error.strerror or error}).") from error


def load(path: str | PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that `save` has written.

    Every object in the file is checked against what its type declares (shapes, ranges, finite
    numbers, probabilities that sum to one) before the first is made; a file that differs is
    refused, and so is a pickle. Trees and forests of scikit-learn come
    back as plain arrays that give the same probabilities. Other estimators of other packages, such
    as gradient boosting, cannot be checked: they load only if named in `trusted`.

    Parameters
    ----------
    path : str or path
    trusted : sequence of str
        Full names of further types that the file may hold, such as classifiers of your own. Their
        code runs: trust only what you know.

    Returns
    -------
    model
        Of the type that was saved.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, was made by another format, or is refused.
    """
    with _opened(path) as archive:
        return _loaded(archive, str(path), trusted)


def describe_model(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself, without loading the model.

    Returns
    -------
    dict
        `format`, `colabel` (version), `packages` ({name: version}), `model` (class name) and
        `labels` (names).
    """
    with _opened(path) as archive:
        return _manifest_of(archive, str(path))


def types_to_trust(path: str | PathLike[str]) -> list[str]:
    """Return the full names of the types that `load` wants to see in `trusted`, loading nothing."""
    with _opened(path) as archive:
        foreign = [name for name in archive.names if name.endswith(".skops")]
        return sorted({each for name in foreign for each in _wanted_types(archive.bytes(name))})


def _loaded(archive: content.Archive, file: str, trusted: Sequence[str]) -> Any:
    manifest = _manifest_of(archive, file)

    def foreign(position: int) -> Any:
        """Make an object of another package, if all of its types are trusted."""
        from skops import io as skops_io

        part = archive.bytes(content.FOREIGN.format(position))
        unknown = sorted(_wanted_types(part) - set(trusted))
        if unknown:
            raise ModelFileError(
                f"{file} is refused: it wants {', '.join(unknown)}, which colabel cannot check. If "
                "you know the file and that code, load it with colabel.load(path, "
                f"trusted={unknown}), or give --trust to the command."
            )
        return skops_io.loads(part, trusted=sorted(set(trusted)))

    try:
        model = archive.made(foreign)
    except NotAsDeclaredError as error:
        if manifest["colabel"] == __version__:
            raise
        raise ModelFileError(
            f"{file} was made by colabel {manifest['colabel']:.40} and does not fit this "
            f"version, {__version__}: {error}. Load it with the version that made it, or fit "
            "the model again and save it anew."
        ) from error
    if list(_space_of(model, "have been saved", file).names) != manifest["labels"]:
        raise ModelFileError(f"{file} is damaged: its label names disagree with its model.")
    return model


@contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[content.Archive]:
    """Open a regular file as an archive; a pickle is recognised by its first byte."""
    file = Path(path)
    try:
        mode = file.stat().st_mode  # reading a device may never end
        if not stat.S_ISREG(mode):
            what = "folder" if stat.S_ISDIR(mode) else "device, a pipe or a socket, not a file"
            raise OSError(f"it is a {what}")
        stream = file.open("rb")
    except FileNotFoundError as error:
        raise ModelFileError(str(no_file(file))) from error
    except OSError as error:
        raise ModelFileError(f"{file} cannot be read ({error.strerror or error}).") from error
    with stream, _readable(str(file)):
        if stream.read(1) == b"\x80":
            raise ModelFileError(
                f"{file} is a pickle, which can run any code when it is loaded: colabel never "
                "loads one. Save the model with colabel.save."
            )
        yield content.Archive(stream)


@contextmanager
def _readable(file: str) -> Iterator[None]:
    """Turn any error that a damaged file raises into a sentence."""
    try:
        yield
    except ModelFileError:
        raise
    except BadZipFile as error:
        raise ModelFileError(
            f"{file} is not a colabel model, or was cut short: save the model again."
        ) from error
    except NotAsDeclaredError as error:
        raise ModelFileError(f"{file} is damaged, or was changed: {error}.") from error
    except Exception as error:  # damage takes many forms
        first = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        raise ModelFileError(
            f"{file} is damaged, or was made by versions of packages that differ too much "
            f"({type(error).__name__}: {first[:150]})."
        ) from error


def _manifest_of(archive: content.Archive, file: str) -> dict[str, Any]:
    if _MANIFEST not in archive.names:
        raise ModelFileError(f"{file} is not a colabel model: it has no {_MANIFEST}.")
    manifest = archive.json(_MANIFEST)
    expected = {"format": int, "colabel": str, "packages": dict, "model": str, "labels": list}
    if not isinstance(manifest, dict) or any(
        type(manifest.get(key)) is not kind for key, kind in expected.items()
    ):
        raise ModelFileError(f"{file} is damaged: its {_MANIFEST} is not as it was saved.")
    if manifest["format"] != FORMAT:
        raise ModelFileError(
            f"{file} was made by colabel {manifest['colabel']}, whose files (format "
            f"{manifest['format']}) this version, {__version__}, cannot read: upgrade colabel."
        )
    return manifest


def _space_of(model: Any, what: str, file: str | None = None) -> LabelSpace:
    """Return the label space of a fitted model; ModelFileError for anything else."""
    last = model.model if isinstance(model, TableModel) else model
    if isinstance(last, Pipeline):
        last = last.steps[-1][-1] if last.steps else None
    where = f"{file} holds a {type(model).__name__}" if file else f"{model!r}"
    if hasattr(last, "best_estimator_"):
        raise ModelFileError(
            f"{where}, a search, which holds all that it tried: save its best_estimator_ instead"
            + (", with the steps before it." if last is not model else ".")
        )
    if not isinstance(last, LabelClassifier):
        raise ModelFileError(
            f"{where}, which cannot {what}: models of colabel, and pipelines that end in one, can."
        )
    try:
        check_is_fitted(last)
        space = last.label_space_
    except (NotFittedError, AttributeError) as error:
        raise ModelFileError(f"{where}, which is not fitted: call fit first.") from error
    if not isinstance(space, LabelSpace):
        raise ModelFileError(f"{where}, whose labels are damaged.")
    return space


# ------------------------------------------------------------------------ objects of others


def _dumped(value: Any) -> bytes:
    """Return an estimator as skops writes it."""
    from skops import io as skops_io

    buffer = io.BytesIO()
    try:
        skops_io.dump(value, buffer, compression=ZIP_STORED)
    except Exception as error:  # whatever a stranger's object raises
        reason = " ".join(str(error).split())
        raise content.CannotBeWrittenError(
            f"its {type(value).__name__} holds an object that is no data ({reason:.200})"
        ) from error
    return buffer.getvalue()


def _wanted_types(part: bytes) -> set[str]:
    """Full names of the types one has to trust to load what `_dumped` gave."""
    from skops import io as skops_io

    archive = content.Archive(io.BytesIO(part))
    outermost = archive.json("schema.json")
    _check_expansion(outermost, archive)
    own = f"{outermost['__module__']}.{outermost['__class__']}"
    return {own, *skops_io.get_untrusted_types(data=part)}


def _check_expansion(outermost: Any, archive: content.Archive) -> None:
    """Refuse a schema whose objects, if each were written out, are many more than are there."""
    sizes: dict[int, int] = {}  # of the objects with a number, which others may name again
    n_entries = n_bytes = 0

    def size_of(entry: Any) -> int:
        nonlocal n_entries, n_bytes
        n_entries += 1
        if not isinstance(entry, dict):
            return 1 + (sum(map(size_of, entry)) if isinstance(entry, list) else 0)
        number = entry.get("__id__") or 0  # which is none, to skops too
        check_that(isinstance(number, int), "an object of another package has a false number")
        if number and number in sizes:
            check_that(sizes[number], "an object of another package holds itself")
            return sizes[number]
        sizes[number] = 0  # while it is open
        if isinstance(entry.get("file"), str):
            n_bytes += archive.size(entry["file"])
        sizes[number] = 1 + sum(map(size_of, entry.values()))
        return sizes[number]

    often = size_of(outermost) > content.SPARE_OBJECTS + content.MOST_TIMES * n_entries
    check_that(
        not often and n_bytes <= 2 * archive.n_bytes,
        "an object of another package names the same parts too often",
    )
