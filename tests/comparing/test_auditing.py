"""`colabel.audit`: planted errors are found, by folds that the row is not in."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from colabel import BinaryRelevance, ClassifierChain, JointForest, audit
from colabel.datasets import load_digit_traits
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
    found = audit(Remembering(), X, Y, cv=KFold(4))
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
    assert list(frame.columns) == ["row", "label", "given", "probability", "suggestion", "gain"]
    assert frame["gain"].is_monotonic_decreasing


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
