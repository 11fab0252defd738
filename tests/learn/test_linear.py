"""The built-in regressions as a learner of conditionals, against any-classifier learning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from colabel.learn.conditional import RowGroup, TrainingData, random_folds
from colabel.learn.from_estimator import EstimatorLearner
from colabel.learn.linear import Asked, LinearLearner
from tests.asserts import assert_each_close, assert_each_equal
from tests.models.oracle import Unsmoothed

SIZES = (2, 3, 2, 4, 2)


def learner(grid=(1.0,), tol=1e-9, max_iter=3000, n_jobs=1, **options):
    return LinearLearner(np.asarray(grid), tol, max_iter, n_jobs, verbose=False, **options)


def reference(C=1.0):
    model = Unsmoothed(C=C, tol=1e-10, solver="newton-cg", max_iter=10_000)
    return EstimatorLearner(model, n_jobs=1, verbose=False)


def keep(_, scores):
    return scores


def make_data(rng, n_rows=120, sizes=SIZES, weighted=False, missing=0.0):
    X = rng.normal(size=(n_rows, 4))
    codes = np.empty((n_rows, len(sizes)), dtype=np.int32)
    for label, size in enumerate(sizes):
        scores = X @ rng.normal(size=(4, size)) + rng.gumbel(size=(n_rows, size))
        codes[:, label] = scores.argmax(axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.uniform(0.5, 2.0, size=n_rows) if weighted else None
    return TrainingData(X, codes, tuple(sizes), weight)


def make_groups(data):
    rows = np.flatnonzero(data.codes[:, 0] == 1)
    return [
        RowGroup(None, np.arange(data.n_labels)),
        RowGroup(rows, np.array([3, 1, 4])),
        RowGroup(np.arange(0, data.n_rows, 2), np.array([0])),
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_held_out_scores_equal_those_of_an_estimator(rng, weighted, missing):
    data = make_data(rng, weighted=weighted, missing=missing)
    folds = random_folds(data, 3, seed=0)
    groups = make_groups(data)
    ours = learner().on(data).cross_validate(groups, folds, keep, "")
    theirs = reference().on(data).cross_validate(groups, folds, keep, "")
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.total, expected.total, atol=1e-5)
    (alone,) = learner().on(data).cross_validate(groups[:1], folds, keep, "", keep=True)
    np.testing.assert_allclose(alone.log_prob, theirs[0].log_prob, atol=1e-6)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fitted_probabilities_equal_those_of_an_estimator(rng, store, weighted):
    """Each with the C that was chosen for it."""
    data = make_data(rng, weighted=weighted, missing=0.1)
    data = TrainingData(store(data.X), data.codes, data.cardinalities, data.weight)
    groups, grid = make_groups(data), (0.01, 1.0, 10.0)
    choices = [rng.integers(0, 3, len(group.targets)) for group in groups]
    X = store(rng.normal(size=(30, 4)))
    models = learner(grid).on(data).fit(groups, choices)
    ours = models.log_prob(X)
    targets = np.concatenate([group.targets for group in groups])
    assert [table.shape for table in ours] == [(30, SIZES[target]) for target in targets]
    shapes = [(1 if SIZES[target] == 2 else SIZES[target], 5) for target in targets]
    assert [coef.shape for coef in models.coef] == shapes
    assert models.n_iter > 1
    zeros = [np.zeros_like(choice) for choice in choices]
    theirs = [reference(C).on(data).fit(groups, zeros).log_prob(X) for C in grid]
    for at, choice in enumerate(np.concatenate(choices)):
        np.testing.assert_allclose(ours[at], theirs[choice][at], atol=1e-6)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("some", [False, True], ids=["all extra", "some extra"])
def test_extra_features_equal_those_of_an_estimator(rng, store, some):
    plain = make_data(rng)
    extra = (plain.codes[:, [0, 2, 4]] == 1).astype(float)
    data = TrainingData(store(plain.X), plain.codes, SIZES, None, extra)
    targets = np.array([1, 3, 2])
    allowed = np.array([[1, 1, 1], [0, 1, 0], [1, 0, 1]], dtype=bool) if some else None
    rows = np.arange(0, 120, 2)
    if allowed is None:
        targets = targets[:2]  # the third would be its own feature
    groups = [RowGroup(None, targets, allowed), RowGroup(rows, targets, allowed)]
    choices = [np.zeros(len(targets), dtype=np.intp)] * 2
    folds = random_folds(data, 3, seed=0)
    ours, theirs = learner().on(data), reference().on(data)
    for found, expected in zip(
        ours.cross_validate(groups, folds, keep, ""),
        theirs.cross_validate(groups, folds, keep, ""),
        strict=True,
    ):
        np.testing.assert_allclose(found.total, expected.total, atol=1e-5)
    models = ours.fit(groups, choices), theirs.fit(groups, choices)
    assert_each_close(*(m.log_prob(data.X, extra) for m in models), atol=1e-6)


def test_a_learner_may_see_other_data_and_folds(rng):
    first, second = make_data(rng), make_data(rng, n_rows=90)
    group = RowGroup(None, np.arange(5))
    used = learner((0.1, 1.0))
    used.on(first).cross_validate([group], random_folds(first, 3, 0), keep, "")
    for data, cv in ((first, 4), (second, 4), (second, 0.3)):
        folds = random_folds(data, cv, seed=1)
        again = used.on(data).cross_validate([group], folds, keep, "")[0]
        fresh = learner((0.1, 1.0)).on(data).cross_validate([group], folds, keep, "")[0]
        np.testing.assert_allclose(again.total, fresh.total, atol=1e-6)
        np.testing.assert_array_equal(again.choice, fresh.choice)


def test_values_absent_from_a_group_equal_the_estimators(rng):
    data = make_data(rng, sizes=(2, 3, 4))
    codes = data.codes.copy()
    rows = np.flatnonzero(codes[:, 0] == 1)
    codes[rows, 1] = np.minimum(codes[rows, 1], 1)  # value 2 does not occur there
    codes[rows, 2] = 3  # and this one is constant
    data = TrainingData(data.X, codes, data.cardinalities)
    groups = [RowGroup(rows, np.array([1, 2]))]
    choices = [np.zeros(2, dtype=np.intp)]
    ours = learner().on(data).fit(groups, choices).log_prob(data.X)
    # two values are left: the symmetric softmax has half the penalty of the logistic regression
    theirs = reference(C=2.0).on(data).fit(groups, choices).log_prob(data.X)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-6)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-9)


@pytest.mark.parametrize("narrowest", [1, 4])
def test_batches_of_any_size_give_the_same_answers(rng, narrowest):
    data = make_data(rng, sizes=(2,) * 7 + (3,) * 3, missing=0.1)
    folds = random_folds(data, 3, seed=0)
    groups = [RowGroup(None, np.arange(10)), RowGroup(np.arange(50), np.arange(1, 9))]
    choices = [np.zeros(len(group.targets), dtype=np.intp) for group in groups]
    wide = learner((1.0, 0.1)).on(data)
    narrow = learner((1.0, 0.1), batch=(1, narrowest, 1 << 21)).on(data)
    n_batches = [len(own.batches(Asked(groups, folds), 3)[0]) for own in (wide, narrow)]
    assert n_batches[0] < n_batches[1]
    scores, others = (own.cross_validate(groups, folds, keep, "") for own in (wide, narrow))
    for one, two in zip(scores, others, strict=True):
        np.testing.assert_allclose(one.total, two.total, atol=1e-6)
        np.testing.assert_array_equal(one.choice, two.choice)
    tables = (own.fit(groups, choices).log_prob(data.X) for own in (wide, narrow))
    assert_each_close(*tables, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits(rng):
    data = make_data(rng, sizes=(2,) * 8 + (3,) * 2)
    folds = random_folds(data, 3, seed=0)
    groups = [RowGroup(np.flatnonzero(data.codes[:, j] == 1), np.arange(5)) for j in range(5, 10)]
    everything = [RowGroup(None, np.arange(10))]
    choices = [np.zeros(5, dtype=np.intp)] * 5
    found = []
    for n_jobs in (1, 2):
        model = learner((0.1, 1.0), tol=1e-2, n_jobs=n_jobs, batch=(1, 2, 1 << 21)).on(data)
        alone = model.cross_validate(everything, folds, keep, "")
        pairs = model.cross_validate(groups, folds, keep, "")
        tables = model.fit(groups, choices).log_prob(data.X)
        found.append([*(s.total for s in alone + pairs), *tables])
    assert_each_equal(*found)


def test_groups_come_back_in_their_order_whatever_their_sizes(rng):
    data = make_data(rng, sizes=(2, 2, 2))
    learning, folds = learner().on(data), random_folds(data, 2, seed=0)

    def sizes(group, scores):
        return len(group.rows), scores.total.shape[0]

    groups = [RowGroup(np.arange(n), np.array([0])) for n in (20, 100, 50)]
    assert learning.cross_validate(groups, folds, sizes, "") == [(20, 1), (100, 1), (50, 1)]
    assert learning.cross_validate([], folds, sizes, "") == []


def test_unfinished_regressions_are_reported_once_and_finished_ones_never(rng):
    data = make_data(rng, sizes=(2, 2))
    folds = random_folds(data, 2, seed=0)
    group = RowGroup(None, np.arange(2))
    hasty = learner(tol=1e-12, max_iter=1).on(data)
    with pytest.warns(ConvergenceWarning, match="4 regressions did not reach the tolerance") as w:
        hasty.cross_validate([group], folds, keep, "")
    assert len(w) == 1
    with pytest.warns(ConvergenceWarning, match="2 regressions .* raise max_iter"):
        hasty.fit([group], [np.zeros(2, dtype=np.intp)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(tol=1e-4).on(data).cross_validate([group], folds, keep, "")


def test_a_choice_is_needed_where_there_is_more_than_one_c():
    assert not learner((1.0,)).needs_choice
    assert learner((1.0, 2.0)).needs_choice
    np.testing.assert_array_equal(learner((0.1, 1.0)).deviations, [0.0, 0.1, 1.0])
