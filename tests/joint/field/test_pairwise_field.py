"""Every answer of a pairwise field, by each exact engine, compared with enumeration by loops."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import strategies as st

from colabel.joint import PairwiseField
from colabel.joint.base import APPROXIMATE
from tests.joint.oracle import Enumerated, make_space

pytestmark = pytest.mark.filterwarnings("error")  # -inf must not warn anywhere


def oracle_of(cardinalities, unary, edges, tables):
    def score(r, y):
        pairs = zip(edges, tables, strict=True)
        return [unary[i][r, v] for i, v in enumerate(y)] + [
            table[r if len(table) > 1 else 0, y[i], y[j]] for (i, j), table in pairs
        ]

    return Enumerated.of_scores(tuple(cardinalities), len(unary[0]), score)


def scores(rng, shape, style):
    """Scores: smooth, some of them forbidden, or full of ties."""
    if style == "ties":
        return rng.integers(-1, 2, size=shape).astype(float)
    found = rng.normal(scale=1.5, size=shape)
    if style == "zeros":
        found[rng.random(shape) < 0.15] = -np.inf
    return found


@st.composite
def fields(draw, max_labels=6, max_values=3, max_rows=3, styles=("smooth", "ties", "zeros")):
    """Cardinalities, unary, edges, tables and a generator; every row has a possible vector."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, max_labels))
    sizes = tuple(draw(st.lists(st.integers(1, max_values), min_size=d, max_size=d)))
    density = draw(st.sampled_from([0.0, 0.3, 0.6, 1.0]))
    style = draw(st.sampled_from(styles))
    n_rows = draw(st.integers(1, max_rows))
    pairs = [p for p in itertools.combinations(range(d), 2) if rng.random() < density]
    edges = [(j, i) if rng.random() < 0.3 else (i, j) for i, j in pairs]
    unary = [scores(rng, (n_rows, k), style) for k in sizes]
    tables = [
        scores(rng, (1 if rng.random() < 0.3 else n_rows, sizes[i], sizes[j]), style)
        for i, j in edges
    ]
    possible = rng.integers(0, sizes, size=(n_rows, d))
    for i, one in enumerate(unary):
        at = np.arange(n_rows), possible[:, i]
        one[at] = np.maximum(one[at], -2.0)
    for (i, j), table in zip(edges, tables, strict=True):
        at = np.arange(n_rows) if len(table) > 1 else 0, possible[:, i], possible[:, j]
        table[at] = np.maximum(table[at], -2.0)
    return sizes, unary, edges, tables, rng


def build(instance, **options):
    sizes, unary, edges, tables, rng = instance
    joint = PairwiseField(make_space(sizes), unary, edges, tables, **options)
    return joint, oracle_of(sizes, unary, edges, tables), rng


def test_tables_of_the_edges():
    joint = chain_field(5, extra=[(4, 0)])
    for (i, j), table in zip(joint.edges, joint.edge_tables(), strict=True):
        np.testing.assert_allclose(table, joint.pair_table(i, j), atol=1e-12)


