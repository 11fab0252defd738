"""The numbers behind the demo: models cross-validated on the same folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from colabel.core.arrays import Indices
from colabel.datasets import Dataset
from colabel.joint import Joint
from colabel.models.base import JointClassifier
from colabel.models.wrapped import joint_of
from colabel.tables.measures import MEASURES, label_scores

Folds = Sequence[tuple[Indices, Indices]]


@dataclass(frozen=True)
class HeldOut:
    """A model's answer for rows it has not seen: their positions (m,) and their joint."""

    rows: Indices
    joint: Joint


@dataclass(frozen=True)
class Result:
    """One model, cross-validated.

    Attributes
    ----------
    scores : {name of measure: (n_folds,)}
    held_out : tuple of n_folds HeldOut
    """

    scores: Mapping[str, NDArray[np.float64]]
    held_out: tuple[HeldOut, ...]

    def mean(self, measure: str) -> float:
        """Return the mean over folds."""
        return float(self.scores[measure].mean())

    def standard_error(self, measure: str) -> float:
        """Return the standard error of the mean over folds."""
        scores = self.scores[measure]
        return float(scores.std(ddof=1) / np.sqrt(len(scores)))


def scaled(model: JointClassifier) -> Pipeline:
    """Return the model behind a scaler of the features."""
    return make_pipeline(StandardScaler(), clone(model))


def fit(pipeline: Pipeline, X: Any, Y: Any, data: Dataset) -> Pipeline:
    """Fit a pipeline to rows of a data set, with the names of its labels."""
    last = pipeline.steps[-1][0]
    return pipeline.fit(X, Y, **{f"{last}__label_names": data.label_names})


def cross_validate(
    models: Mapping[str, JointClassifier],
    data: Dataset,
    folds: Folds,
    advance: Callable[[], None],
) -> dict[str, Result]:
    """Fit every model to every fold's training rows and score it on the others."""
    results = {}
    for name, model in models.items():
        scores, held_out = [], []
        for train, test in folds:
            started = time.perf_counter()
            fitted = fit(scaled(model), data.X[train], data.Y[train], data)
            joint = joint_of(fitted, data.X[test])
            predicted = joint.mode()
            seconds = time.perf_counter() - started
            scores.append(
                [*label_scores(data.Y[test], predicted, joint.log_prob(data.Y[test])), seconds]
            )
            held_out.append(HeldOut(test, joint))
            advance()
        columns = np.array(scores, dtype=np.float64).T
        names = [measure.name for measure in MEASURES]
        results[name] = Result(dict(zip(names, columns, strict=True)), tuple(held_out))
    return results
