"""How many labels a row has, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, Tree
from tests.joint.families import EXACT, FAMILIES
from tests.joint.oracle import make_space, random_log_table


def assert_sizes(found, exact, atol=1e-9):
    """P(|y| = s) and P(y_i = 1, |y| = s) are those of a loop over all vectors."""
    d = len(exact.sizes)
    size, with_label = np.zeros((len(exact.rows), d + 1)), np.zeros((len(exact.rows), d, d + 1))
    for r, row in enumerate(exact.rows):
        for y, p in row.items():
            size[r, sum(y)] += float(p)
            with_label[r, np.flatnonzero(y), sum(y)] += float(p)
    np.testing.assert_allclose(found.size, size, atol=atol)
    np.testing.assert_allclose(found.with_label, with_label, atol=atol)


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1.0, "zeros"]))
def test_exact_families_know_their_sizes(name, seed, n_labels, scale):
    joint, exact = EXACT[name](np.random.default_rng(seed), (2,) * n_labels, 2, scale)
    assert_sizes(joint.size_marginals(), exact)


def test_samplers_count_in_draws(rng):
    joint, exact = FAMILIES["dependency network"](rng, (2,) * 4, 3, 0.5)
    sizes = joint.size_marginals()
    assert_sizes(sizes, exact, atol=0.08)
    np.testing.assert_array_equal(sizes.size, joint.size_marginals().size)
    np.testing.assert_allclose(sizes.with_label.sum(axis=1), np.arange(5) * sizes.size, atol=1e-12)


def test_many_labels_keep_their_marginals(rng):
    parents = [-1, *(int(rng.integers(0, i)) for i in range(1, 60))]
    tables = [random_log_table(rng, (4, 1 if p == -1 else 2, 2), "smooth") for p in parents]
    joint = Tree(make_space((2,) * 60), parents, tables)
    sizes = joint.size_marginals()
    np.testing.assert_allclose(sizes.size.sum(axis=1), 1.0)
    np.testing.assert_allclose(sizes.with_label.sum(axis=2), joint.marginals())
    # every vector of size s has s labels: sum_i P(y_i = 1, |y| = s) = s P(|y| = s)
    np.testing.assert_allclose(sizes.with_label.sum(axis=1), np.arange(61) * sizes.size, atol=1e-12)


def test_class_variables_have_no_size(rng):
    joint = Independent(make_space((2, 3)), [np.log([[0.5, 0.5]]), np.log([[0.2, 0.3, 0.5]])])
    with pytest.raises(ValueError, match=r"size_marginals counts the ones .* 'y1' has the values"):
        joint.size_marginals()
