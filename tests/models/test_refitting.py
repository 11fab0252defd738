"""A second fit is as a first one: nothing of the earlier fit stays."""

from __future__ import annotations

import inspect
import random
import re
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import colabel
from colabel import BinaryRelevance, JointForest
from colabel.datasets import load_digit_traits
from colabel.preprocess import FeatureBins, ForestFeatures, KernelFeatures
from tests.test_conformance import seeded, with_given_penalties

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
    ("BayesNetEnsemble", {"max_parents": 3}),
    ("ConformalSets", {"cv": 2}),
    ("ConformalSets", {"estimator": JointForest(5, random_state=0), "cv": 0.3}),
    ("RuledClassifier", {"rules": "1.. of *", "violations": "keep"}),
    ("JointStack", {"members": [JointForest(5, target="vectors"), BinaryRelevance(C=0.1)]}),
]


def models() -> dict[str, Any]:
    """A small unfitted model of every class."""
    classes = [getattr(colabel, name) for name in colabel.__all__]
    found = [cls for cls in classes if inspect.isclass(cls) and issubclass(cls, ClassifierMixin)]
    return {cls.__name__: with_given_penalties(seeded(cls)) for cls in found}


def fitted(model: Any, rows: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, Y)


def assert_same(one, other):
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    if hasattr(one, "predict_proba"):
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
        found, expected = (model.joint(X).log_prob(Y) for model in (one, other))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("name", "other"), CASES, ids=lambda each: str(each)[:40])
def test_what_other_parameters_learned_is_forgotten(name, other, tmp_path):
    """And comes back from a file: leftovers of an earlier fit made files that `load` refuses."""
    model = models()[name]
    fresh = fitted(clone(model))
    before = {parameter: getattr(model, parameter) for parameter in other}
    fitted(model.set_params(**other))
    colabel.save(model, tmp_path / "m.colabel")
    assert_same(colabel.load(tmp_path / "m.colabel"), model)
    again = fitted(model.set_params(**before))
    assert sorted(vars(again)) == sorted(vars(fresh))
    assert_same(again, fresh)


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


TRANSFORMERS = {
    "FeatureBins": FeatureBins(),
    "ForestFeatures": ForestFeatures(n_estimators=3, random_state=0),
    "KernelFeatures": KernelFeatures(width=1.0, n_landmarks=5, random_state=0),
}


class Calls:
    """Counts calls of functions that learn, and at one of them does something.

    Others may hold locks, such as that of joblib's pool, which this thread cannot take twice.
    """

    rooms = re.compile(r"colabel.(models|learn|preprocess|labels)")

    def __init__(self, at: int = -1, do: Any = None) -> None:
        self.count, self.at, self.do = 0, at, do

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and self.rooms.search(frame.f_code.co_filename):
            self.count += 1
            if self.count == self.at:
                sys.setprofile(None)
                self.do()

    def of(self, function: Any, *arguments: Any) -> None:
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            function(*arguments)
        finally:
            sys.setprofile(before)


def interrupt() -> None:
    raise KeyboardInterrupt


def answers(model: Any) -> Any:
    for name in ("predict_proba", "predict", "transform"):
        if hasattr(model, name):
            return getattr(model, name)(X)
    raise AssertionError


@pytest.mark.parametrize("name", [*models(), *TRANSFORMERS])
def test_an_interrupted_refit_keeps_the_old_model(name):
    """Whenever it is interrupted; and until it is done, the old model answers."""
    model = (models() | TRANSFORMERS)[name]
    if "n_jobs" in model.get_params(deep=False):
        model.set_params(n_jobs=1)
    fitted(model)
    old, kept = answers(model), set(vars(model))
    again = fitted(clone(model), X[::-1, :5])  # compiled, and counted below with other columns
    calls = Calls()
    calls.of(fitted, again, X[::-1, :5])
    chance = random.Random(name)
    interrupted = 0
    for _ in range(6):
        at = chance.randrange(1, calls.count)
        try:
            Calls(at, interrupt).of(fitted, model, X[::-1, :5])
        except (KeyboardInterrupt, SystemError):  # the second: at the entry of a compiled function
            interrupted += 1
            assert set(vars(model)) == kept
            assert np.array_equal(answers(model), old), at
        else:  # a destructor's call, whose errors are ignored, or one after the new model is there
            fitted(model)
    assert interrupted
    during = []
    Calls(calls.count // 2, lambda: during.append(answers(model))).of(fitted, model, X[::-1, :5])
    assert np.array_equal(during[0], old)
    assert model.n_features_in_ == 5
