"""What models ask of any learner and of the conditionals it fits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from colabel.learn.conditional import RowGroup, TrainingData
from colabel.models.learning import make_learner


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    codes = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(60, 3)) > 0).astype(np.int32)
    codes[:, 1] += X[:, 0] > 0.5
    return TrainingData(X, codes, (2, 3, 2))


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_fitted_conditionals_are_joined_and_taken_in_any_order(data, estimator):
    learning = make_learner(estimator, (0.1, 1.0), 1e-3, 100, 1, 0).on(data)
    groups = [RowGroup(None, np.array([2, 1])), RowGroup(np.arange(40), np.arange(3))]
    first, second = (learning.fit([own], [np.zeros_like(own.targets)]) for own in groups)
    both = first.joined(second)
    tables = [*first.log_prob(data.X), *second.log_prob(data.X)]
    for order in (np.arange(5), np.array([4, 0, 3]), np.array([1, 4, 1, 1])):
        found = both.take(order).log_prob(data.X)
        for table, position in zip(found, order, strict=True):
            # one product for all sums, in another order
            np.testing.assert_allclose(table, tables[position], rtol=1e-12)


def test_regressions_tell_their_penalties_and_iterations_and_others_have_neither(data):
    group, choice = [RowGroup(None, np.array([0, 2]))], np.array([1, 0])
    learner = make_learner(None, (0.1, 1.0), 1e-3, 100, 1, 0)
    assert 1 <= learner.on(data).fit(group, [choice]).n_iter <= 100
    assert learner.values(choice).tolist() == [1.0, 0.1]
    learner = make_learner(LogisticRegression(), 1.0, 1e-3, 100, 1, 0)
    assert learner.on(data).fit(group, [0 * choice]).n_iter is None
    assert learner.values(0 * choice) is None
