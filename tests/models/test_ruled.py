"""RuledClassifier: every answer obeys, and is the model's own, conditioned."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import (
    CTBN,
    BinaryRelevance,
    ConformalSets,
    JointForest,
    RuledClassifier,
    next_question,
)
from colabel.datasets import load_digit_traits
from colabel.rules import Rules

RULES = "square -> not prime\neven and prime -> not above_four\n1.. of *"


@pytest.fixture(scope="module")
def data():
    return load_digit_traits()


def rows(data, n=300):
    return data.X[:n], np.asarray(data.Y[:n])


def ruled(data, inner, n=300, **options):
    X, Y = rows(data, n)
    return RuledClassifier(inner, RULES, **options).fit(X, Y, label_names=data.label_names)


@pytest.mark.parametrize("decision", ["subset", "hamming", "f1", "jaccard"])
@pytest.mark.parametrize(
    "inner", [BinaryRelevance(C=0.001), CTBN(C=0.01), JointForest(n_estimators=20)]
)
@pytest.mark.filterwarnings("ignore:Of .* break rules")
def test_every_prediction_obeys(data, inner, decision):
    model = ruled(data, inner, decision=decision, random_state=0)
    predicted = model.predict(data.X[300:400])
    assert not len(Rules.parse(RULES).violations(predicted, data.label_names).rows)
    plain = inner.__class__(**inner.get_params()).set_params(decision=decision)
    broken = Rules.parse(RULES).violations(
        plain.fit(*rows(data)).predict(data.X[300:400]), data.label_names
    )
    assert len(broken.rows) or not isinstance(inner, BinaryRelevance)


@pytest.mark.filterwarnings("ignore:Of .* break rules")
def test_its_joint_is_the_conditioned_one(data):
    model = ruled(data, CTBN(C=0.01, random_state=0))
    new = data.X[300:320]
    expected = model.estimator_.joint(new).subject_to(RULES)
    np.testing.assert_allclose(model.joint(new).marginals(), expected.marginals())


def test_what_builds_on_joints_obeys_too(data):
    X, Y = rows(data)
    names = data.label_names
    inner = RuledClassifier(BinaryRelevance(C=0.01), RULES, violations="keep")
    sets = ConformalSets(inner, random_state=0).fit(X, Y, label_names=names)
    listed = sets.predict_sets(data.X[300:310])
    vectors = listed.space.values(listed.codes)
    assert not len(Rules.parse(RULES).violations(vectors, names).rows)
    model = RuledClassifier(BinaryRelevance(C=0.01), "a -> b").fit(
        X, Y[:, :2], label_names=["a", "b"]
    )
    asked = next_question(model.joint(data.X[300:310]).given({"a": 1}))
    assert not asked.is_open[:, 1].any()  # b follows
    with pytest.raises(ValueError, match="zero"):
        model.joint(data.X[300:310]).given({"a": 1, "b": 0})


def test_rows_that_break_a_rule_are_dropped_kept_or_refused(data):
    X, Y = rows(data)
    Y = Y.copy()
    Y[[3, 8], 1] = Y[[3, 8], 2] = 1
    names = data.label_names
    n_broken = len(np.unique(Rules.parse(RULES).violations(Y, names).rows))
    with pytest.warns(
        UserWarning,
        match=rf"(?s)Of 300 training rows, {n_broken} rows break rules:\n  line 1, 'square -> not "
        r"prime': \d+ rows \(3, .*They are left out",
    ):
        model = RuledClassifier(BinaryRelevance(C=0.1), RULES).fit(X, Y, label_names=names)
    obeys = np.setdiff1d(np.arange(300), Rules.parse(RULES).violations(Y, names).rows)
    alone = BinaryRelevance(C=0.1, random_state=0).fit(X[obeys], Y[obeys])
    np.testing.assert_allclose(
        model.estimator_.predict_proba(X[:5]), alone.predict_proba(X[:5]), atol=1e-6
    )
    with pytest.raises(ValueError, match="Mend them"):
        RuledClassifier(BinaryRelevance(), RULES, violations="refuse").fit(X, Y, label_names=names)
    kept = RuledClassifier(BinaryRelevance(C=0.1), RULES, violations="keep")
    assert kept.fit(X, Y, label_names=names).n_violating_ == n_broken


@pytest.mark.parametrize(
    ("rules", "match"),
    [
        ("sqare -> prime", "sqare"),
        (3, "rules=3"),
        ("# none\nall of *", r"(?s)Of 300 .*line 2, 'all of \*': 300 rows \(0, .*Mend"),
    ],
)
def test_rules_that_do_not_fit_the_labels_are_said(data, rules, match):
    with pytest.raises(ValueError, match=match):
        RuledClassifier(BinaryRelevance(), rules).fit(*rows(data), label_names=data.label_names)


@pytest.mark.filterwarnings("ignore:Of .* break rules")
def test_rules_are_read_once_a_fit(data, monkeypatch):
    read, parse = [], Rules.parse
    monkeypatch.setattr(Rules, "parse", lambda text, **of: read.append(text) or parse(text, **of))
    model = ruled(data, BinaryRelevance(C=0.01), decision="f1")
    for start in range(300, 340, 10):
        model.predict(data.X[start : start + 10])
        model.joint(data.X[start : start + 10])
    assert len(read) <= 2  # as they were given, and as the model keeps them
