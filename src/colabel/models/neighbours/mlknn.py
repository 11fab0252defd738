"""ML-kNN: the labels of the nearest neighbours, weighed by Bayes' rule (Zhang & Zhou, 2007)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.label_features import column_owner, n_label_columns
from colabel.core.schema import (
    Dims,
    Distributions,
    Fields,
    Numbers,
    Part,
    Whole,
    bind,
    refuse_unless,
    stored,
)
from colabel.decide import Decision
from colabel.joint import Independent, Joint
from colabel.learn.conditional import TrainingData
from colabel.models.neighbours.neighbours import NeighbourClassifier


def _check_counts(fields: Fields, dims: Dims) -> None:
    bind(dims, "e", n_label_columns(dims["sizes"]), "priors_")
    inside = (fields["priors_"] > 0).all() and (fields["priors_"] < 1).all()
    refuse_unless(inside, "priors_ holds what is no probability between 0 and 1")
    refuse_unless((fields["likelihoods_"] > 0).all(), "likelihoods_ holds zeros")


@stored(
    "mlknn",
    check=_check_counts,
    k_=Whole(0, 2**31, size="k"),
    _neighbours=Part("neighbours", p="p", e="e", k="k"),
    priors_=Numbers("e", 0.0, 1.0),
    likelihoods_=Distributions("2 e k+1"),
)
class MLkNN(NeighbourClassifier):
    r"""Independent labels, each by the number of nearest rows that have it.

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

    Scale the features (`StandardScaler`) unless their units are comparable. Row weights are not
    supported, because a neighbour counts or does not, and missing labels are refused.

    Parameters
    ----------
    k : int
        Number of neighbours; all other rows where there are fewer.
    smoothing : float
        s above, positive: rows that each count is imagined to have been seen.
    metric : str or callable
        Distance between rows, by any name that scikit-learn's `NearestNeighbors` knows, or a
        function of two rows.
    metric_params : dict, optional
        Further arguments of the metric.
    algorithm : {"auto", "brute", "kd_tree", "ball_tree"}
        How `NearestNeighbors` searches; sparse rows are always searched by "brute".
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. For independent labels "subset" and
        "hamming" agree.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    n_jobs : int or None
        Workers of the search.
    random_state : int, RandomState or None
        Seed of the random ranking of training rows by which ties are broken: of rows at exactly
        the same distance, those that rank first become neighbours.

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

    def __init__(
        self,
        k: int = 10,
        *,
        smoothing: float = 1.0,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "auto",
        decision: str | Decision = "subset",
        calibrate: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.k = k
        self.smoothing = smoothing
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.decision = decision
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(self, data: TrainingData) -> None:
        if not self.smoothing > 0:
            raise ValueError(
                f"smoothing={self.smoothing!r} must be positive: without it, a number of"
                " neighbours that no training row had would have no probability."
            )
        self._neighbours = self._find_neighbours(data)
        self.k_ = self._neighbours.k
        counts = self._neighbours.counts_in_training(data.X).astype(np.intp)
        has_label = self._neighbours.columns == 1
        self.priors_ = _smoothed_share(has_label.sum(axis=0), len(counts), self.smoothing, 2)
        self.likelihoods_ = _likelihoods(has_label, counts, self.k_, self.smoothing)

    def _joint(self, X: Any) -> Joint:
        counts = self._neighbours.counts(X).astype(np.intp)
        columns = np.arange(counts.shape[1])
        log_likelihood = np.log(self.likelihoods_[:, columns, counts])  # (2, n, e)
        log_odds = np.log(self.priors_) - np.log1p(-self.priors_) + np.diff(log_likelihood, axis=0)
        cardinalities = self.label_space_.cardinalities
        owner = column_owner(cardinalities)
        tables = [_log_table(log_odds[0][:, owner == i], k) for i, k in enumerate(cardinalities)]
        return Independent(self.label_space_, tables)


def _smoothed_share(count: Any, total: Any, smoothing: float, n_outcomes: int) -> Any:
    """Share of `total` trials with an outcome, `smoothing` more imagined for each outcome."""
    return (smoothing + count) / (n_outcomes * smoothing + total)


def _likelihoods(has_label: Flags, counts: Indices, k: int, smoothing: float) -> Array:
    """P(c | y = 0) and P(c | y = 1), (2, e, k + 1), from labels and counts (n, e)."""
    n_columns = counts.shape[1]
    cells = (has_label * n_columns + np.arange(n_columns)) * (k + 1) + counts
    seen = np.bincount(cells.ravel(), minlength=2 * n_columns * (k + 1))
    seen = seen.reshape(2, n_columns, k + 1)
    found: Array = _smoothed_share(seen, seen.sum(axis=2, keepdims=True), smoothing, k + 1)
    return found


def _log_table(log_odds: Array, n_values: int) -> Array:
    """Log-probabilities (n, K) of a variable, from the log-odds of its columns."""
    log_one = -np.logaddexp(0.0, -log_odds)
    if n_values == 2:  # a single column
        return np.hstack([-np.logaddexp(0.0, log_odds), log_one])
    return log_one - np.logaddexp.reduce(log_one, axis=1, keepdims=True)
