"""What models ask of any learner and of the conditionals it fits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from colabel.learn.conditional import RowGroup, TrainingData
from colabel.models.learning import make_learner


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    codes = (X @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) > 0).astype(np.int32)
    return TrainingData(X, codes, (2, 2))


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_fitted_conditionals_are_joined_and_reordered(data, estimator):
    learning = make_learner(estimator, (0.1, 1.0), 1e-3, 100, 1, 0).on(data)
    first, second = (
        learning.fit([RowGroup(None, np.array([label]))], [np.array([1])]) for label in (0, 1)
    )
    both = first.joined(second)
    tables = [*first.log_prob(data.X), *second.log_prob(data.X)]
    # one product for both sums in another order
    np.testing.assert_allclose(both.log_prob(data.X), tables, rtol=1e-14)
    turned = both.take(np.array([1, 0]))
    np.testing.assert_allclose(turned.log_prob(data.X), tables[::-1], rtol=1e-14)


def test_regressions_tell_their_penalties_and_iterations(data):
    learner = make_learner(None, (0.1, 1.0), 1e-3, 100, 1, 0)
    models = learner.on(data).fit([RowGroup(None, np.arange(2))], [np.array([1, 0])])
    assert 1 <= models.n_iter <= 100
    assert learner.values(np.array([1, 0])).tolist() == [1.0, 0.1]


def test_other_classifiers_have_neither(data):
    learner = make_learner(LogisticRegression(), 1.0, 1e-3, 100, 1, 0)
    models = learner.on(data).fit([RowGroup(None, np.arange(2))], [np.zeros(2, dtype=np.intp)])
    assert models.n_iter is None
    assert learner.values(np.zeros(2, dtype=np.intp)) is None
