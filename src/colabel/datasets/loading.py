"""Data sets as arrays: from a file, from OpenML, and one that comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from colabel.core.arrays import is_sparse
from colabel.tables import (
    Frame,
    ReadingOptions,
    TableError,
    TableRequest,
    load_table,
    open_table,
)
from colabel.tables.arff import ArffSource
from colabel.tables.source import PLAIN, FilePath

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.tables.source import Features

_MOST_CELLS = 50_000_000  # added by one-hot coding: 400 MB of numbers
OPENML = {
    "emotions": 40589,
    "enron": 41466,
    "genbase": 41467,
    "image": 41468,
    "scene": 40595,
    "yeast": 40597,
}
"""Numbers of data sets on OpenML."""

_TRAITS = {
    "even": {0, 2, 4, 6, 8},
    "prime": {2, 3, 5, 7},
    "square": {0, 1, 4, 9},
    "above_four": {5, 6, 7, 8, 9},
    "loop": {0, 6, 8, 9},
    "triangular": {0, 1, 3, 6},
    "fibonacci": {0, 1, 2, 3, 5, 8},
}


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A multi-label or multi-dimensional data set.

    Attributes
    ----------
    name : str
        Short name, as used in tables.
    X : ndarray or scipy.sparse.csr_array of shape (n_rows, n_features)
        Features, float64. Missing values are NaN.
    Y : ndarray of shape (n_rows, n_labels)
        Labels: integers (0/1 for a multi-label set) or strings; where entries are missing, an
        array of objects with None.
    feature_names, label_names : tuple of str
        One name per column of X and of Y.
    description : str
        A sentence or two about the data.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.datasets import Dataset
    >>> data = Dataset("toy", np.eye(3), np.array([[0, 1], [1, 1], [0, 1]]))
    >>> data
    Dataset('toy': 3 rows, 3 features, 2 labels)
    >>> data.label_names
    ('y1', 'y2')
    """

    name: str
    X: Features
    Y: NDArray[Any]
    feature_names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.Y.ndim != 2 or self.X.shape[0] != self.Y.shape[0]:
            raise TableError(
                f"X has shape {self.X.shape} and Y has shape {self.Y.shape}: both need two "
                "dimensions and the same number of rows."
            )
        for attribute, prefix, n_columns in (
            ("feature_names", "x", self.X.shape[1]),
            ("label_names", "y", self.Y.shape[1]),
        ):
            names = getattr(self, attribute) or tuple(f"{prefix}{i + 1}" for i in range(n_columns))
            if len(names) != n_columns:
                raise TableError(
                    f"{attribute} has {len(names)} names for {n_columns} columns: give one each."
                )
            object.__setattr__(self, attribute, tuple(names))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of columns of Y."""
        return int(self.Y.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse array."""
        return sparse.issparse(self.X)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.n_rows} rows, {self.n_features} "
            f"{'sparse ' if self.is_sparse else ''}features, {self.n_labels} labels)"
        )


def read_dataset(
    path: FilePath,
    labels: Sequence[str] | int = (),
    *,
    drop: Sequence[str] = (),
    name: str | None = None,
    options: ReadingOptions = PLAIN,
) -> Dataset:
    """Read a table as arrays for models, without scaling its columns.

    Parameters
    ----------
    path : str or path
        A file of any format that `colabel.tables.read_frame` reads.
    labels : sequence of str or int
        Names, globs or @lists of the label columns; or their number as in MEKA, n for the first n
        and -n for the last n. By default the labels that the data set declares: in the file of the
        same name that ends in .xml (Mulan), or by ``-C n`` in the relation (MEKA).
    drop : sequence of str
        Names, globs or @lists of columns to leave out, such as row identifiers.
    name : str, optional
        Name of the data set; by default the file's.
    options : ReadingOptions
        How a text file is read.

    Returns
    -------
    Dataset
        A column of numbers is unchanged; one of texts becomes a 0/1 column for each value, in the
        order that an ARFF file declares. Rows without any label are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "weather.arff"
    >>> _ = file.write_text('''@relation weather
    ... @attribute degrees numeric
    ... @attribute sky {clear, cloud, fog}
    ... @attribute rain {0, 1}
    ... @attribute wind {0, 1}
    ... @data
    ... 21.5, clear, 0, 1
    ... 9, fog, 1, 0
    ... 7, fog, 1, 1
    ... ''')
    >>> data = read_dataset(file, labels=["rain", "wind"])
    >>> data.feature_names
    ('degrees', 'sky=clear', 'sky=cloud', 'sky=fog')
    >>> data.Y.tolist()
    [[0, 1], [1, 0], [1, 1]]
    >>> folder.cleanup()
    """
    file = Path(path)
    source = open_table(file, options)
    if isinstance(labels, int):
        if not 1 <= abs(labels) < len(source.names):
            raise TableError(
                f"{path} has {len(source.names)} columns, so {abs(labels)} of them cannot be "
                f"labels: choose between 1 and {len(source.names) - 1}."
            )
        labels = source.names[:labels] if labels > 0 else source.names[labels:]
    beside = file.with_name(file.name.removesuffix(".gz")).with_suffix(".xml")
    if not labels and beside.exists():
        labels = [f"@{beside}"]
    data = load_table(TableRequest(file, labels, drop=drop, options=options))
    # ARFF declares the values of nominal columns, and their order
    is_arff = isinstance(source, ArffSource)
    X, names = _encoded(data.features, file, in_order=is_arff)
    title = name or file.name.split(".")[0]
    return Dataset(title, X, data.labels.Y, names, data.labels.names)


