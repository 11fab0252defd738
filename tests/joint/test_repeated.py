"""Rows that share distributions: every answer is that of a copy for each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Mixture
from colabel.joint.repeated import Repeated
from tests.joint.families import of_marginals, repeated
from tests.joint.test_families import SEEDS, STYLES
from tests.joint.test_mixture import listed_vectors

pytestmark = pytest.mark.filterwarnings("error")


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from(STYLES))
def test_what_is_probable_enough_is_listed(seed, scale):
    rng = np.random.default_rng(seed)
    joint, oracle = repeated(rng, (2, 3, 2), 5, scale)
    least = np.log(rng.uniform(0.01, 0.5, joint.n_rows))
    least[0] = np.inf
    found = joint.listed_above(least)
    assert not found.cut.any()
    every = {(r, *y): prob for r, row in enumerate(oracle.rows) for y, prob in row.items()}
    listed, level = listed_vectors(found), np.exp(least)
    assert {y for y, prob in every.items() if prob > level[y[0]] * (1 + 1e-9)} <= listed
    assert all(every[y] >= level[y[0]] * (1 - 1e-9) for y in listed)


def test_draws_of_rows_that_share_a_distribution_differ():
    joint = Repeated(Mixture([of_marginals(np.full((1, 6), 0.5))]), np.zeros(3, dtype=np.intp))
    drawn = joint.sample_codes(400, np.random.default_rng(0))
    assert drawn.shape == (400, 3, 6)
    assert (drawn[:, 0] != drawn[:, 1]).any(axis=1).mean() > 0.9
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.1)
