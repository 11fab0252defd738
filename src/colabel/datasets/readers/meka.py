"""MEKA files: ARFF whose relation name says how many attributes are labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers.arff import read_arff_table
from colabel.datasets.readers.arff_header import Header
from colabel.datasets.readers.encode import to_dataset
from colabel.datasets.readers.table import find_columns
from colabel.datasets.readers.text import FilePath

_COUNT = re.compile(r"(?:^|[\s:])-[Cc]\s+(-?\d{1,9})(?!\S)")


def declared_labels(header: Header) -> list[str]:
    """Return the names of the labels that the relation counts as -C n; none, if it does not."""
    found = _COUNT.search(header.relation)
    n_labels = int(found[1]) if found else 0
    names = [attribute.name for attribute in header.attributes]
    if not 1 <= abs(n_labels) < len(names):
        return []
    return names[:n_labels] if n_labels > 0 else names[n_labels:]


def read_meka(
    path: FilePath,
    *,
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a MEKA file.

    The relation reads ``'name: -C n ...'``: the first n attributes are labels, or, for a negative
    n, the last -n are.

    Parameters
    ----------
    path : str or path
        The ARFF file.
    drop : sequence of str
        Columns to leave out.
    name : str, optional
        Name of the data set; by default the one in the relation, or the file's.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Dataset
        Encoded as by `read_arff`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_meka
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "a.arff"
    >>> _ = file.write_text('''@relation 'toy: -C 2'
    ... @attribute red {0,1}
    ... @attribute round {0,1}
    ... @attribute size numeric
    ... @data
    ... 1,0,2.5
    ... 1,1,7
    ... ''')
    >>> read_meka(file)
    Dataset('toy': 2 rows, 1 features, 2 labels)
    >>> folder.cleanup()
    """
    header, table = read_arff_table(path, drop=drop, encoding=encoding)
    labels = declared_labels(header)
    if not labels:
        raise DatasetError(
            f"{path}: the relation {header.relation!r} does not say how many of the "
            f"{len(table.attributes)} attributes are labels: write it as 'name: -C n', or use "
            "read_arff and name the labels.",
        )
    own_name = header.relation.partition(":")[0].strip()
    return to_dataset(
        table,
        find_columns(table.names, labels, path),
        name=name or own_name or Path(path).name.split(".")[0],
        dropped=find_columns(table.names, drop, path),
    )
