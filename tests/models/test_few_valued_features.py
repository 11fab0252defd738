"""Features of few values: many rows have equal ones, with different labels, all of them honest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from colabel import CTBN, BinaryRelevance, ForestFeatures, JointForest, joint_of

NOISE = 0.1


def table(n, seed):
    """Draw two 0/1 features and two labels that are these, but for one in ten."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n, 2)).astype(float)
    return X, np.where(rng.random((n, 2)) < NOISE, 1 - X, X).astype(int)


MODELS = {
    "calibrated": CTBN(calibrate=True, random_state=0),
    "trees": CTBN(estimator=DecisionTreeClassifier(min_samples_leaf=5), random_state=0),
    "cross-fitted forest features": make_pipeline(
        ForestFeatures(20, cv=5, random_state=0), BinaryRelevance(random_state=0)
    ),
    "joint forest": JointForest(30, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_learned_in_reverse(name):
    """Rows held out with all their equals would leave the contradicting ones (exact match .07)."""
    model = MODELS[name].fit(*table(300, seed=1))
    X, Y = table(1000, seed=2)
    assert (model.predict(X) == Y).all(axis=1).mean() > 0.75
    entropy = -2 * (NOISE * np.log(NOISE) + (1 - NOISE) * np.log(1 - NOISE))
    assert -joint_of(model, X).log_prob(Y).mean() < entropy + 0.12


@pytest.mark.parametrize("copies", [1, 10])
def test_a_forest_of_copies_knows_how_good_it_is(rng, copies):
    """Of a row of ten copies one was left out of its leaf: nine told its labels, of pure chance."""
    X, Y = rng.normal(size=(60, 3)), rng.integers(0, 2, size=(60, 2))
    model = JointForest(60, random_state=0)
    model.fit(np.repeat(X, copies, axis=0), np.repeat(Y, copies, axis=0))
    assert model.oob_log_loss_ > 1.2
