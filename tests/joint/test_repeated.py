"""Rows that share distributions: every answer is that of a copy for each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, Mixture
from colabel.joint.repeated import Repeated
from tests.joint.families import repeated
from tests.joint.oracle import make_space

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=20, deadline=None)


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, "ties", "zeros"]))
def test_what_is_probable_enough_is_listed(seed, scale):
    rng = np.random.default_rng(seed)
    joint, oracle = repeated(rng, (2, 3, 2), 5, scale)
    least = np.log(rng.uniform(0.01, 0.5, joint.n_rows))
    least[0] = np.inf
    found = joint.listed_above(least)
    assert not found.cut.any()
    listed = {(r, *y) for r, y in zip(found.rows.tolist(), found.codes.tolist(), strict=True)}
    assert len(listed) == len(found.rows)
    wanted = {
        (r, *y)
        for r, row in enumerate(oracle.rows)
        for y, prob in row.items()
        if prob > np.exp(least[r]) * (1 + 1e-9)
    }
    assert wanted <= listed
    assert all(oracle.rows[r][tuple(y)] >= np.exp(least[r]) * (1 - 1e-9) for r, *y in listed)


def test_draws_of_rows_that_share_a_distribution_differ():
    space = make_space((2,) * 6)
    one = Independent(space, [np.log([[0.5, 0.5]])] * 6)
    drawn = Repeated(Mixture([one]), np.zeros(3, dtype=np.intp)).sample_codes(
        400, np.random.default_rng(0)
    )
    assert drawn.shape == (400, 3, 6)
    assert (drawn[:, 0] != drawn[:, 1]).any(axis=1).mean() > 0.9
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.1)
