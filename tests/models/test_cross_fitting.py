"""Asking models about rows that they have not seen: what is shared, what fails, what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from colabel import CTBN, BinaryRelevance, JointStack
from colabel.joint import Independent
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.models.cross_fitting import Member, fitted_members, held_out_experts, require_joint

ALONE = BinaryRelevance(C=0.1, random_state=0)


def rows(n=60, n_features=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_features))
    return X, (X[:, :2] + 0.5 * rng.normal(size=(n, 2)) > 0).astype(int)


def data_of(X, Y):
    space, codes = LabelSpace.infer(Y)
    return TrainingData(X, codes, space.cardinalities), space


def test_rows_held_out_are_asked_a_few_at_a_time(monkeypatch, request):
    data, space = data_of(*rows())
    halves = np.arange(30), np.arange(30, 60)
    whole, _, _ = held_out_experts([Member("alone", ALONE)], data, space, *halves, 3)
    asked, joint = [], BinaryRelevance.joint
    monkeypatch.setattr(
        BinaryRelevance, "joint", lambda self, X: (asked.append(len(X)), joint(self, X))[1]
    )
    request.getfixturevalue("few_rows_at_once")
    parts, _, _ = held_out_experts([Member("alone", ALONE)], data, space, *halves, 3)
    assert asked == [7, 7, 7, 7, 2]
    for name in ("new", "agreeing", "known", "weight"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_allclose(parts.truth, whole.truth)
    np.testing.assert_array_equal(parts.lists.indptr, whole.lists.indptr)
    np.testing.assert_allclose(parts.lists.log_prob, whole.lists.log_prob)
    assert whole.lists.codes.size == 0  # the vectors listed are not kept
    assert len(whole.new) == whole.lists.indptr[-1]


class Kept(BaseEstimator):
    """Keeps the columns of a mask."""

    def __init__(self, mask=None):
        self.mask = mask

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X[:, self.mask]

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


def transformers(*steps):
    data, space = data_of(*rows(20, 1200))
    members = [(str(i), make_pipeline(step, ALONE)) for i, step in enumerate(steps)]
    fitted, failed = fitted_members(members, data, space)
    assert not failed
    return [model[0] for model in fitted.values()]


def test_long_parameters_that_differ_in_the_middle_share_nothing():
    one, other = np.zeros(1200, dtype=bool), np.zeros(1200, dtype=bool)
    one[600], other[601] = True, True
    first, second, again = transformers(Kept(one), Kept(other), Kept(one.copy()))
    assert first is again
    assert first is not second
    assert second.mask[601]


def test_what_differs_shares_nothing():
    """Types of one name, and what cannot be hashed, but with itself."""
    other = type("Kept", (Kept,), {"__module__": "elsewhere"})
    first, second = transformers(Kept(slice(0, 2)), other(slice(0, 2)))
    assert (type(first), type(second)) == (Kept, other)
    step = FunctionTransformer(lambda X: X[:, :2])
    first, second, third = transformers(step, step, FunctionTransformer(lambda X: X[:, 2:4]))
    assert first is second
    assert first is not third


def fails(self, argument):
    raise MemoryError("it would take 3 TB")


@pytest.mark.parametrize("question", ["top_k_codes", "log_prob_codes"])
def test_a_member_that_cannot_answer_is_left_out(question):
    """Its joint fails once it is asked."""

    class Unable(Independent):
        def rows(self, index):
            return Unable(self.space, [table[index] for table in self.log_tables])

    class Hopeless(BinaryRelevance):
        def _joint(self, X):
            return Unable(self.label_space_, super()._joint(X).log_tables)

    setattr(Unable, question, fails)
    X, Y = rows()
    members = [("hopeless", Hopeless(C=0.1)), ("alone", ALONE)]
    with pytest.warns(UserWarning, match="'hopeless' is left out of the stack: it would take 3 TB"):
        model = JointStack(members, cv=2, random_state=0).fit(X, Y)
    assert model.member_names_ == ["alone"]
    plain = JointStack([("alone", ALONE)], cv=2, random_state=0).fit(X, Y)
    assert model.weights_ == pytest.approx(plain.weights_)


def test_members_without_a_joint_are_refused_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr(BinaryRelevance, "fit", None)
    members = [ALONE, make_pipeline(StandardScaler(), DecisionTreeClassifier())]
    with pytest.raises(
        TypeError, match="DecisionTreeClassifier has no joint: give a model of colabel"
    ):
        JointStack(members).fit(*rows())
    searches = (
        GridSearchCV(CTBN(), {"C": [0.1]}),
        GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}),
    )
    require_joint(make_pipeline(StandardScaler(), searches[0]))
    with pytest.raises(TypeError, match="GridSearchCV has no joint"):
        require_joint(searches[1])
