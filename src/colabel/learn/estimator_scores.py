"""What classifiers of x alone say of every label, as the features of a joint model.

A few columns of labels among hundreds of features are lost on trees, and a probability that a
forest counts from its leaves is no measurement of how sure it is. Stacked (Wolpert, 1992), the
classifiers learn each label from x alone, d of them and as many again for every fold; the built-in
regressions then learn, from scores that are held out, how far to trust them and what the labels
say of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from colabel.core.arrays import Array
from colabel.core.schema import stored
from colabel.learn.conditional import Folds, TrainingData, covering, scores_of
from colabel.learn.from_estimator import EstimatorLearner, EstimatorModels


@stored("estimator-scores")
@dataclass(frozen=True)
class EstimatorScores:
    """Fitted classifiers of each label from x alone.

    Attributes
    ----------
    models : EstimatorModels
        One classifier a label.
    """

    models: Annotated[EstimatorModels, "m=d sizes"]

    def __call__(self, X: Any) -> Array:
        """Return the scores (n, e) of rows X (n, p): a column for two values, K for K."""
        return _columns([scores_of(table.T) for table in self.models.log_prob(X)])


def stack(
    learner: EstimatorLearner, data: TrainingData, folds: Folds
) -> tuple[Array, EstimatorScores]:
    """Fit classifiers of every label; return their scores (n, e) of the training rows too.

    Those of a row are by classifiers that have not seen it, as long as rows differ.
    """
    folds = covering(folds, data)
    learning = learner.on(data)
    if folds.n_folds < 2:
        scores = EstimatorScores(learning.cross_fitted(folds._replace(n_folds=0), refit=True)[1])
        return scores(data.X), scores
    held_out, models = learning.cross_fitted(folds, refit=True)
    return _columns(held_out), EstimatorScores(models)


def _columns(scores: Any) -> Array:
    return np.ascontiguousarray(np.concatenate(scores).T)
