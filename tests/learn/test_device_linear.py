"""The learner on a device against the one in memory, on torch's CPU device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel import CTBN, BinaryRelevance
from colabel.learn.conditional import GainOver, RowGroup, TrainingData, random_folds
from colabel.learn.device_linear import DeviceLearning
from colabel.learn.glm.device import gains, solver
from colabel.learn.glm.device.objective import SparseMatrix
from colabel.learn.linear import LinearLearner

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

N_ROWS, SIZES = 150, (2, 2, 3, 2, 2)


@pytest.fixture(autouse=True)
def everything_on_the_device(monkeypatch):
    monkeypatch.setattr(solver, "LEAST_WORK", 0)


def make_data(rng, store, weighted=False, missing=0.0):
    X = np.where(rng.random((N_ROWS, 6)) < 0.4, rng.normal(size=(N_ROWS, 6)), 0.0)
    codes = np.empty((N_ROWS, len(SIZES)), dtype=np.int32)
    for label, size in enumerate(SIZES):
        scores = X @ rng.normal(size=(6, size)) + rng.gumbel(size=(N_ROWS, size))
        codes[:, label] = scores.argmax(axis=1)
    codes[:, 4] = (rng.random(N_ROWS) < 0.1) * (1 - codes[:, 0])  # never varies where 0 is on
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.integers(0, 3, size=N_ROWS) * 0.7 if weighted else None
    return TrainingData(store(X), codes, SIZES, weight)


def values_of_parents(data):
    groups = []
    for parent, size in enumerate(SIZES):
        children = np.flatnonzero(np.arange(len(SIZES)) != parent)
        rows = [np.flatnonzero(data.codes[:, parent] == value) for value in range(size)]
        groups += [RowGroup(own, children) for own in rows if len(own) > 5]
    return groups


def learnings(data, grid, tol):
    return [
        LinearLearner(np.array(grid), tol, 3000, 1, False, device).on(data)
        for device in (None, "cpu")
    ]


def keep(_, scores):
    return scores


def test_sparse_rows_that_would_not_fit_stay_sparse(rng, monkeypatch):
    monkeypatch.setattr(solver, "dense_fits", lambda *_: False)
    for store, kind in ((sp.csr_array, SparseMatrix), (np.asarray, solver.Matrix)):
        _, learning = learnings(make_data(rng, store), [1.0], 1e-2)
        assert type(learning.matrix) is kind


def assert_gains_are_those_in_memory(data, cv):
    folds, groups = random_folds(data, cv, seed=0), values_of_parents(data)
    ours, theirs = learnings(data, [0.01, 1.0, 0.1], 1e-7)
    assert isinstance(theirs, DeviceLearning)
    (alone,) = ours.cross_validate(
        [RowGroup(None, np.arange(len(SIZES)))], folds, keep, "", keep=True
    )
    over = GainOver(alone.log_prob, data.row_weights)
    expected = ours.cross_validate(groups, folds, over, "", start=alone.path)
    found = theirs.cross_validate(groups, folds, over, "", start=alone.path)
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_allclose(one.gains, two.gains, atol=2e-3)
        np.testing.assert_allclose(one.noise, two.noise, rtol=1e-3, atol=2e-3)
        np.testing.assert_array_equal(one.choice, two.choice)


MASKED, BOTH, GATHERED = 0.0, 0.3, 1.0


@pytest.mark.parametrize(
    ("wide", "store", "weighted", "cv"),
    # every two of these choices meet
    [
        (MASKED, np.asarray, False, 3),
        (MASKED, sp.csr_array, True, 1 / 3),
        (BOTH, np.asarray, True, 3),
        (BOTH, sp.csr_array, False, 1 / 3),
        (GATHERED, np.asarray, False, 1 / 3),
        (GATHERED, sp.csr_array, True, 3),
    ],
)
def test_gains_are_those_in_memory(rng, wide, store, weighted, cv, monkeypatch):
    monkeypatch.setattr(gains, "_WIDE", wide)
    assert_gains_are_those_in_memory(make_data(rng, store, weighted, missing=0.15), cv)


def test_gains_of_rows_that_stay_sparse_are_those_in_memory(rng, weighted, monkeypatch):
    monkeypatch.setattr(solver, "dense_fits", lambda *_: False)
    assert_gains_are_those_in_memory(make_data(rng, sp.csr_array, weighted, missing=0.15), 3)


def test_batches_of_any_size_give_the_same_gains(rng, monkeypatch):
    data = make_data(rng, sp.csr_array)
    folds, groups = random_folds(data, 1 / 3, seed=0), values_of_parents(data)
    _, learning = learnings(data, [0.1], 1e-2)
    (alone,) = learning.cross_validate(
        [RowGroup(None, np.arange(len(SIZES)))], folds, keep, "", keep=True
    )
    over = GainOver(alone.log_prob, data.row_weights)
    found = [learning.cross_validate(groups, folds, over, "", start=alone.path)]
    monkeypatch.setattr(gains, "_MOST_SCORES", 1)
    monkeypatch.setattr(gains, "_PADDING", 0.0)
    monkeypatch.setattr(gains._Fold, "_room", lambda self: 1)
    found.append(learning.cross_validate(groups, folds, over, "", start=alone.path))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one.gains, two.gains, atol=1e-2)


@pytest.mark.parametrize(("store", "pairs"), [(np.asarray, "separate"), (sp.csr_array, "shared")])
def test_a_tree_is_that_in_memory(rng, store, pairs):
    data = make_data(rng, store)
    settings = {"C": [0.1, 1.0], "tol": 1e-6, "random_state": 0, "max_parents": None}
    settings["pairs"] = pairs
    ours = CTBN(**settings).fit(data.X, data.codes)
    theirs = CTBN(device="cpu", **settings).fit(data.X, data.codes)
    np.testing.assert_array_equal(ours.tree_, theirs.tree_)
    np.testing.assert_allclose(ours.edge_scores_, theirs.edge_scores_, rtol=1e-4)
    for one, two in zip(ours.models_.coef, theirs.models_.coef, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-3)


def test_binary_relevance_is_that_in_memory(rng, device_store, weighted):
    data = make_data(rng, device_store, weighted)
    ours, theirs = (
        BinaryRelevance(C=(0.01, 0.1, 1.0), cv=3, tol=1e-7, random_state=0, device=device).fit(
            data.X, data.codes, sample_weight=data.weight
        )
        for device in (None, "cpu")
    )
    np.testing.assert_array_equal(ours.C_, theirs.C_)
    for one, two in zip(ours.models_.coef, theirs.models_.coef, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
