"""Mulan files: ARFF with an XML file beside it that names the labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers.arff import read_arff_table
from colabel.datasets.readers.encode import to_dataset
from colabel.datasets.readers.table import find_columns, first_repeat
from colabel.datasets.readers.text import FilePath

_LARGEST_XML = 16 * 2**20  # bytes; the largest Mulan label file is far below one megabyte


def read_mulan(
    path: FilePath,
    xml_path: FilePath | None = None,
    *,
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a Mulan data set: an ARFF file and an XML file with the label names.

    Parameters
    ----------
    path : str or path
        The ARFF file, with dense or sparse rows.
    xml_path : str or path, optional
        The XML file; by default the file of the same name ending in .xml.
    drop : sequence of str
        Columns to leave out, such as row identifiers.
    name : str, optional
        Name of the data set; by default the file's.
    encoding : str, default="utf-8"
        Encoding of the ARFF file.

    Returns
    -------
    Dataset
        Encoded as by `read_arff`. Labels stand in the order of the ARFF's columns, which in some
        published files (yeast) is not the order of the XML; a hierarchy of labels is read flat.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_mulan
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.arff"
    >>> _ = file.write_text('''@relation toy
    ... @attribute size numeric
    ... @attribute red {0,1}
    ... @attribute round {0,1}
    ... @data
    ... {0 2.5,1 1}
    ... {2 1}
    ... ''')
    >>> _ = file.with_suffix(".xml").write_text(
    ...     '<labels><label name="round"/><label name="red"/></labels>')
    >>> data = read_mulan(file)
    >>> data, data.label_names
    (Dataset('toy': 2 rows, 1 sparse features, 2 labels), ('red', 'round'))
    >>> folder.cleanup()
    """
    file = Path(path)
    stem = file.with_suffix("") if file.suffix == ".gz" else file
    names = read_label_names(xml_path or stem.with_suffix(".xml"))
    _, table = read_arff_table(path, drop=drop, encoding=encoding)
    return to_dataset(
        table,
        find_columns(table.names, names, path),
        name=name or file.name.split(".")[0],
        dropped=find_columns(table.names, drop, path),
    )


def read_label_names(path: FilePath) -> tuple[str, ...]:
    """Names in a Mulan XML file, in its order; nested labels follow their parent.

    The file may come from anyone, so document types and entities are refused before they are
    expanded, nothing is fetched, and the size is limited.
    """
    data = _read_small(Path(path))
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: object) -> NoReturn:
        raise DatasetError(
            f"{path} declares a document type or entities, which a list of labels does not need "
            "and which can harm: remove the declaration."
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        # With a namespace the tag reads "address tag"; Mulan's files carry one, others do not.
        if tag.rpartition(" ")[2] == "label":
            if not attributes.get("name"):
                raise DatasetError(
                    f"{path}, line {parser.CurrentLineNumber}: a label has no name: add one."
                )
            names.append(attributes["name"])

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # or an encoding nobody knows
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"{path} is not well-formed XML ({error}): correct it, or fetch the file again."
        ) from error
    if not names:
        raise DatasetError(f'{path} names no labels: write <labels><label name="..."/></labels>.')
    twice = first_repeat(names)
    if twice is not None:
        raise DatasetError(f"{path} names the label {twice!r} twice: keep one.")
    return tuple(names)


def _read_small(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_XML + 1)
    except FileNotFoundError as error:
        raise DatasetError(
            f"There is no file {path}: give the XML file with the label names as xml_path, or use "
            "read_arff and name the labels."
        ) from error
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    if len(data) > _LARGEST_XML:
        raise DatasetError(
            f"{path} is larger than {_LARGEST_XML} bytes: a list of labels is not; check the file."
        )
    return data
