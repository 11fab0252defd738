"""Round coordinates against numerical Hessians."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from colabel.learn.crf.curvature import (
    Interactions,
    Penalty,
    RoundCoordinates,
    curvature_blocks,
    tune,
)
from colabel.learn.crf.pseudo_likelihood import FieldLayout, Parameters, PseudoLikelihood, all_pairs
from tests.learn.crf.conftest import flat, like, make_data, make_parameters, whole_penalty, zeros


def numeric_hessian(gradient, start, step=1e-5):
    columns = []
    for k in range(len(start)):
        move = np.zeros_like(start)
        move[k] = step
        columns.append((gradient(start + move) - gradient(start - move)) / (2 * step))
    return np.stack(columns)


def column_curvature(data, layout, theta):
    end = layout.n_node_columns + layout.n_edge_columns
    (whole,) = curvature_blocks(data, layout, theta, np.array([0, end]))
    return whole


@pytest.mark.parametrize("gaps", [False, True])
def test_curvature_is_the_hessian_by_constant_scores(rng, sizes, layout, gaps):
    # With no features but a constant of one, scores are parameters.
    data = make_data(rng, sizes, "dense", "none")
    if gaps:
        data = replace(data, known=rng.random(data.codes.shape) < 0.5)
    node = 0.5 * rng.normal(size=(data.nodes.n_coordinates, layout.n_node_columns))
    edge = 0.5 * rng.normal(size=(1, layout.n_edge_columns))
    objective, cut = PseudoLikelihood(data, layout), layout.n_node_columns

    def gradient(vector):
        moved = node.copy()
        moved[-1] = vector[:cut]
        _, slope = objective.value_and_gradient(Parameters(moved, vector[None, cut:]))
        return np.concatenate([slope.node[-1], slope.edge[0]])

    hessian = numeric_hessian(gradient, np.concatenate([node[-1], edge[0]]))
    own = column_curvature(data, layout, Parameters(node, edge)) * data.weight.sum()
    np.testing.assert_allclose(own, hessian, atol=1e-5 * np.abs(hessian).max())


def test_own_curvature_is_its_diagonal(rng, sizes, layout):
    data = make_data(rng, sizes, "dense", "all")
    theta = make_parameters(rng, data, layout)
    whole, cut = column_curvature(data, layout, theta), layout.n_node_columns
    starts = np.concatenate([layout.node_start[:-1], cut + layout.edge_start])
    blocks = curvature_blocks(data, layout, theta, starts)
    assert len(blocks) == len(sizes) + layout.n_edges
    start = 0
    for block in blocks:
        stop = start + len(block)
        np.testing.assert_allclose(block, whole[start:stop, start:stop], atol=1e-12)
        start = stop
    assert start == len(whole)


@pytest.fixture(params=["rotated", "blocks"])
def round_coordinates(request):
    """Both ways of rounding, whatever the number of columns."""
    most_columns = -1 if request.param == "blocks" else 700
    return partial(RoundCoordinates, most_columns=most_columns)


def assert_chain_rule(rng, coordinates, theta, data, layout):
    """Coordinates come back, and a gradient by them is the one by parameters."""
    there = coordinates.to_basis(theta)
    back = coordinates.from_basis(there)
    np.testing.assert_allclose(coordinates.to_basis(back), there, atol=1e-10)
    move, slope = rng.normal(size=len(there)), make_parameters(rng, data, layout)
    moved = flat(coordinates.from_basis(there + move)) - flat(back)
    np.testing.assert_allclose(coordinates.gradient(slope) @ move, flat(slope) @ moved, rtol=1e-9)
    return back


def test_coordinates_are_invertible_and_follow_the_chain_rule(
    data, layout, theta, round_coordinates
):
    penalty = Penalty(np.ones(data.codes.shape[1]), 0.5, 0.0)
    coordinates = round_coordinates(data, layout, penalty, theta)
    back = assert_chain_rule(np.random.default_rng(3), coordinates, theta, data, layout)
    np.testing.assert_allclose(flat(back), flat(theta), atol=1e-10)


@pytest.fixture
def shared(rng):
    """Two-valued labels, most of them rare, with tables that all rows share."""
    sizes = (2,) * 12
    layout = FieldLayout(sizes, all_pairs(12))
    data = make_data(rng, sizes, "dense", "none", n_rows=300)
    data = replace(data, codes=(rng.random((300, 12)) < 0.1).astype(np.int32))
    return data, layout, Penalty(np.full(12, 0.5), 1e-3, 0.0)


def test_interactions_keep_the_objective_and_follow_the_chain_rule(rng, shared):
    data, layout, penalty = shared
    theta = make_parameters(rng, data, layout)
    coordinates = Interactions(data, layout, penalty, theta)
    shortest = assert_chain_rule(rng, coordinates, theta, data, layout)
    objective = PseudoLikelihood(data, layout)
    assert objective.value(shortest) == pytest.approx(objective.value(theta), rel=1e-12)
    assert whole_penalty(penalty, shortest, layout) < whole_penalty(penalty, theta, layout)


def test_interactions_reach_the_optimum_of_all_cells_in_few_iterations(shared):
    data, layout, penalty = shared
    objective = PseudoLikelihood(data, layout)
    options = {"tol": 1e-4, "max_iter": 5000}
    theta, n_iter, _ = tune(objective, penalty, zeros(objective), **options)
    _, slope = objective.value_and_gradient(theta)
    _, ridge = penalty.smooth(theta, layout)
    np.testing.assert_allclose(slope.node + ridge.node, 0.0, atol=0.02)
    np.testing.assert_allclose(slope.edge + ridge.edge, 0.0, atol=0.02)  # each of the three cells
    options["coordinates_of"] = RoundCoordinates
    _, by_cells, _ = tune(objective, penalty, zeros(objective), **options)
    assert n_iter < by_cells / 2


def test_the_objective_is_rounder(rng):
    layout = FieldLayout((2, 2, 2), all_pairs(3))
    data = make_data(rng, (2, 2, 2), "dense", "all", n_rows=300)
    objective = PseudoLikelihood(data, layout)
    penalty = Penalty(np.full(3, 0.5), 0.5, 0.0)
    theta = make_parameters(rng, data, layout, 0.1)
    coordinates = RoundCoordinates(data, layout, penalty, theta)

    def condition(enter, leave, pull):
        def gradient(vector):
            at = leave(vector)
            _, slope = objective.value_and_gradient(at)
            _, ridge = penalty.smooth(at, layout)
            return pull(Parameters(slope.node + ridge.node, slope.edge + ridge.edge))

        values = np.linalg.eigvalsh(numeric_hessian(gradient, enter(theta)))
        return values[-1] / values[0]

    plain = condition(flat, partial(like, theta), flat)
    rounded = condition(coordinates.to_basis, coordinates.from_basis, coordinates.gradient)
    assert rounded < 40 < 200 < plain


def test_tuning_correlated_cells_takes_few_iterations(rng):
    # Scaled by the diagonal alone, this took 122 iterations; it takes about 18.
    layout = FieldLayout((2,) * 6, all_pairs(6))
    data = make_data(rng, (2,) * 6, "sparse", "all", n_rows=400)
    objective = PseudoLikelihood(data, layout)
    penalty = Penalty(np.full(6, 0.1), 0.1, 0.0)
    _, n_iter, converged = tune(objective, penalty, zeros(objective), tol=1e-6)
    assert converged
    assert n_iter < 40


def test_many_columns_are_never_squared(rng):
    # 40 labels have 2380 columns: a dense basis would hold 45 MB, the blocks' one 0.1 MB.
    layout = FieldLayout((2,) * 40, all_pairs(40))
    data = make_data(rng, (2,) * 40, "sparse", "all", n_rows=30)
    penalty, theta = Penalty(np.ones(40), 1.0, 0.0), make_parameters(rng, data, layout)
    tracemalloc.start()
    coordinates = RoundCoordinates(data, layout, penalty, theta)
    coordinates.gradient(coordinates.from_basis(coordinates.to_basis(theta)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_variables_of_one_value_have_no_columns(rng, round_coordinates):
    layout = FieldLayout((1, 1), np.empty((0, 2), dtype=np.intp))
    data = make_data(rng, (1, 1), "dense", "none")
    theta = make_parameters(rng, data, layout)
    coordinates = round_coordinates(data, layout, Penalty(np.ones(2), 1.0, 0.0), theta)
    assert coordinates.to_basis(theta).size == 0
    assert coordinates.from_basis(np.empty(0)).node.shape == theta.node.shape
