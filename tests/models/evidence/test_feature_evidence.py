"""Feature evidence: sums held to the joint, terms held to brute force, planted columns found."""

from __future__ import annotations

import itertools
from math import factorial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from colabel import (
    CDN,
    CTBN,
    BinaryRelevance,
    ClassifierChain,
    CollectiveCRF,
    JointForest,
    KernelFeatures,
    MLkNN,
    PairwiseCRF,
    feature_evidence,
    joint_of,
)
from colabel.models.evidence.evidence import shapley_values

LINEAR = [
    BinaryRelevance(C=1.0),
    CDN(C=1.0, n_sweeps=50, random_state=0),
    PairwiseCRF(C=1.0, ridge=0.1, group=0.01, random_state=0),
    PairwiseCRF(C=1.0, ridge=0.1, group=0.01, edge_features="none", random_state=0),
    CollectiveCRF(C=1.0, random_state=0),
]
OTHERS = [
    CTBN(C=1.0, random_state=0),
    ClassifierChain(C=1.0, random_state=0),
    JointForest(n_estimators=20, random_state=0),
    MLkNN(k=5),
    BinaryRelevance(estimator=LogisticRegression()),
    BinaryRelevance(C=1.0, calibrate=True, random_state=0),
    CollectiveCRF(C=1.0, training="supported", random_state=0),
    make_pipeline(StandardScaler(), BinaryRelevance(C=1.0)),
    make_pipeline(KernelFeatures(n_landmarks=10, random_state=0), CTBN(C=1.0, random_state=0)),
]


def named(model):
    kind = "+".join(type(step).__name__ for _, step in getattr(model, "steps", [("", model)]))
    said = model.get_params(deep=False)
    return f"{kind}-{said.get('edge_features', '')}{said.get('training', '')}"


