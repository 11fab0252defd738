"""`colabel.audit`: planted errors are found, by folds that the row is not in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from colabel import (
    BinaryRelevance,
    ClassifierChain,
    JointForest,
    ProbabilisticClassifierChain,
    audit,
)
from colabel.datasets import load_digit_traits
from colabel.rules import Rules
from colabel.tables import make_model


@pytest.fixture(scope="module")
def spoiled():
    """Digits with a twentieth of the labels flipped."""
    data = load_digit_traits()
    X, Y = data.X[:350], np.asarray(data.Y[:350])
    wrong = np.random.default_rng(0).random(Y.shape) < 0.05
    return X, np.where(wrong, 1 - Y, Y), wrong


@pytest.fixture(scope="module")
def found(spoiled):
    X, Y, _ = spoiled
    return audit("auto", X, Y, cv=3)


def test_the_joint_finds_more_than_labels_one_by_one(spoiled, found):
    X, Y, wrong = spoiled
    alone = audit(BinaryRelevance(C=0.01, random_state=0), X, Y, cv=3)
    by_joint, by_label = (
        average_precision_score(wrong.ravel(), one.log_odds.ravel()) for one in (found, alone)
    )
    assert by_joint > 0.9
    assert by_joint > by_label + 0.2
    assert average_precision_score(wrong.any(axis=1), found.score) > 0.9


def test_the_number_of_errors_is_estimated(spoiled, found):
    estimate = found.n_wrong()
    assert estimate.low <= estimate.rate <= estimate.high
    assert estimate.rate == pytest.approx(spoiled[2].sum(), rel=0.5)


def test_corrections_mend_more_than_they_spoil(spoiled, found):
    _, Y, wrong = spoiled
    truth = np.where(wrong, 1 - Y, Y)
    mended, changed = found.corrected(at_least=0.9)
    assert changed.any()
    assert (np.asarray(mended) != truth).sum() < wrong.sum() / 2


class Remembering(BaseEstimator):
    """A model that says which rows it was asked about after which it was fitted to."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.train_ = set(X[:, 0])
        self.inner_ = BinaryRelevance(C=0.1).fit(X, y)
        return self

    def joint(self, X):
        Remembering.seen.append(not self.train_ & set(X[:, 0]))
        return self.inner_.joint(X)


def test_no_row_is_judged_by_a_model_that_saw_it(rng):
    X = np.column_stack([np.arange(60), rng.normal(size=60)])
    Y = (rng.random((60, 2)) < 0.5).astype(int)
    Remembering.seen.clear()
    found = audit(Remembering(), X, Y, cv=KFold(4), n_explained=0)
    assert Remembering.seen == [True] * 4
    assert found.probability.shape == (60, 2)


def test_missing_labels_get_suggestions(spoiled):
    X, Y, _ = spoiled
    holes = Y.astype(float)
    holes[5, 2] = np.nan
    found = audit(JointForest(n_estimators=30, random_state=0), X, holes, cv=3)
    assert found.log_odds[5, 2] == -np.inf
    assert 0.5 <= found.probability[5, 2] <= 1.0


def test_frames_sets_and_class_values_come_back_as_given(spoiled):
    X, Y, _ = spoiled
    names = np.array(list("abcdefg"))
    sets = [set(names[row == 1]) for row in Y[:120]]
    found = audit(BinaryRelevance(C=0.1), X[:120], sets, cv=2)
    assert isinstance(found.corrected(0.99)[0][0], set)
    words = np.where(Y[:120, :2] == 1, "yes", "no")
    frame = audit(ClassifierChain(C=0.1, random_state=0), X[:120], words, cv=2).to_frame(3)
    assert set(frame["given"]) | set(frame["suggestion"]) <= {"yes", "no"}
    assert list(frame.columns) == [
        *("row", "label", "given", "probability", "suggestion", "wrong", "gain", "against")
    ]
    assert frame["wrong"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("model", "cv", "said"),
    [
        ("best", 3, "no model 'best'"),
        ([], 3, "No model was given"),
        (BinaryRelevance(), [(np.arange(10, 20), np.arange(10))], "puts row 10 into 0 test folds"),
    ],
)
def test_what_cannot_be_done_is_said(spoiled, model, cv, said):
    X, Y, _ = spoiled
    with pytest.raises(ValueError, match=said):
        audit(model, X[:20], Y[:20], cv=cv)


def test_models_by_name(spoiled):
    X, Y, _ = spoiled
    named = audit("br", X, Y, cv=3)
    np.testing.assert_array_equal(named.order, audit(make_model("br", 0), X, Y, cv=3).order)


def test_rows_of_a_group_are_judged_together(rng):
    X = np.column_stack([np.arange(60) // 3, rng.normal(size=60)])
    Y = (rng.random((60, 2)) < 0.5).astype(int)
    Remembering.seen.clear()
    audit(Remembering(), X, Y, cv=4, groups=X[:, 0], n_explained=0)
    assert Remembering.seen == [True] * 4


def test_what_speaks_against_a_label_is_named(spoiled, found):
    cells = [tuple(cell) for cell in found.worst_labels[:20].tolist()]
    assert list(found.evidence) == cells
    names = {name for label in range(7) for name in (f"y{label}", f"not y{label}")}
    for (row, label), terms in found.evidence.items():
        nats = [each for _, each in terms]
        assert nats == sorted(nats, reverse=True)
        assert min(nats, default=1.0) >= 0.2
        labels = [what for what, _ in terms if what in names]
        assert found.value_name(row, label) not in labels
        assert len(labels) <= 3
        assert len(terms) - len(labels) <= 3
    assert np.mean([len(terms) > 0 for terms in found.evidence.values()]) > 0.9
    frame = found.to_frame(21)
    assert frame["against"].str.len().gt(0)[:20].mean() > 0.9
    assert frame["against"][20] == ""


def test_the_column_and_the_label_that_give_an_error_away(rng):
    """Label a follows x0 and label b; what is given against both is explained by both."""
    X = rng.normal(size=(300, 4))
    b = rng.integers(0, 2, 300)
    a = ((X[:, 0] > 0) | (b == 1)).astype(int)
    Y = np.stack([a, b], axis=1)
    row = int(np.flatnonzero((X[:, 0] > 1) & (b == 1))[0])
    Y[row, 0] = 0
    chain = ProbabilisticClassifierChain(C=1.0, random_state=0)
    checked = audit(chain, X, Y, cv=3, label_names=["a", "b"], n_explained=1)
    (cell,) = checked.evidence
    assert cell == (row, 0)
    said = [what for what, _ in checked.evidence[cell]]
    assert "b" in said
    assert any(what.startswith("x0 = ") for what in said)
    frame = pd.DataFrame(X, columns=["size", "u", "v", "w"])
    named = audit(chain, frame, Y, cv=3, label_names=["a", "b"], n_explained=1)
    assert "size = " in named.against(row, 0)
    assert not audit(chain, X, Y, cv=3, n_explained=0).evidence


def test_rules_put_the_labels_of_broken_ones_first(spoiled):
    X, Y, _ = spoiled
    names = list("abcdefg")
    rules = Rules.parse("b -> not c")
    broken = np.flatnonzero((Y[:, 1] == 1) & (Y[:, 2] == 1))
    assert len(broken) > 1
    forest = JointForest(n_estimators=30, random_state=0)
    checked = audit(forest, X, Y, cv=2, label_names=names, rules=rules)
    first = checked.worst_labels[: 2 * len(broken)]
    assert {tuple(cell) for cell in first} == {(r, i) for r in broken for i in (1, 2)}
    assert set(checked.order[: len(broken)]) == set(broken)
