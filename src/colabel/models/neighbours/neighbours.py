"""Nearest training rows and the labels they carry, for ML-kNN and IBLR."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import VALID_METRICS, NearestNeighbors

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.chunks import row_slices
from colabel.core.label_features import label_columns
from colabel.core.schema import Matrix, Maybe, Numbers, OneOf, Positions, Real, Table, Whole, stored
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.models._parameters import refuse_missing
from colabel.models.base import JointClassifier

# Distances that agree to this relative precision are equal but for rounding errors.
_TIE = 1e-9
# Squared Euclidean distances come from |x|^2 - 2 x.y + |y|^2, which rounds on the scale of |x|^2.
_TIE_SQUARED = 1e-12
_EUCLIDEAN = ("euclidean", "l2", "minkowski")
# Metrics that see differences of features only, so that all rows may be moved alike.
_OF_DIFFERENCES = (*_EUCLIDEAN, "manhattan", "l1", "cityblock", "chebyshev", "sqeuclidean")
# If a column has more than this share of the squared distance, the others hardly count.
_WHOLE = 1.0 - 1e-5
_PAIRS_LOOKED_AT = 1000
_METRICS = sorted({name for names in VALID_METRICS.values() for name in names} - {"precomputed"})
_ENTRIES_AT_ONCE = 2**22
_ROWS_AT_ONCE = 2**12


@dataclass(frozen=True)
class NeighbourSettings:
    """How neighbours are found; see `MLkNN` for the meaning."""

    k: int
    metric: str | Callable[..., float]
    metric_params: dict[str, Any] | None
    algorithm: str
    n_jobs: int | None
    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | np.integer) or self.k < 1:
            raise ValueError(f"k={self.k!r} must be a whole number of neighbours, at least 1.")
        if self.metric == "precomputed":
            raise ValueError(
                "metric='precomputed' is not supported, because the rows of X are features here."
                " Give the name of a metric or a function of two rows."
            )


@stored(
    "neighbours",
    k=Whole(0, 2**31, size="k"),
    columns=Numbers("n e", 0.0, 1.0),
    rows=Matrix("n p"),
    rank=Positions("n", below="n"),
    metric=OneOf(*_METRICS),
    p=Real(1.0),
    metric_params=Maybe(Table()),
    algorithm=OneOf("auto", "ball_tree", "kd_tree", "brute"),
    n_jobs=Maybe(Whole(-1024, 1024)),
)
class Neighbours:
    """The k nearest training rows of any row, and what share of them has which label.

    Where rows at exactly the same distance compete for the last places, a random ranking of the
    training rows, drawn once from the seed, decides. Equal but for rounding errors counts as
    equal.

    Attributes
    ----------
    k : int
        Number of neighbours: the one asked for, or all other rows where there are fewer.
    columns : (n, e) array
        Labels of the training rows as 0/1 columns, see `label_columns`.
    """

    def __init__(self, data: TrainingData, settings: NeighbourSettings) -> None:
        self.k = min(settings.k, data.n_rows - 1)
        self.columns = label_columns(data.codes, data.cardinalities)
        others = dict(settings.metric_params or {})
        power = others.pop("p", 2)  # of "minkowski", which scikit-learn wants apart
        rank = np.random.default_rng(settings.seed).permutation(data.n_rows)
        self._set_up(
            data.X,
            rank,
            metric=settings.metric,
            p=power,
            metric_params=others or None,
            algorithm=settings.algorithm,
            n_jobs=settings.n_jobs,
        )

    def _set_up(self, rows: Any, rank: Indices, **options: Any) -> None:
        self._options = options
        self._rows, self._rank = rows, rank
        self._sparse = is_sparse(rows)
        self._euclidean = options["metric"] in _EUCLIDEAN and options["p"] == 2
        # |x|^2 - 2 x.y + |y|^2 keeps nothing of distances that are small beside |x|. Medians,
        # unlike means, are in place whatever a single row holds, and keep whole numbers whole.
        moves = options["metric"] in _OF_DIFFERENCES and not self._sparse
        self._centre = np.median(rows, axis=0) if moves else None
        self._search = NearestNeighbors(**options).fit(self._centred(rows))

    def to_fields(self) -> dict[str, Any]:
        """Return what is stored: the search tree is built again from the rows."""
        parts = {"k": self.k, "columns": self.columns, "rows": self._rows, "rank": self._rank}
        return {**parts, **self._options}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Neighbours:
        """Build the search again."""
        found = object.__new__(cls)
        given = dict(fields)
        found.k, found.columns = given.pop("k"), given.pop("columns")
        found._set_up(given.pop("rows"), given.pop("rank"), **given)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return self.to_fields()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(self.from_fields(state)))

    def counts_in_training(self, X: Any) -> Array:
        """Neighbours with each label (n, e), for the training rows X, none its own neighbour."""
        return self._counts(X, np.arange(X.shape[0]))

    def counts(self, X: Any) -> Array:
        """Neighbours with each label (m, e), for other rows X (m, p)."""
        return self._counts(X, np.full(X.shape[0], MISSING))

    def _counts(self, X: Any, own: Indices) -> Array:
        counts = np.zeros((X.shape[0], self.columns.shape[1]))
        for chunk in row_slices(X.shape[0], _ROWS_AT_ONCE) if self.k else ():
            # one neighbour at a time: all at once would take k times the memory
            for neighbour in self.indices(X[chunk], own[chunk]).T:
                counts[chunk] += self.columns[neighbour]
        return counts

    def indices(self, X: Any, own: Indices) -> Indices:
        """Positions (m, k) of the neighbours of X (m, p), in no order.

        `own` (m,) is each row's own position among the training rows, which is left out, or -1.
        """
        X = self._centred(self._stored_like_training(X))
        slack = self._slack(X)
        found = np.empty((X.shape[0], self.k), dtype=np.intp)
        # one more than k shows whether the k-th place is tied, and one may be the row itself
        todo, asked = np.arange(X.shape[0]), min(self.k + 2, len(self._rank))
        while len(todo):
            unsettled = []
            for part in _parts(todo, asked):
                distance, index = self._search.kneighbors(X[part], n_neighbors=asked)
                distance[index == own[part, None]] = np.inf
                settled = self._settle(distance, index, slack[part])
                complete = asked == len(self._rank)
                keep = np.ones(len(part), dtype=bool) if complete else settled.is_complete
                found[part[keep]] = settled.index[keep]
                unsettled.append(part[~keep])
            todo, asked = np.concatenate(unsettled), min(4 * asked, len(self._rank))
        return found

    def _centred(self, X: Any) -> Any:
        return X if self._centre is None else X - self._centre

    def only_column(self) -> int | None:
        """Column that makes up the Euclidean distance of most rows, whatever the others hold."""
        n_rows = self._rows.shape[0]
        if not self._euclidean or n_rows < 2:
            return None
        picked = np.argsort(self._rank)[:_PAIRS_LOOKED_AT]
        difference = self._rows[picked] - self._rows[np.roll(picked, 1)]
        if self._sparse:
            squared = sp.csr_array(difference.power(2))
            squared.eliminate_zeros()
            largest, n_different = squared.max(axis=1).toarray(), np.diff(squared.indptr)
        else:
            squared = difference**2
            largest, n_different = squared.max(axis=1), (squared > 0).sum(axis=1)
        whole = np.ravel(largest) > _WHOLE * np.ravel(squared.sum(axis=1))
        alone = np.ravel(squared.argmax(axis=1))[whole & (n_different > 1)]
        most = np.bincount(alone, minlength=1)
        return int(most.argmax()) if most.max() > 0.5 * len(picked) else None

    def _stored_like_training(self, X: Any) -> Any:
        """Return the rows dense if the training rows are, else as CSR: search trees insist."""
        if is_sparse(X) == self._sparse:
            return X
        return sp.csr_array(X) if self._sparse else X.toarray()

    def _slack(self, X: Any) -> Array:
        """Rounding error (m,) of squared distances to the rows X."""
        if not self._euclidean:
            return np.zeros(X.shape[0])
        squared = (X.multiply(X)).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        return _TIE_SQUARED * np.asarray(squared, dtype=np.float64).ravel()

    def _settle(self, distance: Array, index: Indices, slack: Array) -> _Settled:
        """Choose k of the candidates (m, a), whose own row is at distance infinity."""
        last = np.partition(distance, self.k - 1, axis=1)[:, self.k - 1, None]
        gap = np.where(np.isinf(distance), np.inf, distance**2) - last**2
        tied = np.abs(gap) <= slack[:, None] + 2 * _TIE * last**2
        place = np.where(tied, 1, np.where(gap < 0, 0, 2))
        order = np.lexsort((self._rank[index], place), axis=1)[:, : self.k]
        # candidates farther than the k-th show that all its equals have been seen
        beyond = ((place == 2) & np.isfinite(distance)).any(axis=1)
        return _Settled(np.take_along_axis(index, order, axis=1), beyond)


@dataclass(frozen=True)
class _Settled:
    index: Indices  # (m, k)
    is_complete: Flags  # (m,) whether no further candidate could matter


class NeighbourClassifier(JointClassifier):
    """Base of the estimators that look at neighbours; see `MLkNN` for the parameters."""

    k: int
    metric: str | Callable[..., float]
    metric_params: dict[str, Any] | None
    algorithm: str
    n_jobs: int | None

    def fit(  # type: ignore[override]  # rows cannot be weighted: no sample_weight
        self, X: Any, y: Any = None, *, label_names: Sequence[str] | None = None
    ) -> Self:
        """Learn from rows X and their labels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : labels of n rows
            In any container that `LabelSpace` reads, without missing entries.
        label_names : sequence of d str, optional
            Names of the labels, where `y` has none.

        Returns
        -------
        self
        """
        return super().fit(X, y, label_names=label_names)

    def _find_neighbours(self, data: TrainingData) -> Neighbours:
        reason = f"{type(self).__name__} counts the labels of neighbours"
        refuse_missing(data, self.label_space_, reason)
        settings = NeighbourSettings(
            self.k, self.metric, self.metric_params, self.algorithm, self.n_jobs, self._seed()
        )
        found = Neighbours(data, settings)
        if found.k < self.k:
            warnings.warn(
                f"k={self.k} neighbours are asked for, but there are {data.n_rows} rows: all"
                f" {found.k} others are used, the same for every row. Choose a smaller k.",
                UserWarning,
                stacklevel=5,
            )
        column = found.only_column() if data.X.shape[1] > 1 else None
        if column is not None:
            warnings.warn(
                f"Column {column} alone decides which rows {type(self).__name__} takes for near:"
                " its differences dwarf those of all other columns. Scale the features first, by"
                " StandardScaler for example.",
                UserWarning,
                stacklevel=5,  # the caller of fit
            )
        return found


def _parts(rows: Indices, asked: int) -> list[Indices]:
    """Cut rows so that a part's candidates fit in memory."""
    return [rows[part] for part in row_slices(len(rows), _ENTRIES_AT_ONCE, asked)]