@pytest.fixture(scope="module")
def rows():
    """Label a follows x0, b follows x1 and a, c follows x2 and b."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 5)) + 0.5
    a = X[:, 0] - 0.5 + 0.4 * rng.normal(size=240) > 0
    b = X[:, 1] - 1.0 + a + 0.4 * rng.normal(size=240) > 0
    c = X[:, 2] - 1.0 + b + 0.4 * rng.normal(size=240) > 0
    return X, np.stack([a, b, c], axis=1).astype(int)


def log_odds_by_joint(joint, label, answer):
    """Log P(1 | others) - log P(0 | others), the others as in the answer."""
    on, off = answer.copy(), answer.copy()
    on[label], off[label] = 1, 0
    return float(joint.log_prob(on)[0] - joint.log_prob(off)[0])


@pytest.mark.parametrize("model", LINEAR, ids=named)
def test_linear_terms_sum_to_the_log_odds_given_the_others(rows, model):
    X, Y = rows
    model = model.fit(X, Y, label_names=["a", "b", "c"])
    for row in (0, 11):
        found = feature_evidence(model, X, row)
        assert found.method == "linear"
        joint = model.joint(X[[row]])
        answer = joint.mode()[0]
        for i in range(3):
            if isinstance(model, CDN):  # whose joint is sampled: ask its conditionals
                given = joint.conditionals.log_prob(answer[None, None].astype(np.int32), i)[0, 0]
                true = given[1] - given[0]
            else:
                true = log_odds_by_joint(joint, i, answer)
            assert found.log_odds[i] == pytest.approx(true, abs=1e-6)
            total = found.average[i] + sum(term.log_odds for term in found.terms(i))
            assert total == pytest.approx(true, abs=1e-6)


def test_binary_relevance_by_its_coefficients(rows):
    """Exactly, and by Shapley values of orders drawn."""
    X, Y = rows
    model, mean = BinaryRelevance(C=1.0).fit(X, Y), X[:20].mean(axis=0)
    drawn = {"method": "shapley", "n_orders": 40, "random_state": 5}
    for options in ({}, drawn):
        found = feature_evidence(model, X, 7, background=X[:20], **options)
        for i, (coef,) in enumerate(model.models_.coef):
            np.testing.assert_allclose(found.columns[i], coef[:-1] * (X[7] - mean), atol=1e-8)
            assert found.average[i] == pytest.approx(coef[:-1] @ mean + coef[-1])
        assert options or not found.labels.any()


@pytest.mark.parametrize("model", OTHERS, ids=named)
def test_shapley_values_sum_to_the_log_odds(rows, model):
    X, Y = rows
    model = model.fit(X, Y)
    found = feature_evidence(model, X, 5, n_orders=10)
    assert found.method == "shapley"
    alone = found.average + found.columns.sum(axis=1)
    odds = np.log(found.prob / (1 - found.prob))
    np.testing.assert_allclose(alone, odds, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X[[5]])[0], found.prob, rtol=1e-9)
    joint = joint_of(model, X[[5]])
    answer = joint.mode()[0]
    for i in range(3):
        true = np.clip(log_odds_by_joint(joint, i, answer), -np.log(1e9), np.log(1e9))
        assert found.log_odds[i] == pytest.approx(true, abs=1e-6)


@pytest.mark.parametrize(
    "model", [CDN(C=1.0, random_state=0), JointForest(n_estimators=50, random_state=0)], ids=named
)
def test_planted_columns_and_labels_are_found(rows, model):
    X, Y = rows
    model = model.fit(X, Y, label_names=["a", "b", "c"])
    row = int(np.argmax(X[:, :3].min(axis=1)))  # all three columns speak for their labels
    found = feature_evidence(model, X, row)
    for name, column in (("a", "x0"), ("b", "x1"), ("c", "x2")):
        columns = [term for term in found.terms(name) if term.kind == "column"]
        assert columns[0].name == column
        assert columns[0].log_odds > 0
    of_b = {term.name: term.log_odds for term in found.terms("b") if term.kind == "label"}
    assert of_b["a"] > 0


def test_shapley_values_of_every_order_by_brute_force():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=4), rng.normal(size=(1, 4))
    owner = np.array([0, 1, 1, 2])

    def answer(rows):
        return np.stack([rows[:, 0] * rows[:, 1] + rows[:, 3], np.sin(rows.sum(axis=1))], axis=1)

    def value(terms):
        return answer(np.where(np.isin(owner, list(terms)), x, z))[0]

    true = np.zeros((2, 3))
    for g in range(3):
        rest = [t for t in range(3) if t != g]
        for size in range(3):
            weight = factorial(size) * factorial(2 - size) / factorial(3)
            for chosen in itertools.combinations(rest, size):
                true[:, g] += weight * (value({*chosen, g}) - value(chosen))
    found = shapley_values(answer, x, z, owner, 4000, np.random.default_rng(1))
    np.testing.assert_allclose(found.values, true, atol=0.05)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), answer(x[None])[0])
    # of two factors alone, forwards and backwards is every order there is
    np.testing.assert_allclose(found.values[0], true[0])


def test_terms_of_labels_are_exact_shapley_values(rows):
    X, Y = rows
    model = CTBN(C=1.0, random_state=0).fit(X, Y)
    found = feature_evidence(model, X, 3, n_orders=2)
    joint = model.joint(X[[3]])
    answer = joint.mode()[0]

    def odds(label, known):
        given = joint.given({j: answer[j] for j in known}) if known else joint
        p = given.marginals()[0, label]
        return np.log(p / (1 - p))

    for i in range(3):
        j, k = (other for other in range(3) if other != i)
        first = (odds(i, [j]) - odds(i, []) + odds(i, [j, k]) - odds(i, [k])) / 2
        assert found.labels[i, j] == pytest.approx(first)


def test_known_labels_are_not_explained_and_count_in_full(rows):
    X, Y = rows
    model = CTBN(C=1.0, random_state=0).fit(X, Y, label_names=["a", "b", "c"])
    found = feature_evidence(model, X, 2, given={"a": 1}, n_orders=10)
    assert found.label_names == ("b", "c")
    given = model.joint(X[[2]]).given({"a": 1})
    np.testing.assert_allclose(found.prob, given.marginals()[0, 1:])
    np.testing.assert_allclose(found.labels[:, 0], 0.0, atol=1e-9)


def test_class_variables_speak_of_the_value_of_the_answer(rows):
    X, Y = rows
    colours = np.array(["red", "green", "blue"], dtype=object)[Y.sum(axis=1).clip(0, 2)]
    table = np.stack([colours, Y[:, 0].astype(object)], axis=1)
    model = CTBN(C=1.0, random_state=0).fit(X, table, label_names=["colour", "a"])
    found = feature_evidence(model, X, 4, n_orders=10)
    colour = model.joint(X[[4]]).mode()[0, 0]
    assert found.statement(0) == f"colour = {colour}"
    tables = model.joint(X[[4]]).marginal_tables()
    assert found.prob[0] == pytest.approx(tables[0][0].max())
    alone = found.average[0] + found.columns[0].sum()
    assert alone == pytest.approx(np.log(found.prob[0] / (1 - found.prob[0])))


@pytest.mark.parametrize("model", [BinaryRelevance(C=1.0), JointForest(n_estimators=10)], ids=named)
def test_sparse_rows_share_a_term_for_their_zeros(rows, model):
    X, Y = rows
    X = sp.csr_array(np.where(X > 0.8, X, 0.0))
    model = model.fit(X, Y)
    found = feature_evidence(model, X, 1, n_orders=10)
    row = X[[1]].toarray()[0]
    assert found.names == (*(f"x{i}" for i in np.flatnonzero(row)), "features that are 0")
    odds = np.log(found.prob / (1 - found.prob))
    np.testing.assert_allclose(found.average + found.columns.sum(axis=1), odds, rtol=1e-6)


def test_many_labels_those_in_question_are_explained(rows):
    X, _ = rows
    Y = np.zeros((len(X), 15), dtype=int)
    Y[:, :3] = rows[1]
    Y[::7, 3:] = 1
    model = BinaryRelevance(C=1.0).fit(X, Y)
    found = feature_evidence(model, X, 0)
    assert len(found.positions) == 8
    present = np.flatnonzero(model.joint(X[[0]]).mode()[0])
    assert set(present[:8]) <= set(found.positions)
    asked = feature_evidence(model, X, 0, labels=["y14", 2])
    assert asked.label_names == ("y14", "y2")


def test_for_people(rows):
    pandas = pytest.importorskip("pandas")
    X, Y = rows
    names = ["one", "<script>two", "three", "four", "five"]
    frame = pandas.DataFrame(X, columns=names)
    model = BinaryRelevance(C=1.0).fit(frame, Y, label_names=["a", "<b>", "c"])
    found = feature_evidence(model, frame, 0)
    sums = found.table.groupby("label", sort=False)["log_odds"].sum()
    np.testing.assert_allclose(sums.to_numpy(), found.log_odds)
    html = found._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<script>" not in html
    assert "P = " in str(found)
    plain = found.to_dict(n_terms=2)
    assert [len(one["terms"]) for one in plain["labels"]] == [2, 2, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row": 240}, "row=240 is not there: X has 240 rows"),
        ({"method": "magic"}, "method='magic' must be"),
        ({"n_orders": 1}, "n_orders=1 must be an integer of at least 2"),
        ({"background": np.zeros((5, 2))}, "background has 2 columns and X has 5"),
        ({"background": np.zeros((1, 5))}, "only one: give some as background"),
        ({"labels": ["nothing"]}, "nothing"),
    ],
)
def test_wrong_use_is_told(rows, options, words):
    X, Y = rows
    with pytest.raises((ValueError, KeyError), match=words):
        feature_evidence(BinaryRelevance(C=1.0).fit(X, Y), X, **options)
    with pytest.raises(ValueError, match="JointForest has no log-odds that are linear"):
        feature_evidence(JointForest(n_estimators=5).fit(X, Y), X, method="linear")
    with pytest.raises(TypeError, match="has no joint"):
        feature_evidence(DecisionTreeClassifier().fit(X[:40], Y[:40]), X[:40])
