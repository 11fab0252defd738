"""Labels of nearest neighbours: ML-kNN (Zhang & Zhou, 2007), IBLR (Cheng & Huellermeier, 2009)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import VALID_METRICS, NearestNeighbors

from colabel.core import schema
from colabel.core.arrays import (
    Array,
    Flags,
    Indices,
    column_owner,
    is_sparse,
    label_columns,
    n_label_columns,
    row_slices,
)
from colabel.core.estimators import attribute
from colabel.core.warning import warn
from colabel.joint import Independent, Joint
from colabel.labels import MISSING
from colabel.learn.conditional import ConditionalModels, TrainingData
from colabel.models.base import JointClassifier
from colabel.models.learning import (
    DEFAULT_GRID,
    Grid,
    choose,
    everything,
    make_folds,
    original_rows,
)
from colabel.models.with_estimator import Regressions

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
_ENTRIES_AT_ONCE = 2**22
_ROWS_AT_ONCE = 2**12


@schema.stored("neighbours")
@dataclass(eq=False)
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
        Labels of the training rows as 0/1 columns, see `label_columns`; means over the draws of
        labels that are drawn.
    weight : (n, e) array
        How much each of them counts, zero where it is missing.
    reach : int
        Number of rows looked at: so many more than k that on average k of them have a label.
    """

    k: Annotated[int, schema.Between(0, 2**31), schema.Is("k")]
    columns: Annotated[Array, "n e", schema.Between(0.0, 1.0)]
    weight: Annotated[Array, "n e", schema.Between(0.0)]
    rows: Annotated[Any, schema.Matrix("n p")]
    rank: Annotated[Indices, "n", schema.Below("n")]
    metric: Any
    p: Annotated[float, schema.Between(1.0)]
    metric_params: dict[str, Any] | None
    algorithm: Literal["auto", "ball_tree", "kd_tree", "brute"]
    n_jobs: Annotated[int | None, schema.Between(-1024, 1024)]

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        metric = fields["metric"]
        schema.check_that(fields["n_jobs"] != 0, "n_jobs is 0")
        known = isinstance(metric, str) and any(metric in m for m in VALID_METRICS.values())
        schema.check_that(
            known and metric != "precomputed", f"metric is {metric!r:.40}, which is none"
        )

    def __post_init__(self) -> None:
        share = max(float((self.weight > 0).mean()), 1.0 / len(self.rank))
        self.reach = min(int(np.ceil(self.k / share)), max(len(self.rank) - 1, self.k))
        self._sparse = is_sparse(self.rows)
        self._euclidean = self.metric in _EUCLIDEAN and self.p == 2
        # |x|^2 - 2 x.y + |y|^2 keeps nothing of distances that are small beside |x|. Medians,
        # unlike means, are in place whatever a single row holds, and keep whole numbers whole.
        moves = self.metric in _OF_DIFFERENCES and not self._sparse
        self._centre = np.median(self.rows, axis=0) if moves else None
        self._search = NearestNeighbors(
            metric=self.metric,
            p=self.p,
            metric_params=self.metric_params,
            algorithm=self.algorithm,
            n_jobs=self.n_jobs,
        ).fit(self._centred(self.rows))

    @classmethod
    def of(
        cls,
        data: TrainingData,
        k: int,
        metric: str | Callable[..., float],
        metric_params: dict[str, Any] | None,
        algorithm: Any,
        n_jobs: int | None,
        seed: int,
    ) -> Neighbours:
        """Search the rows of training data; see `MLkNN` for the arguments.

        Rows that stand there several times, with weights or draws of their own, are one.
        """
        if not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k={k!r} must be a whole number of neighbours, at least 1.")
        if metric == "precomputed":
            raise ValueError(
                "metric='precomputed' is not supported, because the rows of X are features here."
                " Give the name of a metric or a function of two rows."
            )
        others = dict(metric_params or {})
        rows, source = original_rows(data)
        known = data.codes[:, column_owner(data.cardinalities)] != MISSING
        own = known * data.row_weights[:, None]
        weight = np.zeros((rows.n_rows, own.shape[1]))
        np.add.at(weight, source, own)
        columns = np.zeros_like(weight)
        np.add.at(columns, source, own * label_columns(data.codes, data.cardinalities))
        return cls(
            k=min(k, rows.n_rows - 1),
            columns=np.minimum(columns / np.where(weight > 0, weight, 1.0), 1.0),
            weight=weight,
            rows=rows.X,
            rank=np.random.default_rng(seed).permutation(rows.n_rows),
            metric=metric,
            p=others.pop("p", 2),  # of "minkowski", which scikit-learn wants apart
            metric_params=others or None,
            algorithm=algorithm,
            n_jobs=n_jobs,
        )

    def __reduce__(self) -> Any:
        """Leave the search tree out, which is built again from the rows."""
        return Neighbours, tuple(getattr(self, each.name) for each in fields(self))

    def counts_in_training(self) -> Array:
        """Neighbours with each label (n, e), for the training rows, none its own neighbour."""
        return self._counts(self.rows, np.arange(len(self.rank)))

    def counts(self, X: Any) -> Array:
        """Neighbours with each label (m, e), for other rows X (m, p)."""
        return self._counts(X, np.full(X.shape[0], MISSING))

    def _counts(self, X: Any, own: Indices) -> Array:
        counts: Array = np.zeros((X.shape[0], self.columns.shape[1]))
        known: Array = np.zeros_like(counts)
        for chunk in row_slices(X.shape[0], _ROWS_AT_ONCE) if self.k else ():
            # one neighbour at a time: all at once would take k times the memory
            for neighbour in self.indices(X[chunk], own[chunk]).T:
                counts[chunk] += self.columns[neighbour] * self.weight[neighbour]
                known[chunk] += self.weight[neighbour]
        if not self.k or (self.weight == 1.0).all():
            return counts
        total = self.weight.sum(axis=0)
        usual = (self.columns * self.weight).sum(axis=0) / np.where(total > 0, total, 1.0)
        share: Array = np.where(known > 0, counts / np.where(known > 0, known, 1.0), usual)
        return self.k * np.minimum(share, 1.0)

    def indices(self, X: Any, own: Indices) -> Indices:
        """Positions (m, reach) of the neighbours of X (m, p), in no order.

        `own` (m,) is each row's own position among the training rows, which is left out, or -1.
        """
        if is_sparse(X) != self._sparse:  # search trees insist on what the training rows are
            X = sp.csr_array(X) if self._sparse else X.toarray()
        X = self._centred(X)
        slack = np.zeros(X.shape[0])  # rounding errors of squared distances
        if self._euclidean:
            squared = (X.multiply(X)).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
            slack = _TIE_SQUARED * np.asarray(squared, dtype=np.float64).ravel()
        nearest = np.empty((X.shape[0], self.reach), dtype=np.intp)
        # one more shows whether the last place is tied, and one may be the row itself
        todo, asked = np.arange(X.shape[0]), min(self.reach + 2, len(self.rank))
        while len(todo):
            tied = []
            for chunk in row_slices(len(todo), _ENTRIES_AT_ONCE, asked):  # candidates fit in memory
                part = todo[chunk]
                distance, index = self._search.kneighbors(X[part], n_neighbors=asked)
                distance[index == own[part, None]] = np.inf
                chosen, is_complete = self._nearest(distance, index, slack[part])
                keep = is_complete | (asked == len(self.rank))
                nearest[part[keep]] = chosen[keep]
                tied.append(part[~keep])
            todo, asked = np.concatenate(tied), min(4 * asked, len(self.rank))
        return nearest

    def _centred(self, X: Any) -> Any:
        return X if self._centre is None else X - self._centre

    def only_column(self) -> int | None:
        """Column that makes up the Euclidean distance of most rows, whatever the others hold."""
        n_rows = self.rows.shape[0]
        if not self._euclidean or n_rows < 2:
            return None
        picked = np.argsort(self.rank)[:_PAIRS_LOOKED_AT]
        difference = self.rows[picked] - self.rows[np.roll(picked, 1)]
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

    def _nearest(self, distance: Array, index: Indices, slack: Array) -> tuple[Indices, Flags]:
        """Choose `reach` of the candidates (m, a), whose own row is at distance infinity.

        The second (m,) says whether no further candidate could matter.
        """
        last = np.partition(distance, self.reach - 1, axis=1)[:, self.reach - 1, None]
        gap = np.where(np.isinf(distance), np.inf, distance**2) - last**2
        tied = np.abs(gap) <= slack[:, None] + 2 * _TIE * last**2
        place = np.where(tied, 1, np.where(gap < 0, 0, 2))
        order = np.lexsort((self.rank[index], place), axis=1)[:, : self.reach]
        # candidates farther than the k-th show that all its equals have been seen
        beyond = ((place == 2) & np.isfinite(distance)).any(axis=1)
        return np.take_along_axis(index, order, axis=1), beyond


