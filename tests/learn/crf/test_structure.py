"""Penalties, proximal maps, Algorithm 1 in both forms, and tuning."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from colabel.learn.crf import learner
from colabel.learn.crf.curvature import Penalty, learn_structure, project_cones, shrink_groups, tune
from colabel.learn.crf.pseudo_likelihood import (
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    RowScores,
    all_pairs,
)
from tests.learn.crf.conftest import make_data, make_parameters, whole_penalty, zeros
from tests.learn.crf.oracle import PaperField

SIZES = (2, 3, 2)
LAYOUT = FieldLayout(SIZES, all_pairs(3))


@pytest.fixture
def problem(rng):
    """Labels that follow each other along 0 - 1, with 2 apart."""
    data = make_data(rng, SIZES, n_rows=120)
    data.codes[:, 1] = np.where(rng.random(120) < 0.8, data.codes[:, 0], data.codes[:, 1])
    return PseudoLikelihood(data, LAYOUT)


def test_penalty_is_equation_2_6(rng, problem):
    theta = make_parameters(rng, problem.data, LAYOUT)
    field = PaperField.from_matrices(LAYOUT, theta.node, theta.edge)
    penalty = Penalty(np.array([0.5, 1.0, 2.0]), edge=3.0, eta=0.3)
    expected = field.penalty(penalty.node, 3.0, 0.3)
    np.testing.assert_allclose(whole_penalty(penalty, theta, LAYOUT), expected, rtol=1e-12)


@pytest.mark.parametrize("with_metric", [False, True])
def test_shrinking_is_the_proximal_map(rng, with_metric):
    """The minimum over w of sum_k D_k (w_k - z_k)^2 / 2 + amount |w|, found by a general solver."""
    layout = FieldLayout((2, 2), all_pairs(2))
    scale = metric = rng.uniform(0.2, 5.0, size=2) if with_metric else np.ones(2)
    for amount in (0.3, 2.0, 50.0):
        target = rng.normal(size=(2, 3))

        def objective(w, target=target, amount=amount):
            w = w.reshape(target.shape)
            return (scale[:, None] * (w - target) ** 2).sum() / 2 + amount * np.sqrt(
                (w**2).sum() + 1e-14
            )

        found = shrink_groups(target, layout, amount, metric)
        best = minimize(objective, target.ravel(), tol=1e-12)
        assert objective(found.ravel()) <= best.fun + 1e-5  # the norm above is rounded off
        np.testing.assert_allclose(found.ravel(), best.x, atol=2e-4)
    assert not shrink_groups(target, layout, 50.0, metric).any()


def test_projection_onto_cones(rng):
    """The nearest point of the cone, found by a general solver; and the three cases."""
    layout = FieldLayout((2, 2), all_pairs(2))
    for alpha in (5.0, 0.2, -0.3, -5.0):
        w = rng.normal(size=(1, 3))
        found_w, found_alpha = project_cones(w, np.array([alpha]), layout)
        assert np.linalg.norm(found_w) <= found_alpha[0] + 1e-12
        best = minimize(
            lambda z, w=w, alpha=alpha: ((z[:3] - w[0]) ** 2).sum() + (z[3] - alpha) ** 2,
            np.array([0.0, 0.0, 0.0, 1.0]),
            constraints={"type": "ineq", "fun": lambda z: z[3] - np.sqrt((z[:3] ** 2).sum())},
            tol=1e-12,
        )
        np.testing.assert_allclose(found_w[0], best.x[:3], atol=1e-3)
        np.testing.assert_allclose(found_alpha[0], best.x[3], atol=1e-3)


def solve(problem, form, penalty, **params):
    options = {"max_iter": 5000, "tol": 1e-13} | params
    return learn_structure(problem, penalty, zeros(problem), form=form, **options)


@pytest.mark.parametrize("eta", [0.1, 0.6, 1.0])
def test_both_forms_agree(problem, eta):
    penalty = Penalty(np.full(3, 0.5), edge=12.0, eta=eta)
    proximal, constrained = (solve(problem, form, penalty) for form in ("proximal", "constrained"))
    assert proximal.converged
    assert constrained.converged
    np.testing.assert_allclose(proximal.objective[-1], constrained.objective[-1], rtol=1e-9)
    np.testing.assert_allclose(proximal.alpha, constrained.alpha, atol=1e-4)
    np.testing.assert_allclose(proximal.theta.edge, constrained.theta.edge, atol=1e-4)
    np.testing.assert_array_equal(proximal.alpha > 0, constrained.alpha > 0)
    norms = LAYOUT.edge_norms(constrained.theta.edge)
    np.testing.assert_allclose(norms, constrained.alpha, atol=1e-6)


def test_solution_is_optimal(problem):
    """Zero is in the subdifferential: |gradient_e| <= group at absent edges, balance elsewhere."""
    penalty = Penalty(np.full(3, 0.5), edge=150.0, eta=0.95)
    found = solve(problem, "proximal", penalty)
    slope = problem.value_and_gradient(found.theta)[1]
    ridge = penalty.smooth(found.theta, LAYOUT)[1]
    assert np.abs(slope.node + ridge.node).max() < 1e-3
    total = slope.edge + ridge.edge
    kept = found.alpha > 0
    assert kept[0]
    assert not kept.all()
    assert (LAYOUT.edge_norms(total)[~kept] <= penalty.group + 1e-6).all()
    balance = (
        total
        + penalty.group * found.theta.edge / np.where(kept, found.alpha, 1.0)[LAYOUT.edge_of_column]
    )
    assert np.abs(balance[:, kept[LAYOUT.edge_of_column]]).max() < 1e-3


def test_profile_runs_from_start_to_end(problem):
    penalty = Penalty(np.full(3, 0.5), edge=12.0, eta=0.9)
    start = np.array([0.2, 0.5, 0.9])
    found = solve(problem, "constrained", penalty, max_iter=50, tol=1e-6, alpha=start)
    assert found.profile.shape == (len(found.objective) + 1, 3)
    np.testing.assert_array_equal(found.profile[0], start)
    np.testing.assert_array_equal(found.profile[-1], found.alpha)
    assert len(found.objective) <= 50


def test_no_edges_beyond_the_group_limit(problem):
    tuned, _, _ = tune(
        PseudoLikelihood(problem.data, FieldLayout(SIZES, all_pairs(3)[:0])),
        Penalty(np.full(3, 0.5), 1.0, 0.0),
        Parameters(zeros(problem).node, np.zeros((4, 0))),
        tol=1e-8,
    )
    start = Parameters(tuned.node, zeros(problem).edge)
    limit = LAYOUT.edge_norms(problem.value_and_gradient(start)[1].edge).max()
    for share, present in ((1.01, False), (0.9, True)):
        penalty = Penalty(np.full(3, 0.5), share * limit + 1.0, share * limit / (share * limit + 1))
        found = learn_structure(problem, penalty, start, max_iter=500, tol=1e-12)
        assert (found.alpha > 0).any() == present


def test_tuning_reaches_the_minimum(problem):
    penalty = Penalty(np.array([0.2, 1.0, 3.0]), edge=2.0, eta=0.0)
    theta, _, converged = tune(problem, penalty, zeros(problem), tol=1e-7)
    assert converged
    slope = problem.value_and_gradient(theta)[1]
    ridge = penalty.smooth(theta, LAYOUT)[1]
    assert np.abs(slope.node + ridge.node).max() < 1e-3
    assert np.abs(slope.edge + ridge.edge).max() < 1e-3
    path = solve(problem, "proximal", penalty, tol=1e-14)
    np.testing.assert_allclose(path.theta.edge, theta.edge, atol=1e-3)


def test_penalties_whose_modes_are_often_wrong_are_left_out():
    modes = np.ones(100)
    useless, noisy = modes.copy(), modes.copy()
    useless[:50], noisy[:2] = 0.0, 0.0
    kept = learner.as_right_as_any({1.0: modes, 0.1: noisy, 0.01: useless})
    assert kept == [1.0, 0.1]
    assert learner.as_right_as_any({1.0: np.empty(0), 0.1: np.empty(0)}) == [1.0, 0.1]


class Scripted:
    """A problem whose graphs gain an edge each time; scores by the number of edges are given."""

    layout = SimpleNamespace(n_edges=9)
    held_out = SimpleNamespace(total_weight=50.0)
    train = tuned = structure = None

    def __init__(self, means):
        self.means, self.asked = means, []

    def find_structure(self, penalty, **_):
        self.asked.append(penalty.group)
        self.structure = SimpleNamespace(alpha=np.arange(9) < len(self.asked))
        return self.structure

    def tune(self, _, kept, *__):
        return SimpleNamespace(scores=self.scores(int(kept.sum())))

    def scores(self, n_edges):
        rows = np.random.default_rng(n_edges).normal(scale=1e-3, size=50)
        return RowScores(self.means[n_edges] + rows - rows.mean(), np.ones(50))


@pytest.mark.parametrize(
    ("means", "walked", "chosen"),
    [
        # worse for two points, and so is the graph of all edges
        ([-9.0, -8.0, -7.0, -7.5, -7.4, -5.0, -5.0, -8.0], 4, 36.0),
        # as much worse, but all edges are better still: it is walked to the end
        ([-9.0, -8.0, -7.0, -7.5, -7.4, -5.0, -5.0, -6.0], 6, 7.776),
        # no edge is found at first
        ([-9.0, -9.0, -9.0, -8.0, -7.0, -7.5, -7.5, -8.5], 6, 12.96),
    ],
)
def test_the_path_of_graphs_ends_where_both_its_ends_are_worse(means, walked, chosen):
    problem = Scripted(means)
    options = {"form": "proximal", "tol": 0.1, "max_iter": 9, "n_jobs": 1, "verbose": False}
    made = learner.FieldLearner(None, None, np.empty(0), 9, standard_errors=1.0, **options)
    groups = [100.0 * 0.6**k for k in range(1, 7)]
    group, scores = made.choose_group(
        [problem], np.ones(1), 0.1, groups, [problem.scores(7)], lambda: None
    )
    np.testing.assert_allclose(problem.asked, groups[:walked])
    np.testing.assert_allclose(group, chosen)
    assert len(scores) == walked + 1
