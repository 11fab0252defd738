"""IBLR: logistic regression on the labels of neighbours (Cheng & Huellermeier, 2009)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator

from colabel.core.arrays import Array
from colabel.core.label_features import n_label_columns
from colabel.core.schema import Dims, Fields, Part, Whole, YesNo, bind, stored
from colabel.decide import Decision
from colabel.joint import Independent, Joint
from colabel.learn.conditional import TrainingData
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    choose,
    everything,
    make_folds,
    make_learner,
)
from colabel.models.neighbours.neighbours import NeighbourClassifier


def _check_inputs(fields: Fields, dims: Dims) -> None:
    bind(dims, "e", n_label_columns(dims["sizes"]), "_neighbours")
    width = dims["e"] + (dims["p"] if fields["features"] else 0) + 1
    if "q" in fields["models_"].dims:  # of regressions
        bind(dims, width, fields["models_"].dims["q"], "models_")


@stored(
    "iblr",
    check=_check_inputs,
    features=YesNo(),
    k_=Whole(0, 2**31, size="k"),
    _neighbours=Part("neighbours", p="p", e="e", k="k"),
    models_=Part("linear-models", "estimator-models", sizes="sizes"),
)
class IBLR(NeighbourClassifier):
    r"""Independent labels, each by a regression on the labels of the nearest rows.

    With w_j(x) the share of the k nearest neighbours of x that have label j,

    .. math:: \log \frac{P(y_i = 1 \mid x)}{P(y_i = 0 \mid x)} =
        \beta_{i0} + \sum_j \alpha_{ij} w_j(x) \; [ + \beta_i^\top x ]

    This is IBLR-ML of the paper, and with `features=True` IBLR-ML+. Neighbours with one label
    speak for or against another, so labels help each other although they are independent given
    x. A training row is not its own neighbour, but rows equal to it may be. Class variables with
    more than two values have the shares of all their values, and softmax regressions.

    Scale the features (`StandardScaler`) unless their units are comparable. Row weights are not
    supported, because a neighbour counts or does not, and missing labels are refused.

    Parameters
    ----------
    k : int
        Number of neighbours; all other rows where there are fewer.
    features : bool
        Whether x itself is appended to the shares (IBLR-ML+).
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each label by cross-validation; there the shares of
        a row stay those among all training rows.
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`, instead of the built-in regression.
    cv : int, float, splitter or iterable
        How rows are held out to choose C: a number of folds, a fraction, a scikit-learn
        splitter, or pairs of index arrays (train, test).
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
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Workers of the search, and threads of the regressions (None: all cores) or joblib workers
        for `estimator`.
    random_state : int, RandomState or None
        Seed of the folds, and of the random ranking of training rows by which ties are broken:
        of rows at exactly the same distance, those that rank first become neighbours.
    verbose : int
        Whether to show progress.

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

    def __init__(
        self,
        k: int = 10,
        *,
        features: bool = False,
        C: float | Sequence[float] = DEFAULT_GRID,
        estimator: BaseEstimator | None = None,
        cv: Any = 5,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "auto",
        decision: str | Decision = "subset",
        calibrate: bool = False,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.k = k
        self.features = features
        self.C = C
        self.estimator = estimator
        self.cv = cv
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.decision = decision
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: TrainingData) -> None:
        learner = make_learner(
            self.estimator, self.C, self.tol, self.max_iter, self.n_jobs, self.verbose
        )
        folds = make_folds(data, self.cv, self._seed())
        self._neighbours = self._find_neighbours(data)
        self.k_ = self._neighbours.k
        X, shares = self._inputs(data.X, self._neighbours.counts_in_training(data.X))
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