class NeighbourClassifier(JointClassifier):
    """Base of the estimators that look at neighbours.

    Parameters
    ----------
    k : int
        Number of neighbours; all other rows where there are fewer.
    metric : str or callable
        Distance between rows, by any name that scikit-learn's `NearestNeighbors` knows, or a
        function of two rows.
    metric_params : dict, optional
        Further arguments of the metric.
    algorithm : {"auto", "brute", "kd_tree", "ball_tree"}
        How `NearestNeighbors` searches; sparse rows are always searched by "brute".
    random_state : int, RandomState or None
        Seed of the folds, and of the random ranking of training rows by which ties are broken:
        of rows at exactly the same distance, those that rank first become neighbours.

    Attributes
    ----------
    k_ : int
        Number of neighbours used.
    """

    k: int = field(default=10, kw_only=False)
    metric: str | Callable[..., float] = "euclidean"
    metric_params: dict[str, Any] | None = None
    algorithm: str = "auto"
    k_: Annotated[int, schema.Is("k")] = attribute()
    _neighbours: Annotated[Neighbours, "p e=columns(sizes) k"] = attribute()

    def _find_neighbours(self, data: TrainingData) -> Neighbours:
        settings = (self.k, self.metric, self.metric_params, self.algorithm, self.n_jobs)
        found = Neighbours.of(data, *settings, self._seed())
        if found.k < self.k:
            warn(
                f"k={self.k} neighbours are asked for, but there are {found.k + 1} rows: all"
                f" {found.k} others are used, the same for every row. Choose a smaller k.",
            )
        column = found.only_column() if data.X.shape[1] > 1 else None
        if column is not None:
            warn(
                f"Column {column} alone decides which rows {type(self).__name__} takes for near:"
                " its differences dwarf those of all other columns. Scale the features first, by"
                " StandardScaler for example.",
            )
        return found


