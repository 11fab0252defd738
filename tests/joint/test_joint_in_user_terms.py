"""The public face of Joint: label values in, label values out, evidence in several forms."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import colabel
import colabel.metrics
from colabel.joint import Independent, Joint, Tree
from colabel.labels import LabelSpace
from tests.joint.families import of_marginals


@pytest.fixture
def weather() -> Tree:
    """Three rows; sky (clear, grey, stormy) above wind (calm, strong) and rain (0, 1)."""
    space = LabelSpace(
        ("sky", "wind", "rain"),
        (np.array(["clear", "grey", "stormy"]), np.array(["calm", "strong"]), np.array([0, 1])),
        "matrix",
    )
    rng = np.random.default_rng(5)
    sky = np.log(rng.dirichlet(np.ones(3), size=(3, 1)))
    wind = np.log(rng.dirichlet(np.ones(2), size=(3, 3)))
    rain = np.log(rng.dirichlet(np.ones(2), size=(3, 3)))
    rain[:, 0] = [0.0, -np.inf]  # no rain from a clear sky
    return Tree(space, [-1, 0, 0], [sky, wind, rain])


@pytest.fixture
def tags() -> Independent:
    """Two rows of three 0/1 labels given as sets."""
    space, _ = LabelSpace.infer([{"a", "b"}, {"c"}])
    return Independent(space, of_marginals([[0.9, 0.2, 0.5], [0.1, 0.3, 0.6]]).log_tables)


def test_attributes_modes_and_samples(weather, tags):
    for joint in (weather, tags):
        assert isinstance(joint, Joint)
        assert joint.how.endswith(".")
    assert repr(weather) == "<Tree: 3 rows, 3 labels, exact>"
    assert repr(tags[0]) == "<Independent: 1 row, 3 labels, exact>"
    assert weather.parents.tolist() == [-1, 0, 0]
    each = [weather.log_prob(list(y)) for y in itertools.product(*weather.space.classes)]
    np.testing.assert_allclose(weather.log_prob(weather.mode()), np.max(each, axis=0))
    assert tags.mode().tolist() == [[1, 0, 0], [0, 0, 1]]
    drawn = weather.sample(50, rng=0)
    rainy = drawn[..., 2] == 1
    assert not (drawn[rainy][:, 0] == "clear").any()
    np.testing.assert_array_equal(drawn, weather.sample(50, rng=np.random.default_rng(0)))


def test_marginals_are_an_array_for_binary_labels_and_a_list_otherwise(weather, tags):
    np.testing.assert_allclose(tags.marginals(), [[0.9, 0.2, 0.5], [0.1, 0.3, 0.6]])
    tables = weather.marginals()
    assert [table.shape for table in tables] == [(3, 3), (3, 2), (3, 2)]
    pair = weather.pair_marginals("sky", "rain")
    np.testing.assert_allclose(pair.sum(axis=2), tables[0])
    np.testing.assert_allclose(pair, weather.pair_marginals(2, 0).transpose(0, 2, 1))


STORM = ["stormy", "strong", 1]


@pytest.mark.parametrize(
    "asked",
    [
        [STORM] * 3,
        np.array([STORM] * 3, dtype=object),
        pd.DataFrame([STORM] * 3, columns=["sky", "wind", "rain"]),
    ],
    ids=["list", "array", "frame"],
)
def test_log_prob_takes_tables_and_single_vectors(weather, asked):
    np.testing.assert_array_equal(weather.log_prob(STORM), weather.log_prob(asked))
    assert (weather.log_prob(["clear", "calm", 1]) == -np.inf).all()
    everything = itertools.product(*weather.space.classes)
    total = np.sum([np.exp(weather.log_prob(list(y))) for y in everything], axis=0)
    np.testing.assert_allclose(total, 1.0)
    sky = weather.marginals()[0]  # the log-probability of a part is its marginal
    np.testing.assert_allclose(np.exp(weather.log_prob(["grey", None, np.nan])), sky[:, 1])
    np.testing.assert_allclose(weather.log_prob([None, None, None]), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("asked", "prob"),
    [
        ([{"a"}, {"c"}], [0.36, 0.378]),
        ({"a"}, [0.36, 0.1 * 0.7 * 0.4]),
        ([1, 0, 0], [0.36, 0.1 * 0.7 * 0.4]),
        # of one label: a vector
        (["yes", "no"], [0.7, 0.6]),
        (["yes"], [0.7, 0.4]),
        ([None, "no"], [1.0, 0.6]),
    ],
)
def test_log_prob_takes_sets_and_vectors(tags, asked, prob):
    if "yes" in asked or "no" in asked:
        space, _ = LabelSpace.infer(["no", "yes"])
        tags = Independent(space, [np.log([[0.3, 0.7], [0.6, 0.4]])])
    np.testing.assert_allclose(np.exp(tags.log_prob(asked)), prob)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda w: w.log_prob([["grey", "calm", 0]] * 2), ValueError, "for 2 rows but this joint"),
        (lambda w: w.log_prob([["grey", "calm", 0]]), ValueError, "for 1 rows but this joint has"),
        (
            lambda w: w.log_prob(["grey", "calm"]),
            ValueError,
            "must have 3 entries, one per label, but this one has 2",
        ),
        (lambda w: w.given({"rain": [0, 1]}), ValueError, "'rain' has shape"),
        (
            lambda w: w.given({"sky": "blue"}),
            ValueError,
            "Label 'sky' is given as 'blue', but the values",
        ),
        (lambda w: w.given({"wnd": "calm"}), KeyError, "wnd"),
        (lambda w: w[3], IndexError, "Row 3 does not exist"),
        (lambda w: w[[True, False]], IndexError, r"mask of shape \(2,\)"),
        (lambda w: w["sky"], IndexError, "not by 'sky'"),
        (lambda w: w.sample(-1), ValueError, "size=-1 must be an integer"),
        (lambda w: w.top_k(0), ValueError, "k=0 must be an integer of at least 1"),
        (lambda w: w.top_k(2.5), ValueError, "k=2.5 must be an integer of at least 1"),
        (lambda w: Joint.pair_table(w, 0, 1), NotImplementedError, r"sample\(size\)"),
        (lambda w: Joint.entropy(w), NotImplementedError, r"sample\(size\)"),
        (lambda w: Joint(None, 1), TypeError, "abstract"),
    ],
)
def test_what_cannot_be_answered_is_explained(weather, ask, error, message):
    with pytest.raises(error, match=message):
        ask(weather)


def test_top_k(weather, tags):
    labels, log_prob = weather.top_k(4)
    assert labels.shape == (3, 4, 3)
    np.testing.assert_array_equal(labels[:, 0], weather.mode())
    for rank in range(4):
        np.testing.assert_allclose(log_prob[:, rank], weather.log_prob(labels[:, rank]))
    everything = tags.top_k(1000)
    assert everything.labels.shape == (2, 8, 3)
    np.testing.assert_allclose(np.exp(everything.log_prob).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "evidence",
    [
        {"rain": 1},
        {2: 1},
        {"rain": [1, 1, 1]},
        {"rain": np.ones(3)},
        {"rain": pd.Series([1, 1, 1])},
        {"rain": 1, "wind": None},
        {"rain": 1, "wind": [None, np.nan, None]},
        {"rain": 1, "wind": pd.Series([None] * 3, dtype="string")},
        [None, None, 1],
        [[None, None, 1]] * 3,
        pd.DataFrame([[None, None, 1]] * 3, columns=["sky", "wind", "rain"]),
    ],
    ids=str,
)
def test_evidence_in_all_its_forms(weather, evidence):
    conditioned = weather.given(evidence)
    assert isinstance(conditioned, Tree)
    sky, _, rain = conditioned.marginals()
    pair = weather.pair_marginals("sky", "rain")
    np.testing.assert_allclose(sky, pair[:, :, 1] / weather.marginals()[2][:, [1]])
    np.testing.assert_allclose(rain, [[0.0, 1.0]] * 3)


def test_evidence_may_differ_between_rows(weather):
    conditioned = weather.given({"wind": ["calm", None, "strong"]})
    wind = conditioned.marginals()[1]
    np.testing.assert_allclose(wind[[0, 2]], [[1, 0], [0, 1]])
    np.testing.assert_allclose(wind[1], weather.marginals()[1][1])


def test_log_prob_given_evidence(weather):
    conditioned = weather.given({"wind": "calm"})
    calm, strong = ["grey", "calm", 0], ["grey", "strong", 0]
    expected = weather.log_prob(calm) - weather.log_prob([None, "calm", None])
    np.testing.assert_allclose(conditioned.log_prob(calm), expected)
    assert (conditioned.log_prob(strong) == -np.inf).all()
    np.testing.assert_allclose(weather.given({}).log_prob(strong), weather.log_prob(strong))
    assert (conditioned.mode()[:, 1] == "calm").all()


def test_impossible_evidence_names_rows_and_labels(weather, tags):
    with pytest.raises(ValueError, match=r"'sky', 'rain' has probability zero in 2 of 3 rows") as e:
        weather.given({"sky": ["clear", "grey", "clear"], "rain": 1})
    assert "rows 0, 2; row 0 has {'sky': clear, 'rain': 1}" in str(e.value)
    certain = tags.given({"a": [1, None]})
    with pytest.raises(ValueError, match=r"on 'a' has probability zero in 1 of 2 rows \(rows 0;"):
        certain.given({"a": 0, "b": 0})
    many = weather[[0] * 9]
    with pytest.raises(ValueError, match=r"rows 0, 1, 2, 3, 4, \.\.\.;"):
        many.given({"sky": "clear", "rain": 1})


def test_rows_can_be_chosen_in_all_the_usual_ways(weather):
    whole = weather.log_prob(["grey", "calm", 0])
    for index, rows in (
        (1, [1]),
        (-1, [2]),
        (np.int64(2), [2]),
        (slice(1, None), [1, 2]),
        ([2, 0, 0], [2, 0, 0]),
        ([True, False, True], [0, 2]),
        ([], []),
    ):
        found = weather[index].log_prob(["grey", "calm", 0])
        np.testing.assert_array_equal(found, whole[rows])
    assert len(weather) == 3
    assert [len(row) for row in weather] == [1, 1, 1]


def test_a_value_never_seen_has_probability_zero(rng):
    X = rng.normal(size=(80, 2))
    Y = np.column_stack([np.digitize(X[:, 0], [0.0]), X[:, 1] > 0]).astype(int)
    model = colabel.BinaryRelevance(C=1.0).fit(X, Y)
    asked = Y[:3].astype(float)
    asked[1, 0] = 7
    with pytest.warns(UserWarning, match="1 of 3 rows hold a value that was never seen"):
        log_prob = model.joint(X[:3]).log_prob(asked)
    assert np.isneginf(log_prob[1])
    assert np.isfinite(log_prob[[0, 2]]).all()
    expected = (log_prob[0] + log_prob[2] - 50.0) / 3
    assert colabel.metrics.joint_log_loss_scorer(model, X[:3], asked) == pytest.approx(expected)
