"""Models that take any classifier as `estimator`: with or without probabilities, or stacked."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if

from colabel.core.arrays import Array, n_label_columns
from colabel.core.estimators import attribute, fits_afresh
from colabel.core.schema import SOMETIMES, Estimator, bind, stored
from colabel.learn.conditional import ConditionalLearner, Folds, TrainingData
from colabel.learn.from_estimator import (
    EstimatorLearner,
    EstimatorModels,
    check_takes_weight,
    stack,
)
from colabel.models.base import JointClassifier
from colabel.models.cross_fitting import fitted_members, require_joint
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import DEFAULT_GRID, DEFAULT_TOLERANCE, Grid, make_learner, seeded
from colabel.models.wrapped import model_inside


@stored("hard-decisions")
class HardDecisions(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are 0 and 1: what it predicts has probability 1.

    So the paper of CDN extends the network to classifiers without probabilities.

    Parameters
    ----------
    estimator : classifier
    """

    estimator: Annotated[Any, Estimator(fitted=False)]
    estimator_: Annotated[Any, "p k", Estimator(does="predict")]
    classes_: Annotated[NDArray[Any], "k"]

    carries_scores: ClassVar[bool] = True
    """Probabilities that only carry decisions or scores are not to be smoothed."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator

    @fits_afresh
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier behind."""
        check_takes_weight(self.estimator, sample_weight)
        arguments = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_ = clone(self.estimator).fit(X, y, **arguments)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        """Predict as the classifier behind does, (n,)."""
        return self.estimator_.predict(X)

    def predict_proba(self, X: Any) -> Array:
        """Return 1 for the predicted class and 0 for the others, (n, K)."""
        certain: Array = (self.estimator_.predict(X)[:, None] == self.classes_).astype(np.float64)
        return certain

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@stored("scores-as-log-odds")
class ScoresAsLogOdds(HardDecisions):
    """A classifier whose decision values pass for log-odds.

    The probabilities are no more than a way to carry scores through code that expects
    probabilities: the largest stays the largest, and the logarithms give the scores back, up to
    about 27 in size. What the classifier only predicts has probability 1.

    Parameters
    ----------
    estimator : classifier
        With `decision_function`, or at least `predict`.
    """

    def predict(self, X: Any) -> Any:
        """Return the classes of the largest scores, (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Return scores squeezed between 0 and 1, (n, K)."""
        if not hasattr(self.estimator_, "decision_function"):
            return super().predict_proba(X)
        scores = np.asarray(self.estimator_.decision_function(X), dtype=np.float64)
        if scores.ndim == 1 or scores.shape[1] == 1:
            positive = scores.reshape(-1)
            return np.column_stack([expit(-positive), expit(positive)])
        if scores.shape[1] != len(self.classes_):
            raise ValueError(
                f"estimator={self.estimator!r} gives {scores.shape[1]} scores for"
                f" {len(self.classes_)} values. Let it give one score a value, such as by"
                " decision_function_shape='ovr'."
            )
        return softmax(scores, axis=1)


def has_probabilities(estimator: BaseEstimator | None) -> bool:
    """Whether a model's `estimator`, or the built-in regression instead, has probabilities."""
    return estimator is None or hasattr(estimator, "predict_proba")


def probabilities_available(model: Any) -> bool:
    """Return True, or raise AttributeError where the model's `estimator` has no probabilities."""
    if has_probabilities(model.estimator):
        return True
    raise AttributeError(
        f"estimator={model.estimator!r} has no predict_proba, so there are no probabilities of"
        " labels. Use predict, or wrap the estimator in sklearn.calibration.CalibratedClassifierCV."
    )


class Penalised(JointClassifier):
    """Base of models whose parameters are learned under an L2 penalty.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each label by cross-validation.
    cv : int, float, splitter or iterable
        How rows are held out to choose C: a number of folds, a fraction, a scikit-learn
        splitter, or pairs of index arrays (train, test).
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.

    Attributes
    ----------
    C_ : (d,) array
        Chosen C of every label; of the built-in regressions only.
    n_iter_ : int
        Most iterations any regression of the final fit took; of the built-in regressions only.
    """

    C: Grid = field(default=DEFAULT_GRID, kw_only=False)
    cv: Any = 5
    tol: float = DEFAULT_TOLERANCE
    max_iter: int = 1000


