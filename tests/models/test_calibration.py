"""Joints tempered on rows held out, and modes among the vectors that were seen."""

from __future__ import annotations

import numpy as np
import pytest

import colabel
from colabel import CTBN, BinaryRelevance, ClassifierChain, LDSMixture, decide
from colabel.decide import Seen
from colabel.decide.decisions import resolve_decision
from colabel.joint import Independent, Reweighted
from colabel.saving import ModelFileError
from tests.joint.oracle import make_space


def exclusive(n=200, seed=0):
    """One of three labels, which a model of labels one by one cannot say."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    which = (X + 0.8 * rng.normal(size=(n, 3))).argmax(axis=1)
    return X, np.eye(3, dtype=int)[which]


def test_what_never_occurs_pays_for_it():
    X, Y = exclusive()
    new_X, new_Y = exclusive(seed=1)
    plain = BinaryRelevance(C=0.1, random_state=0).fit(X, Y)
    model = BinaryRelevance(C=0.1, random_state=0, calibrate=True).fit(X, Y)
    assert isinstance(model.joint(new_X), Reweighted)
    assert model.calibration_.price_of_new > 0.3
    better = model.joint(new_X).log_prob(new_Y) - plain.joint(new_X).log_prob(new_Y)
    assert better.mean() > 0.2
    assert model.score(new_X, new_Y) > plain.score(new_X, new_Y)
    assert plain.predict(new_X).sum(axis=1).min() == 0  # none of the three, which never occurs
    assert (model.predict(new_X).sum(axis=1) == 1).mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(X), model.joint(X).marginals())
    assert abs(model.predict_proba(X).sum(axis=1) - 1).mean() < 0.1


def test_a_model_too_sure_of_itself_is_tempered():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(150, 1)), 4, axis=1)  # four times the same evidence
    X += 0.01 * rng.normal(size=X.shape)
    Y = np.column_stack([X[:, 0] + rng.normal(size=150) > 0] * 2).astype(int)
    model = LDSMixture(calibrate=True, random_state=0).fit(X, Y)
    assert model.calibration_.temperature > 1.0


class Contrary(BinaryRelevance):
    """A model that says the opposite of what it has learned."""

    def _joint(self, X):
        return Independent(self.label_space_, [t[:, ::-1] for t in super()._joint(X).log_tables])


def test_a_temperature_is_positive_and_finite():
    X, Y = exclusive(120)
    model = Contrary(C=0.1, calibrate=True, random_state=0).fit(X, Y[:, :2])
    assert 0 < model.calibration_.temperature < 21


def test_too_few_rows_to_calibrate():
    model = BinaryRelevance(C=0.1, calibrate=True).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    plain = BinaryRelevance(C=0.1).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    np.testing.assert_allclose(model.predict_proba([[0.5]]), plain.predict_proba([[0.5]]))
    one = BinaryRelevance(C=0.1, calibrate=True).fit([[0.0]], [[0, 1]])
    assert one.predict([[0.5]]).tolist() == [[0, 1]]


def test_splits_of_all_rows_do_not_fit_their_parts():
    """It was an IndexError, after the model was fitted."""
    X, Y = exclusive(60)
    rows = np.arange(len(X))
    splits = [(rows[rows % 2 != k], rows[rows % 2 == k]) for k in (0, 1)]
    model = BinaryRelevance(C=(0.1, 1.0), cv=splits, calibrate=True, random_state=0)
    with pytest.warns(UserWarning, match="cannot be calibrated.*cv names rows beyond"):
        model.fit(X, Y)
    assert not hasattr(model, "calibration_")


def test_a_file_with_other_vectors_is_refused(tmp_path):
    X, Y = exclusive(60)
    model = BinaryRelevance(C=0.1, decision="seen", random_state=0).fit(X, Y)
    for seen in (model.seen_ + 1, model.seen_[:0]):
        model.seen_ = seen
        with pytest.raises(ModelFileError, match=r"seen_ (holds a value|is empty)"):
            colabel.save(model, tmp_path / "m")


def test_seen_predicts_only_what_was_seen():
    X, Y = exclusive()
    model = ClassifierChain(C=0.1, decision="seen", random_state=0).fit(X, Y)
    assert (model.predict(exclusive(seed=1)[0]).sum(axis=1) == 1).all()


def test_seen_is_the_most_probable_of_the_list():
    rng = np.random.default_rng(0)
    space = make_space((2, 3))
    tables = [np.log(rng.dirichlet(np.ones(k), size=20)) for k in (2, 3)]
    joint = Independent(space, tables)
    vectors = np.array([[0, 1], [1, 2], [1, 0]])
    found = decide(joint, Seen(vectors))
    for r in range(20):
        value = [tables[0][r, a] + tables[1][r, b] for a, b in vectors]
        assert found[r].tolist() == vectors[int(np.argmax(value))].tolist()
    with pytest.raises(ValueError, match="no label vector to choose from"):
        decide(joint, Seen(vectors[:0]))


def test_seen_needs_training_rows_with_all_their_labels():
    X, Y = exclusive(40)
    model = BinaryRelevance(C=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="fit it with this decision"):
        model.set_params(decision="seen").predict(X)
    with pytest.raises(ValueError, match="give it to a model before it is fitted"):
        resolve_decision("seen")
    Y = Y.astype(float)
    Y[np.arange(40), np.arange(40) % 3] = np.nan  # it failed in `predict` only
    with pytest.raises(ValueError, match="no row has all its labels: choose another decision"):
        BinaryRelevance(C=0.1, decision="seen").fit(X, Y)
    with pytest.raises(ValueError, match="calibrate='yes' must be True or False"):
        CTBN(calibrate="yes").fit(X, Y)
