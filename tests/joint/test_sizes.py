"""How many labels a row has, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.joint.families import EXACT, FAMILIES, many_labels
from tests.joint.test_families import SEEDS


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
@given(SEEDS, st.integers(1, 6), st.sampled_from([1.0, "zeros"]))
def test_exact_families_know_their_sizes(name, seed, n_labels, scale):
    joint, exact = EXACT[name](np.random.default_rng(seed), (2,) * n_labels, 2, scale)
    assert_sizes(joint.size_marginals(), exact)


def assert_sums(sizes):
    """Every vector of size s has s labels: sum_i P(y_i = 1, |y| = s) = s P(|y| = s)."""
    expected = np.arange(sizes.size.shape[1]) * sizes.size
    np.testing.assert_allclose(sizes.with_label.sum(axis=1), expected, atol=1e-12)


def test_samplers_count_in_draws(rng):
    joint, exact = FAMILIES["dependency network"](rng, (2,) * 4, 3, 0.5)
    sizes = joint.size_marginals()
    assert_sizes(sizes, exact, atol=0.08)
    np.testing.assert_array_equal(sizes.size, joint.size_marginals().size)
    assert_sums(sizes)


def test_many_labels_keep_their_marginals():
    joint = many_labels(60)
    sizes = joint.size_marginals()
    np.testing.assert_allclose(sizes.size.sum(axis=1), 1.0)
    np.testing.assert_allclose(sizes.with_label.sum(axis=2), joint.marginals())
    assert_sums(sizes)


def test_class_variables_have_no_size(rng):
    joint, _ = FAMILIES["independent"](rng, (2, 3), 1, 1.0)
    with pytest.raises(ValueError, match=r"size_marginals counts the ones .* 'y1' has the values"):
        joint.size_marginals()
