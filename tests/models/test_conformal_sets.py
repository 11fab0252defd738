"""ConformalSets: the estimator around a model."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import CTBN, BinaryRelevance, ConformalSets, KernelFeatures
from colabel.decide import CalibrationScores, Nonconformity

QUICK = {"C": 1.0, "random_state": 0}


def make_data(rng, n_rows=400, n_labels=4):
    X = rng.normal(size=(n_rows, 3))
    scores = X @ rng.normal(size=(3, n_labels)) + rng.logistic(size=(n_rows, n_labels))
    Y = (scores > 0).astype(int)
    Y[:, 1] |= Y[:, 0] & (rng.random(n_rows) < 0.8)
    return X, Y


@parametrize_with_checks([ConformalSets(CTBN(C=1.0), cv=0.3, random_state=0)])
@pytest.mark.filterwarnings("ignore:Only .* rows were held out")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_split_conformal_is_the_formula(rng):
    X, Y = make_data(rng)
    rows = np.arange(400)
    model = ConformalSets(CTBN(**QUICK), cv=[(rows[100:], rows[:100])]).fit(X, Y)
    alone = CTBN(**QUICK).fit(X[100:], Y[100:])
    scores = Nonconformity().of_codes(alone.joint(X[:100]), Y[:100].astype(np.int32))
    np.testing.assert_allclose(model.held_out_[0].scores, np.sort(scores))
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))
    # the quantile form: the ceil((n + 1) coverage)-th smallest score is the largest in a set
    new, _ = make_data(rng, 50)
    sets = model.predict_sets(new, coverage=0.8)
    largest = np.sort(scores)[int(np.ceil(101 * 0.8)) - 1]
    for row in range(50):
        own = alone.joint(new[row : row + 1])
        vectors, log_prob = own.top_k_codes(16)
        before = np.append(0.0, np.exp(log_prob[0]).cumsum()[:-1])
        expected = vectors[0][before <= largest + 1e-9]
        np.testing.assert_array_equal(sets[row], expected)


def test_rows_of_weight_zero_are_not_there(rng):
    X, Y = make_data(rng, 80)
    estimator = make_pipeline(KernelFeatures(1.0, 20, random_state=0), BinaryRelevance(**QUICK))
    plain = ConformalSets(estimator, coverage=0.8, random_state=0).fit(X, Y)
    wild, weight = 50 + 20 * rng.normal(size=(30, 3)), np.r_[np.ones(80), np.zeros(30)]
    model = ConformalSets(estimator, coverage=0.8, random_state=0)
    model.fit(np.r_[X, wild], np.r_[Y, 1 - Y[:30]], sample_weight=weight)
    assert model.n_held_out_ == plain.n_held_out_ == 20
    np.testing.assert_allclose(model.held_out_[0].scores, plain.held_out_[0].scores, atol=1e-3)


@pytest.mark.parametrize("cv", [0.3, 4])
@pytest.mark.parametrize("score", ["mass", "probability"])
def test_new_rows_are_covered(cv, score):
    found = {"covered": [], "wrong rows": [], "wrong labels": []}
    for seed in range(12):
        X, Y = make_data(np.random.default_rng(seed), 700)
        model = ConformalSets(BinaryRelevance(C=1.0), cv=cv, nonconformity=score, random_state=seed)
        model.fit(X[:300], Y[:300])
        new, truth = X[300:], Y[300:]
        sets = model.predict_sets(new, coverage=0.8)
        found["covered"].append(sets.contains(truth).mean())
        np.testing.assert_array_equal(
            model.p_values(new, truth) > 0.2 + 1e-12, sets.contains(truth)
        )
        by_row, by_label = (
            model.predict_labels(new, coverage=0.8, per=each) for each in ("row", "label")
        )
        words = np.array(["no", "yes"])[truth]
        wrong, each = ((own != "unsure") & (own != words) for own in (by_row, by_label))
        found["wrong rows"].append(wrong.any(axis=1).mean())
        found["wrong labels"].append(each.mean())
    mean = {name: np.mean(own) for name, own in found.items()}
    error = {name: 3 * np.std(own) / np.sqrt(12) for name, own in found.items()}
    assert 0.8 - error["covered"] < mean["covered"] < 0.9
    assert 0.1 < mean["wrong rows"] < 0.2 + error["wrong rows"]  # it does say something
    assert mean["wrong labels"] < 0.2 + error["wrong labels"]


def test_folds_use_every_row_and_average_their_models(rng):
    X, Y = make_data(rng, 90)
    model = ConformalSets(BinaryRelevance(C=1.0), cv=3, random_state=0).fit(X, Y)
    assert model.n_held_out_ == 90
    assert len(model.members_) == 3
    mean = np.mean([member.predict_proba(X) for member in model.members_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean)
    assert "3 models" in model.label_graph().meaning
    split = ConformalSets(CTBN(**QUICK), random_state=0).fit(X, Y)
    assert split.label_graph().meaning == split.members_[0].label_graph().meaning
    assert split.n_held_out_ == round(0.25 * 90)


def test_answers_do_not_depend_on_the_rows_beside(rng):
    X, Y = make_data(rng, 120)
    model = ConformalSets(CTBN(**QUICK), nonconformity="random mass", random_state=0).fit(X, Y)
    whole, part = model.predict_sets(X), model.predict_sets(X[50:])
    np.testing.assert_array_equal(whole.sizes[50:], part.sizes)
    np.testing.assert_array_equal(model.predict_sets(sp.csr_array(X)).codes, whole.codes)
    one, two = (clone(model).set_params(n_jobs=n, cv=2).fit(X, Y) for n in (None, 2))
    np.testing.assert_array_equal(one.predict_sets(X).codes, two.predict_sets(X).codes)


def test_rows_of_many_chunks_are_joined(rng, request):
    X, Y = make_data(rng, 120)
    model = ConformalSets(CTBN(**QUICK), random_state=0).fit(X, Y)
    whole, values = model.predict_sets(X), model.p_values(X, Y)
    request.getfixturevalue("few_rows_at_once")
    parts = model.predict_sets(X)
    np.testing.assert_array_equal(parts.rows, whole.rows)
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_allclose(model.p_values(X, Y), values)


def test_a_pipeline_and_class_variables_inside(rng):
    X, Y = make_data(rng, 200)
    V = np.where(Y[:, :2] == 1, "left", "right")
    inner = make_pipeline(StandardScaler(), CTBN(**QUICK))
    model = ConformalSets(inner, random_state=0).fit(X, V, label_names=["lamp", "fan"])
    assert model.predict_sets(X)[0].dtype.kind in "UO"
    assert set(np.unique(model.predict_labels(X, 0.9))) <= {"left", "right", "unsure"}
    with pytest.raises(ValueError, match="missing labels"):
        model.p_values(X[:1], [["left", None]])


def test_few_rows_are_named(rng):
    X, Y = make_data(rng, 20)
    with pytest.warns(UserWarning, match=r"Only 5 rows were held out.*0.9 needs at least 9"):
        model = ConformalSets(BinaryRelevance(C=1.0), random_state=0).fit(X, Y)
    for ask, answer in (
        (lambda: model.predict_sets(X).sizes, 16),
        (lambda: model.predict_labels(X), "unsure"),
    ):
        with pytest.warns(UserWarning, match="Only 5 rows"):
            assert (ask() == answer).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (model.predict_sets(X, coverage=0.8).sizes < 16).any()


def test_rows_without_all_labels_do_not_calibrate(rng):
    X, Y = make_data(rng, 200)
    Y = Y.astype(float)
    Y[:50, 2] = np.nan
    rows = np.arange(200)
    cv = [(rows[100:], rows[:100])]
    with pytest.warns(UserWarning, match="50 of 100 rows held out lack some label"):
        model = ConformalSets(CTBN(**QUICK), cv=cv).fit(X, Y)
    assert model.n_held_out_ == 50
    Y[:100, 0] = np.nan
    with pytest.raises(ValueError, match="None of the 100 rows held out has all its labels"):
        ConformalSets(CTBN(**QUICK), cv=cv).fit(X, Y)


def test_what_cannot_be_done_is_said(rng):
    X, Y = make_data(rng, 60)
    with pytest.raises((TypeError, ValueError), match="DecisionTreeClassifier has no joint"):
        ConformalSets(DecisionTreeClassifier(random_state=0)).fit(X, Y)
    with pytest.raises(TypeError, match="str has no joint: give a model of colabel"):
        ConformalSets("ctbn").fit(X, Y)
    with pytest.raises(ValueError, match="No rows can be held out of 1 sample"):
        ConformalSets(CTBN(**QUICK)).fit(X[:1], Y[:1])
    model = ConformalSets(CTBN(**QUICK), random_state=0).fit(X, Y)
    for coverage in (0, 1, 90, np.nan, "high"):
        with pytest.raises(ValueError, match=r"between 0 and 1, such as 0\.9"):
            model.predict_sets(X, coverage=coverage)
    with pytest.raises(ValueError, match="per='set' must be one of 'row', 'label'"):
        model.predict_labels(X, per="set")


def test_scores_in_order():
    scores = CalibrationScores.of(np.array([0.3, 0.1, 0.2]), np.array([1.0, 2.0, 4.0]))
    assert scores.at_least(np.array([0.0, 0.15, 0.3, 0.31])).tolist() == [7.0, 5.0, 1.0, 0.0]
