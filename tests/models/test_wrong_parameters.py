"""Parameters out of range are refused in `fit`, by a sentence with their value."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import colabel
from colabel import CTBN, BinaryRelevance
from colabel import ClassifierChain as Chain
from colabel import ConformalSets as Sets
from colabel import ProbabilisticClassifierChain as Probabilistic
from colabel import StackedBinaryRelevance as Stacked
from colabel.joint.chain import BeamSearch
from tests.test_conformance import MODELS

BAYES = {"estimator": GaussianNB(), "stack": False}
NEAR = {"estimator": KNeighborsClassifier(), "stack": False}


RANGES = {
    "BinaryRelevance": [
        ("C", [0, -1.0, np.nan, np.inf, [], [1.0, -1.0], [[1.0]], None, "strong", ["weak", "1"]]),
        ("cv", [1, 0, -3, 0.0, 1.0, 1.5, True, "many", None]),
        ("tol", [0, -1e-4]),
        ("max_iter", [0]),
    ],
    "CTBN": [
        ("min_rows", [-1, np.nan, "few"]),
        ("pairs", ["both"]),
        ("max_parents", [0, 1.5, "some"]),
    ],
    "CDN": [("n_sweeps", [0]), ("marginals", ["all"]), ("label_coding", ["1/2"])],
    "ClassifierChain": [
        ("order", ["alphabetical"]),
        ("n_samples", [0]),
        ("label_scale", [[1.0, 0.0]]),
        ("max_parents", [0, 1.5]),
    ],
    "CollectiveCRF": [("training", ["other"]), ("max_candidates", [-1])],
    "EnsembleOfChains": [("n_chains", [0]), ("max_samples", [1.5]), ("inference", ["best"])],
    "IBLR": [("k", [-1])],
    "JointForest": [("kind", ["boosted"]), ("target", ["sets"]), ("n_estimators", [0])],
    "LDSMixture": [
        ("bins", [1, 2.5, True]),
        ("unseen", ["no"]),
        ("smoothing", [0.0, [1.0, -1.0], "much", []]),
        ("n_folds", [1]),
        ("tol", [0, "small"]),
        ("max_iter", [0]),
        ("max_parents", [-1]),
        ("max_rounds", [-1]),
        ("criterion", ["accuracy"]),
        ("m_step", ["gem"]),
        ("inference", ["greedy"]),
        ("equivalent_sample_size", [np.inf]),
        ("network_score", ["aic"]),
    ],
    "BayesNetEnsemble": [
        ("arc_score", ["aic"]),
        ("smoothing", [-1.0]),
        ("n_folds", [0]),
        ("bins", [0]),
        ("engine", ["magic"]),
    ],
    "MLkNN": [("k", [0, 2.5]), ("smoothing", [0.0]), ("metric", ["precomputed"])],
    "MixtureOfTrees": [
        ("n_trees", [0, "many"]),
        ("gate", ["quadratic"]),
        ("base", ["forests"]),
        ("pairs", ["some"]),
        ("gate_C", [-1.0]),
        ("held_out", [1.5]),
        ("max_trees", [0]),
        ("em_tol", [-1.0]),
    ],
    "PairwiseCRF": [
        ("form", ["other"]),
        ("tune", ["no"]),
        ("ridge", [0.0, "much"]),
        ("group", [[-1.0]]),
        ("edge_features", ["few"]),
        ("max_candidates", [-1]),
        ("standard_errors", [-1.0]),
    ],
    "ProbabilisticClassifierChain": [("inference", ["best"])],
    "StackedBinaryRelevance": [("first_layer", ["both"])],
}
CASES = [
    (name, parameter, value)
    for name, parameters in RANGES.items()
    for parameter, values in parameters
    for value in values
]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(30, 3))
    return X, (X + rng.normal(size=X.shape) > 0).astype(int)


@pytest.mark.parametrize(("name", "parameter", "value"), CASES, ids=str)
def test_values_out_of_range(rows, name, parameter, value):
    with pytest.raises(ValueError, match=re.escape(f"{parameter}={value!r}")):
        getattr(colabel, name)(**{parameter: value}).fit(*rows).joint(rows[0])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@pytest.mark.parametrize("decision", ["best", 3, None])
def test_decisions_that_are_none(rows, model, decision):
    with pytest.raises(ValueError, match=r"(no decision for the loss 'best')|(loss must be)"):
        model(decision=decision).fit(*rows)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Chain(order=[0, 1]), "must name each of the 3 labels once"),
        (Chain(label_scale=2.0, **BAYES), "of the built-in regression only"),
        (Chain(stack="yes"), "stack='yes' must be True or False"),
        (Probabilistic(inference="epsilon", epsilon=2), "epsilon=2 must be"),
        (Probabilistic(inference=BeamSearch(3)), "must be a name, such as 'exact'"),
        (Probabilistic(inference="beam", beam_width=0), "beam_width=0 must be"),
        (colabel.EnsembleOfChains(bootstrap=True, **NEAR), "not accept sample_weight"),
        (colabel.PairwiseCRF(edge_features=[7]), "but X has 3 columns"),
        (Stacked(cv=0.3), "never holds out some of the rows"),
        (Stacked(estimator=LinearSVC(), decision="f1"), "decision='f1' needs probabilities"),
        (BinaryRelevance(estimator=LinearSVC()), "has no predict_proba"),
        (Sets(CTBN(), coverage=1.0), "coverage=1.0 must be a probability between 0 and 1"),
        (Sets(CTBN(), coverage="0.9"), "coverage='0.9'"),
        (Sets(CTBN(), nonconformity="odds"), "='odds' must be one of 'mass', 'random mass'"),
        (Sets(CTBN(), max_listed=0), "max_listed=0 must be an integer"),
        (Sets(CTBN(), allow_empty=1), "allow_empty=1 must be True or False"),
        (Sets(CTBN(), cv="all"), "cv='all' must be"),
    ],
)
def test_parameters_that_do_not_suit_each_other(rows, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*rows)
