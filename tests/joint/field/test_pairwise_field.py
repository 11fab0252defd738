"""Pairwise fields: which engine answers for which component, what is said of it, and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.joint import PairwiseField
from colabel.joint.base import APPROXIMATE, EXACT
from tests.joint.oracle import assert_tables, every_vector, make_space

pytestmark = pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
BP = "belief_propagation"


def field_on(edges, d, n_rows=2, scale=1.0, **options):
    rng = np.random.default_rng(d)
    unary = [rng.normal(size=(n_rows, 2)) for _ in range(d)]
    tables = [rng.normal(scale=scale, size=(n_rows, 2, 2)) for _ in edges]
    return PairwiseField(make_space((2,) * d), unary, edges, tables, **options)


def chain_field(d, extra=(), **options):
    return field_on([*((i, i + 1) for i in range(d - 1)), *extra], d, **options)


def dense_field(d, scale=0.2, **options):
    return field_on(list(itertools.combinations(range(d), 2)), d, scale=scale, **options)


@pytest.mark.parametrize("engine", ["enumeration", "junction_tree"])
def test_extreme_scores(engine):
    """Scores far beyond the range of exp, some of them forbidden."""
    unary = [np.array([[0.0, 2000.0]]), np.array([[-3000.0, 0.0]]), np.array([[0.0, -np.inf]])]
    table = np.array([[[1500.0, -1500.0], [-np.inf, 800.0]]])
    edges = [(0, 1), (1, 2), (0, 2)]
    joint = PairwiseField(make_space((2,) * 3), unary, edges, [table] * 3, engine=engine)
    every = joint.rows(np.zeros(8, dtype=np.intp))
    # y2 is 0 and nothing may be 1 before it: one vector is left
    np.testing.assert_array_equal(joint.mode_codes(), [[0, 0, 0]])
    prob = np.exp(every.log_prob_codes(every_vector((2,) * 3)))
    np.testing.assert_array_equal(prob, [1, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(joint.marginals(), [[0.0, 0.0, 0.0]])
    assert joint.entropy() == 0.0


# ------------------------------------------------------------------------------ which engine

CIRCLE = {"extra": [(0, 19)]}


@pytest.mark.parametrize(
    ("field", "d", "options", "engine", "said"),
    [
        (dense_field, 10, {}, "enumeration", EXACT),
        (dense_field, 10, {"memory": 16 * 2**10}, "enumeration", EXACT),
        (dense_field, 10, {"memory": 16 * 2**10 - 1}, BP, APPROXIMATE),
        (dense_field, 6, {"engine": BP}, BP, APPROXIMATE),
        (dense_field, 24, {}, BP, APPROXIMATE),
        (chain_field, 40, {}, "junction_tree", EXACT),
        (chain_field, 20, CIRCLE, "junction_tree", EXACT),
        (chain_field, 20, {**CIRCLE, "memory": 1000}, BP, APPROXIMATE),
        (chain_field, 6, {"engine": BP}, BP, EXACT),
        (chain_field, 6, {"engine": BP, "max_iter": 1}, BP, EXACT),
        (chain_field, 6, {"engine": BP, "memory": 100}, BP, {"sums", "log_prob"}),
        (chain_field, 6, {"engine": "gibbs"}, "gibbs", {"mode"}),
    ],
)
def test_the_cheapest_exact_engine_that_fits_is_chosen_and_says_what_it_is(
    field, d, options, engine, said
):
    joint = field(d, **options)
    assert joint.engine == engine
    assert joint.exact == joint.report.exact == said
    assert f"{str(joint.exact).capitalize()}: {engine.replace('_', ' ')} ({d} labels)" in joint.how
    assert ("estimate of log Z" in joint.how) == ("log_prob" not in said)
    assert f", {joint.exact}," in joint.report.to_text()
    if said == EXACT and "max_iter" not in options:
        assert joint.report.converged is None or joint.report.converged.all()


@pytest.mark.parametrize("engine", ["enumeration", "junction_tree"])
def test_a_named_engine_that_does_not_fit_is_refused(engine):
    with pytest.raises(ValueError, match=f"engine='{engine}' cannot answer a component of 12 labe"):
        dense_field(12, engine=engine, memory=1000)


def test_components_have_their_own_engines():
    edges = [(0, 3), (3, 5), (0, 5), *((i, i + 1) for i in range(6, 39))]
    joint = field_on(edges, 42)
    assert joint.engine == "enumeration + junction_tree"
    assert joint.how == (
        "Exact: enumeration (3 labels), closed form (5 labels), junction tree (34 labels)."
    )
    first = joint.report.components[0]
    assert (first.labels, first.note) == (("y0", "y3", "y5"), "all 8 label vectors")
    whole = joint.given_codes(np.full((2, 42), -1, dtype=np.int32))
    np.testing.assert_allclose(whole.marginals(), joint.marginals())
    unary = [joint.unary[i] for i in (0, 3, 5)]
    tables = [joint.tables[joint.edges.tolist().index(list(edge))] for edge in edges[:3]]
    alone = PairwiseField(make_space((2,) * 3), unary, [(0, 1), (1, 2), (0, 2)], tables)
    np.testing.assert_allclose(joint.marginals()[:, [0, 3, 5]], alone.marginals())
    # labels of different components are independent
    single = joint.marginal_tables()
    np.testing.assert_allclose(joint.pair_table(3, 7)[:, 1, 1], single[3][:, 1] * single[7][:, 1])
    codes, log_prob = joint.top_k_codes(5)
    for rank in range(5):
        np.testing.assert_allclose(log_prob[:, rank], joint.log_prob_codes(codes[:, rank]))
    np.testing.assert_array_equal(codes[:, 0], joint.mode_codes())


def test_all_components_must_agree():
    both = field_on([(0, 1), (1, 2), (3, 4), (4, 5), (3, 5)], 6, engine=BP)  # chain and circle
    assert [part.exact for part in both.report.components] == [EXACT, APPROXIMATE]
    assert both.exact == APPROXIMATE
    opened = both.given({"y5": 1})  # the circle is a chain now
    assert opened.exact == EXACT


def test_known_labels_leave_the_graph():
    joint, evidence = dense_field(20, memory=2**18), {f"y{i}": 1 for i in range(10)}
    assert joint.exact == APPROXIMATE
    known = joint.given(evidence)
    assert known.engine == "enumeration"
    assert known.exact.all
    assert len(known.edges) == 45
    np.testing.assert_array_equal(known.marginals()[:, :10], 1.0)
    np.testing.assert_allclose(known.marginals(), dense_field(20).given(evidence).marginals())


def test_report_in_words():
    assert chain_field(30, extra=[(0, 29)]).report.to_text() == (
        "30 labels (y0, y1, y2, y3, y4, y5, …): junction_tree, exact, treewidth at most 2, "
        "230 table entries per row"
    )
    no_edges = PairwiseField(make_space((2,)), [np.zeros((1, 2))], [], [])
    assert no_edges.engine == "closed_form"
    assert repr(no_edges.report) == "1 label (y0): closed_form, exact, treewidth at most 0"
    assert no_edges.report.converged is None
    assert no_edges.report.exact.all


@pytest.mark.parametrize("engine", [BP, "gibbs"])
def test_threads_do_not_change_the_answer(engine):
    options = {"engine": engine, "n_sweeps": 30, "burn_in": 5}
    one, two = (dense_field(7, n_rows=9, n_jobs=jobs, **options) for jobs in (1, 2))
    np.testing.assert_array_equal(one.marginals(), two.marginals())
    np.testing.assert_array_equal(one.log_partition()[[5, 2]], two[[5, 2]].log_partition())
    np.testing.assert_array_equal(one.sample(7, 3), two.sample(7, 3))
    np.testing.assert_array_equal(one.mode(), two.mode())


def test_chunks_do_not_change_the_answer():
    whole = field_on([*((i, i + 1) for i in range(11)), (0, 11)], 12, n_rows=7)
    small = PairwiseField(  # a row or two at a time
        whole.space, whole.unary, whole.edges, whole.tables, n_jobs=1, memory=1500
    )
    assert whole.engine == small.engine == "junction_tree"
    assert_tables(small.marginal_tables(), whole.marginal_tables(), 1e-13)
    drawn = small.sample_codes(3000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), whole.marginals(), atol=0.05)


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("engine", ["enumeration", "junction_tree", BP])
def test_rows_without_any_possible_vector(engine):
    unary, never = [np.zeros((2, 2))] * 2, np.full((1, 2, 2), -np.inf)
    joint = PairwiseField(make_space((2, 2)), unary, [(0, 1)], [never], engine=engine)
    for ask in (joint.marginals, joint.mode, lambda: joint.log_prob([0, 0])):
        with pytest.raises(ValueError, match="2 of 2 rows have no possible label vector"):
            ask()


def test_impossible_evidence_is_noticed():
    differ = np.array([[[-np.inf, 0.0], [0.0, -np.inf]]])
    unary, edges = [np.zeros((1, 2))] * 4, [(0, 1), (1, 2), (2, 3)]
    joint = PairwiseField(make_space((2,) * 4), unary, edges, [differ] * 3, engine=BP)
    np.testing.assert_allclose(joint.given({"y0": 1}).marginals(), [[1, 0, 1, 0]])
    with pytest.raises(ValueError, match="probability zero"):
        joint.given({"y0": 1, "y3": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unary": [np.zeros((2, 2))]}, "There are 1 unary arrays but 2 labels"),
        ({"unary": [np.zeros((2, 2)), np.zeros((3, 2))]}, r"label 'y1' have shape \(3, 2\) but"),
        ({"unary": [np.zeros((2, 2)), np.full((2, 2), np.nan)]}, "label 'y1' holds nan at"),
        ({"edges": [(0, 1, 2)]}, r"edges has shape \(1, 3\)"),
        ({"edges": [(0.0, 1.0)]}, "type float64 but must be an integer"),
        ({"edges": [(0, 2)]}, r"Edge \(0, 2\) names a label that does not exist"),
        ({"edges": [(1, 1)]}, "joins label 'y1' to itself"),
        ({"edges": [(0, 1), (1, 0)]}, "There are 1 tables but 2 edges"),
        (
            {"edges": [(0, 1), (1, 0)], "tables": [np.zeros((1, 2, 2))] * 2},
            r"Edge \(1, 0\) is given twice",
        ),
        ({"tables": [np.zeros((3, 2, 2))]}, r"has shape \(3, 2, 2\) but must have \(2, 2, 2\)"),
        ({"tables": [np.full((1, 2, 2), np.inf)]}, r"edge \(0, 1\) holds inf at \(0, 0, 0\)"),
        ({"engine": "magic"}, "engine='magic' must be one of 'auto', 'enumeration'"),
        ({"memory": 0}, "memory=0 must be an integer of at least 1"),
        ({"damping": 1.0}, "damping=1.0 must be at least 0 and below 1"),
        ({"tol": 0.0}, "tol=0.0 must be a positive"),
        ({"n_chains": 1.5}, "n_chains=1.5 must be an integer"),
        *(
            ({"start": start}, r"start has shape .* must hold codes \(2, 2\)")
            for start in ([[0, 2]] * 2, [[0]] * 2, [[0.0, 1.0]] * 2, [[0, -1]] * 2)
        ),
    ],
)
def test_wrong_arguments_are_answered_with_sentences(change, message):
    arguments = {
        "unary": [np.zeros((2, 2))] * 2,
        "edges": [(0, 1)],
        "tables": [np.zeros((1, 2, 2))],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        PairwiseField(make_space((2, 2)), **arguments)