def _encoded(
    frame: Frame, path: Path | str, *, in_order: bool = True
) -> tuple[Any, tuple[str, ...]]:
    """Return numbers and one 0/1 column for each value of a text, with their names."""
    n_cells = 0
    for name, column in frame.texts.items():
        n_values = len(column.dictionary)
        n_cells += len(frame) * n_values
        if n_cells > _MOST_CELLS or n_values > max(30, len(frame) // 2):
            raise TableError(
                f"The column {name!r} of {path} has {n_values} different values in {len(frame)} "
                f"rows, which would each become a column: leave it out with drop=[{name!r}]."
            )
    blocks: list[Any] = [frame.numbers]
    names = list(frame.number_names)
    for name in frame.texts:
        values, codes = frame.coded(name)
        order = range(len(values)) if in_order else np.argsort(np.array(values, dtype=object))
        block = (codes[:, None] == np.asarray(order)).astype(np.float64)
        block[codes < 0] = np.nan
        blocks.append(sparse.csr_array(block) if frame.is_sparse else block)
        names += [f"{name}={values[k]}" for k in order]
    if not frame.is_sparse:
        return np.hstack(blocks), tuple(names)
    X = sparse.csr_array(sparse.hstack(blocks, format="csr"))
    X.eliminate_zeros()
    X.sort_indices()
    return X, tuple(names)


def load(name: str) -> Dataset:
    """Load a data set of the literature from OpenML, by scikit-learn, which caches it.

    Parameters
    ----------
    name : {"emotions", "enron", "genbase", "image", "scene", "yeast"}
        `sklearn.datasets.fetch_openml` fetches other sets as data frames, which `colabel.compare`
        and `TableModel` accept.

    Examples
    --------
    >>> from colabel.datasets import load
    >>> load("emotions")  # doctest: +SKIP
    Dataset('emotions': 593 rows, 72 features, 6 labels)
    """
    if name not in OPENML:
        close = get_close_matches(name.lower(), OPENML, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(OPENML)}."
        raise TableError(
            f"There is no data set {name!r}: {hint} A file of your own is read with read_dataset, "
            "any set of OpenML with sklearn.datasets.fetch_openml."
        )
    from sklearn.datasets import fetch_openml

    try:
        found = fetch_openml(data_id=OPENML[name], as_frame=False, parser="liac-arff")
    except OSError as error:
        raise TableError(
            f"{name!r} could not be fetched from OpenML: {str(error).rstrip('.')}. Try again with "
            "a connection to the internet."
        ) from error
    kept = [j for j, column in enumerate(found.feature_names) if column != "protein"]  # an id
    X: Any = sparse.csr_array(found.data) if is_sparse(found.data) else found.data
    names = tuple(found.feature_names[j] for j in kept)
    Y = np.isin(found.target.astype(str), ("TRUE", "1")).astype(np.int64)
    return Dataset(name, X[:, kept].astype(np.float64), Y, names, tuple(found.target_names))


def load_digit_traits() -> Dataset:
    """Load scikit-learn's bundled digits, labelled with seven traits of the digit shown.

    The labels of a row are facts about its digit (0 to 9): ``even``; ``prime`` {2, 3, 5, 7};
    ``square`` {0, 1, 4, 9}; ``above_four`` {5, ..., 9}; ``loop``, drawn with a closed loop,
    {0, 6, 8, 9}; ``triangular`` {0, 1, 3, 6}; ``fibonacci`` {0, 1, 2, 3, 5, 8}. A 4 does not
    count as a loop: most fours in these images are open at the top. Each digit has a label
    vector of its own, so ten of the 128 vectors occur and the labels depend strongly on each
    other.

    Returns
    -------
    Dataset
        X of shape (1797, 64), pixel intensities 0 to 16; Y of shape (1797, 7), 0/1.

    Examples
    --------
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> data
    Dataset('digit_traits': 1797 rows, 64 features, 7 labels)
    >>> dict(zip(data.label_names, data.Y[0].tolist()))
    {'even': 1, 'prime': 0, 'square': 1, 'above_four': 0, 'loop': 1, 'triangular': 1,
     'fibonacci': 1}
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    table = np.array([[digit in trait for trait in _TRAITS.values()] for digit in range(10)])
    return Dataset(
        "digit_traits",
        np.asarray(bunch.data, dtype=np.float64),
        table[bunch.target].astype(np.int64),
        tuple(bunch.feature_names),
        tuple(_TRAITS),
        "8x8 images of handwritten digits and seven traits of the digit shown.",
    )
