"""Reweighted joints: when the base is searched, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.joint import Independent, Mixture, Reweighted, Tree, VectorList
from tests.joint.families import tree as random_tree
from tests.joint.oracle import make_space
from tests.joint.test_families import assert_exact
from tests.joint.test_mixture import Short, smooth

pytestmark = pytest.mark.filterwarnings("error")


def test_the_same_weights_change_nothing_and_settle_the_mode(monkeypatch, rng):
    """Where the bound on the others settles the mode, nobody searches the base."""
    tree, exact = random_tree(rng, (2, 3, 2), 4, 1.0)
    codes, log_prob = tree.top_k_codes(4)
    listed = VectorList.of_lists(
        tree.space, codes.reshape(-1, 3), np.arange(5) * 4, np.arange(16), log_prob.ravel()
    )
    joint = Reweighted(tree, listed, log_prob[:, -1])
    assert_exact(joint, exact, rng)
    monkeypatch.setattr(Tree, "top_k_codes", None)
    np.testing.assert_array_equal(joint.mode_codes(), codes[:, 0])


def test_a_search_of_the_base_that_is_cut_short_takes_the_proof_back():
    base = smooth(chain=Short)
    joint = Reweighted(base, VectorList(base.space, [[0] * 6], np.full((4, 1), -9.0)))
    assert joint.exact.all
    joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "not proven" in joint.how


@pytest.mark.parametrize(
    ("n_rows", "bound", "message"),
    [(3, (), "both must describe the same"), (4, ([0.0],), "one log-probability per row")],
)
def test_other_rows_are_refused(rng, n_rows, bound, message):
    tree, _ = random_tree(rng, (2, 3, 2), 4, 1.0)
    with pytest.raises(ValueError, match=message):
        Reweighted(tree, VectorList(tree.space, [[0, 0, 0]], np.zeros((n_rows, 1))), *bound)


def test_a_base_that_excludes_the_evidence_leaves_the_list():
    space = make_space((2, 2))
    base = Independent(space, [np.log([[0.5, 0.5]]), np.array([[0.0, -np.inf]])])
    listed = VectorList(space, [[0, 1], [1, 1]], np.log([[0.1, 0.3]]))
    joint = Reweighted(Mixture([base]), listed).given({"y1": 1})
    np.testing.assert_allclose(joint.marginals(), [[0.75, 1.0]])
