"""The regression of the papers' authors: its optimum, its choice of C, and models around it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from colabel import CTBN, IBLR, BinaryRelevance, ClassifierChain, StackedBinaryRelevance
from studies.methods import LiblinearRegression


def make_data(n_rows=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 1.0).astype(int)
    return X, y


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_the_bias_is_penalised_like_a_weight(storage):
    X, y = make_data()
    sign = 2.0 * y - 1.0

    def objective(w):
        margin = sign * (X @ w[:-1] + w[-1])
        return 0.5 * w @ w + 0.7 * np.logaddexp(0.0, -margin).sum()

    best = minimize(objective, np.zeros(4), tol=1e-12).x
    model = LiblinearRegression(C=0.7, tol=1e-10).fit(storage(X), y)
    expected = 1.0 / (1.0 + np.exp(-(X @ best[:-1] + best[-1])))
    np.testing.assert_allclose(model.predict_proba(storage(X))[:, 1], expected, atol=1e-5)
    free = minimize(lambda w: objective(w) - 0.5 * w[-1] ** 2, np.zeros(4), tol=1e-12).x
    assert abs(free[-1]) > 1.05 * abs(best[-1])


def test_c_has_the_best_held_out_likelihood_of_three_stratified_folds():
    X, y = make_data()
    grid = (0.001, 0.1, 10.0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = []
    for C in grid:
        total = 0.0
        for train, test in folds.split(X, y):
            model = LiblinearRegression(C=C).fit(X[train], y[train])
            total += np.log(model.predict_proba(X[test])[np.arange(len(test)), y[test]]).sum()
        scores.append(total)
    assert grid[int(np.argmax(scores))] == LiblinearRegression(C=grid).fit(X, y).C_


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_positive", [1, 2])
def test_classes_with_fewer_rows_than_folds(n_positive):
    X, y = make_data()
    y = np.zeros_like(y)
    y[:n_positive] = 1
    model = LiblinearRegression().fit(X, y)
    assert model.C_ in model.C
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    "model",
    [
        BinaryRelevance(estimator=LiblinearRegression()),
        StackedBinaryRelevance(estimator=LiblinearRegression(), first_layer="in_sample"),
        ClassifierChain(estimator=LiblinearRegression(), stack=False),
        IBLR(5, features=True, estimator=LiblinearRegression()),
        CTBN(
            estimator=LiblinearRegression(),
            search_estimator=LiblinearRegression(C=1.0),
            stack=False,
            cv=3,
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_take_it(model):
    X, _ = make_data()
    Y = (X > [0.0, 0.5, -0.5]).astype(int)
    fitted = clone(model).set_params(random_state=0).fit(X, Y)
    assert (fitted.predict(X) == Y).mean() > 0.9


def test_its_probabilities_have_no_floor():
    X, y = make_data()
    far = np.array([[-60.0, 0.0, 0.0]])
    single = LiblinearRegression(C=10.0).fit(X, y).predict_proba(far)[0, 1]
    model = BinaryRelevance(estimator=LiblinearRegression(C=10.0)).fit(X, y[:, None])
    found = float(np.exp(model.joint(far).log_prob([[1]])[0]))
    assert found == pytest.approx(max(single, 1e-12), rel=1e-6)
    assert found < 1e-6
