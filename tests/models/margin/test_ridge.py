"""Ridge paths against scikit-learn's Ridge."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from colabel.models.margin._ridge import ConjugateRidge, RidgePath, best_penalty, ridge_path


@pytest.mark.parametrize("n_features", [4, 40])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_path_equals_scikit_learn(rng, n_features, storage, weighted):
    X = rng.normal(1.0, 1.0, size=(20, n_features))
    X[np.abs(X) < 0.5] = 0.0
    Y = rng.normal(2.0, 1.0, size=(20, 3))
    weight = rng.uniform(size=20) if weighted else None
    path = RidgePath(storage(X), Y, weight)
    for alpha in (0.1, 10.0):
        coef, intercept = path.at(alpha)
        expected = Ridge(alpha=alpha).fit(X, Y, sample_weight=weight)
        np.testing.assert_allclose(coef.T, expected.coef_, atol=1e-8)
        np.testing.assert_allclose(intercept, expected.intercept_, atol=1e-8)


@pytest.mark.parametrize("n_features", [4, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_conjugate_gradients_equal_scikit_learn(rng, n_features, weighted, monkeypatch):
    monkeypatch.setattr("colabel.models.margin._ridge._RESIDUAL", 1e-10)
    X = rng.normal(1.0, 1.0, size=(20, n_features))
    X[np.abs(X) < 0.5] = 0.0
    Y = rng.normal(2.0, 1.0, size=(20, 3))
    Y[:, 2] = 1.0  # solved from the start
    weight = rng.uniform(size=20) if weighted else None
    path = ConjugateRidge(sp.csr_array(X), Y, weight)
    for alpha in (10.0, 0.1, 1.0):
        coef, intercept = path.at(alpha)
        expected = Ridge(alpha=alpha).fit(X, Y, sample_weight=weight)
        np.testing.assert_allclose(coef.T, expected.coef_, atol=1e-7)
        np.testing.assert_allclose(intercept, expected.intercept_, atol=1e-7)


def test_large_sparse_rows_are_not_decomposed(rng, monkeypatch):
    X, Y = sp.random_array((60, 40), density=0.2, format="csr", rng=rng), rng.normal(size=(60, 2))
    folds, alphas = np.arange(60) % 3, np.array([0.01, 1.0, 30.0])
    decomposed = best_penalty(X, Y, alphas, folds, 3)
    monkeypatch.setattr("colabel.models.margin._ridge._MOST_DECOMPOSED", 10)
    monkeypatch.setattr("numpy.linalg.eigh", None)
    assert best_penalty(X, Y, alphas, folds, 3) == decomposed
    assert isinstance(ridge_path(X, Y), ConjugateRidge)


@pytest.mark.parametrize("n_features", [4, 40])
def test_large_means_cost_no_digits(rng, n_features):
    X, Y = rng.normal(size=(20, n_features)), rng.normal(size=(20, 2))
    near, _ = RidgePath(X, Y).at(1.0)
    far, _ = RidgePath(X + 1e7, Y).at(1.0)
    np.testing.assert_allclose(far, near, atol=1e-6)


def test_columns_in_very_different_units_cost_no_digits(rng):
    """As a penalty of each column's own, written into rows of an X in equal units."""
    units = np.array([1.0, 1e6, 1e12, 1e3])
    X, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 2))
    coef, intercept = RidgePath(X * units, Y).at(10.0)
    centred = X - X.mean(axis=0)
    # |Y - X b|^2 + 10 |b / units|^2, in which the b are of one size
    rows = np.vstack([centred, np.sqrt(10.0) * np.diag(1.0 / units)])
    targets = np.vstack([Y - Y.mean(axis=0), np.zeros((4, 2))])
    expected = np.linalg.lstsq(rows, targets, rcond=None)[0]
    np.testing.assert_allclose(coef * units[:, None], expected, atol=1e-9)
    np.testing.assert_allclose(intercept, Y.mean(axis=0) - X.mean(axis=0) @ expected, atol=1e-9)


def test_best_penalty_is_that_of_the_loop(rng):
    X, noise = rng.normal(size=(60, 20)), rng.normal(size=(60, 2))
    Y = X[:, :2] + 2 * noise
    folds, alphas = np.arange(60) % 4, np.array([0.01, 1.0, 30.0, 1e5])
    errors = [
        sum(
            np.sum(
                (
                    Y[folds == f]
                    - Ridge(alpha=a).fit(X[folds != f], Y[folds != f]).predict(X[folds == f])
                )
                ** 2
            )
            for f in range(4)
        )
        for a in alphas
    ]
    assert best_penalty(X, Y, alphas, folds, 4) == alphas[np.argmin(errors)]
    assert best_penalty(X, Y, alphas, folds, 4, n_jobs=2) == alphas[np.argmin(errors)]
