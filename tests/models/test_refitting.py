"""A second fit is as a first one: nothing of the earlier fit stays."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import colabel
from colabel import BinaryRelevance, ClassifierChain
from colabel.datasets import load_digit_traits

DATA = load_digit_traits()
X, Y = DATA.X[:60, 20:26], DATA.Y[:60, :3]
# Parameters that make a fit set attributes which others do not set.
CASES: list[tuple[str, dict[str, Any]]] = [
    ("BinaryRelevance", {"estimator": GaussianNB()}),
    ("BinaryRelevance", {"calibrate": True}),
    ("BinaryRelevance", {"decision": "seen"}),
    ("CTBN", {"estimator": GaussianNB()}),
    ("ClassifierChain", {"estimator": GaussianNB()}),
    ("ProbabilisticClassifierChain", {"estimator": GaussianNB(), "stack": False}),
    ("EnsembleOfChains", {"estimator": GaussianNB()}),
    ("StackedBinaryRelevance", {"estimator": GaussianNB()}),
    ("CDN", {"estimator": GaussianNB()}),
    ("CDN", {"estimator": GaussianNB(), "stack": False}),
    ("CDN", {"estimator": LinearSVC()}),
    ("CollectiveCRF", {"training": "supported"}),
    ("PairwiseCRF", {"group": 0.01, "ridge": 1.0}),
    ("MixtureOfTrees", {"base": "chains"}),
    ("MixtureOfTrees", {"gate": "constant"}),
]


def models() -> dict[str, Any]:
    """A small unfitted model of every class."""
    base = BinaryRelevance(C=0.1)
    small = {"C": 0.1, "n_trees": 2, "n_estimators": 5, "random_state": 0, "burn_in": 2}
    small |= {"n_sweeps": 5, "max_iter": 20, "ridge": 1.0, "group": 0.1, "n_chains": 2}
    small |= {"gate_C": 0.1}
    found = {}
    for name in colabel.__all__:
        cls = getattr(colabel, name)
        if not (inspect.isclass(cls) and hasattr(cls, "predict")):
            continue
        around = {"ThresholdedClassifier": base, "ConformalSets": base}
        around["JointStack"] = [base, ClassifierChain(C=0.1)]  # type: ignore[assignment]
        model = cls(around[name]) if name in around else cls()
        settable = model.get_params(deep=False)
        found[name] = model.set_params(**{k: v for k, v in small.items() if k in settable})
    return found


def fitted(model: Any, rows: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, Y)


@pytest.mark.parametrize(("name", "other"), CASES, ids=lambda each: str(each)[:40])
def test_what_other_parameters_learned_is_forgotten(name, other):
    model = models()[name]
    fresh = fitted(clone(model))
    before = {parameter: getattr(model, parameter) for parameter in other}
    fitted(model.set_params(**other))
    again = fitted(model.set_params(**before))
    assert sorted(vars(again)) == sorted(vars(fresh))
    assert np.array_equal(again.predict(X), fresh.predict(X))
    if hasattr(fresh, "predict_proba"):
        assert np.array_equal(again.predict_proba(X), fresh.predict_proba(X))


@pytest.mark.parametrize("name", models())
def test_names_of_columns_are_forgotten_and_what_users_set_is_not(name):
    pd = pytest.importorskip("pandas")
    model = models()[name]
    model.set_output(predict="default")
    model.note = "kept"
    fitted(model, pd.DataFrame(X, columns=[f"pixel_{j}" for j in range(X.shape[1])]))
    kept = {key for key in vars(model) if key.startswith("_sklearn")}
    fitted(model)
    assert not hasattr(model, "feature_names_in_")
    assert model.note == "kept"
    assert kept <= set(vars(model))


def test_a_refitted_model_can_be_saved(tmp_path):
    """Leftovers of another kind of conditionals made a file that `load` refuses."""
    model = fitted(colabel.CDN(C=0.1, random_state=0))
    fitted(model.set_params(estimator=GaussianNB(), stack=False))
    colabel.save(model, tmp_path / "m.colabel")
    again = colabel.load(tmp_path / "m.colabel")
    assert np.array_equal(again.predict(X), model.predict(X))
