"""Vector-leaf boosting, against loops over rows and leaves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.forest.boosting import boost, rounded

SIZES = (2, 3, 2)


def data_of(rng, n=80, missing=False, weighted=False):
    X = rng.normal(size=(n, 4))
    codes = np.column_stack(
        [X[:, 0] > 0, np.digitize(X[:, 1], [-0.5, 0.5]), X[:, 2] * X[:, 0] > 0]
    ).astype(np.int32)
    if missing:
        codes[rng.random(codes.shape) < 0.2] = -1
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    return TrainingData(X, codes, SIZES, weight)


def slow_probabilities(scores):
    """P (n, 5) of the columns: label 0, the three values of label 1, label 2."""
    prob = 1 / (1 + np.exp(-scores))
    of_second = np.exp(scores[:, 1:4])
    prob[:, 1:4] = of_second / of_second.sum(axis=1, keepdims=True)
    return prob


def slow_scores(model, data, folds, rate, penalty):
    """What the model's trees say, if the leaves are filled again, row by row, round by round."""
    n_folds = folds.n_folds
    n_rounds = model.forest.n_trees // n_folds
    leaves = model.forest.leaves(data.X)
    n = data.n_rows
    weight = np.ones(n) if data.weight is None else data.weight
    columns = np.zeros((n, 5))
    known = np.zeros((n, 5))
    for r, (a, b, c) in enumerate(data.codes):
        if a >= 0:
            columns[r, 0], known[r, 0] = a, weight[r]
        if b >= 0:
            columns[r, 1 + b], known[r, 1:4] = 1, weight[r]
        if c >= 0:
            columns[r, 4], known[r, 4] = c, weight[r]
    sizes = np.array([2, 3, 3, 3, 2])
    total, held_out = np.zeros((n, 5)), np.zeros((n, 5))
    for fold in range(n_folds):
        used = folds.of_row != fold
        share = (known * columns)[used].sum(axis=0) + 1 / sizes
        share /= known[used].sum(axis=0) + 1
        start = np.log(share)
        start[[0, 4]] -= np.log(1 - share[[0, 4]])
        start[1:4] -= start[1:4].mean()
        scores = np.tile(start, (n, 1))
        for t in range(fold * n_rounds, (fold + 1) * n_rounds):
            prob = slow_probabilities(scores)
            step = np.zeros((n, 5))
            for leaf in np.unique(leaves[:, t]):
                here = leaves[:, t] == leaf
                own = here & used
                gradient = (known * (columns - prob))[own].sum(axis=0)
                curvature = (known * prob * (1 - prob))[own].sum(axis=0)
                step[here] = rate * gradient / (curvature + penalty)
            scores += step
        total += scores / n_folds
        held_out[~used] = scores[~used]
    held_out[:, 1:4] -= held_out[:, 1:4].mean(axis=1, keepdims=True)
    return total, held_out


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("splitter", ["random", "best"])
@pytest.mark.parametrize("gaps", [False, True])
def test_leaves_hold_newton_steps(rng, missing, weighted, splitter, gaps):
    data = data_of(rng, missing=missing, weighted=weighted)
    if gaps:
        data.X[rng.random(data.X.shape) < 0.3] = np.nan
        data.X[:, 3] = np.nan
    folds = Folds(np.arange(80) % 3, 3)
    options = {"n_rounds": 20, "learning_rate": 0.3, "penalty": 2.0, "splitter": splitter}
    model, held_out, losses = boost(data, folds, **options)
    assert model.forest.n_trees == 60
    assert losses.argmin() == 2 or gaps  # blocks of ten rounds
    total, expected = slow_scores(model, data, folds, 0.3, 2.0)
    np.testing.assert_allclose(model.scores(data.X), total, atol=1e-4)
    np.testing.assert_allclose(held_out, expected, atol=1e-9)


def test_trees_of_rounded_columns_divide_the_rows_themselves_alike(rng):
    rows = rng.standard_t(2, size=(300, 3)).astype(np.float32)
    rows[:, 1] = rng.integers(0, 4, 300)
    rows[:40, 2] = np.nan
    found = rounded(rows, 8)
    assert [len(np.unique(column)) for column in found.T] == [8, 4, 9]  # of the last, one is NaN
    np.testing.assert_array_equal(found[:, 1], rows[:, 1])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rows))
    for seed in range(10):
        tree = DecisionTreeRegressor(max_leaf_nodes=12, random_state=seed)
        grown = tree.fit(found, rng.normal(size=(300, 2))).tree_
        np.testing.assert_array_equal(grown.apply(found), grown.apply(rows))


def test_best_cuts_are_taken_where_they_pay(rng):
    X, folds = rng.normal(size=(600, 6)), Folds(np.arange(600) % 3, 3)
    boxes = np.column_stack([(X[:, 0] > 0) & (X[:, 1] > 0), (X[:, 2] < 0) & (X[:, 3] > 0)])
    lines = (X @ rng.normal(size=(6, 2)) + 2 * rng.logistic(size=(600, 2))) > 0
    for labels, wanted in ((boxes, "best"), (lines, "random")):
        data = TrainingData(X, labels.astype(np.int32), (2, 2))
        losses = {
            cuts: boost(data, folds, n_rounds=60, splitter=cuts)[2]
            for cuts in ("auto", "random", "best")
        }
        np.testing.assert_array_equal(losses["auto"], losses[wanted])
    assert losses["random"].min() < losses["best"].min()


def test_the_held_out_loss_is_that_of_the_scores(rng):
    data = data_of(rng)
    _, held_out, losses = boost(data, Folds(np.arange(80) % 2, 2), n_rounds=60)
    prob = slow_probabilities(held_out)
    first, second, third = data.codes.T
    chance = [
        np.where(first == 1, prob[:, 0], 1 - prob[:, 0]),
        prob[np.arange(80), 1 + second],
        np.where(third == 1, prob[:, 4], 1 - prob[:, 4]),
    ]
    assert losses.min() == pytest.approx(-np.log(chance).sum() / 80)


def test_noise_is_not_boosted(rng):
    data = TrainingData(rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 2)), (2, 2))
    model, _, losses = boost(data, Folds(np.arange(60) % 3, 3), n_rounds=300, patience=20)
    assert len(losses) < 20
    spread = model.scores(data.X).std(axis=0)
    assert (spread < 1.0).all()


def test_threads_change_nothing_and_seeds_do(rng):
    data, folds = data_of(rng), Folds(np.arange(80) % 3, 3)
    one, two, other = (
        boost(data, folds, n_rounds=10, n_jobs=n, random_state=s)[1]
        for n, s in ((1, 0), (3, 0), (1, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_many_labels_are_seen_in_a_few_directions(rng):
    X = rng.normal(size=(150, 5))
    codes = (X[:, rng.integers(0, 5, 40)] + 0.3 * rng.normal(size=(150, 40)) > 0).astype(np.int32)
    data = TrainingData(X, codes, (2,) * 40)
    _, held_out, losses = boost(data, Folds(np.arange(150) % 3, 3), n_rounds=100)
    assert ((held_out > 0) == codes).mean() > 0.8
    assert losses.min() < 0.7 * losses[0]
