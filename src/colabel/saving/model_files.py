"""Saving and loading models without pickle: a file is data, and never runs code of its own.

A model file is a zip archive of a manifest (`colabel.json`), a list of objects (`model.json`) and
arrays (`arrays/*.npy`). Every object is of a type that declares, in its own file, what it may hold
(`colabel.core.schema`); all of them are checked before the first is made.
"""

from __future__ import annotations

import io
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import BadZipFile

from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from colabel import models, preprocess
from colabel._version import __version__
from colabel.core.files import written_whole
from colabel.core.schema import NotAsDeclaredError
from colabel.labels import LabelSpace
from colabel.models import LabelClassifier
from colabel.models.wrapped import title_of
from colabel.saving import _content
from colabel.saving import _other_types as _other_types  # declares the types it lists
from colabel.tables.model import TableModel
from colabel.tables.source import no_file

if TYPE_CHECKING:
    from os import PathLike

FORMAT = 2
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
    buffer = io.BytesIO()
    name = type(model).__name__
    try:
        content = _content.Written(model)
        foreign = [_content.dumped(value) for value in content.foreign]
        _content.write_archive(buffer, _manifest(model, space), content, foreign)
    except _content.CannotBeWrittenError as error:
        raise ModelFileError(f"The {name} cannot be saved: {error}.") from error
    wanted = sorted({each for part in foreign for each in _content.wanted_types(part)})
    try:
        _loaded(buffer, f"The {name} just written", wanted)
    except ModelFileError as error:
        raise ModelFileError(
            f"The {name} cannot be saved, for it could not be loaded again. {error}"
        ) from error
    if wanted:
        warnings.warn(
            f"The model holds {', '.join(wanted)}: to load the file, pass trusted={wanted} to "
            "colabel.load, or --trust to a command.",
            stacklevel=2,
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
    with _stream(Path(path)) as stream:
        return _loaded(stream, str(path), trusted)


def describe_model(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself, without loading the model.

    Returns
    -------
    dict
        `format`, `colabel` (version), `packages` ({name: version}), `model` (class name) and
        `labels` (names).
    """
    with _stream(Path(path)) as stream, _readable(str(path)):
        return _manifest_of(_content.Archive(stream), str(path))


def types_to_trust(path: str | PathLike[str]) -> list[str]:
    """Return the full names of the types that `load` wants to see in `trusted`, loading nothing."""
    with _stream(Path(path)) as stream, _readable(str(path)):
        archive = _content.Archive(stream)
        archive.check_members()
        foreign = [name for name in archive.names if name.endswith(".skops")]
        return sorted(
            {each for name in foreign for each in _content.wanted_types(archive.bytes(name))}
        )


def _loaded(stream: IO[bytes], file: str, trusted: Sequence[str]) -> Any:
    with _readable(file):
        archive = _content.Archive(stream)
        manifest = _manifest_of(archive, file)
        archive.check_members()
        tree, arrays = archive.json(_content.TREE), archive.arrays()
        try:
            model = _content.made(
                tree,
                arrays,
                lambda i: _content.loaded(archive.bytes(_content.FOREIGN.format(i)), trusted),
            )
        except NotAsDeclaredError as error:
            if manifest["colabel"] == __version__:
                raise
            raise ModelFileError(
                f"{file} was made by colabel {manifest['colabel']:.40} and does not fit this "
                f"version, {__version__}: {error}. Load it with the version that made it, or fit "
                "the model again and save it anew."
            ) from error
    space = _space_of(model, "have been saved", file)
    if list(space.names) != manifest["labels"]:
        raise ModelFileError(f"{file} is damaged: its label names disagree with its model.")
    return model


@contextmanager
def _stream(file: Path) -> Iterator[IO[bytes]]:
    """Open a file that is a file; a pickle is told at once."""
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
    with stream:
        if stream.read(1) == b"\x80":
            raise ModelFileError(
                f"{file} is a pickle, which can run any code when it is loaded: colabel never "
                "loads one. Save the model with colabel.save."
            )
        yield stream


@contextmanager
def _readable(file: str) -> Iterator[None]:
    """Turn whatever a damaged file raises into a sentence."""
    try:
        yield
    except ModelFileError:
        raise
    except _content.RefusedTypesError as error:
        raise ModelFileError(
            f"{file} is refused: it wants {error}, which colabel cannot check. If you know the "
            f"file and that code, load it with colabel.load(path, trusted={error.names}), or give "
            "--trust to the command."
        ) from error
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


def _manifest_of(archive: _content.Archive, file: str) -> dict[str, Any]:
    if _content.MANIFEST not in archive.names:
        raise ModelFileError(f"{file} is not a colabel model: it has no {_content.MANIFEST}.")
    manifest = archive.json(_content.MANIFEST)
    expected = {"format": int, "colabel": str, "packages": dict, "model": str, "labels": list}
    if not isinstance(manifest, dict) or any(
        type(manifest.get(key)) is not kind for key, kind in expected.items()
    ):
        raise ModelFileError(f"{file} is damaged: its {_content.MANIFEST} is not as it was saved.")
    if manifest["format"] != FORMAT:
        raise ModelFileError(
            f"{file} was made by colabel {manifest['colabel']}, whose files (format "
            f"{manifest['format']}) this version, {__version__}, cannot read: upgrade colabel."
        )
    return manifest


def _space_of(model: Any, what: str, file: str | None = None) -> LabelSpace:
    """Return the label space of a fitted model, or refuse what is not one."""
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


def _manifest(model: Any, space: LabelSpace) -> dict[str, Any]:
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "format": FORMAT,
        "colabel": __version__,
        "packages": {name: version(name) for name in packages},
        "model": title_of(model.model if isinstance(model, TableModel) else model),
        "labels": list(space.names),
    }
