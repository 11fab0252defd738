"""Pseudo-likelihood and likelihoods against the formulas, gradients against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from colabel.labels import all_vectors
from colabel.learn.crf.curvature import StateLikelihood
from colabel.learn.crf.learner import held_out_score, mode_is_true
from colabel.learn.crf.pseudo_likelihood import FieldLayout, PseudoLikelihood, all_pairs
from tests.learn.crf.conftest import dense_rows, flat, like, make_data, make_parameters
from tests.learn.crf.oracle import PaperField


def oracle_of(data, layout, theta):
    n_rows = len(data.codes)
    field = PaperField.from_matrices(layout, theta.node, theta.edge)
    return field, dense_rows(data.nodes, n_rows), dense_rows(data.edges, n_rows)


def test_pseudo_likelihood_is_equation_2_4(data, layout, theta):
    field, nodes, edges = oracle_of(data, layout, theta)
    expected = field.nlpl(nodes, edges, data.codes, data.weight)
    objective = PseudoLikelihood(data, layout)
    np.testing.assert_allclose(objective.value(theta), expected, rtol=1e-12)
    np.testing.assert_allclose(objective.value_and_gradient(theta)[0], expected, rtol=1e-12)
    conditionals = objective.log_conditionals(theta)
    for i in range(data.codes.shape[1]):
        own = field.log_conditional(nodes[3], edges[3], list(data.codes[3]), i)
        np.testing.assert_allclose(conditionals[3, i], own, atol=1e-12)


def assert_gradient(objective, theta):
    _, gradient = objective.value_and_gradient(theta)
    numeric = approx_fprime(
        flat(theta), lambda vector: objective.value_and_gradient(like(theta, vector))[0], 1e-6
    )
    np.testing.assert_allclose(flat(gradient), numeric, rtol=1e-4, atol=2e-3)


def test_pseudo_likelihood_gradient(data, layout, theta):
    assert_gradient(PseudoLikelihood(data, layout), theta)


@pytest.mark.parametrize("states", ["all", "some"])
def test_state_likelihood_gradient(data, layout, theta, sizes, states):
    vectors = all_vectors(sizes) if states == "all" else np.unique(data.codes[:15], axis=0)
    assert_gradient(StateLikelihood(data, layout, vectors), theta)


def test_likelihood_by_enumeration_is_equation_2_1(data, layout, theta, sizes):
    field, nodes, edges = oracle_of(data, layout, theta)
    expected = [
        field.log_prob(nodes[n], edges[n], list(data.codes[n])) for n in range(len(data.codes))
    ]
    np.testing.assert_allclose(held_out_score(data, layout, theta), expected, atol=1e-10)
    every = StateLikelihood(data, layout, all_vectors(sizes))
    np.testing.assert_allclose(every.log_likelihood(theta), expected, atol=1e-10)
    np.testing.assert_allclose(
        every.value_and_gradient(theta)[0], -(data.weight @ expected), rtol=1e-10
    )


@pytest.fixture
def partial(rng, data):
    """The same rows, of whose labels some are drawn."""
    return replace(data, known=rng.random(data.codes.shape) < 0.6)


def test_drawn_labels_are_neighbours_but_no_targets(partial, layout, theta):
    field, nodes, edges = oracle_of(partial, layout, theta)
    expected = -sum(
        partial.weight[n] * field.log_conditional(nodes[n], edges[n], list(partial.codes[n]), i)
        for n, i in np.argwhere(partial.known)
    )
    objective = PseudoLikelihood(partial, layout)
    np.testing.assert_allclose(objective.value(theta), expected, rtol=1e-12)
    assert_gradient(objective, theta)
    some = PseudoLikelihood(partial.rows(np.array([5, 2])), layout).log_conditionals(theta)
    np.testing.assert_allclose(some, objective.log_conditionals(theta)[[5, 2]])


def test_likelihood_of_known_labels_sums_over_the_others(partial, layout, theta, sizes):
    field, nodes, edges = oracle_of(partial, layout, theta)
    every = all_vectors(sizes)
    expected = []
    for n, (own, known) in enumerate(zip(partial.codes, partial.known, strict=True)):
        agreeing = [y for y in every.tolist() if (y == own)[known].all()]
        parts = [field.log_prob(nodes[n], edges[n], y) for y in agreeing]
        expected.append(np.logaddexp.reduce(parts))
    objective = StateLikelihood(partial, layout, every)
    np.testing.assert_allclose(objective.log_likelihood(theta), expected, atol=1e-10)
    np.testing.assert_allclose(held_out_score(partial, layout, theta), expected, atol=1e-10)
    assert_gradient(objective, theta)
    # a vector that is drawn, but not on the list, counts as if all of it were known
    some = every[1:]
    objective = StateLikelihood(partial, layout, some)
    found, whole = (
        StateLikelihood(rows, layout, some).log_likelihood(theta)
        for rows in (partial, replace(partial, known=None))
    )
    unlisted = (partial.codes == every[0]).all(axis=1)
    np.testing.assert_allclose(found[unlisted], whole[unlisted])
    assert_gradient(objective, theta)


def test_supported_likelihood_sums_over_listed_vectors_and_the_own_one(rng):
    data = make_data(rng, (2, 2, 2))
    layout_all = all_vectors((2, 2, 2))
    layout = FieldLayout((2, 2, 2), all_pairs(3))
    theta = make_parameters(rng, data, layout)
    listed = layout_all[[0, 3, 5]]
    field, nodes, edges = oracle_of(data, layout, theta)
    found = StateLikelihood(data, layout, listed).log_likelihood(theta)
    for n, own in enumerate(data.codes.tolist()):
        vectors = {tuple(own), *map(tuple, listed.tolist())}
        scores = [field.score(nodes[n], edges[n], y) for y in vectors]
        expected = field.score(nodes[n], edges[n], own) - np.logaddexp.reduce(scores)
        np.testing.assert_allclose(found[n], expected, atol=1e-12)


def test_many_labels_are_scored_by_pseudo_likelihood(rng):
    sizes = (2,) * 16
    data = make_data(rng, sizes, n_rows=5)
    layout = FieldLayout(sizes, all_pairs(16)[:10])
    theta = make_parameters(rng, data, layout)
    expected = PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1)
    np.testing.assert_array_equal(held_out_score(data, layout, theta), expected)


@pytest.mark.parametrize("scale", [0.4, 2000.0])
def test_likelihood_and_mode_by_the_scores_of_all_vectors(rng, scale):
    """Large scores do not overflow."""
    sizes = (2, 3, 2)
    data = make_data(rng, sizes)
    layout = FieldLayout(sizes, all_pairs(3))
    theta = make_parameters(rng, data, layout, scale)
    field, nodes, edges = oracle_of(data, layout, theta)
    every = all_vectors(sizes).tolist()
    scores = np.array(
        [[field.score(*row, y) for y in every] for row in zip(nodes, edges, strict=True)]
    )
    own = np.array([every.index(y) for y in data.codes.tolist()])
    expected = scores[np.arange(len(own)), own] - np.logaddexp.reduce(scores, axis=1)
    found = held_out_score(data, layout, theta)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    right = scores.argmax(axis=1) == own
    assert 0 < right.mean() < 1
    np.testing.assert_array_equal(mode_is_true(data, layout, theta, theta.node), right)
    assert PseudoLikelihood(data, layout).value(theta) <= -data.weight @ expected + 1e-6
