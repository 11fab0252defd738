"""Saving and loading models without pickle: a file is data, and never runs code of its own.

A model file is a zip archive in the format of skops (a JSON tree of types and numbers, arrays as
.npy files) with one more member, `colabel.json`, which says what the model is. Nothing in it is
compressed, so that no small file can unpack to a large one.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from colabel._version import __version__
from colabel.core.files import written_whole
from colabel.datasets.frame import Frame
from colabel.labels import LabelSpace
from colabel.models import LabelClassifier, ThresholdedClassifier
from colabel.saving._trusted import trusted_names
from colabel.tables.model import TableModel

if TYPE_CHECKING:
    from os import PathLike

FORMAT = 1
_MANIFEST = "colabel.json"
_MOST_MEMBERS = 100_000
_LARGEST_MANIFEST = 1 << 26


class ModelFileError(ValueError):
    """A model cannot be saved or loaded; the message says what to do."""


def save(model: Any, path: str | PathLike[str]) -> None:
    """Save a fitted model to a file that is safe to load.

    The file holds the model, its label names, and the versions of the packages that made it. It
    appears under its name only when it is complete.

    Parameters
    ----------
    model : fitted estimator of colabel, pipeline that ends in one, or TableModel
    path : str or path
        Usually ending in .colabel.

    Raises
    ------
    ModelFileError
        If the model is not fitted or holds something that cannot be written.

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
    from skops import io as skops_io

    space = _space_of(model, "be saved")
    buffer = io.BytesIO()
    try:
        skops_io.dump(model, buffer, compression=ZIP_STORED)
    except Exception as error:  # whatever a stranger's object raises
        reason = " ".join(str(error).split())
        raise ModelFileError(
            f"The {type(model).__name__} cannot be saved, for it holds an object that cannot be "
            f"written as data ({reason})."
        ) from error
    with ZipFile(buffer, "a", compression=ZIP_STORED) as archive:
        archive.writestr(_MANIFEST, json.dumps(_manifest(model, space), indent=2))
    unknown = set(skops_io.get_untrusted_types(data=buffer.getvalue())) - set(trusted_names())
    if unknown:
        warnings.warn(
            f"The model holds {', '.join(sorted(unknown))}: to load the file, pass "
            f"trusted={sorted(unknown)} to colabel.load.",
            stacklevel=2,
        )
    try:
        with written_whole(Path(path)) as part:
            part.write_bytes(buffer.getbuffer())
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written ({error.strerror or error}).") from error


