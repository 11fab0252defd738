"""CollectiveCRF: three ways of training one model."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from colabel import CollectiveCRF
from colabel.joint import PairwiseField
from colabel.models import field
from colabel.models.field import candidate_limit
from studies.datasets import make_synthetic
from tests.learn.crf.oracle import PaperField

FIXED = {"C": 1.0, "ridge": 0.5}
TIGHT = {"tol": 1e-8, "max_iter": 5000}


@pytest.fixture
def data():
    return make_synthetic("SD4", n_rows=120, random_state=0)


def oracle_of(model):
    field = model.field_
    return PaperField.from_matrices(field.layout, field.node, field.edge)


def nll(oracle, X, Y):
    one = np.ones(1)
    return -sum(
        oracle.log_prob(np.append(x, 1.0), one, list(y)) for x, y in zip(X, Y, strict=True)
    ) + oracle.penalty(np.full(3, 0.5), 0.5, 0.0)


def test_enumeration_maximises_the_exact_likelihood(data, rng):
    model = CollectiveCRF(**FIXED, **TIGHT).fit(data.X, data.Y)
    assert model.training_ == "enumeration"
    field = model.field_
    best = nll(oracle_of(model), data.X, data.Y)
    for _ in range(5):
        node = field.node + 0.03 * rng.normal(size=field.node.shape)
        edge = field.edge + 0.03 * rng.normal(size=field.edge.shape)
        assert nll(PaperField.from_matrices(field.layout, node, edge), data.X, data.Y) > best


def test_the_joint_is_the_field(data):
    model = CollectiveCRF(**FIXED).fit(data.X, data.Y)
    oracle, joint = oracle_of(model), model.joint(data.X[:4])
    for y in itertools.product(range(2), repeat=3):
        expected = [oracle.log_prob(np.append(x, 1.0), np.ones(1), y) for x in data.X[:4]]
        np.testing.assert_allclose(joint.log_prob(list(y)), expected, atol=1e-9)


def test_supported_training_knows_only_vectors_it_has_seen(data):
    model = CollectiveCRF(training="supported", **FIXED).fit(data.X, data.Y)
    assert model.vectors_.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    joint = model.joint(data.X[:5])
    assert np.isneginf(joint.log_prob([1, 1, 0])).all()
    total = sum(np.exp(joint.log_prob(vector)) for vector in model.vectors_)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)
    seen = {tuple(vector) for vector in model.vectors_.tolist()}
    assert {tuple(vector) for vector in model.predict(data.X).tolist()} <= seen


def test_supported_vectors_need_little_memory_at_prediction(rng):
    X, Y = rng.normal(size=(300, 3)), rng.integers(0, 2, size=(300, 12))
    model = CollectiveCRF(training="supported", **FIXED).fit(X, Y)
    n_vectors = len(model.vectors_)
    assert n_vectors > 250
    model.joint(X[:2]).marginals()  # what is made once
    tracemalloc.start()
    model.joint(X).marginals()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a few numbers per row and vector; a table of every vector in every label is 24 of them
    assert peak < 8 * 12 * 300 * n_vectors


def test_pseudo_likelihood_is_close_to_the_likelihood_with_many_rows():
    data = make_synthetic("SD4", n_rows=4000, random_state=0)
    one, two = (
        CollectiveCRF(training=training, **FIXED).fit(data.X, data.Y)
        for training in ("enumeration", "pseudo")
    )
    assert two.training_ == "pseudo"
    np.testing.assert_allclose(one.predict_proba(data.X), two.predict_proba(data.X), atol=0.03)


def test_many_labels_are_learned_by_pseudo_likelihood(rng):
    X, Y = rng.normal(size=(60, 2)), rng.integers(0, 2, size=(60, 17))
    model = CollectiveCRF(**FIXED).fit(X, Y[:, :14])
    assert model.training_ == "pseudo"
    assert model.graph_.shape == (91, 2)
    with pytest.raises(ValueError, match="at most 65536 are allowed"):
        CollectiveCRF(training="enumeration").fit(X, Y)


@pytest.mark.parametrize("training", ["enumeration", "supported", "pseudo"])
def test_the_ridge_is_chosen(data, training):
    model = CollectiveCRF(C=1.0, ridge=[100.0, 0.5], cv=3, training=training, random_state=0)
    model.fit(data.X, data.Y)
    assert set(model.ridge_scores_) == {100.0, 0.5}
    assert model.ridge_ == max(model.ridge_scores_, key=model.ridge_scores_.get)
    if training != "supported":  # where the list of vectors itself excludes pairs of labels
        assert model.ridge_ == 0.5
        assert (model.edge_signs_ == -1).all()


@pytest.mark.parametrize("training", ["enumeration", "supported", "pseudo"])
def test_sparse_rows_and_class_variables(rng, training):
    X = rng.normal(size=(100, 3))
    Y = np.stack([rng.integers(0, 3, 100), rng.integers(0, 2, 100)], axis=1)
    Y[:, 1] = np.where(rng.random(100) < 0.8, Y[:, 0] > 0, Y[:, 1])
    params = {"training": training} | FIXED | TIGHT
    one = CollectiveCRF(**params).fit(X, Y)
    two = CollectiveCRF(**params).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(one.joint(X).log_prob(Y), two.joint(X).log_prob(Y), atol=1e-4)
    assert one.edge_signs_.tolist() == [0]


def test_only_the_most_dependent_pairs_are_joined(rng):
    """Of 70 labels, the pairs (0, 1) and (2, 3) are copies but for some noise."""
    X = rng.normal(size=(150, 2))
    Y = (rng.random((150, 70)) < 0.5).astype(int)
    for a, b in ((0, 1), (2, 3)):
        Y[:, b] = Y[:, a] ^ (rng.random(150) < 0.05)
    options = {"C": 0.1, "ridge": 1.0, "max_iter": 20}
    model = CollectiveCRF(max_candidates=2, **options).fit(X, Y)
    assert model.graph_.tolist() == [[0, 1], [2, 3]]


def test_all_pairs_of_64_labels_are_joined_and_no_more():
    assert candidate_limit(None, 64, usual=field.MOST_PAIRS) == 64 * 63 // 2
    assert candidate_limit(None, 1000, usual=field.MOST_PAIRS) == 5000


def test_the_mode_never_scores_below_the_independent_vector():
    """Strong tables, on which belief propagation circles."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (rng.random((60, 40)) < 0.1).astype(int)
    model = CollectiveCRF(C=10.0, ridge=0.01, engine="belief_propagation").fit(X, Y)
    joint = model.joint(X)
    alone = np.stack([table.argmax(axis=1) for table in model.models_.log_prob(X)], axis=1)
    independent = joint.score_codes(alone)
    assert (joint.score_codes(joint.mode_codes()) >= independent - 1e-9).all()
    # without it the search ends below it in some rows
    untold = PairwiseField(
        joint.space, joint.unary, joint.edges, joint.tables, engine="belief_propagation"
    )
    assert (joint.score_codes(untold.mode_codes()) < independent - 1e-9).any()
