"""PairwiseCRF: what it learns, what it reports, what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression

from colabel import BinaryRelevance, PairwiseCRF
from studies.datasets import SYNTHETIC_GRAPHS, make_synthetic
from tests.asserts import assert_each_close
from tests.learn.crf.oracle import PaperField

FIXED = {"C": 1.0, "ridge": 1.0, "group": 0.0}
TIGHT = {"tol": 1e-8, "max_iter": 5000}


@pytest.fixture
def problem(rng):
    """Variables of two, three and two values; the first two depend on each other."""
    X = rng.normal(size=(200, 3))
    first = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    second = (2 * (rng.random(200) < 0.3 + 0.5 * first) + (rng.random(200) < 0.2)) % 3
    third = (X[:, 1] + rng.logistic(size=200) > 0).astype(int)
    return X, np.stack([first, second, third], axis=1)


def edge_names(model):
    return {(f"y{i + 1}", f"y{j + 1}") for i, j in model.graph_}


# -------------------------------------------------------------------------- structure


@pytest.mark.parametrize("kind", SYNTHETIC_GRAPHS)
def test_the_true_graph_is_found(kind):
    data = make_synthetic(kind, n_rows=500, random_state=3)
    model = PairwiseCRF(C=1.0, cv=3, random_state=0).fit(data.X, data.Y)
    truth, allowed = set(SYNTHETIC_GRAPHS[kind]), {("y1", "y2")} if kind == "SD3" else set()
    assert truth <= edge_names(model) <= truth | allowed
    if kind in ("SD2", "SD4"):
        assert (model.edge_signs_ == -1).all()


def test_both_forms_find_the_same_field():
    data = make_synthetic("SD2", n_rows=300, random_state=0)
    params = {"C": 1.0, "ridge": 1.0, "group": 30.0} | TIGHT
    one, two = (
        PairwiseCRF(form=form, **params).fit(data.X, data.Y) for form in ("proximal", "constrained")
    )
    np.testing.assert_array_equal(one.graph_, two.graph_)
    np.testing.assert_allclose(one.field_.edge, two.field_.edge, atol=1e-4)
    np.testing.assert_allclose(one.alpha_profile_[-1], two.alpha_profile_[-1], atol=1e-2)
    np.testing.assert_allclose(two.alpha_profile_[0], [0.25, 0.5, 0.75])


def test_the_profile_ends_with_the_graph():
    data = make_synthetic("SD2", n_rows=300, random_state=0)
    model = PairwiseCRF(C=1.0, ridge=1.0, group=30.0).fit(data.X, data.Y)
    assert model.candidates_.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert model.alpha_profile_.shape[1] == 3
    np.testing.assert_array_equal(model.candidates_[model.alpha_profile_[-1] > 0], model.graph_)
    assert model.lambda_w_ == 31.0
    assert model.eta_ == pytest.approx(30 / 31)


def test_penalties_are_chosen_along_paths():
    data = make_synthetic("SD4", n_rows=200, random_state=0)
    model = PairwiseCRF(C=1.0, cv=3, ridge=[100.0, 1.0], group=[0.0, 20.0], random_state=0)
    model.fit(data.X, data.Y)
    assert set(model.ridge_scores_) == {100.0, 1.0}
    assert set(model.group_scores_) == {np.inf, 20.0, 0.0}
    assert model.ridge_ == 1.0
    assert model.group_scores_[np.inf] < model.group_scores_[model.group_]
    # more allowed errors, a sparser graph
    wide = PairwiseCRF(C=1.0, cv=3, standard_errors=1e6, random_state=0).fit(data.X, data.Y)
    assert len(wide.graph_) == 0
    assert np.isinf(wide.group_)


def test_candidates_are_screened():
    data = make_synthetic("SD2", n_rows=300, random_state=0)
    model = PairwiseCRF(C=1.0, max_candidates=1, ridge=1.0, group=0.0)
    assert model.fit(data.X, data.Y).candidates_.tolist() == [[0, 1]]
    none = PairwiseCRF(C=1.0, max_candidates=0).fit(data.X, data.Y)
    assert none.graph_.shape == (0, 2)


# ----------------------------------------------------------------------- distributions


@pytest.mark.parametrize("edge_features", ["all", "none", [0, 2]])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_the_joint_is_equation_2_1(problem, edge_features, storage):
    X, Y = problem
    rows = sp.csr_array(X) if storage == "sparse" else X
    model = PairwiseCRF(edge_features=edge_features, **FIXED).fit(rows, Y)
    field, columns = model.field_, model.field_.edge_columns
    oracle = PaperField.from_matrices(field.layout, field.node, field.edge)
    joint = model.joint(rows[:3])
    for y in itertools.product(range(2), range(3), range(2)):
        found = joint.log_prob(list(y))
        for n in range(3):
            node, edge = np.append(X[n], 1.0), np.append(X[n, columns], 1.0)
            np.testing.assert_allclose(found[n], oracle.log_prob(node, edge, y), atol=1e-9)


@pytest.mark.parametrize("constant", ["none", "penalised"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_to_the_letter_features_alone_are_penalised_and_not_centred(problem, constant, storage):
    """The gradient of nlpl + R (2.7, without the group term), written with loops, is zero."""
    X, Y = problem[0][:60] + 5.0, problem[1][:60]
    rows = sp.csr_array(X) if storage == "sparse" else X
    letter = {"edge_features": "all", "constant": constant, "centre": False}
    model = PairwiseCRF(C=0.5, ridge=2.0, group=0.0, **letter, **TIGHT).fit(rows, Y)
    field = model.field_
    f = X
    if constant == "penalised":
        f = np.column_stack([X, np.ones(60)])
    else:
        assert not field.node[-1].any()
        assert not field.edge[-1].any()
    node, edge = field.node[: f.shape[1]], field.edge[: f.shape[1]]

    def objective(flat):
        v = flat[: node.size].reshape(node.shape)
        w = flat[node.size :].reshape(edge.shape)
        oracle = PaperField.from_matrices(field.layout, v, w)
        # lambda_v is 1 / (2 C), one for all nodes here; lambda_w (1 - eta) is the ridge
        return oracle.nlpl(f, f, Y, np.ones(60)) + (v**2).sum() + 2.0 * (w**2).sum()

    at = np.concatenate([node.ravel(), edge.ravel()])
    slope = approx_fprime(at, objective, 1e-6)
    np.testing.assert_allclose(slope, 0.0, atol=5e-3)
    assert np.abs(approx_fprime(0.5 * at, objective, 1e-6)).max() > 1.0
    for y in itertools.product(range(2), range(3), range(2)):
        oracle = PaperField.from_matrices(field.layout, node, edge)
        expected = [oracle.log_prob(f[n], f[n], y) for n in range(3)]
        np.testing.assert_allclose(model.joint(rows[:3]).log_prob(list(y)), expected, atol=1e-9)


def test_structure_learning_alone_stops_after_so_many_iterations():
    data = make_synthetic("SD4", n_rows=200, random_state=0)
    fixed = {"C": 1.0, "ridge": 1.0, "group": 5.0, "form": "constrained"} | TIGHT
    few = PairwiseCRF(max_structure_iter=7, **fixed).fit(data.X, data.Y)
    assert few.alpha_profile_.shape == (8, 3)
    assert few.n_iter_ > 7
    assert len(PairwiseCRF(**fixed).fit(data.X, data.Y).alpha_profile_) > 8


def assert_minimal(model, X, Y, node, edge, eta):
    """No small change of the coefficients lowers nlpl + R, written with loops; return it."""
    field = model.field_
    nodes, edges = np.column_stack([X, np.ones(200)]), np.ones((200, 1))

    def objective(node_coef, edge_coef):
        oracle = PaperField.from_matrices(field.layout, node_coef, edge_coef)
        return oracle.nlpl(nodes, edges, Y, np.ones(200)) + oracle.penalty(node, edge, eta)

    best = objective(field.node, field.edge)
    rng = np.random.default_rng(0)
    for _ in range(8):
        step = 1e-2 * rng.normal(size=field.node.shape), 1e-2 * rng.normal(size=field.edge.shape)
        assert objective(field.node + step[0], field.edge + step[1]) > best
    return objective


def test_tuned_parameters_minimise_the_penalised_objective(problem):
    model = PairwiseCRF(edge_features="none", C=0.5, ridge=2.0, group=0.0, **TIGHT).fit(*problem)
    assert_minimal(model, *problem, np.ones(3), 2.0, 0.0)


def test_parameters_that_are_not_tuned_minimise_the_objective_with_the_group_term(problem):
    params = {"edge_features": "none", "C": 0.5, "ridge": 1.0, "group": 9.0} | TIGHT
    model, tuned = (PairwiseCRF(tune=tune, **params).fit(*problem) for tune in (False, True))
    np.testing.assert_array_equal(model.graph_, tuned.graph_)
    assert 0 < len(model.graph_) < 3
    assert (model.edge_strengths_ < tuned.edge_strengths_).all()
    objective = assert_minimal(model, *problem, np.ones(3), 10.0, 0.9)
    field, other = model.field_, tuned.field_
    assert objective(field.node, field.edge) < objective(other.node, other.edge)


def test_without_edges_it_is_binary_relevance(problem):
    X, Y = problem
    model = PairwiseCRF(C=0.7, max_candidates=0, **TIGHT).fit(X, Y)
    other = BinaryRelevance(C=0.7, **TIGHT).fit(X, Y)
    assert_each_close(model.predict_proba(X), other.predict_proba(X), atol=1e-6)
    one = PairwiseCRF(C=0.7, **TIGHT).fit(X, Y[:, 0])  # of one label
    other = LogisticRegression(C=0.7, tol=1e-10, max_iter=1000).fit(X, Y[:, 0])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_edges_are_blind_to_where_dense_features_are_centred(problem):
    X, Y = problem
    one, two = (PairwiseCRF(**FIXED, **TIGHT).fit(X + c, Y).joint(X + c) for c in (0.0, 5.0))
    np.testing.assert_allclose(one.log_prob(Y), two.log_prob(Y), atol=1e-4)


# ------------------------------------------------------------------------ summaries


def test_strength_is_the_log_odds_ratio(problem):
    data = make_synthetic("SD4", n_rows=300, random_state=0)
    model = PairwiseCRF(edge_features="none", **FIXED).fit(data.X, data.Y)
    for table, strength, sign in zip(
        model.field_.edge_tables(data.X), model.edge_strengths_, model.edge_signs_, strict=True
    ):
        ratio = table[0, 0, 0] + table[0, 1, 1] - table[0, 0, 1] - table[0, 1, 0]
        assert strength == pytest.approx(abs(ratio))
        assert sign == np.sign(ratio) == -1
    model = PairwiseCRF(**FIXED).fit(*problem)  # variables of more values have no sign
    signs = dict(zip(map(tuple, model.graph_.tolist()), model.edge_signs_, strict=True))
    assert signs[0, 1] == signs[1, 2] == 0
    assert model.edge_strengths_.min() > 1e-3


def test_edge_features_follow_the_width_of_the_data(rng):
    Y = rng.integers(0, 2, size=(30, 3))
    narrow = PairwiseCRF(**FIXED).fit(rng.normal(size=(30, 4)), Y)
    assert narrow.field_.edge_columns.tolist() == [0, 1, 2, 3]
    wide = sp.random_array((30, 250_000), density=1e-4, random_state=rng, format="csr")
    assert not len(PairwiseCRF(**FIXED).fit(wide, Y).field_.edge_columns)
