"""The methods by name, in the order of the tables; a new one is one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers.learners import (
    Chain,
    Dense,
    Learner,
    ManyOutputs,
    OnIndicators,
    Ours,
    PerLabel,
    Powerset,
    Scaled,
)

Build = Callable[[Sequence[int]], Learner]
"""From the numbers of values of the labels to a method that has seen nothing yet."""

N_TREES = 300
FEWEST = 5  # rows of a label's rarest value for which C is chosen by cross-validation


@dataclass(frozen=True)
class Method:
    """One line of the tables.

    Attributes
    ----------
    name : str
    build : callable
    ours : bool
        A model of colabel.
    environment : {"", "boomer"}
        Which Python runs it: the one that runs the benchmark, or one of its own.
    joint : {"joint", "product", "chain rule", "seen sets"}
        What its log-loss is taken of.
    """

    name: str
    build: Build
    ours: bool = False
    environment: str = ""
    joint: str = "product"


def _logistic(**settings: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, **settings)


def _logistic_cv() -> Any:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.linear_model import LogisticRegressionCV

    class ChosenC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """C by five folds; C = 1 for a label too rare for them."""

        def fit(self, X: Any, y: Any) -> Any:
            enough = np.bincount(y).min() >= FEWEST
            searched = LogisticRegressionCV(
                Cs=np.logspace(-3, 2, 6).tolist(),
                cv=5,
                scoring="neg_log_loss",
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
                max_iter=1000,
            )
            self.fitted_ = (searched if enough else _logistic()).fit(X, y)
            return self

        def predict_proba(self, X: Any) -> Any:
            return self.fitted_.predict_proba(X)

    return ChosenC()


def _random_forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(N_TREES, n_jobs=1, random_state=0)


def _extra_trees() -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(N_TREES, n_jobs=1, random_state=0)


def _hist_boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def _xgboost(**settings: Any) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, random_state=0, **settings)


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)


def _catboost(**settings: Any) -> Any:
    from catboost import CatBoostClassifier

    quiet = {"verbose": False, "allow_writing_files": False}
    return CatBoostClassifier(thread_count=1, random_seed=0, **quiet, **settings)


def _boomer(**settings: Any) -> Any:
    from mlrl.boosting import BoomerClassifier

    return BoomerClassifier(random_state=1, **settings)


def _catboost_on(cardinalities: Sequence[int]) -> Learner:
    """All labels in one model where they are 0/1, else a model for each variable."""
    if set(cardinalities) == {2}:
        # the rate that it chooses by itself for other losses, near enough; for this one it does not
        native = _catboost(loss_function="MultiLogloss", iterations=N_TREES, learning_rate=0.1)
        return OnIndicators(native, cardinalities)
    return PerLabel(_catboost(iterations=N_TREES), cardinalities)


def _boomer_on(loss: str) -> Build:
    return lambda cards: OnIndicators(_boomer(loss=loss), cards, predicts=True)


def ours(name: str, *steps: str, scaled: bool = True, **settings: Any) -> Build:
    """Build a model of colabel by the name of its class, after transformers of `preprocess`."""

    def build(cardinalities: Sequence[int]) -> Learner:
        from sklearn.pipeline import make_pipeline

        import colabel
        from colabel import preprocess

        model = getattr(colabel, name)(random_state=0, **settings)
        before = [getattr(preprocess, step)(random_state=0) for step in steps]
        learner = Ours(make_pipeline(*before, model) if before else model)
        return Scaled(learner) if scaled else learner

    return build


def _ours(name: str, *parts: str, scaled: bool = True) -> Method:
    return Method(name, ours(*parts, scaled=scaled), ours=True, joint="joint")


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("LR", lambda k: Scaled(PerLabel(_logistic_cv(), k))),
        Method("chain of LR", lambda k: Scaled(Chain(_logistic(), k)), joint="chain rule"),
        Method("chain of RF", lambda k: Chain(_random_forest(), k), joint="chain rule"),
        Method("RF", lambda k: ManyOutputs(_random_forest(), k)),
        Method("extra trees", lambda k: ManyOutputs(_extra_trees(), k)),
        Method("LP of LR", lambda k: Scaled(Powerset(_logistic(), k)), joint="seen sets"),
        Method("LP of RF", lambda k: Powerset(_random_forest(), k), joint="seen sets"),
        Method("LP of extra trees", lambda k: Powerset(_extra_trees(), k), joint="seen sets"),
        Method("HistGradientBoosting", lambda k: Dense(PerLabel(_hist_boosting(), k))),
        Method("XGBoost", lambda k: PerLabel(_xgboost(), k)),
        Method(
            "XGBoost (vector leaves)",
            lambda k: OnIndicators(_xgboost(multi_strategy="multi_output_tree"), k),
        ),
        Method("LightGBM", lambda k: PerLabel(_lightgbm(), k)),
        Method("CatBoost", _catboost_on),
        Method("BOOMER", _boomer_on("logistic-decomposable"), environment="boomer"),
        Method(
            "BOOMER (non-decomposable)",
            _boomer_on("logistic-non-decomposable"),
            environment="boomer",
        ),
        _ours("BinaryRelevance", "BinaryRelevance"),
        _ours("CTBN", "CTBN"),
        _ours("ProbabilisticClassifierChain", "ProbabilisticClassifierChain"),
        _ours("EnsembleOfChains", "EnsembleOfChains"),
        _ours("CDN", "CDN"),
        _ours("PairwiseCRF", "PairwiseCRF"),
        _ours("CollectiveCRF", "CollectiveCRF"),
        _ours("PCC on ForestFeatures", "ProbabilisticClassifierChain", "ForestFeatures"),
        _ours("CollectiveCRF on ForestFeatures", "CollectiveCRF", "ForestFeatures"),
        _ours("PairwiseCRF on KernelFeatures", "PairwiseCRF", "KernelFeatures"),
        _ours("JointForest", "JointForest", scaled=False),
        _ours("MixtureOfTrees", "MixtureOfTrees"),
        _ours("JointStack", "JointStack", scaled=False),
    )
}
