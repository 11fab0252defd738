"""What a pairwise field says that it answers exactly, question by question, and that it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.decide import decide
from colabel.joint import PairwiseField
from colabel.joint.base import APPROXIMATE, EXACT
from tests.joint.field.test_belief import forests
from tests.joint.field.test_pairwise_field import build, chain_field, dense_field
from tests.joint.oracle import make_space

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=40, deadline=None)
BP = "belief_propagation"


@pytest.mark.parametrize(
    ("field", "options", "said"),
    [
        (chain_field, {"engine": BP}, EXACT),
        (chain_field, {"engine": BP, "max_iter": 1}, EXACT),
        (chain_field, {"engine": BP, "memory": 100}, {"sums", "log_prob"}),
        (chain_field, {"engine": "gibbs"}, {"mode"}),
        (dense_field, {"engine": BP}, APPROXIMATE),
        (dense_field, {"engine": "enumeration"}, EXACT),
    ],
)
def test_modes_and_sums_speak_for_themselves(field, options, said):
    joint = field(6, **options)
    assert joint.exact == joint.report.exact == said
    assert joint.how.startswith(f"{str(joint.exact).capitalize()}: ")
    assert f", {joint.exact}," in joint.report.to_text()


def test_all_components_must_agree():
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (3, 5)]  # a chain and a circle
    unary = [rng.normal(size=(2, 2)) for _ in range(6)]
    tables = [rng.normal(size=(2, 2, 2)) for _ in edges]
    both = PairwiseField(make_space((2,) * 6), unary, edges, tables, engine=BP)
    assert [part.exact for part in both.report.components] == [EXACT, APPROXIMATE]
    assert both.exact == APPROXIMATE
    opened = both.given({"y5": 1})  # the circle is a chain now
    assert opened.exact == EXACT


@SETTINGS
@given(forests(styles=("smooth", "ties", "zeros")), st.sampled_from(["gibbs", BP]))
def test_the_best_vectors_of_trees(instance, engine):
    # nothing but the estimate of log Z is sampled, and it cancels out of the order
    joint, oracle, _ = build(instance, engine=engine, n_sweeps=4, burn_in=2, n_chains=1)
    assert "mode" in joint.exact
    best = oracle.best(1)[:, 0]
    np.testing.assert_allclose(oracle.log_prob(joint.mode_codes()), best, atol=1e-9)
    codes, _ = joint.top_k_codes(7)
    listed = np.stack([oracle.log_prob(codes[:, rank]) for rank in range(codes.shape[1])], axis=1)
    np.testing.assert_allclose(listed, oracle.best(7), atol=1e-9)


def test_f1_and_entropy_of_a_tree_need_no_draws(monkeypatch):
    exact = chain_field(8, n_rows=30)
    joint = chain_field(8, n_rows=30, engine=BP)

    def refuse(*_):
        raise AssertionError("sums are exact here")

    monkeypatch.setattr(PairwiseField, "sample_codes", refuse)
    for loss in ("hamming", "f1", "jaccard"):
        np.testing.assert_array_equal(decide(joint, loss), decide(exact, loss))
    np.testing.assert_allclose(joint.entropy(), exact.entropy(), atol=1e-9)
