"""Models whose `estimator` learns the labels from x alone; regressions do the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from colabel.core.label_features import n_label_columns
from colabel.core.parameters import check_flag
from colabel.core.schema import Dims, Fields, Kind, Maybe, Part, bind
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.estimator_scores import EstimatorScores, stack
from colabel.learn.from_estimator import EstimatorLearner, carries_scores
from colabel.models._learning import seeded
from colabel.models.base import JointClassifier
from colabel.models.without_probabilities import has_probabilities


def check_inputs(fields: Fields, dims: Dims) -> None:
    """Require that regressions on s features have those of X, or the scores of all labels."""
    stacked = "estimator_scores_" in fields
    if "s" in dims:
        bind(dims, "s", n_label_columns(dims["sizes"]) if stacked else dims["p"], "coefficients")


class StacksEstimator(JointClassifier):
    """Base of models that condition labels on labels, with `estimator` and `stack`.

    Attributes
    ----------
    estimator_scores_ : EstimatorScores
        The classifiers of each label from x alone, whose scores the regressions see in place of
        x; only there with `estimator` and `stack`.
    """

    stored_fields: ClassVar[Mapping[str, Kind]] = {
        **JointClassifier.stored_fields,
        "estimator_scores_": Maybe(Part("estimator-scores", d="d", sizes="sizes")),
    }
    estimator: BaseEstimator | None
    stack: bool
    n_jobs: int | None
    verbose: int
    estimator_scores_: EstimatorScores

    def _stacks(self) -> bool:
        usable = has_probabilities(self.estimator) and not carries_scores(self.estimator)
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag("stack", self.stack)
