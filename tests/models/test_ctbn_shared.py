"""CTBN(pairs="shared") against a slow version of it."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CTBN
from colabel.learn.conditional import TrainingData, random_folds
from tests.models.ctbn_oracle import SharedCTBN
from tests.models.oracle import TIGHT
from tests.models.test_ctbn import draw

GRID = (0.05, 2.0)


def assert_equals(model, oracle, X):
    np.testing.assert_allclose(model.edge_scores_, oracle.scores, atol=2e-4)
    assert model.tree_.tolist() == oracle.tree
    joint = model.joint(X)
    for y, expected in oracle.log_joint(X).items():
        np.testing.assert_allclose(joint.log_prob(list(y)), expected, atol=1e-4)


def kinds(oracle):
    return {kind for key, (kind, _) in oracle.choice.items() if len(key) == 3}


CASES = {
    "two values": ((2, 2, 2), {0: None, 1: 0, 2: 1}),
    "more values": ((3, 2, 3), {0: None, 1: 0, 2: 0}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("weighted", "missing"), [(False, 0.0), (True, 0.05)], ids=["whole", "weights and gaps"]
)
def test_folds(rng, case, weighted, missing):
    sizes, parents = CASES[case]
    X, codes = draw(rng, 360, sizes, parents, strength=2.0)
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.integers(1, 4, size=360).astype(float) if weighted else None
    folds = np.arange(360) % 3
    oracle = SharedCTBN(GRID, folds, folds, sizes).fit(X, codes, weight)
    splits = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
    Y = np.where(codes < 0, np.nan, codes)
    model = CTBN(GRID, cv=splits, **TIGHT).fit(X, Y, sample_weight=weight)
    assert max(oracle.tree) >= 0
    assert_equals(model, oracle, rng.normal(size=(20, 3)))


@pytest.mark.parametrize("case", CASES)
def test_a_single_hold_out_set(rng, case):
    sizes, parents = CASES[case]
    X, codes = draw(rng, 300, sizes, parents, strength=2.0)
    model = CTBN(GRID, cv=0.33, random_state=0, **TIGHT)
    data = TrainingData(X, codes.astype(np.int16), sizes)
    folds = random_folds(data, 0.33, model._seed()).of_row
    oracle = SharedCTBN(GRID, folds, random_folds(data, 5, 0).of_row, sizes).fit(X, codes)
    assert_equals(model.fit(X, codes), oracle, rng.normal(size=(20, 3)))


def test_each_kind_of_classifier_is_chosen_where_it_is_right(rng):
    """Parent 0 turns a label's dependence on x round: what is known without it is of no use."""
    n_rows = 400
    X = rng.normal(size=(n_rows, 3))
    parents = rng.integers(0, 2, size=(n_rows, 2))
    sign = 2 * parents - 1
    turned = 3 * sign[:, 0] * X[:, 0] + rng.logistic(size=n_rows) > 0
    raised = X[:, 1] + 2 * sign[:, 1] + rng.logistic(size=n_rows) > 0
    codes = np.column_stack([parents, turned, raised]).astype(int)
    folds = np.arange(n_rows) % 3
    oracle = SharedCTBN(GRID, folds, folds, (2,) * 4).fit(X, codes)
    splits = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
    model = CTBN(GRID, cv=splits, **TIGHT).fit(X, codes)
    assert_equals(model, oracle, rng.normal(size=(20, 3)))
    assert "line" not in {oracle.choice[2, 0, value][0] for value in (0, 1)}
    assert len(kinds(oracle)) > 1


def test_screened_parents_are_the_full_search_where_they_suffice(rng):
    sizes = (2, 3, 2, 2, 2, 2)
    X, codes = draw(rng, 400, sizes, {0: None, 1: 0, 2: 1, 3: 2, 4: None, 5: 4}, strength=3.0)
    codes[rng.random(codes.shape) < 0.05] = -1
    Y = np.where(codes < 0, np.nan, codes)
    full = CTBN(1.0, cv=3, random_state=0, max_parents=None).fit(X, Y)
    assert not np.isnan(full.edge_scores_).any()
    for most in (1, 2):
        model = CTBN(1.0, cv=3, random_state=0, max_parents=most).fit(X, Y)
        tried = ~np.isnan(model.edge_scores_)
        assert (tried.sum(axis=0) == most + 1).all()  # and the label without parent
        assert (tried == ~np.isnan(model.edge_gains_)).all()
        arcs = [(parent, i) for i, parent in enumerate(model.tree_) if parent >= 0]
        assert all(tried[arc] for arc in arcs)
    skeleton = {frozenset(arc) for arc in arcs}
    expected = {frozenset((p, i)) for i, p in enumerate(full.tree_) if p >= 0}
    assert len(skeleton & expected) >= len(expected) - 1
    everything = CTBN(1.0, cv=3, random_state=0, max_parents=5).fit(X, Y)
    np.testing.assert_array_equal(everything.edge_scores_, full.edge_scores_)
