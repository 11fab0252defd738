"""Rows on a device against those in memory, on torch's CPU device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel import CDN, CTBN, BinaryRelevance, ClassifierChain, StackedBinaryRelevance
from colabel.learn import device_rows
from colabel.learn.conditional import GainOver, RowGroup, TrainingData, random_folds
from colabel.learn.glm.losses import loss_for
from colabel.learn.linear import Asked, LinearLearner, batches_in_memory
from tests.asserts import assert_each_close

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

N_ROWS, SIZES = 150, (2, 2, 3, 2, 2)
MASKED, BOTH, GATHERED = 0.0, 0.3, 1.0


@pytest.fixture(autouse=True)
def everything_on_the_device(monkeypatch):
    monkeypatch.setattr(device_rows, "LEAST_WORK", 0)


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


@pytest.mark.parametrize("n_classes", [2, 3], ids=["logistic", "softmax"])
@pytest.mark.parametrize("wide", [MASKED, GATHERED], ids=["masked", "gathered"])
def test_all_that_an_objective_says_is_that_of_rows_in_memory(
    rng, device_store, weighted, n_classes, wide, monkeypatch
):
    monkeypatch.setattr(device_rows, "WIDE", wide)
    data = make_data(rng, device_store, weighted, missing=0.15)
    folds = random_folds(data, 3, seed=0)
    groups = values_of_parents(data)[:3]
    ours, theirs = learnings(data, [1.0], 1e-7)
    asked = Asked(groups, folds)
    batches, _ = theirs.batches(asked, 3)
    n_scores = loss_for(n_classes).n_scores

    def close(one, two):
        np.testing.assert_allclose(one, np.asarray(two), rtol=1e-9, atol=1e-9)

    for batch in [own for own in batches if own.n_classes == n_classes]:
        block, counts = theirs.block(groups, batch, 3)
        assert isinstance(block.rows.codes, torch.Tensor)
        coef = rng.normal(size=(3, len(batch.label), n_scores, ours.design.n_coordinates))
        flat, ahead = coef.reshape(-1, *coef.shape[2:]), rng.normal(size=coef.shape)
        solver = theirs._solver()
        found = block.rows.objective(block, solver, flat)
        line = found.along(torch.tensor(ahead.reshape(flat.shape)))
        length = rng.random(len(flat))
        moved = found.move(torch.tensor(length)).clone()
        gradient, diagonal = found.gradient(), found.diagonal()
        sums = block.rows.held_out(block, flat).reshape(3, 3, -1)
        left = np.arange(len(flat)) % 2 == 0
        found.keep(torch.tensor(left))
        for at, group in enumerate(batch.group):  # one target at a time, in memory
            target = [groups[group].take(batch.position[[at]])]
            (one,) = batches_in_memory(ours, Asked(target, folds), 3)
            own, own_counts = ours.block(target, one, 3)
            place_of = at + len(batch.group) * np.arange(3)
            whole = ours.design.block(groups[group].rows)
            start = whole.to_basis(ours.design.from_basis(flat[place_of]))
            expected = own.rows.objective(own, solver, start)
            close(own_counts[0], counts[at])
            close(own.rows.held_out(own, start).reshape(3, 3), sums[:, :, at])
            there = expected.along(whole.to_basis(ours.design.from_basis(ahead[:, at])))
            close(there[0], line[0][place_of])
            close(expected.move(length[place_of]), moved[place_of])
            if whole.n_coordinates == ours.design.n_coordinates:
                close(expected.gradient(), gradient[place_of])
                same = wide == GATHERED and len(set(batch.group)) == 1
                if same and not sp.issparse(whole.rows):
                    close(expected.diagonal(), diagonal[place_of])
        np.testing.assert_allclose(found.gradient(), gradient[left])
        np.testing.assert_allclose(found.diagonal(), diagonal[left])


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
@pytest.mark.parametrize("deviating", [False, True])
def test_gains_are_those_in_memory(rng, wide, store, weighted, cv, deviating, monkeypatch):
    monkeypatch.setattr(device_rows, "WIDE", wide)
    data = make_data(rng, store, weighted, missing=0.15)
    folds, groups = random_folds(data, cv, seed=0), values_of_parents(data)
    ours, theirs = learnings(data, [0.01, 1.0, 0.1], 1e-7)
    (alone,) = ours.cross_validate(
        [RowGroup(None, np.arange(len(SIZES)))], folds, keep, "", keep=True
    )
    options = {"start": alone.path}
    if deviating:
        every = random_folds(data, 2, seed=0)
        options = {"offsets": ours.cross_fitted_scores(every, alone.choice)}
    tables = alone.models.tables(data, folds.of_row) if weighted else None
    over = GainOver(alone.log_prob, data.row_weights, tables)
    for constant in (False, True)[: 1 + deviating]:
        expected, found = (
            own.cross_validate(groups, folds, over, "", **options, constant=constant)
            for own in (ours, theirs)
        )
        for one, two in zip(expected, found, strict=True):
            np.testing.assert_allclose(one.gains, two.gains, atol=2e-3)
            np.testing.assert_allclose(one.noise, two.noise, rtol=1e-3, atol=2e-3)
            np.testing.assert_array_equal(one.choice, two.choice)


def test_batches_of_any_size_give_the_same_gains(rng, monkeypatch):
    data = make_data(rng, sp.csr_array)
    folds, groups = random_folds(data, 1 / 3, seed=0), values_of_parents(data)
    _, learning = learnings(data, [0.1], 1e-2)
    (alone,) = learning.cross_validate(
        [RowGroup(None, np.arange(len(SIZES)))], folds, keep, "", keep=True
    )
    over = GainOver(alone.log_prob, data.row_weights)
    asked = Asked(groups, folds, None, over.log_prob)
    together, _ = learning.batches(asked, 1)
    found = [learning.cross_validate(groups, folds, over, "", start=alone.path)]
    monkeypatch.setattr(device_rows, "free_memory", lambda _: 0)
    assert len(learning.batches(asked, 1)[0]) > len(together)
    found.append(learning.cross_validate(groups, folds, over, "", start=alone.path))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one.gains, two.gains, atol=1e-2)


def test_little_work_stays_on_the_processor(rng, monkeypatch):
    monkeypatch.setattr(device_rows, "LEAST_WORK", 1 << 28)
    data = make_data(rng, np.asarray)
    _, learning = learnings(data, [0.1], 1e-2)
    groups = [RowGroup(None, np.arange(len(SIZES)))]
    batch = learning.batches(Asked(groups, None), 1)[0][0]
    assert isinstance(learning.block(groups, batch, 0)[0].rows.codes, np.ndarray)


@pytest.mark.parametrize(("store", "pairs"), [(np.asarray, "separate"), (sp.csr_array, "shared")])
def test_a_tree_is_that_in_memory(rng, store, pairs):
    data = make_data(rng, store)
    settings = {"C": [0.1, 1.0], "tol": 1e-6, "random_state": 0, "max_parents": None}
    settings["pairs"] = pairs
    ours = CTBN(**settings).fit(data.X, data.codes)
    theirs = CTBN(device="cpu", **settings).fit(data.X, data.codes)
    np.testing.assert_array_equal(ours.tree_, theirs.tree_)
    np.testing.assert_allclose(ours.edge_scores_, theirs.edge_scores_, rtol=1e-4)
    assert_each_close(ours.models_.coef, theirs.models_.coef, atol=0.001)


@pytest.mark.parametrize("model", [BinaryRelevance, ClassifierChain, CDN, StackedBinaryRelevance])
def test_models_are_those_in_memory(rng, device_store, weighted, model):
    tol = 1e-2 if weighted else 1e-7  # in single or in double precision
    data = make_data(rng, device_store, weighted)
    settings = {"C": (0.01, 0.1, 1.0), "cv": 3, "random_state": 0}
    if model is CDN:
        settings |= {"n_sweeps": 2, "burn_in": 1}
    ours, theirs = (
        model(tol=1e-7 if device is None else tol, device=device, **settings).fit(
            data.X, data.codes, sample_weight=data.weight
        )
        for device in (None, "cpu")
    )
    np.testing.assert_array_equal(ours.C_, theirs.C_)
    tables = (np.hstack(own.predict_proba(data.X)) for own in (ours, theirs))
    np.testing.assert_allclose(*tables, atol=1e-5 if tol < 1e-3 else 5e-3)
