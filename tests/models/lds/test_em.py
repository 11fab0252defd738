"""EM against the loops of the oracle, and what EM must do whatever the data."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.core.numeric import log_sum_exp
from colabel.joint.lds.network import DependencySets, FeatureColumns
from colabel.models.lds.learning import (
    EMOptions,
    TrainingRows,
    expected_counts,
    fit_parameters,
    with_unlabelled,
)
from tests.joint.lds.oracle import SlowMixture, draw_rows, random_network, slow_copy

PARENTS, SIZES, N_VALUES = ((), (0,), (0, 1), (2,)), (2, 3, 2, 2), (3, 2, 4)


@pytest.fixture
def rows(rng):
    """Labels, features and weights of 80 rows with dependencies of all kinds."""
    network = random_network(rng, PARENTS, SIZES, N_VALUES, 24)
    labels, features = draw_rows(network, 80, rng)
    return labels, features, rng.uniform(0.5, 2.0, size=80)


def fitted(labels, features, weight, parents=PARENTS, sizes=SIZES, **options):
    weight = np.ones(len(labels)) if weight is None else weight
    rows = TrainingRows(labels, sizes, features, FeatureColumns(N_VALUES), weight)
    sets = DependencySets.of(parents, sizes)
    return fit_parameters(rows.counts, rows.columns, sets, EMOptions(n_jobs=1, **options))


def assert_same_parameters(network, slow):
    other = slow_copy(network)
    assert other.seen == slow.seen
    for mine, its in zip(other.alpha, slow.alpha, strict=True):
        assert mine.keys() == its.keys()
        for state in mine:
            np.testing.assert_allclose(mine[state], its[state], atol=1e-12)
    for y in slow.seen:
        np.testing.assert_allclose(other.theta[y], slow.theta[y], atol=1e-12)
    for j, tables in enumerate(slow.phi):
        for k, table in enumerate(tables):
            for state, row in table.items():
                np.testing.assert_allclose(other.phi[j][k][state], row, atol=1e-12)


@pytest.mark.parametrize("n_iter", [0, 1, 2, 5])
@pytest.mark.parametrize("smoothing", [1.0, 0.2])
def test_iterations_are_those_of_the_formulas(rows, n_iter, smoothing):
    network, trace = fitted(*rows, smoothing=smoothing, tol=1e-300, max_iter=n_iter)
    slow = SlowMixture(PARENTS, SIZES, N_VALUES, smoothing).fit(*rows, n_iter)
    assert_same_parameters(network, slow)
    assert {len(each) - 1 for each in trace} == {n_iter}
    final = sum(each[-1] for each in trace)
    np.testing.assert_allclose(final, slow.objective(*rows), rtol=1e-12)


@pytest.mark.parametrize("n_iter", [1, 5])
def test_the_printed_m_step_is_that_of_the_paper(rows, n_iter):
    options = {"smoothing": 0.2, "tol": 1e-300, "max_iter": n_iter, "printed": True}
    network, trace = fitted(*rows, **options)
    slow = SlowMixture(PARENTS, SIZES, N_VALUES, 0.2, printed=True).fit(*rows, n_iter)
    assert_same_parameters(network, slow)
    final = sum(each[-1] for each in trace)
    np.testing.assert_allclose(final, slow.objective(*rows), rtol=1e-12)


def test_the_printed_m_step_lowers_the_likelihood(rows):
    _, trace = fitted(*rows, smoothing=1e-3, tol=1e-9, max_iter=50, printed=True)
    assert any((np.diff(each) < -1e-3).any() for each in trace)


@pytest.mark.parametrize("smoothing", [1.0, 0.1, 1e-3])
def test_no_iteration_lowers_the_objective(rng, rows, smoothing):
    _, trace = fitted(*rows, smoothing=smoothing, tol=1e-9, max_iter=200)
    assert min(map(len, trace)) > 11
    for each in trace:
        assert (np.diff(each) >= -1e-9 * abs(each[0])).all()
        assert each[-1] > each[0]


def test_every_table_sums_to_one(rows):
    network, _ = fitted(*rows)
    np.testing.assert_allclose(network.theta.sum(axis=1), 1.0)
    for k, n_states in enumerate(network.sets.n_states):
        tables = network.alpha[k, :n_states].reshape(-1, SIZES[k])
        np.testing.assert_allclose(tables.sum(axis=1), 1.0)
        for j in range(len(N_VALUES)):
            table = network.phi[k, :n_states, network.columns.of(j)]
            np.testing.assert_allclose(table.sum(axis=1), 1.0)
    every = network.every_vector(np.zeros((1, 3), dtype=np.int32))[0]
    np.testing.assert_allclose(np.exp(network.log_prior(every)).sum(), 1.0)
    conditional = np.exp(network.log_conditional(every))
    for j in range(len(N_VALUES)):
        np.testing.assert_allclose(conditional[:, network.columns.of(j)].sum(axis=1), 1.0)


def test_it_stops_when_the_mixture_weights_hardly_change(rows):
    network, trace = fitted(*rows, tol=0.05, max_iter=500)
    for j, n_iter in enumerate(len(each) - 1 for each in trace):
        one_less, _ = fitted(*rows, tol=1e-300, max_iter=n_iter - 1)
        exactly, _ = fitted(*rows, tol=1e-300, max_iter=n_iter)
        change = abs(exactly.theta[:, :, j] - one_less.theta[:, :, j]).max()
        assert change < 0.05
        np.testing.assert_array_equal(network.theta[:, :, j], exactly.theta[:, :, j])
        if n_iter > 1:
            two_less, _ = fitted(*rows, tol=1e-300, max_iter=n_iter - 2)
            assert abs(one_less.theta[:, :, j] - two_less.theta[:, :, j]).max() >= 0.05


def test_a_weight_is_a_number_of_copies(rng, rows):
    labels, features, _ = rows
    copies = rng.integers(0, 4, size=len(labels))
    one, _ = fitted(labels, features, copies.astype(float), max_iter=7)
    repeated = np.repeat(labels, copies, axis=0), np.repeat(features, copies, axis=0)
    two, _ = fitted(*repeated, None, max_iter=7)
    np.testing.assert_array_equal(one.vectors, two.vectors)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-12)
    np.testing.assert_allclose(one.phi, two.phi, atol=1e-12)
    np.testing.assert_allclose(one.alpha, two.alpha, atol=1e-12)


def test_threads_do_not_change_the_parameters(rows):
    own = TrainingRows(rows[0], SIZES, rows[1], FeatureColumns(N_VALUES), np.ones(80))
    sets = DependencySets.of(PARENTS, SIZES)
    one, two = (
        fit_parameters(own.counts, own.columns, sets, EMOptions(n_jobs=n))[0] for n in (1, 2)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.phi, two.phi)


def test_parameters_of_a_known_model_are_recovered(rng):
    """The distributions that can be identified: P(labels) and P(feature | labels).

    Mixture weights alone cannot: where two sets agree on a feature any split will do.
    """
    parents, sizes = ((), (0,), (0, 1)), (2, 2, 2)
    truth = random_network(rng, parents, sizes, N_VALUES, 8, sharpness=3.0)
    labels, features = draw_rows(truth, 40_000, rng)
    network, _ = fitted(labels, features, None, parents, sizes, tol=1e-4, max_iter=2000)
    assert len(network.vectors) == 8
    for k, n_states in enumerate(network.sets.n_states):
        found, expected = network.alpha[k, :n_states], truth.alpha[k, :n_states]
        np.testing.assert_allclose(found, expected, atol=0.04)
    common = np.exp(network.log_prior(network.vectors))
    error = abs(
        np.exp(network.log_conditional(network.vectors))
        - np.exp(truth.log_conditional(network.vectors))
    )
    # a vector with probability c has about 40,000 c rows: five standard errors and the smoothing
    assert (error <= (2.5 / np.sqrt(40_000 * common) + 30 / (40_000 * common))[:, None]).all()
    assert error[common > 0.1].max() < 0.03


def test_weights_of_a_mixture_that_can_be_identified_are_recovered(rng):
    """One label with two feature values: each state of a set speaks for one value."""
    parents, sizes = ((), ()), (2, 2)
    truth = random_network(rng, parents, sizes, (4,), 4)
    # set 0 gives the values 0 and 1 to the states 0 and 1 of its label, set 1 the values 2 and 3
    truth.phi[0, :2], truth.phi[1, :2] = np.eye(4)[:2], np.eye(4)[2:]
    truth.alpha[:, :2] = 0.5
    truth.theta[:, 0, 0] = [0.6, 0.3, 0.7, 0.5]
    truth.theta[:, 1, 0] = [0.4, 0.7, 0.3, 0.5]
    labels, features = draw_rows(truth, 20_000, rng)
    rows = TrainingRows(labels, sizes, features, FeatureColumns((4,)), np.ones(20_000))
    options = EMOptions(smoothing=1e-3, tol=1e-6, max_iter=5000)
    network, _ = fit_parameters(rows.counts, rows.columns, truth.sets, options)
    np.testing.assert_allclose(network.theta, truth.theta, atol=0.03)
    np.testing.assert_allclose(network.phi[:, :2], truth.phi[:, :2], atol=0.01)


# ----------------------------------------------------------------------------- no labels


def unlabelled(rng, n_rows):
    truth = random_network(rng, PARENTS, SIZES, N_VALUES, 24)
    return draw_rows(truth, n_rows, rng)[1], rng.uniform(0.2, 1.0, size=n_rows)


def test_responsibilities_of_rows_without_labels_are_those_of_all_vectors(rng, rows):
    network, _ = fitted(*rows, max_iter=3)
    slow, (others, weight) = slow_copy(network), unlabelled(rng, 20)
    counts = expected_counts(network, others, weight)
    labels, features, shares = slow.expected(others, weight)
    found = TrainingRows(labels, SIZES, features, FeatureColumns(N_VALUES), shares).counts
    np.testing.assert_array_equal(counts.vectors, found.vectors)
    np.testing.assert_allclose(counts.weight, found.weight, atol=1e-12)
    np.testing.assert_allclose(counts.values, found.values, atol=1e-12)


def test_steps_with_rows_without_labels_are_those_of_the_formulas(rng, rows):
    labels, features, weight = rows
    options = {"smoothing": 0.3, "tol": 1e-300}
    network, _ = fitted(*rows, max_iter=2, **options)
    slow = SlowMixture(PARENTS, SIZES, N_VALUES, 0.3).fit(*rows, 2)
    others, other_weight = unlabelled(rng, 30)
    unlabelled_rows = others, other_weight
    own = TrainingRows(labels, SIZES, features, FeatureColumns(N_VALUES), weight, unlabelled_rows)
    one = EMOptions(n_jobs=1, max_iter=1, share=0.7, **options)
    network = with_unlabelled(network, own, one, max_iter=3)
    for _ in range(3):
        slow.unlabelled_step(*rows, others, 0.7 * other_weight)
    assert_same_parameters(network, slow)


def test_no_step_with_rows_without_labels_lowers_the_likelihood(rng, rows):
    labels, features, weight = rows
    others, other_weight = unlabelled(rng, 100)
    unlabelled_rows = others, other_weight
    own = TrainingRows(labels, SIZES, features, FeatureColumns(N_VALUES), weight, unlabelled_rows)
    options = EMOptions(smoothing=1e-6, share=1.0, tol=1e-9, n_jobs=1)
    network, _ = fitted(*rows, smoothing=1e-6, tol=1e-9, max_iter=500)
    values = []
    for _ in range(12):
        known = weight @ network.log_joint(features, labels)
        values.append(known + other_weight @ log_sum_exp(network.every_vector(others)[1]))
        network = with_unlabelled(network, own, options, max_iter=1)
    assert (np.diff(values) > -1e-3).all()
    assert values[-1] > values[0] + 10


def test_of_many_vectors_those_seen_share_a_row(rng):
    parents, sizes = ((),) * 17, (2,) * 17
    truth = random_network(rng, ((),) * 4, (2,) * 4, (3, 2), 16)
    labels, features = draw_rows(truth, 40, rng)
    labels = np.tile(labels, 5)[:, :17]
    columns = FeatureColumns((3, 2))
    rows = TrainingRows(labels, sizes, features, columns, np.ones(40))
    sets = DependencySets.of(parents, sizes)
    network, _ = fit_parameters(rows.counts, columns, sets, EMOptions(max_iter=2))
    counts = expected_counts(network, features, np.ones(40))
    np.testing.assert_array_equal(counts.vectors, network.vectors)
    scores = network.seen_scores(features)
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(counts.weight, (share / share.sum(1, keepdims=True)).sum(0))