class Regressions(Penalised):
    """Base of models that learn by regressions, or by any other classifier.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`, instead of the built-in regression.
    n_jobs : int or None
        Threads of the built-in regression (None: all cores) or joblib workers for `estimator`.
    device : None, "cpu", "cuda", "cuda:N" or "auto"
        Where the built-in regressions are solved. None: by compiled kernels on the processor. A GPU
        needs the extra `gpu` (torch); "auto" uses one where there is one, "cpu" lets torch do the
        same on the processor, to check.
    """

    estimator: Annotated[Any, Estimator(fitted=False, or_none=True)] = None
    device: str | None = None

    def _learner(
        self, estimator: BaseEstimator | None, n_jobs: int | None = None, *, quiet: bool = False
    ) -> ConditionalLearner:
        """Return what learns conditionals; a `quiet` one has jobs of its own, and no progress."""
        jobs, verbose = (n_jobs, 0) if quiet else (self.n_jobs, self.verbose)
        return make_learner(estimator, self.C, self.tol, self.max_iter, jobs, verbose, self.device)


class MayLackProbabilities(Regressions):
    """Base of models that predict even where their `estimator` has no probabilities."""

    @available_if(probabilities_available)
    def predict_proba(self, X: Any) -> Any:
        """Probability of each label alone; see `JointClassifier.predict_proba`.

        Not available where `estimator` has no probabilities.
        """
        return super().predict_proba(X)

    @available_if(probabilities_available)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`."""
        return super().predict_log_proba(X)


class StacksEstimator(Regressions):
    """Base of models that condition labels on labels, with `estimator` and `stack`.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`. It learns each label from x alone, and
        the built-in regressions learn from its held-out scores and the labels (see `stack`).
    stack : bool
        Of `estimator`. False, as published: the estimator itself learns each label from the
        features and the columns of other labels.

    Attributes
    ----------
    estimator_scores_ : EstimatorModels
        The classifiers of each label from x alone, whose scores the regressions see in place of
        x; only there with `estimator` and `stack`.
    """

    stack: bool = True
    estimator_scores_: Annotated[EstimatorModels, "m=d sizes", SOMETIMES] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        """Regressions on s features have those of X, or the scores of all labels."""
        stacked = "estimator_scores_" in fields
        if "s" in dims:
            bind(
                dims, "s", n_label_columns(dims["sizes"]) if stacked else dims["p"], "coefficients"
            )

    def _stacks(self) -> bool:
        own = self.estimator
        usable = has_probabilities(own) and not getattr(own, "carries_scores", False)
        return self.estimator is not None and self.stack and usable

    def _stacked(self, data: TrainingData, folds: Folds, seed: int) -> TrainingData:
        """Return what the regressions see: the data, or held-out scores in place of x."""
        estimator = seeded(self.estimator, seed)
        if estimator is None or not self._stacks():
            return data
        learner = EstimatorLearner(estimator, self.n_jobs, bool(self.verbose))
        scores, self.estimator_scores_ = stack(learner, data, folds)
        return replace(data, X=scores)

    def _conditional_estimator(self) -> BaseEstimator | None:
        """Return what learns a label from others: None for the built-in regression."""
        return None if self._stacks() else self.estimator

    def _inputs(self, X: Any) -> Any:
        """Return what the regressions see of rows X (n, p)."""
        return self.estimator_scores_(X) if hasattr(self, "estimator_scores_") else X


class AroundModel(MetaEstimatorMixin, JointClassifier):
    """Base of models around another, which has a joint.

    Parameters
    ----------
    estimator : model of colabel, or pipeline that ends with one
        It must have a joint.
    random_state : int, RandomState or None
        Seed of the folds, and of a model without a seed of its own.
    """

    estimator: Annotated[Any, Estimator(fitted=False)] = field(kw_only=False)
    calibrate: ClassVar[bool] = False  # type: ignore[misc]  # the model may calibrate itself

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_joint(self.estimator)

    def _fitted(self, data: TrainingData, seed: int) -> Any:
        """Fit the model to some rows."""
        check_takes_weight(self.estimator, data.weight, model_inside(self.estimator))
        members = [("model", seeded(self.estimator, seed))]
        fitted, failed = fitted_members(members, data, self.label_space_)
        if failed:
            raise ValueError(f"The model cannot be fitted: {failed[0]}")
        return fitted[0]

    def label_graph(self) -> LabelGraph:
        """Return which label depends on which, as the model inside has learned it."""
        return self._graph_of(getattr(self, "estimator_", None))

    def _graph_of(self, model: Any) -> LabelGraph:
        """Return the graph of a model inside, or one without edges."""
        inner = model_inside(model)
        return inner.label_graph() if hasattr(inner, "label_graph") else super().label_graph()
