"""What a pairwise field says that it answers exactly, question by question, and that it does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.decide import decide
from colabel.joint import PairwiseField
from colabel.joint.exactness import APPROXIMATE, EXACT
from colabel.joint.field import _search as _toulbar2
from tests.joint.field.test_belief import forests
from tests.joint.field.test_pairwise_field import build, chain_field, dense_field, fields
from tests.joint.oracle import make_space, possible_evidence
from tests.joint.test_against_enumeration import assert_best, assert_same

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=40, deadline=None)
BP = "belief_propagation"


def with_solver():
    pytest.importorskip("pytoulbar2", reason="pytoulbar2 is not installed")


@pytest.mark.parametrize(
    ("field", "options", "said"),
    [
        (chain_field, {"engine": BP}, EXACT),
        (chain_field, {"engine": BP, "max_iter": 1}, EXACT),
        (chain_field, {"engine": BP, "mode_engine": "icm"}, {"sums", "log_prob"}),
        (chain_field, {"engine": BP, "memory": 100}, {"sums", "log_prob"}),
        (chain_field, {"engine": "gibbs"}, {"mode"}),
        (chain_field, {"engine": "gibbs", "mode_engine": "icm"}, APPROXIMATE),
        (dense_field, {"engine": BP}, APPROXIMATE),
        (dense_field, {"engine": BP, "mode_engine": "toulbar2"}, {"mode"}),
        (dense_field, {"engine": "gibbs", "mode_engine": "toulbar2"}, {"mode"}),
        (dense_field, {"engine": "enumeration", "mode_engine": "icm"}, EXACT),
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
@given(forests(styles=("smooth", "ties")))
def test_belief_propagation_on_trees_is_exact_in_every_question(instance):
    joint, oracle, rng = build(instance, engine=BP)
    assert joint.exact.all
    assert_same(joint, oracle, rng)
    evidence = possible_evidence(joint, oracle, rng)
    known = joint.given_codes(evidence)
    assert known.exact.all
    assert_same(known, oracle.given(evidence), rng)


@SETTINGS
@given(forests(styles=("smooth", "ties", "zeros")), st.sampled_from(["gibbs", BP]))
def test_the_best_vectors_of_trees(instance, engine):
    # nothing but the estimate of log Z is sampled, and it cancels out of the order
    joint, oracle, _ = build(instance, engine=engine, n_sweeps=4, burn_in=2, n_chains=1)
    assert "mode" in joint.exact
    scores = np.log([max(row.values()) for row in oracle.rows])
    np.testing.assert_allclose(oracle.log_prob(joint.mode_codes()), scores, atol=1e-9)
    codes, _ = joint.top_k_codes(7)
    listed = np.stack([oracle.log_prob(codes[:, rank]) for rank in range(codes.shape[1])], axis=1)
    np.testing.assert_allclose(listed, oracle.best(7), atol=1e-9)


def test_f1_and_entropy_of_a_tree_need_no_draws(monkeypatch):
    exact = chain_field(8, n_rows=30)
    joint = chain_field(8, n_rows=30, engine=BP, mode_engine="icm")

    def refuse(*_):
        raise AssertionError("sums are exact here")

    monkeypatch.setattr(PairwiseField, "sample_codes", refuse)
    for loss in ("hamming", "f1", "jaccard"):
        np.testing.assert_array_equal(decide(joint, loss), decide(exact, loss))
    np.testing.assert_allclose(joint.entropy(), exact.entropy(), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(fields(max_labels=5), st.integers(1, 40))
def test_toulbar2_proves_the_list(instance, k):
    with_solver()
    # elimination gives the constant: only the search is on trial
    joint, oracle, _ = build(instance, engine=BP, mode_engine="toulbar2")
    exact, _, _ = build(instance)
    joint._log_partition = exact._log_partition
    assert_best(joint, oracle, min(k, math.prod(oracle.cardinalities)))
    assert "mode" in joint.exact


def test_toulbar2_lists_what_the_neighbourhood_of_the_mode_misses():
    with_solver()
    options = {"n_rows": 40, "scale": 0.6}
    exact = dense_field(12, **options)
    expected = exact.top_k_codes(8)[1] + exact.log_partition()[:, None]
    for engine, right in (("auto", False), ("toulbar2", True)):
        joint = dense_field(12, engine=BP, mode_engine=engine, **options)
        found = joint.top_k_codes(8)[1] + joint.log_partition()[:, None]
        assert np.allclose(found, expected, atol=1e-9) == right
        assert ("mode" in joint.exact) == right


def counting_field(n_labels, **options):
    """Each label that is 1 costs one nat, whichever it is: lists are full of ties."""
    edges = list(itertools.combinations(range(n_labels), 2))
    unary, nothing = [np.array([[0.0, -1.0]])] * n_labels, [np.zeros((1, 2, 2))] * len(edges)
    return PairwiseField(make_space((2,) * n_labels), unary, edges, nothing, **options)


def test_a_list_that_cannot_be_proved_says_so(monkeypatch):
    with_solver()
    options = {"engine": BP, "mode_engine": "toulbar2"}
    joint = counting_field(8, **options)
    scores = joint.top_k_codes(12)[1] + joint.log_partition()[:, None]
    np.testing.assert_allclose(scores, [[0, *[-1] * 8, *[-2] * 3]], atol=1e-9)
    assert joint.exact == {"mode"}  # 28 vectors tie for the last places: they fit
    monkeypatch.setattr(_toulbar2, "_ROOM", 5)
    cut = counting_field(8, **options)
    assert cut.exact == {"mode"}
    cut.top_k_codes(9)
    assert cut.exact == {"mode"}
    cut.top_k_codes(12)
    assert cut.exact == APPROXIMATE
    assert cut.how.startswith("Approximate: ")
    # as many vectors as there are modes need no list
    tied = PairwiseField(
        make_space((2,) * 4),
        [np.zeros((1, 2))] * 4,
        list(itertools.combinations(range(4), 2)),
        [np.zeros((1, 2, 2))] * 6,
        **options,
    )
    tied.top_k_codes(10)
    assert tied.exact == {"mode"}
