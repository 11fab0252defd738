"""Whatever units the features have, no model falls behind BinaryRelevance without a word."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

import colabel
from colabel.learn.conditional import TrainingData, random_folds
from tests.saving.test_model_files import ESTIMATORS, make

N_TRAIN, N_TEST = 120, 300
# What chance moves the share of right rows by, between fits that differ in their folds.
NOISE = 0.12
# Which warnings tell the user that units are at fault, or that nothing was learned.
ABOUT_UNITS = ("alone decides which rows", "Scale the features")


def column(scale):
    return np.array([1.0, scale, 1.0, 1.0])


def with_outlier(X):
    X = X.copy()
    X[7, 2] = 1e12  # a training row
    return X


UNITS = {
    "as they are": lambda X: X,
    "a narrow column": lambda X: X * column(1e-8),
    "a wide column": lambda X: X * column(1e8),
    "a wider column": lambda X: X * column(1e12),
    "all narrow": lambda X: X * 1e-8,
    "all wide": lambda X: X * 1e12,
    "columns that differ": lambda X: X * [1.0, 1e6, 1e12, 1e3],
    "an outlier": with_outlier,
    "far from zero": lambda X: X + 1e8,
    "a constant": lambda X: np.hstack([X, np.full((len(X), 1), 1e12)]),
}


@cache
def rows():
    """Draw rows whose labels depend on the features and each on the last."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_TRAIN + N_TEST, 4))
    scores = X @ (2.0 * rng.normal(size=(4, 3))) + 0.5 * rng.logistic(size=(len(X), 3))
    Y = np.zeros(scores.shape, dtype=int)
    for i in range(3):
        pull = 2.0 * (-1) ** i * (0.5 - Y[:, i - 1]) if i else 0.0
        Y[:, i] = scores[:, i] + pull > 0
    return X, Y


@cache
def outcome(estimator_class, units):
    """Share of test rows that are wholly right, and of single labels; what was said."""
    X, Y = rows()
    X = UNITS[units](X)
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        model = make(estimator_class).fit(X[:N_TRAIN], Y[:N_TRAIN])
        right = np.asarray(model.predict(X[N_TRAIN:])) == Y[N_TRAIN:]
    said = " ".join(str(word.message) for word in words)
    return np.array([right.all(axis=1).mean(), right.mean()]), said


@pytest.mark.parametrize(
    "estimator_class",
    [e for e in ESTIMATORS if e.__module__.startswith("colabel.models")],
    ids=lambda e: e.__name__,
)
@pytest.mark.parametrize("units", UNITS)
def test_no_model_falls_behind_without_a_word(estimator_class, units):
    plain, _ = outcome(estimator_class, "as they are")
    usual = np.maximum(outcome(colabel.BinaryRelevance, "as they are")[0] - plain, 0.0)
    reached, said = outcome(estimator_class, units)
    warned = any(word in said for word in ABOUT_UNITS)
    assert warned or (reached >= outcome(colabel.BinaryRelevance, units)[0] - usual - NOISE).all()


@pytest.mark.parametrize(
    "units", sorted(set(UNITS) - {"a narrow column", "all narrow", "an outlier"})
)
def test_regressions_reach_what_they_reach_in_good_units(units):
    """A penalty forbids what is left out: large coefficients, and one that an outlier refutes."""
    plain, _ = outcome(colabel.BinaryRelevance, "as they are")
    reached, said = outcome(colabel.BinaryRelevance, units)
    assert (reached >= plain - NOISE).all()
    assert not said


def test_an_outlier_costs_its_column_alone():
    X, Y = rows()
    model, right = colabel.BinaryRelevance(C=1.0, tol=1e-3, max_iter=2000), []
    for own in (with_outlier(X), np.delete(X, 2, axis=1)):
        model.fit(own[:N_TRAIN], Y[:N_TRAIN])
        right.append((model.predict(own[N_TRAIN:]) == Y[N_TRAIN:]).mean())
    assert right[0] > right[1] - 0.03


@pytest.mark.parametrize("estimator_class", [colabel.MLkNN, colabel.IBLR])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_neighbours_that_one_column_decides_come_with_a_word(estimator_class, storage):
    X, Y = rows()
    with pytest.warns(UserWarning, match="Column 1 alone decides which rows .* takes for near"):
        make(estimator_class).fit(storage(X * column(1e4)), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(estimator_class).fit(storage(X * column(30.0)), Y)
        make(estimator_class).fit(storage(X[:, :1]), Y)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev"])
def test_neighbours_far_from_zero_are_those_near_it(metric):
    X, Y = rows()
    X = np.round(X, 2)  # what the shift leaves of finer digits differs
    far = np.round(1e8 + X, 2)
    answers = [
        colabel.MLkNN(metric=metric, random_state=0).fit(own[:N_TRAIN], Y[:N_TRAIN]).predict(own)
        for own in (X, far)
    ]
    assert (answers[0] == answers[1]).mean() > 0.99


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_rows_far_from_zero_are_not_taken_for_equal(storage, rng):
    """Else all rows would be copies of one, which share a fold."""
    codes = np.zeros((200, 1), dtype=np.int16)
    for shift in (1e4, 1e8, -1e8):
        data = TrainingData(storage(rng.normal(size=(200, 1)) + shift), codes, (2,))
        assert np.bincount(random_folds(data, 5, seed=0).of_row).tolist() == [40] * 5
