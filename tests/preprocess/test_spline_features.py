"""Columns as curves, against scikit-learn's splines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import SplineFeatures
from colabel.preprocess.spline_features import b_splines


@parametrize_with_checks([SplineFeatures(), SplineFeatures(6, degree=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("n_knots", "degree"), [(2, 1), (4, 2), (5, 3), (7, 2)])
def test_splines_are_those_of_scikit_learn(rng, n_knots, degree):
    X = rng.normal(size=(200, 3)) * [1.0, 30.0, 1e-3]
    other = SplineTransformer(n_knots=n_knots, degree=degree, knots="quantile").fit(X)
    knots = np.quantile(X, np.linspace(0, 1, n_knots), axis=0).T
    rows = np.vstack([X, X.max(axis=0), X.min(axis=0), 3 * X.max(axis=0), 3 * X.min(axis=0)])
    ours = b_splines(rows, knots, degree)
    np.testing.assert_allclose(ours.reshape(len(rows), -1), other.transform(rows), atol=1e-12)
    np.testing.assert_allclose(ours.sum(axis=2), 1.0)


def test_straight_parts_and_curves_have_variance_one(rng):
    X = np.column_stack([rng.normal(size=300) * 9 + 4, rng.integers(0, 3, 300), np.ones(300)])
    features = SplineFeatures().fit(X)
    made = features.transform(X)
    assert features.curved_.tolist() == [0]
    np.testing.assert_allclose(made[:, :2], StandardScaler().fit_transform(X[:, :2]))
    np.testing.assert_allclose(made.std(axis=0), [1, 1, 0, 1, 1, 1, 1], atol=1e-9)
    names = [*"abc", *(f"a_spline{k}" for k in range(1, 5))]
    assert features.get_feature_names_out(list("abc")).tolist() == names
    beyond = features.transform([[1e3, 0, 1], [2e3, 0, 1]])
    assert beyond[1, 0] > beyond[0, 0]  # the straight part goes on, the curves do not
    np.testing.assert_array_equal(beyond[0, 3:], beyond[1, 3:])


def test_knots_where_one_value_is_most_of_a_column(rng):
    X = np.where(rng.random((200, 1)) < 0.8, 0.0, rng.exponential(size=(200, 1)))
    features = SplineFeatures().fit(X)
    assert (np.diff(features.knots_) > 0).all()
    np.testing.assert_allclose(features.transform(X).std(axis=0), 1.0)


def test_sparse_rows_stay_as_they_are(rng):
    X = sparse.random_array((30, 50), density=0.1, random_state=rng, format="csr")
    made = SplineFeatures().fit_transform(X)
    assert sparse.issparse(made)
    np.testing.assert_array_equal(made.toarray(), X.toarray())


def test_of_many_columns_those_are_curved_that_bend(rng):
    X = rng.normal(size=(400, 30))
    Y = np.column_stack([np.abs(X[:, 17]) > 0.7, X[:, 3] > 0, X[:, 25] ** 2 > 1]).astype(int)
    features = SplineFeatures(max_columns=38).fit(X, Y)
    assert features.curved_.tolist() == [17, 25]
    assert features.transform(X).shape == (400, 38)
    assert SplineFeatures(max_columns=38).fit(X).curved_.tolist() == [0, 1]
    assert SplineFeatures(max_columns=3).fit(X).transform(X).shape == (400, 30)


@pytest.mark.parametrize("name", ["n_knots", "degree", "min_values", "max_columns"])
def test_wrong_parameters_are_named(name):
    with pytest.raises(ValueError, match=f"{name}=-1 must be an integer"):
        SplineFeatures(**{name: -1}).fit(np.eye(3))
