"""Models by the names a user types, alone or behind features."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import colabel
from colabel.saving import ModelFileError, load, save, types_to_trust
from colabel.tables import (
    ESTIMATOR_NAMES,
    FEATURE_NAMES,
    MODEL_NAMES,
    TableError,
    TableModel,
    make_model,
    short_name,
    table_of,
)

WORDS = [f"word{i}" for i in range(400)]


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_model_stands_behind_every_kind_of_features(name):
    kind = MODEL_NAMES[name]
    assert type(make_model(name)) is type(make_model(kind.__name__.upper())) is kind
    for features, transformer in FEATURE_NAMES.items():
        model = make_model(f"{features}+{name}", seed=3)
        assert isinstance(model, Pipeline)
        assert [type(part) for part in (model[0], model[-1])] == [transformer, kind]
        assert model[0].get_params().get("random_state", 3) == 3
        assert model[-1].get_params().get("random_state", 3) == 3
        spelled = f"{transformer.__name__} + {kind.__name__}"
        assert short_name(spelled) == f"{features}+{name}"


def test_settings_reach_the_model_or_the_features():
    model = make_model("kernel+ctbn", 0, {"C": 0.1, "kernel.width": 2.0, "kernel.random_state": 7})
    assert model[-1].C == 0.1
    assert (model[0].width, model[0].random_state, model[-1].random_state) == (2.0, 7, 0)


def test_settings_of_sets():
    model = make_model("kernel+pcc", 3, {"conformal.cv": 5, "decision": "f1"}, conformal=True)
    assert (model.cv, model.decision, model.random_state) == (5, "f1", 3)
    kinds = [type(step).__name__ for step in model.estimator]
    assert kinds == ["KernelFeatures", "ProbabilisticClassifierChain"]
    with pytest.raises(TableError, match="ConformalSets has no parameter 'level'"):
        make_model("ctbn", 0, {"conformal.level": 0.9}, conformal=True)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("ctbm", {}, "There is no model 'ctbm': did you mean ctbn"),
        ("kernel+ctbm", {}, "There is no model 'ctbm': did you mean ctbn"),
        ("kernal+ctbn", {}, "There is no kind of features 'kernal': did you mean kernel"),
        ("mlknn+ctbn", {}, "There is no kind of features 'mlknn': choose from boosted, forest"),
        ("forest+kernel+ctbn", {}, r"no kind of features 'forest\+kernel'"),
        ("kernel+", {}, "There is no model ''"),
        ("ctbn", {"kernel.width": 2.0}, "CTBN has no parameter 'kernel.width'"),
        ("kernel+ctbn", {"width": 2.0}, "CTBN has no parameter 'width'"),
        ("kernel+ctbn", {"kernel.C": 2.0}, "KernelFeatures has no parameter 'C': it has balance"),
    ],
)
def test_what_is_not_there_is_named(name, settings, said):
    with pytest.raises(TableError, match=said):
        make_model(name, 0, settings)


def test_a_forest_is_a_model_and_a_kind_of_features():
    assert isinstance(make_model("forest"), colabel.JointForest)
    assert isinstance(make_model("forest+forest")[0], colabel.ForestFeatures)


@pytest.mark.parametrize("name", ESTIMATOR_NAMES)
@pytest.mark.parametrize("sparse", [False, True])
def test_an_estimator_has_a_name(name, sparse, rng, tmp_path):
    """It is fitted, saved and read again; one that takes no sparse features says so."""
    n = 80
    words = [" ".join(rng.choice(WORDS, 20)) for _ in range(n)]
    size = rng.normal(size=n)
    columns = {"size": size, **({"note": words} if sparse else {}), "a": 1 * (size > 0)}
    data = table_of(columns, "a")
    model = make_model("br", 0, {"estimator": name.upper()})
    assert type(model.estimator) is ESTIMATOR_NAMES[name]
    if sparse and name in ("boosting", "gaussian"):
        with pytest.raises(TableError, match=r"takes no sparse features.* forest or nb"):
            TableModel.fit(model, data.features, data.choice, data.labels)
        return
    fitted = TableModel.fit(model, data.features, data.choice, data.labels)
    file = tmp_path / "model.colabel"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        save(fitted, file)
    assert bool(types_to_trust(file)) == (name == "boosting")
    again = load(file, trusted=types_to_trust(file))
    np.testing.assert_array_equal(again.predict(columns), fitted.predict(columns))
    assert (again.predict(columns)[:, 0] == data.labels.Y[:, 0]).mean() > 0.75
    if name == "boosting":
        with pytest.raises(ModelFileError, match="trusted="):
            load(file)


@pytest.mark.parametrize("wrong", ["bosting", 3, "svm"])
def test_an_estimator_that_is_none_is_told_the_names(wrong):
    with pytest.raises(TableError, match=r"estimator.*forest, boosting, nb, gaussian\."):
        make_model("br", 0, {"estimator": wrong})


def test_every_model_has_a_name():
    exported = {
        value
        for value in (getattr(colabel, name) for name in colabel.__all__)
        if isinstance(value, type) and issubclass(value, colabel.models.JointClassifier)
    }
    # these are put around the others
    around = {colabel.ConformalSets, colabel.RuledClassifier, colabel.ThresholdedClassifier}
    assert exported - around == set(MODEL_NAMES.values())
