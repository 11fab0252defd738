"""Classifier chains (Read, Pfahringer, Holmes & Frank, 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator

from colabel.core.schema import stored
from colabel.decide import Decision
from colabel.joint.chain import BeamSearch, ChainSearch
from colabel.models._learning import DEFAULT_GRID, DEFAULT_TOLERANCE
from colabel.models._stacks import check_inputs
from colabel.models.chain._model import ChainModel


@stored("classifier-chain", check=check_inputs)
class ClassifierChain(ChainModel):
    r"""Each label given the features and the labels before it; greedy answers.

    .. math:: P(y \mid x) = \prod_k P(y_{o(k)} \mid x, y_{o(0)}, \dots, y_{o(k-1)})

    `predict` goes along the chain and takes the most probable value of each label given those
    already taken: greedy search, which is fast and may miss the most probable vector.
    `ProbabilisticClassifierChain` searches for it. The links of both are the same; taught with
    true labels they are independent regressions and solved in one batch.

    Labels that are constant or rare among the training rows get smoothed probabilities. Missing
    labels are refused, because a link needs all the labels before it.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each link by cross-validation.
    label_scale : None, float or sequence of float
        How large the columns of the labels are beside the features: 0 and `label_scale`. The
        penalty holds back a label's weight the less the larger it is; 1 treats labels like
        features, as classic chains do. From a sequence the best value is chosen for each link by
        cross-validation, together with C. None: 1 where C is a number, chosen from 1, 10 and 100
        where C is a sequence. Of the built-in regression only.
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`. It learns each label from x alone, and
        the links are built-in regressions on its held-out scores and the earlier labels (see
        `stack`).
    stack : bool
        Of `estimator`. False, as published: the links are the estimator itself, on x and then the
        columns of the earlier labels. Trees rarely draw these among many features.
    max_parents : int or None
        Most earlier labels a link may use: those that its label depends on most beyond x, by a
        score test on held-out residuals. None: all of them.
    order : None, "random", "correlation" or sequence
        None: as the labels stand in y. "correlation": begin with the label whose mutual
        information with all others is largest, go on each time with the label whose mutual
        information with those already chosen is largest. A sequence: label names or positions.
    train_on : {"true", "predicted"}
        Whether links see the true values of earlier labels in training, or values predicted
        for held-out rows, as they will see them in prediction. The second learns link after
        link, and is slower.
    cv : int, float, splitter or iterable
        How rows are held out to choose C and for `train_on="predicted"`: a number of folds, a
        fraction (not for "predicted"), a scikit-learn splitter, or pairs of index arrays.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. "subset" gives the vector of greedy search
        (classic classifier chains), "hamming" the most probable value of each label alone.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    n_samples : int
        Draws per row that estimate marginals where there are more than 65536 label vectors.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads of the built-in regression (None: all cores) or joblib workers for `estimator`.
    device : None, "cpu", "cuda", "cuda:N" or "auto"
        Where the built-in regressions are solved, see `BinaryRelevance`.
    random_state : int, RandomState or None
        Seed of the folds, of a random order, of an `estimator` without seed, and of the draws.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    order_ : (d,) array of int
        Labels (positions) in the order of the chain.
    models_ : ConditionalModels
        The fitted links in the order of the labels. `models_.coef[i]` of the built-in
        regression is (K, p + e + 1): weights of the features, of the columns of all labels (one
        for a label of two values, K for K values; zero for later labels), and the intercept.
    C_ : (d,) array
        Chosen C of every link, in the order of the labels; of regressions only.
    label_scale_ : (d,) array
        Scale of the label columns of every link, of regressions only. The coefficients in
        `models_` belong to columns of 0 and 1 all the same.
    n_iter_ : int
        Most iterations any regression of the final fit took; of regressions only.
    estimator_scores_ : EstimatorScores
        Classifiers of each label from x alone; only with a stacked `estimator`.

    Notes
    -----
    `predict_proba` gives the marginals of the chain's joint distribution, as everywhere in this
    library; each label is averaged over what the labels before it may be. The numbers that
    classifier chains classically report, P(y_i | x, predicted labels before it), are
    `predict_path_proba`.

    References
    ----------
    J. Read, B. Pfahringer, G. Holmes, E. Frank: Classifier chains for multi-label
    classification. ECML PKDD 2009; Machine Learning 85, 2011.

    Examples
    --------
    >>> from colabel import ClassifierChain
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = ClassifierChain(C=0.01, order="correlation")
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> model.predict(data.X[-1:])
    array([[1, 0, 0, 1, 1, 0, 0]])
    >>> model.joint(data.X[-1:]).how
    'Modes by greedy search: label by label, the most probable value each time. Sums exact, ...'
    """

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        label_scale: float | Sequence[float] | None = None,
        estimator: BaseEstimator | None = None,
        stack: bool = True,
        max_parents: int | None = None,
        order: str | Sequence[str | int] | None = None,
        train_on: str = "true",
        cv: Any = 5,
        decision: str | Decision = "subset",
        calibrate: bool = False,
        n_samples: int = 1000,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.label_scale = label_scale
        self.estimator = estimator
        self.stack = stack
        self.max_parents = max_parents
        self.order = order
        self.train_on = train_on
        self.cv = cv
        self.decision = decision
        self.calibrate = calibrate
        self.n_samples = n_samples
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _search(self, seed: int) -> ChainSearch:
        return BeamSearch(1)

    short_name = "cc"