def load(path: str | PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that `save` has written.

    Only types of colabel and scikit-learn are made from the file; one that names any other class
    or function is refused, and so is a pickle. scikit-learn's decision trees are compiled
    structures whose content cannot be checked: they load only if named in `trusted`.

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
        If the file is not a model, is damaged, was made by a later version, or is refused.
    """
    file = Path(path)
    manifest = describe_model(file)
    model = _read(file, [*trusted_names(), *trusted])
    space = _space_of(model, "have been saved", file)
    if list(space.names) != manifest["labels"]:
        raise ModelFileError(f"{file} is damaged: its label names disagree with its model.")
    if isinstance(model, TableModel):
        _try_out(model, file)
    return model


def _try_out(model: TableModel, file: Path) -> None:
    """Ask the model about an empty row, so that arrays that do not fit are found at once."""
    try:
        texts = {
            c.name: np.array([None], dtype=object) for c in model.columns if c.kind != "number"
        }
        numbers = tuple(column.name for column in model.columns if column.kind == "number")
        empty = Frame(np.full((1, len(numbers)), np.nan), numbers, texts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = model.predict_proba(empty)
        tables = answer if isinstance(answer, list) else [answer]
        if not all(np.isfinite(table).all() for table in tables):
            raise ValueError("probabilities that are not numbers")
    except Exception as error:  # damage takes many forms
        raise ModelFileError(
            f"{file} is damaged: its model cannot answer ({_brief(error)})."
        ) from error


def describe_model(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself, without loading the model.

    Returns
    -------
    dict
        `format`, `colabel` (version), `packages` ({name: version}), `model` (class name) and
        `labels` (names).
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise ModelFileError(f"{file} cannot be read ({error.strerror or error}).") from error
    if start[:1] == b"\x80":
        raise ModelFileError(
            f"{file} is a pickle, which can run any code when it is loaded: colabel never loads "
            "one. Save the model with colabel.save."
        )
    try:
        with ZipFile(file) as archive:
            _check_archive(archive, file)
            manifest = json.loads(archive.read(_MANIFEST))
    except ModelFileError:
        raise
    except Exception as error:  # damage takes many forms
        raise ModelFileError(
            f"{file} is not a colabel model, or was cut short: save the model again."
        ) from error
    return _checked_manifest(manifest, file)


def _check_archive(archive: ZipFile, file: Path) -> None:
    members = archive.infolist()
    names = {member.filename for member in members}
    if _MANIFEST not in names or "schema.json" not in names:
        raise ModelFileError(f"{file} is not a colabel model: it has no {_MANIFEST}.")
    if len(members) > _MOST_MEMBERS or len(names) != len(members):
        raise ModelFileError(f"{file} is damaged: its table of contents is not as it was saved.")
    packed = [m.filename for m in members if m.compress_type != ZIP_STORED]
    if packed or archive.getinfo(_MANIFEST).file_size > _LARGEST_MANIFEST:
        raise ModelFileError(
            f"{file} was changed after it was saved (its {(packed or [_MANIFEST])[0]} is "
            "compressed or too large): it is not loaded."
        )


def _checked_manifest(manifest: Any, file: Path) -> dict[str, Any]:
    expected = {"format": int, "colabel": str, "packages": dict, "model": str, "labels": list}
    if not isinstance(manifest, dict) or any(
        type(manifest.get(key)) is not kind for key, kind in expected.items()
    ):
        raise ModelFileError(f"{file} is damaged: its {_MANIFEST} is not as it was saved.")
    if manifest["format"] > FORMAT:
        raise ModelFileError(
            f"{file} was made by colabel {manifest['colabel']}, whose files (format "
            f"{manifest['format']}) this version, {__version__}, cannot read: upgrade colabel."
        )
    return manifest


def _read(file: Path, trusted: Sequence[str]) -> Any:
    from skops import io as skops_io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops_io.load(file, trusted=list(trusted))
    except UntrustedTypesFoundException as error:
        unsafe = set(skops_io.get_untrusted_types(file=file)) - set(trusted)
        wanted = ", ".join(sorted(unsafe))
        raise ModelFileError(
            f"{file} is refused: it wants {wanted}, which is not a type of colabel or of "
            "scikit-learn that is safe to make from a file. If you know the file and that code, "
            "name it in colabel.load(path, trusted=[...])."
        ) from error
    except Exception as error:  # damage takes many forms
        raise ModelFileError(
            f"{file} is damaged, or was made by versions of packages that differ too much "
            f"({_brief(error)})."
        ) from error


def _brief(error: BaseException) -> str:
    """Kind and first sentence of an error."""
    first = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {first[:150]}"


def _space_of(model: Any, what: str, file: Path | None = None) -> LabelSpace:
    """Return the label space of a fitted model, or refuse what is not one."""
    last = model.model if isinstance(model, TableModel) else model
    if isinstance(last, Pipeline):
        last = last.steps[-1][-1]
    where = f"{file} holds a {type(model).__name__}" if file else f"{model!r}"
    if not isinstance(last, LabelClassifier | ThresholdedClassifier):
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
    packages = ("numpy", "scipy", "scikit-learn", "skops")
    return {
        "format": FORMAT,
        "colabel": __version__,
        "packages": {name: version(name) for name in packages},
        "model": type(model.model if isinstance(model, TableModel) else model).__name__,
        "labels": list(space.names),
    }
