"""Honest choices of C, scales of extra features, cross-fitted scores and deviations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.conditional import Folds, GainOver, RowGroup, TrainingData, random_folds
from colabel.learn.glm.path import Block
from colabel.learn.linear import LinearLearner
from tests.asserts import assert_each_close
from tests.learn.glm.oracle import sklearn_model
from tests.learn.test_linear import keep, learner, make_data

ZERO = np.zeros(1, dtype=np.intp)


# ------------------------------------------------------------------------- honest folds


def rare_labels(rng, n_rows=300, n_features=120, n_labels=12):
    """Sparse rows with labels that 5 to 60 of them have."""
    X = sp.random_array((n_rows, n_features), density=0.05, random_state=rng, format="csr")
    coef = (
        8.0 * rng.normal(size=(n_features, n_labels)) * (rng.random((n_features, n_labels)) < 0.1)
    )
    scores = X @ coef + rng.gumbel(size=(n_rows, n_labels))
    codes = np.zeros((n_rows, n_labels), dtype=np.int32)
    for label, count in enumerate(np.linspace(5, 60, n_labels).astype(int)):
        codes[np.argsort(-scores[:, label])[:count], label] = 1
    codes[:4] = 1  # in both folds
    return TrainingData(X, codes, (2,) * n_labels)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_choices_are_those_of_folds_fitted_to_the_end_from_zero(rng):
    data = rare_labels(rng)
    grid = 10.0 ** np.arange(-3, 4)
    folds = Folds(np.arange(data.n_rows) % 2, 2)
    default = LinearLearner(grid, tol=1e-2, max_iter=1000, n_jobs=1, verbose=False)
    group = RowGroup(None, np.arange(data.n_labels))
    found = default.on(data).cross_validate([group], folds, keep, "")[0]
    dense = data.X.toarray()
    for label, y in enumerate(data.codes.T):
        total = np.zeros(len(grid))
        for point, C in enumerate(grid):
            for fold in range(2):
                model = sklearn_model(dense, np.where(folds.of_row == fold, -1, y), C)
                held = folds.of_row == fold
                log_prob = model.predict_log_proba(dense[held])
                total[point] += log_prob[np.arange(held.sum()), y[held]].sum()
        # ties that no held-out sample could tell apart may fall either way
        assert total[found.choice[label]] >= total.max() - 0.05
        # and what is said of the choice is true
        said = found.total[label]
        np.testing.assert_allclose(said, total[found.choice[label]], atol=0.1)


@pytest.mark.parametrize("expected", [False, True])
def test_noise_of_gains_is_observed_or_expected(rng, expected):
    data = make_data(rng, weighted=True, missing=0.2)
    folds, group = random_folds(data, 3, seed=0), RowGroup(None, np.arange(data.n_labels))
    both = [
        learner([C]).on(data).cross_validate([group], folds, keep, "", keep=True)[0]
        for C in (0.01, 1.0)
    ]
    own, other = ([np.exp(p) for p in s.models.tables(data, folds.of_row)] for s in both)
    over = GainOver(both[0].log_prob, data.row_weights, both[0].models.tables(data, folds.of_row))
    over = over if expected else GainOver(over.log_prob, over.weight)
    found = learner([1.0]).on(data).cross_validate([group], folds, over, "")[0]
    for label, codes in enumerate(data.codes.T):
        noise = 0.0
        for row in np.flatnonzero(codes >= 0):
            squares = np.log(other[label][row] / own[label][row]) ** 2
            square = own[label][row] @ squares if expected else squares[codes[row]]
            noise += data.row_weights[row] ** 2 * square
        np.testing.assert_allclose(found.noise[label], noise, rtol=1e-6)


def test_penalties_are_not_weakened_once_the_held_out_curve_has_turned(rng, monkeypatch):
    codes = rng.integers(0, 2, size=(200, 2), dtype=np.int32)
    noise = TrainingData(rng.normal(size=(200, 30)), codes, (2, 2))
    weakest = []
    solve = Block.solve

    def counted(self, penalty, *arguments):
        weakest.append(1.0 / penalty)
        return solve(self, penalty, *arguments)

    monkeypatch.setattr(Block, "solve", counted)
    learning = learner(grid=10.0 ** np.arange(-3.0, 4.0)).on(noise)
    folds = Folds(np.arange(200) % 2, 2)
    learning.cross_validate([RowGroup(None, np.arange(2))], folds, keep, "")
    assert max(weakest) <= 0.1 < 1000.0


# --------------------------------------------------------------------------- row groups


def test_a_group_may_be_narrowed_to_some_targets():
    group = RowGroup(np.arange(9), np.array([4, 1, 3]), np.eye(3, dtype=bool), np.arange(1.0, 4.0))
    part = group.take(np.array([2, 0]))
    np.testing.assert_array_equal(part.rows, np.arange(9))
    np.testing.assert_array_equal(part.targets, [3, 4])
    np.testing.assert_array_equal(part.allowed, np.eye(3, dtype=bool)[[2, 0]])
    np.testing.assert_array_equal(part.extra_scale, [3.0, 1.0])
    bare = RowGroup(None, np.array([4, 1])).take(np.array([1]))
    assert (bare.rows, bare.allowed, bare.extra_scale) == (None, None, None)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n_rows", [None, 20], ids=["all rows", "few rows"])
def test_a_scale_is_that_of_the_extra_columns(rng, store, n_rows):
    """Scores with extra_scale=s are those of extra columns multiplied by s."""
    plain = make_data(rng, sizes=(2, 3, 2, 2))
    extra = (plain.codes[:, [0, 2]] == 1).astype(float)
    scales = np.array([0.1, 1.0, 10.0])
    rows = None if n_rows is None else np.arange(n_rows)
    folds = random_folds(plain, 3, seed=0)

    def learning(extra):
        data = TrainingData(store(plain.X), plain.codes, plain.cardinalities, None, extra)
        return learner((0.3, 3.0)).on(data)

    for target in (3, 1):
        group = RowGroup(rows, np.full(3, target), None, scales)
        ours = learning(extra)
        found = ours.cross_validate([group], folds, keep, "")[0]
        tables = ours.fit([group], [found.choice]).log_prob(plain.X, extra)
        for at, scale in enumerate(scales):
            alone = RowGroup(rows, np.array([target]))
            theirs = learning(scale * extra)
            expected = theirs.cross_validate([alone], folds, keep, "")[0]
            assert found.choice[at] == expected.choice[0]
            np.testing.assert_allclose(found.total[at], expected.total[0], atol=1e-4)
            table = theirs.fit([alone], [expected.choice]).log_prob(plain.X, scale * extra)[0]
            np.testing.assert_allclose(tables[at], table, atol=1e-5)


# ------------------------------------------------------------------------- fitted models


def test_cross_fitted_scores_are_by_models_that_have_not_seen_the_row(rng):
    data = make_data(rng, weighted=True, missing=0.1)
    folds = random_folds(data, 3, seed=0)
    choice = np.array([0, 1, 0, 1, 1])
    learning = learner((0.2, 2.0)).on(data)
    scores = learning.cross_fitted_scores(folds, choice)
    assert [score.shape for score in scores] == [(1 if k == 2 else k, 120) for k in (2, 3, 2, 4, 2)]
    for fold in range(3):
        held = folds.of_row == fold
        seen = RowGroup(np.flatnonzero(~held), np.arange(5))
        tables = learning.fit([seen], [choice]).log_prob(data.X[held])
        for score, table in zip(scores, tables, strict=True):
            centred = table - table.mean(axis=1, keepdims=True)
            own = np.diff(table, axis=1) if table.shape[1] == 2 else centred
            np.testing.assert_allclose(score[:, held], own.T, atol=1e-9)


def test_models_of_a_path_give_the_scores_that_new_ones_would(rng):
    data = make_data(rng, weighted=True, missing=0.1)
    data.codes[0, 1] = 2
    data.codes[1:, 1] %= 2  # one fold's models have never seen a value
    folds = random_folds(data, 3, seed=0)
    learning = learner((0.2, 2.0)).on(data)
    every = RowGroup(None, np.arange(5))
    alone = learning.cross_validate([every], folds, keep, "", keep=True)[0]
    found = learning.cross_fitted_scores(folds, alone.choice, alone.models)
    expected = learning.cross_fitted_scores(folds, alone.choice)
    assert_each_close(found, expected, atol=1e-6)
    assert learning.cross_validate([every], folds, keep, "")[0].models is None


# ----------------------------------------------------------------- paths and deviations


def test_paths_handed_on_are_where_other_groups_may_start(rng):
    data = make_data(rng)
    folds = random_folds(data, 3, seed=0)
    learning = learner((0.1, 1.0)).on(data)
    first = learning.cross_validate([RowGroup(None, np.arange(5))], folds, keep, "", keep=True)[0]
    shapes = [(2, 3, 1 if size == 2 else size, 5) for size in data.cardinalities]
    assert [path.shape for path in first.path] == shapes
    assert learning.cross_validate([RowGroup(None, ZERO)], folds, keep, "")[0].path is None
    groups = [RowGroup(np.arange(0, 120, 2), np.array([3, 0, 1]))]
    cold = learning.cross_validate(groups, folds, keep, "")[0]
    warm = learning.cross_validate(groups, folds, keep, "", start=first.path)[0]
    np.testing.assert_allclose(warm.total, cold.total, atol=1e-5)
    np.testing.assert_array_equal(warm.choice, cold.choice)


@pytest.mark.parametrize("constant", [False, True])
def test_constant_deviations_are_slope_and_intercept_alone(rng, constant):
    data = make_data(rng, sizes=(2, 2, 3))
    folds = random_folds(data, 3, seed=0)
    learning = learner((0.1, 1.0)).on(data)
    offsets = learning.cross_fitted_scores(folds, np.zeros(3, dtype=np.intp))
    groups = [
        RowGroup(np.flatnonzero(data.codes[:, 0] == value), np.array([1, 2])) for value in (0, 1)
    ]
    found = learning.cross_validate(groups, folds, keep, "", offsets=offsets, constant=constant)
    every = LinearLearner(np.array([1e-9]), 1e-9, 3000, 1, verbose=False).on(data)
    none = every.cross_validate(groups, folds, keep, "", offsets=offsets)
    for ours, theirs in zip(found, none, strict=True):
        if constant:  # a deviation of no size says what none at all says
            assert not ours.choice.any()
            np.testing.assert_allclose(ours.total, theirs.total, atol=1e-3)
        else:
            assert (ours.total >= theirs.total - 1e-4).all()


def test_fitted_deviations_are_linear_models_of_the_features(rng):
    data = make_data(rng, sizes=(2, 2, 3))
    folds = random_folds(data, 3, seed=0)
    learning = learner((0.1, 1.0)).on(data)
    offsets = learning.cross_fitted_scores(folds, np.zeros(3, dtype=np.intp))
    alone = learning.fit([RowGroup(None, np.arange(3))], [np.zeros(3, dtype=np.intp)])
    rows = np.flatnonzero(data.codes[:, 0] == 1)
    group = RowGroup(rows, np.array([1, 2]))
    base = {label: alone.coef[label] for label in (1, 2)}
    # no deviation: log-odds are slope times those alone, and an intercept
    none = learning.fit([group], [np.zeros(2, dtype=np.intp)], offsets, base)
    found, before = none.coef[0][0], base[1][0]
    np.testing.assert_allclose(found[:-1] / before[:-1], found[0] / before[0], rtol=1e-9)
    more = learning.fit([group], [np.full(2, 2)], offsets, base)
    slopes = more.coef[0][0][:-1] / before[:-1]
    assert np.ptp(slopes) > 1e-3
