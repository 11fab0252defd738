"""Row splits: k-fold, random train/test, and iterative stratification for many labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit

from colabel import model_selection
from colabel.tables import TableError

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import ArrayLike, NDArray

    Split: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]


def kfold(n_rows: int, n_splits: int = 10, seed: int | None = None) -> list[Split]:
    """Shuffle the rows and cut them into folds; each fold is the test set once.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_splits : int, default=10
        Number of folds, between 2 and n_rows.
    seed : int or None
        Seed of the shuffle.

    Returns
    -------
    list of (train, test)
        Row positions, two integer arrays for each fold.

    Examples
    --------
    >>> from studies.datasets import kfold
    >>> [len(test) for _, test in kfold(10, n_splits=3, seed=0)]
    [4, 3, 3]
    """
    _check_folds(n_rows, n_splits)
    folds = KFold(n_splits=n_splits, shuffle=True, random_state=seed)
    return list(folds.split(np.empty((n_rows, 0))))


def first_label_folds(Y: ArrayLike, n_splits: int = 10, seed: int | None = None) -> list[Split]:
    """Shuffle the rows and cut them into folds in which the first label is equally common.

    Parameters
    ----------
    Y : array-like of shape (n_rows, n_labels)
        The first column alone is looked at.
    n_splits : int, default=10
        Number of folds, between 2 and n_rows.
    seed : int or None
        Seed of the shuffle.

    Returns
    -------
    list of (train, test)
        Row positions, two integer arrays for each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.datasets import first_label_folds
    >>> Y = np.eye(8, 3, dtype=int)[[0, 0, 0, 0, 1, 1, 2, 2]]
    >>> [int(Y[test, 0].sum()) for _, test in first_label_folds(Y, n_splits=4, seed=0)]
    [1, 1, 1, 1]
    """
    first = np.asarray(Y)[:, 0]
    _check_folds(len(first), n_splits)
    values, codes = np.unique(first.astype(str), return_inverse=True)
    # deal the shuffled rows of one value after the other to the folds in turn
    order = np.random.default_rng(seed).permutation(len(first))
    dealt = np.concatenate([order[codes[order] == code] for code in range(len(values))])
    fold_of = np.empty(len(first), dtype=np.intp)
    fold_of[dealt] = np.arange(len(first)) % n_splits
    rows = np.arange(len(first))
    return [(rows[fold_of != k], rows[fold_of == k]) for k in range(n_splits)]


def random_splits(
    n_rows: int,
    train: int | float,
    test: int | float,
    n_splits: int = 10,
    seed: int | None = None,
) -> list[Split]:
    """Draw independent random train and test sets.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    train, test : int or float
        Sizes: a count of rows (int) or a share of them (float between 0 and 1).
    n_splits : int, default=10
        Number of draws.
    seed : int or None
        Seed of the draws.

    Returns
    -------
    list of (train, test)
        Row positions, two disjoint integer arrays for each draw.

    Examples
    --------
    >>> from studies.datasets import random_splits
    >>> train, test = random_splits(100, train=60, test=0.2, n_splits=1, seed=0)[0]
    >>> len(train), len(test)
    (60, 20)
    """
    try:
        splitter = ShuffleSplit(
            n_splits=n_splits, train_size=train, test_size=test, random_state=seed
        )
        return list(splitter.split(np.empty((n_rows, 0))))
    except ValueError as error:
        raise TableError(
            f"Cannot draw {train} training and {test} test rows from {n_rows} rows: {error}"
        ) from error


def iterative_stratification(
    Y: ArrayLike, n_splits: int = 10, seed: int | None = None
) -> list[Split]:
    """Cut the rows into folds in which every label is about equally common.

    The algorithm of Sechidis, Tsoumakas and Vlahavas (2011): repeatedly take the label with the
    fewest rows left, and give each of its rows to the fold that still wants that label most (then
    the fold that still wants most rows, then a random one). Rows without labels fill up the folds.

    Parameters
    ----------
    Y : array-like of shape (n_rows, n_labels)
        0/1 labels. Class variables with other values are stratified value by value.
    n_splits : int, default=10
        Number of folds.
    seed : int or None
        Seed for breaking ties and for the order of rows.

    Returns
    -------
    list of (train, test)
        Row positions, two sorted integer arrays for each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.datasets import iterative_stratification
    >>> Y = np.zeros((20, 2), dtype=int)
    >>> Y[:4, 0] = 1  # a label with four rows
    >>> folds = iterative_stratification(Y, n_splits=4, seed=0)
    >>> [int(Y[test, 0].sum()) for _, test in folds]
    [1, 1, 1, 1]
    """
    labels = np.asarray(Y)
    if labels.ndim != 2:
        raise TableError(f"Y has shape {labels.shape}: give one row a case and one column a label.")
    _check_folds(len(labels), n_splits)
    return list(model_selection.LabelKFold(n_splits, random_state=seed).split(labels, labels))


def _check_folds(n_rows: int, n_splits: int) -> None:
    if not 2 <= n_splits <= n_rows:
        raise TableError(
            f"Cannot cut {n_rows} rows into {n_splits} folds: choose between 2 and {n_rows}."
        )