@schema.stored("mlknn")
class MLkNN(NeighbourClassifier):
    r"""Independent labels, each by the number of nearest rows that have it.

    Take it where similar rows have similar labels, such as images. Cost: low.

    With c the number of neighbours of x that have label i, N training rows and n_i of them with
    the label,

    .. math::
        P(y_i = 1 \mid x) \propto P(y_i = 1) \, P(c \mid y_i = 1), \qquad
        P(y_i = 1) = \frac{s + n_i}{2 s + N}, \qquad
        P(c \mid y_i = 1) = \frac{s + m_i(c)}{s (k + 1) + \sum_j m_i(j)}

    where m_i(c) counts the training rows that have the label and c neighbours with it; likewise
    for y_i = 0. A training row is not its own neighbour, but rows equal to it may be. Labels are
    independent given x.

    A class variable with more than two values is learned value by value, each against the rest,
    and its probabilities are scaled to sum to one; for two values this changes nothing.

    Scale the features (`StandardScaler`) unless their units are comparable. A neighbour
    counts by its weight, but takes one of the k places. Where labels are missing, k or half of
    it, and the smoothing asked for, 3 times or 10 times as much, are taken as the known labels
    prefer, each row left out of the counts.

    Parameters
    ----------
    smoothing : float
        s above, positive: rows that each count is imagined to have been seen.

    Attributes
    ----------
    k_ : int
        Number of neighbours used.
    priors_ : (e,) array
        P(y = 1) of each label; of each value of a variable with more than two values.
    likelihoods_ : (2, e, k + 1) array
        P(c | y = 0) and P(c | y = 1).

    References
    ----------
    M.-L. Zhang, Z.-H. Zhou: ML-KNN: a lazy learning approach to multi-label learning. Pattern
    Recognition 40(7), 2007.

    Examples
    --------
    >>> from colabel import MLkNN
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = MLkNN(k=5, random_state=0).fit(data.X[:500], data.Y[:500])
    >>> model.predict_proba(data.X[-2:]).round(2).shape
    (2, 7)
    """

    smoothing: float = 1.0
    verbose: ClassVar[int] = 0  # type: ignore[misc]
    priors_: Annotated[Array, "columns(sizes)", schema.Between(1e-300, 1.0 - 1e-16)] = attribute()
    likelihoods_: Annotated[
        Array, "2 columns(sizes) k+1", schema.Between(1e-300), schema.Distribution()
    ] = attribute()

    def _learn(self, data: TrainingData) -> None:
        if not self.smoothing > 0:
            raise ValueError(
                f"smoothing={self.smoothing!r} must be positive: without it, a number of"
                " neighbours that no training row had would have no probability."
            )
        rows, most = self._find_neighbours(data), -np.inf
        known = rows.weight > 0
        some = bool((known.any(axis=1) & ~known.all(axis=1)).any())
        for k in {rows.k: None, (rows.k + 1) // 2: None} if some else {rows.k: None}:
            own = replace(rows, k=k)
            counts = np.rint(own.counts_in_training()).astype(np.intp)
            for times in _TIMES if some else _TIMES[:1]:
                priors, likelihoods, score = counted(own, counts, times * self.smoothing)
                if score > most:
                    self._neighbours, self.k_, most = own, k, score
                    self.priors_, self.likelihoods_ = priors, likelihoods

    def _joint(self, X: Any) -> Joint:
        counts = np.rint(self._neighbours.counts(X)).astype(np.intp)
        columns = np.arange(counts.shape[1])
        log_likelihood = np.log(self.likelihoods_[:, columns, counts])  # (2, n, e)
        log_odds = np.log(self.priors_) - np.log1p(-self.priors_) + np.diff(log_likelihood, axis=0)
        cardinalities = self.label_space_.cardinalities
        owner = column_owner(cardinalities)
        tables = [_log_table(log_odds[0][:, owner == i], k) for i, k in enumerate(cardinalities)]
        return Independent(self.label_space_, tables)


_TIMES = (1.0, 3.0, 10.0)  # the smoothing asked for, where labels are missing


def counted(rows: Neighbours, counts: Indices, s: float) -> tuple[Array, Array, float]:
    r"""Learn priors and likelihoods from counts of neighbours (n, e), and score known labels.

    The score is the sum of :math:`w \log P(y_i \mid c)` where the row itself, of weight w, is taken
    out of n_i, N and m_i.
    """
    positive, n_columns = rows.weight * rows.columns, counts.shape[1]
    size = n_columns * (rows.k + 1)
    cells = (np.arange(n_columns) * (rows.k + 1) + counts).ravel()
    own = np.stack([rows.weight - positive, positive])
    seen = np.stack([np.bincount(cells, part.ravel(), minlength=size) for part in own])
    seen = seen.reshape(2, n_columns, rows.k + 1)
    priors = (s + positive.sum(axis=0)) / (2 * s + rows.weight.sum(axis=0))
    likelihoods = (s + seen) / (s * (rows.k + 1) + seen.sum(axis=2, keepdims=True))
    of_class = seen.sum(axis=2)[:, None] - own
    log_prob = np.log(s + of_class) - np.log(s * (rows.k + 1) + of_class)
    log_prob += np.log(s + np.maximum(seen[:, np.arange(n_columns), counts] - own, 0.0))
    score = float((own * (log_prob - np.logaddexp(*log_prob))).sum())
    return priors, likelihoods, score


def _log_table(log_odds: Array, n_values: int) -> Array:
    """Log-probabilities (n, K) of a variable, from the log-odds of its columns."""
    log_one = -np.logaddexp(0.0, -log_odds)
    if n_values == 2:  # a single column
        return np.hstack([-np.logaddexp(0.0, log_odds), log_one])
    return log_one - np.logaddexp.reduce(log_one, axis=1, keepdims=True)


@schema.stored("iblr")
class IBLR(NeighbourClassifier, Regressions):
    r"""Independent labels, each by a regression on the labels of the nearest rows.

    Take it where similar rows have similar labels, and few labels are rare. Cost: low.

    With w_j(x) the share of the k nearest neighbours of x that have label j,

    .. math:: \log \frac{P(y_i = 1 \mid x)}{P(y_i = 0 \mid x)} =
        \beta_{i0} + \sum_j \alpha_{ij} w_j(x) \; [ + \beta_i^\top x ]

    This is IBLR-ML of the paper, and with `features=True` IBLR-ML+. Neighbours with one label
    speak for or against another, so labels help each other although they are independent given
    x. A training row is not its own neighbour, but rows equal to it may be. Class variables with
    more than two values have the shares of all their values, and softmax regressions.

    Scale the features (`StandardScaler`) unless their units are comparable. A neighbour
    counts by its weight, but takes one of the k places.

    Parameters
    ----------
    features : bool
        Whether x itself is appended to the shares (IBLR-ML+).

    Attributes
    ----------
    k_ : int
        Number of neighbours used.
    models_ : ConditionalModels
        The fitted regressions; `models_.coef` has the features (if asked for), then the shares,
        then the intercept.
    C_ : (d,) array
        Chosen C of every label; absent with `estimator`.
    n_iter_ : int
        Most iterations any regression of the final fit took; absent with `estimator`.

    References
    ----------
    W. Cheng, E. Huellermeier: Combining instance-based learning and logistic regression for
    multilabel classification. Machine Learning 76, 2009.

    Examples
    --------
    >>> from colabel import IBLR
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = IBLR(k=5, C=1.0, random_state=0).fit(data.X[:500], data.Y[:500])
    >>> model.predict(data.X[-2:]).shape
    (2, 7)
    """

    features: bool = False
    C: Grid = DEFAULT_GRID
    models_: Annotated[ConditionalModels, "sizes"] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        width = n_label_columns(dims["sizes"]) + (dims["p"] if fields["features"] else 0) + 1
        schema.bind(
            dims, width, fields["models_"].dims.get("q", width), "models_"
        )  # of regressions

    def _learn(self, data: TrainingData) -> None:
        learner = self._learner(self.estimator)
        folds = make_folds(data, self.cv, self._seed())
        self._neighbours = self._find_neighbours(data)
        self.k_ = self._neighbours.k
        counts = self._neighbours.counts_in_training()[original_rows(data)[1]]
        X, shares = self._inputs(data.X, counts)
        with_shares = replace(data, X=X, extra=shares)
        learning = learner.on(with_shares)
        choice = choose(learning, folds)
        self.models_ = learning.fit([everything(data)], [choice])
        self._record(self.models_.n_iter, learner.values(choice))

    def _joint(self, X: Any) -> Joint:
        inputs = self._inputs(X, self._neighbours.counts(X))
        return Independent(self.label_space_, self.models_.log_prob(*inputs))

    def _inputs(self, X: Any, counts: Array) -> tuple[Any, Array | None]:
        """Return what the regressions see: the shares instead of x, or beside it."""
        shares = counts / max(self.k_, 1)
        return (X, shares) if self.features else (shares, None)
