"""How many labels a row has, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from colabel.joint import Independent, Tree, VectorList
from colabel.joint.base import APPROXIMATE, Joint
from tests.joint.oracle import Oracle, instances, make_space, random_log_table


def by_enumeration(oracle):
    """P(|y| = s) and P(y_i = 1, |y| = s), by a loop over all vectors."""
    d = len(oracle.cardinalities)
    size, with_label = np.zeros((len(oracle.rows), d + 1)), np.zeros((len(oracle.rows), d, d + 1))
    for r, row in enumerate(oracle.rows):
        for y, p in row.items():
            size[r, sum(y)] += p
            for i in np.flatnonzero(y):
                with_label[r, i, sum(y)] += p
    return size, with_label


def assert_sizes(found, oracle, atol=1e-12):
    size, with_label = by_enumeration(oracle)
    np.testing.assert_allclose(found.size, size, atol=atol)
    np.testing.assert_allclose(found.with_label, with_label, atol=atol)


def binary_tables(rng, parents, n_rows, style):
    return [random_log_table(rng, (n_rows, 1 if p == -1 else 2, 2), style) for p in parents]


@settings(max_examples=60, deadline=None)
@given(instances(max_labels=7, max_values=2))
def test_a_tree_knows_its_sizes(instance):
    cardinalities, parents, _, rng = instance
    n = len(cardinalities)
    tables = binary_tables(rng, parents, 3, "zeros")
    joint = Tree(make_space((2,) * n), parents, tables)
    assert_sizes(joint.size_marginals(), Oracle.of_tree((2,) * n, parents, tables))


@pytest.mark.parametrize("parents", [[-1, 0, 1, 2, 3, 4, 5, 6], [-1, 0, 0, 0, 0, 0, 0, 0]])
def test_paths_and_stars(rng, parents):
    tables = binary_tables(rng, parents, 2, "smooth")
    joint = Tree(make_space((2,) * 8), parents, tables)
    assert_sizes(joint.size_marginals(), Oracle.of_tree((2,) * 8, parents, tables))


@pytest.mark.parametrize("n_labels", [1, 2, 3, 8])
def test_independent_labels_know_their_sizes(rng, n_labels):
    tables = [random_log_table(rng, (3, 2), "smooth") for _ in range(n_labels)]
    joint = Independent(make_space((2,) * n_labels), tables)
    oracle = Oracle.of_independent((2,) * n_labels, tables)
    assert_sizes(joint.size_marginals(), oracle)


def test_lists_of_vectors_know_their_sizes(rng):
    parents = [-1, 0, 0, 1]
    oracle = Oracle.of_tree((2,) * 4, parents, binary_tables(rng, parents, 3, "zeros"))
    vectors = sorted(oracle.rows[0])
    with np.errstate(divide="ignore"):
        log_weights = np.log([[row[y] for y in vectors] for row in oracle.rows])
    joint = VectorList(make_space((2,) * 4), vectors, log_weights)
    assert_sizes(joint.size_marginals(), oracle)


def test_many_labels_keep_their_marginals(rng):
    parents = [-1, *(int(rng.integers(0, i)) for i in range(1, 60))]
    joint = Tree(make_space((2,) * 60), parents, binary_tables(rng, parents, 4, "smooth"))
    sizes = joint.size_marginals()
    np.testing.assert_allclose(sizes.size.sum(axis=1), 1.0)
    np.testing.assert_allclose(sizes.with_label.sum(axis=2), joint.marginals())
    # every vector of size s has s labels: sum_i P(y_i = 1, |y| = s) = s P(|y| = s)
    np.testing.assert_allclose(sizes.with_label.sum(axis=1), np.arange(61) * sizes.size, atol=1e-12)


class Counted(Tree):
    """A tree that leaves its sizes to the base class."""

    def _size_marginals(self):
        return Joint._size_marginals(self)


class Drawn(Counted):
    """The same, known by its draws only."""

    exact = APPROXIMATE


def test_other_families_sum_over_all_vectors(rng):
    parents = [-1, 0, 0, 1]
    tables = binary_tables(rng, parents, 5, "zeros")
    joint = Counted(make_space((2,) * 4), parents, tables)
    assert_sizes(joint.size_marginals(), Oracle.of_tree((2,) * 4, parents, tables))


def test_samplers_count_in_draws(rng):
    parents = [-1, 0, 0, 1]
    tables = binary_tables(rng, parents, 5, "smooth")
    joint = Drawn(make_space((2,) * 4), parents, tables)
    sizes = joint.size_marginals()
    assert_sizes(sizes, Oracle.of_tree((2,) * 4, parents, tables), atol=0.08)
    np.testing.assert_array_equal(sizes.size, joint.size_marginals().size)
    np.testing.assert_allclose(sizes.with_label.sum(axis=1), np.arange(5) * sizes.size, atol=1e-12)


def test_class_variables_have_no_size(rng):
    joint = Independent(make_space((2, 3)), [np.log([[0.5, 0.5]]), np.log([[0.2, 0.3, 0.5]])])
    with pytest.raises(ValueError, match=r"size_marginals counts the ones .* 'y1' has the values"):
        joint.size_marginals()