@pytest.mark.parametrize("engine", ["enumeration", "junction_tree"])
def test_extreme_scores(engine):
    """Scores far beyond the range of exp, some of them forbidden."""
    unary = [np.array([[0.0, 2000.0]]), np.array([[-3000.0, 0.0]]), np.array([[0.0, -np.inf]])]
    table = np.array([[[1500.0, -1500.0], [-np.inf, 800.0]]])
    joint = PairwiseField(
        make_space((2,) * 3), unary, [(0, 1), (1, 2), (0, 2)], [table] * 3, engine=engine
    )
    codes = np.array(list(itertools.product((0, 1), repeat=3)), dtype=np.int32)
    every = joint.rows(np.zeros(8, dtype=np.intp))
    # y2 is 0 and nothing may be 1 before it: one vector is left
    np.testing.assert_array_equal(joint.mode_codes(), [[0, 0, 0]])
    np.testing.assert_array_equal(np.exp(every.log_prob_codes(codes)), [1, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(joint.marginals(), [[0.0, 0.0, 0.0]])
    assert joint.entropy() == 0.0


# ------------------------------------------------------------------------------ which engine


def chain_field(d, n_rows=2, extra=(), size=2, **options):
    rng = np.random.default_rng(d)
    edges = [(i, i + 1) for i in range(d - 1)] + list(extra)
    unary = [rng.normal(size=(n_rows, size)) for _ in range(d)]
    tables = [rng.normal(size=(n_rows, size, size)) for _ in edges]
    return PairwiseField(make_space((size,) * d), unary, edges, tables, **options)


def dense_field(d, n_rows=2, scale=0.2, **options):
    rng = np.random.default_rng(d)
    edges = list(itertools.combinations(range(d), 2))
    unary = [rng.normal(size=(n_rows, 2)) for _ in range(d)]
    tables = [rng.normal(scale=scale, size=(n_rows, 2, 2)) for _ in edges]
    return PairwiseField(make_space((2,) * d), unary, edges, tables, **options)


def test_the_cheapest_exact_engine_that_fits_is_chosen():
    assert dense_field(10).engine == "enumeration"
    assert chain_field(40).engine == "junction_tree"
    assert chain_field(40).exact.all
    large = dense_field(24)
    assert large.engine == "belief_propagation"
    assert large.exact == APPROXIMATE
    assert "belief propagation (24 labels)" in large.how
    assert "estimate of log Z" in large.how


def test_memory_decides():
    assert dense_field(10, memory=16 * 2**10).engine == "enumeration"
    assert dense_field(10, memory=16 * 2**10 - 1).engine == "belief_propagation"
    width_two = chain_field(20, extra=[(0, 19)])
    assert width_two.engine == "junction_tree"
    assert width_two.report.components[0].treewidth == 2
    assert chain_field(20, extra=[(0, 19)], memory=1000).engine == "belief_propagation"


@pytest.mark.parametrize("engine", ["enumeration", "junction_tree"])
def test_a_named_engine_that_does_not_fit_is_refused(engine):
    with pytest.raises(ValueError, match=f"engine='{engine}' cannot answer a component of 12 labe"):
        dense_field(12, engine=engine, memory=1000)


def test_components_have_their_own_engines():
    rng = np.random.default_rng(0)
    edges = [(0, 3), (3, 5), (0, 5), *((i, i + 1) for i in range(6, 39))]
    sizes = (2,) * 42
    unary = [rng.normal(size=(2, 2)) for _ in sizes]
    tables = [rng.normal(size=(1, 2, 2)) for _ in edges]
    joint = PairwiseField(make_space(sizes), unary, edges, tables)
    assert joint.engine == "enumeration + junction_tree"
    assert joint.how == (
        "Exact: enumeration (3 labels), closed form (5 labels), junction tree (34 labels)."
    )
    first = joint.report.components[0]
    assert (first.labels, first.note) == (("y0", "y3", "y5"), "all 8 label vectors")
    whole = joint.given_codes(np.full((2, 42), -1, dtype=np.int32))
    np.testing.assert_allclose(whole.marginals(), joint.marginals())
    alone = PairwiseField(
        make_space((2,) * 3), [unary[i] for i in (0, 3, 5)], [(0, 1), (1, 2), (0, 2)], tables[:3]
    )
    np.testing.assert_allclose(joint.marginals()[:, [0, 3, 5]], alone.marginals())
    # labels of different components are independent
    single = joint.marginal_tables()
    np.testing.assert_allclose(joint.pair_table(3, 7)[:, 1, 1], single[3][:, 1] * single[7][:, 1])
    codes, log_prob = joint.top_k_codes(5)
    for rank in range(5):
        np.testing.assert_allclose(log_prob[:, rank], joint.log_prob_codes(codes[:, rank]))
    np.testing.assert_array_equal(codes[:, 0], joint.mode_codes())


def test_known_labels_leave_the_graph():
    joint = dense_field(20, engine="auto", memory=2**18)
    assert joint.exact == APPROXIMATE
    known = joint.given({f"y{i}": 1 for i in range(10)})
    assert known.engine == "enumeration"
    assert known.exact.all
    assert len(known.edges) == 45
    np.testing.assert_array_equal(known.marginals()[:, :10], 1.0)
    exact = dense_field(20, engine="auto").given({f"y{i}": 1 for i in range(10)})
    np.testing.assert_allclose(known.marginals(), exact.marginals())


def test_report_in_words():
    text = chain_field(30, extra=[(0, 29)]).report.to_text()
    assert text == (
        "30 labels (y0, y1, y2, y3, y4, y5, …): junction_tree, exact, treewidth at most 2, "
        "230 table entries a row"
    )
    no_edges = PairwiseField(make_space((2,)), [np.zeros((1, 2))], [], [])
    assert no_edges.engine == "closed_form"
    assert repr(no_edges.report) == "1 label (y0): closed_form, exact, treewidth at most 0"
    assert no_edges.report.converged is None
    assert no_edges.report.exact.all


def test_pickle_and_empty_batches():
    for joint in (dense_field(4), chain_field(20), dense_field(6, engine="belief_propagation")):
        copy = pickle.loads(pickle.dumps(joint))
        np.testing.assert_array_equal(copy.marginals(), joint.marginals())
        empty = joint[:0]
        assert empty.marginals().shape == (0, joint.space.n_labels)
        assert empty.mode().shape == (0, joint.space.n_labels)
        assert empty.top_k(3).labels.shape == (0, 3, joint.space.n_labels)
        assert empty.sample(2).shape == (2, 0, joint.space.n_labels)
        assert empty.log_partition().shape == (0,)


def test_in_the_users_terms():
    joint = chain_field(3)
    given = joint.given({"y1": 1})
    np.testing.assert_allclose(
        joint.log_prob([[1, 1, 0]] * 2),
        given.log_prob([[1, 1, 0]] * 2) + joint.log_prob([[np.nan, 1, np.nan]] * 2),
    )
    table = joint.pair_marginals("y0", "y2")
    np.testing.assert_allclose(table, joint.pair_marginals("y2", "y0").transpose(0, 2, 1))
    np.testing.assert_allclose(joint.pair_table(1, 1)[:, 1, 1], joint.marginals()[:, 1])


# ------------------------------------------------------------------------------------- errors


def test_rows_without_any_possible_vector():
    never = np.full((1, 2, 2), -np.inf)
    unary = [np.zeros((2, 2))] * 2
    for engine in ("enumeration", "junction_tree", "belief_propagation"):
        joint = PairwiseField(make_space((2, 2)), unary, [(0, 1)], [never], engine=engine)
        with pytest.raises(ValueError, match="2 of 2 rows have no possible label vector"):
            joint.marginals()
        with pytest.raises(ValueError, match="no possible label vector"):
            joint.log_prob([0, 0])


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
