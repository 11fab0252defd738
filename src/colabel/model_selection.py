"""Folds for rows with several labels: stratified by every label, by groups, and by time.

scikit-learn stratifies one class at a time. These splitters go wherever it takes ``cv=``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from colabel.core.arrays import Array, Indices
from colabel.labels import MISSING, LabelSpace

__all__ = ["LabelKFold", "TimeFolds"]

Split = tuple[Indices, Indices]


class LabelKFold(BaseCrossValidator):
    """Folds in which every label, or every value of a class variable, is about equally common.

    The iterative stratification of Sechidis, Tsoumakas and Vlahavas (2011): repeatedly take the
    label with the fewest rows left, and give each of its rows to the fold that still wants that
    label most (then the fold that still wants most rows, then a random one). Rows without labels
    fill up the folds. With `groups`, rows of a group stay together.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=True
        Whether chance breaks ties; without it the same folds are made every time, as with
        ``random_state=0``.
    random_state : int, Generator, RandomState or None, default=None
        Breaks ties and orders the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.model_selection import LabelKFold
    >>> Y = np.zeros((20, 2), dtype=int)
    >>> Y[:4, 0] = 1  # a label with four rows
    >>> [int(Y[test, 0].sum()) for _, test in LabelKFold(4, random_state=0).split(Y, Y)]
    [1, 1, 1, 1]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Iterator[Split]:
        """Yield the training and test rows of each fold.

        Parameters
        ----------
        X : ignored
        y : (n, d)
            Labels in any form; a missing label counts neither way.
        groups : (n,), optional
            Rows of equal value are never in training and test at once.
        """
        if y is None:
            raise ValueError("LabelKFold needs y: it makes folds alike in their labels.")
        counts = _indicators(y)
        n_rows = len(counts)
        unit = np.arange(n_rows)
        if groups is not None:
            unit = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
            if len(unit) != n_rows:
                raise ValueError(f"groups has {len(unit)} entries for {n_rows} rows.")
        n_units = int(unit.max(initial=-1)) + 1
        if not 2 <= self.n_splits <= n_units:
            what = "rows" if groups is None else "groups"
            raise ValueError(
                f"Cannot cut {n_units} {what} into {self.n_splits} folds: choose between 2 and "
                f"{n_units}."
            )
        by_unit = np.zeros((n_units, counts.shape[1]), dtype=np.int64)
        np.add.at(by_unit, unit, counts)
        rng = self.random_state if self.shuffle else 0
        if not isinstance(rng, np.random.Generator):
            if isinstance(rng, np.random.RandomState):
                rng = check_random_state(rng).randint(2**31)
            rng = np.random.default_rng(rng)
        fold_of = _assign(by_unit, np.bincount(unit, minlength=n_units), self.n_splits, rng)[unit]
        rows = np.arange(n_rows)
        for fold in range(self.n_splits):
            yield rows[fold_of != fold], rows[fold_of == fold]


class TimeFolds(BaseCrossValidator):
    """Folds that only ever predict the future: training rows are older than all test rows.

    The times are cut into ``n_splits + 1`` blocks of about equally many rows; each block but the
    first is a test set once, and all earlier rows are its training set. Rows of the same time stay
    together. Unlike scikit-learn's `TimeSeriesSplit`, rows need not be sorted.

    Parameters
    ----------
    times : (n,)
        When each row was taken: numbers, dates or anything else that can be sorted.
    n_splits : int, default=5

    Examples
    --------
    >>> from colabel.model_selection import TimeFolds
    >>> for train, test in TimeFolds([3, 1, 2, 4, 5, 6], n_splits=2).split():
    ...     print(train, test)
    [1 2] [0 3]
    [0 1 2 3] [4 5]
    """

    def __init__(self, times: ArrayLike, n_splits: int = 5) -> None:
        self.times = times
        self.n_splits = n_splits

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Split]:
        """Yield the training and test rows of each fold; all arguments are ignored."""
        moments, moment = np.unique(np.asarray(self.times), return_inverse=True)
        if not 1 <= self.n_splits < len(moments):
            raise ValueError(
                f"Cannot make {self.n_splits} folds of {len(moments)} different times: choose "
                f"between 1 and {max(len(moments) - 1, 1)}."
            )
        after = np.cumsum(np.bincount(moment.ravel()))
        wanted = len(moment) * np.arange(1, self.n_splits + 1) / (self.n_splits + 1)
        starts = np.searchsorted(after, wanted - 1e-9) + 1
        # every fold has a moment of its own, also where one moment holds most rows
        for k in range(self.n_splits):
            earliest = starts[k - 1] + 1 if k else 1
            starts[k] = np.clip(starts[k], earliest, len(moments) - self.n_splits + k)
        for start, stop in zip(starts, [*starts[1:], len(moments)], strict=True):
            at = moment.ravel()
            yield np.flatnonzero(at < start), np.flatnonzero((at >= start) & (at < stop))


def _indicators(y: Any) -> NDArray[np.int64]:
    """Return one 0/1 column per 0/1 label, or per value of a class variable."""
    space, codes = LabelSpace.infer(y)
    if space.is_indicator:
        return np.asarray(codes == 1, dtype=np.int64)
    columns = [
        (codes[:, [i]] == np.arange(size)) & (codes[:, [i]] != MISSING)
        for i, size in enumerate(space.cardinalities)
    ]
    return np.concatenate(columns, axis=1).astype(np.int64)


def _assign(
    counts: NDArray[np.int64], sizes: Indices, n_splits: int, rng: np.random.Generator
) -> Indices:
    """Return the fold (U,) of units with label counts (U, L) and sizes (U,) in rows."""
    fold_of = np.full(len(counts), -1, dtype=np.intp)
    rows_wanted = np.full(n_splits, sizes.sum() / n_splits)
    label_wanted = np.tile(counts.sum(axis=0) / n_splits, (n_splits, 1))  # (folds, labels)
    order = rng.permutation(len(counts))
    order = order[np.argsort(-sizes[order], kind="stable")]  # large groups while there is room

    def give(unit: int, wish: Array) -> None:
        best = np.flatnonzero(wish >= wish.max() - 1e-9)
        most = rows_wanted[best]
        best = best[most >= most.max() - 1e-9]
        fold = int(best[0]) if len(best) == 1 else int(rng.choice(best))
        fold_of[unit] = fold
        rows_wanted[fold] -= sizes[unit]
        label_wanted[fold] -= counts[unit]

    left = counts.sum(axis=0)
    share = counts / np.maximum(left, 1)
    while left.any():
        label = int(np.argmin(np.where(left > 0, left, left.max() + 1)))
        for unit in order[(counts[order, label] > 0) & (fold_of[order] < 0)]:
            # a row by its rarest label, as published; a group by all that it brings
            wish = label_wanted[:, label]
            if sizes[unit] > 1:
                wish = label_wanted @ share[unit] + rows_wanted * sizes[unit] / sizes.sum()
            give(int(unit), wish)
        left = counts[fold_of < 0].sum(axis=0)
    for unit in order[fold_of[order] < 0]:
        give(int(unit), rows_wanted)
    return fold_of
