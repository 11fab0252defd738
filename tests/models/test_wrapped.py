"""Models inside scikit-learn's tools answer through `joint_of`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from colabel import CTBN, StackedBinaryRelevance, ThresholdedClassifier, joint_of
from colabel.models.wrapped import fit_arguments, model_inside, parts_of, title_of


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 100.0]
    return X, (X @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) > 0).astype(int)


def test_through_pipelines_and_searches(rows):
    X, Y = rows
    inner = make_pipeline(StandardScaler(), CTBN(C=1.0, random_state=0))
    search = GridSearchCV(inner, {"ctbn__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    for model in (inner.fit(X, Y), make_pipeline(StandardScaler(), inner).fit(X, Y), search):
        found = joint_of(model, X)
        np.testing.assert_array_equal(found.mode(), model.predict(X))
        np.testing.assert_allclose(found.marginals(), model.predict_proba(X))


def test_names_and_parts(rows):
    X, Y = rows
    model = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), CTBN(C=1.0)))
    assert title_of(model[-1]) == "StandardScaler + CTBN"
    assert title_of(CTBN()) == "CTBN"
    assert [type(part).__name__ for part in parts_of(model[-1])] == ["StandardScaler", "CTBN"]
    named = model.fit(X, Y, **fit_arguments(model, ("p", "q")))
    assert model_inside(named).label_names_ == ("p", "q")
    assert fit_arguments(LogisticRegression(), ("p",)) == {}


def test_a_model_itself_answers_for_itself(rows):
    model = CTBN(C=1.0, random_state=0).fit(*rows)
    np.testing.assert_array_equal(joint_of(model, rows[0]).mode(), model.predict(rows[0]))
    tuned = ThresholdedClassifier(CTBN(C=1.0, random_state=0)).fit(*rows)
    assert joint_of(tuned, rows[0]).n_rows == 60


def test_what_has_no_joint_is_named(rows):
    X, Y = rows
    machines = StackedBinaryRelevance(estimator=LinearSVC(), first_layer="in_sample").fit(X, Y)
    with pytest.raises(TypeError, match="StackedBinaryRelevance has no joint: give a fitted model"):
        joint_of(machines, X)
    other = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y[:, 0])
    with pytest.raises(TypeError, match=r"LogisticRegression has no joint \(it is inside Pipeline"):
        joint_of(other, X)
