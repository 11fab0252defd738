"""What users may give, what they get back, and what they are told when it cannot work."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from colabel import CTBN, IBLR, BinaryRelevance, MLkNN, ThresholdedClassifier, load, save
from tests.models.oracle import TIGHT

MODELS = (BinaryRelevance, CTBN)


@pytest.fixture(params=MODELS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 4))
    first = X[:, 0] + 0.7 * rng.normal(size=120) > 0
    second = first ^ (rng.random(120) < 0.2)
    third = X[:, 1] > 0.3 * rng.normal(size=120)
    return X, np.column_stack([first, second, third]).astype(int)


def same_answers(one, two, X, atol=1e-8):
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=atol)


# ---------------------------------------------------------------------------- containers


def test_data_frames_give_their_names(kind, data):
    X, Y = data
    X = pd.DataFrame(X, columns=list("abcd"))
    Y = pd.DataFrame(Y, columns=["calm", "sad", "loud"])
    model = kind(C=1.0).fit(X, Y)
    assert model.label_names_ == ("calm", "sad", "loud")
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4
    joint = model.joint(X)
    np.testing.assert_allclose(joint.given({"sad": 1}).marginals()[:, 1], 1.0)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"a": "z"}))
    model = kind(C=1.0).fit(*data, label_names=["calm", "sad", "loud"])
    assert model.label_names_ == ("calm", "sad", "loud")
    assert not hasattr(model, "feature_names_in_")


def test_log_probabilities_are_logarithms(kind, data):
    X, Y = data
    model = kind(C=1.0).fit(X, Y)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    many = kind(C=1.0).fit(X, np.column_stack([Y, Y.sum(axis=1)]))
    for log, table in zip(many.predict_log_proba(X), many.predict_proba(X), strict=True):
        np.testing.assert_allclose(np.exp(log), table)


# --------------------------------------------------------------------------- odd data sets


def test_constant_labels_stay_likely(kind, data):
    X, Y = data
    Y = np.column_stack([Y, np.zeros(120, dtype=int), np.ones(120, dtype=int)])
    model = kind(C=1.0, random_state=0).fit(X, Y)
    prob = model.predict_proba(X)
    # Laplace's rule gives the prior 1 / 122, which counts like two rows beside 120
    np.testing.assert_allclose(prob[:, 3], 2 / 122**2, rtol=1e-9)
    np.testing.assert_allclose(prob[:, 4], 1 - 2 / 122**2, rtol=1e-9)


def test_one_label(kind, data):
    X, Y = data
    model = kind(C=1.0, random_state=0).fit(X, Y[:, :1])
    vector = kind(C=1.0, random_state=0).fit(X, Y[:, 0])
    # a column of labels is answered with columns, a vector of classes with a vector
    np.testing.assert_allclose(model.predict_proba(X), vector.predict_proba(X)[:, 1:])
    np.testing.assert_array_equal(model.predict(X), vector.predict(X)[:, None])
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)


def test_one_row(kind):
    model = kind(random_state=0).fit([[1.0, 2.0]], [[0, 1]])
    assert model.predict([[1.0, 2.0], [0.0, 0.0]]).tolist() == [[0, 1], [0, 1]]
    np.testing.assert_allclose(model.predict_proba([[1.0, 2.0]]), [[2 / 9, 7 / 9]])


def test_identical_features_with_different_labels(kind):
    X, Y = np.ones((40, 2)), np.column_stack([np.arange(40) % 2, np.arange(40) % 4 == 0])
    prob = kind(C=1.0, random_state=0, **TIGHT).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(prob, np.tile([0.5, 0.25], (40, 1)), atol=0.02)


# -------------------------------------------------------------------- scikit-learn's tools


def test_pipelines_and_data_frames_from_a_scaler(kind, data):
    X = pd.DataFrame(data[0], columns=list("abcd"))
    scaler, model = StandardScaler().set_output(transform="pandas"), kind(C=1.0, random_state=0)
    pipeline = make_pipeline(scaler, clone(model)).fit(X, data[1])
    assert pipeline[-1].feature_names_in_.tolist() == list("abcd")
    scaled = StandardScaler().fit_transform(X.to_numpy())
    expected = model.fit(scaled, data[1]).predict_proba(scaled)
    np.testing.assert_allclose(pipeline.predict_proba(X), expected, atol=1e-12)


def test_grid_search_over_c_and_decision(kind, data):
    X, Y = data
    grid = {"C": [0.01, 1.0], "decision": ["subset", "hamming"]}
    search = GridSearchCV(kind(random_state=0, cv=2), grid, cv=2, n_jobs=2).fit(X, Y)
    assert set(search.best_params_) == {"C", "decision"}
    best = clone(kind(random_state=0, cv=2)).set_params(**search.best_params_).fit(X, Y)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    assert search.best_score_ == pytest.approx(cross_val_score(best, X, Y, cv=2).mean())


def test_a_decision_may_be_a_function(kind, data):
    def nothing(joint):
        return np.zeros((joint.n_rows, 3), dtype=np.int32)

    assert not kind(C=1.0, decision=nothing).fit(*data).predict(data[0]).any()


def test_score_is_the_share_of_exact_matches(kind, data):
    X, Y = data
    model = kind(C=1.0, random_state=0).fit(X, Y)
    right = (model.predict(X) == Y).all(axis=1)
    assert model.score(X, Y) == pytest.approx(right.mean())
    weight = np.arange(120.0)
    assert model.score(X, Y, weight) == pytest.approx(np.average(right, weights=weight))


# ------------------------------------------------------------------------------ sentences


def test_too_few_iterations_are_a_warning(kind, data):
    with pytest.warns(ConvergenceWarning, match="did not reach the tolerance"):
        kind(C=1.0, tol=1e-12, max_iter=1).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(C=1.0).fit(*data)


# ----------------------------------------------------------------- scikit-learn's own tools


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_cross_val_predict_of_probabilities(kind, data, method):
    X, Y = data
    model = kind(C=1.0, random_state=0)
    found = cross_val_predict(model, X, Y, cv=KFold(3), method=method)
    words = np.where(Y == 1, "yes", "no")
    for labels in (pd.DataFrame(Y, columns=list("abc")), words):
        again = cross_val_predict(model, X, labels, cv=KFold(3), method=method)
        np.testing.assert_array_equal(found, again)
    for train, test in KFold(3).split(X):
        fitted = clone(model).fit(X[train], Y[train])
        np.testing.assert_array_equal(found[test], getattr(fitted, method)(X[test]))


def test_classes_of_labels_with_two_values_each(kind, data):
    X, Y = data
    assert kind(C=1.0).fit(X, Y).classes_.tolist() == [[0, 1]] * 3
    mixed = np.column_stack([Y[:, 0].astype(object), np.where(Y[:, 1], "warm", "cold")])
    assert kind(C=1.0).fit(X, mixed).classes_.tolist() == [[0, 1], ["cold", "warm"]]
    grades = np.column_stack([Y[:, 0], Y[:, 1] + Y[:, 2]])
    assert [v.tolist() for v in kind(C=1.0).fit(X, grades).classes_] == [[0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ([["a", "b"], ["c", "d"]], "the text 'a' in column 0"),
        (np.array([[1, "b"], [2, "d"]], dtype=object), "the text 'b' in column 1"),
        (pd.DataFrame({"u": [1.0, 2.0], "v": ["red", "blue"]}), "the text 'red' in the column 'v'"),
        (pd.DataFrame({"v": pd.Categorical(["red", "blue"])}), "the text 'red' in the column 'v'"),
        (pd.DataFrame({"t": pd.to_datetime(["2026-01-01"] * 2)}), "a date in the column 't'"),
        (["good day", "bad day"], "the text 'good day' in each of its rows"),
    ],
)
def test_text_and_dates_are_refused_by_name(kind, X, said):
    with pytest.raises(ValueError, match=f"X holds {said}: models take numbers"):
        kind(C=1.0).fit(X, [[0, 1], [1, 0]])


def test_numbers_written_as_text_are_numbers(kind, data):
    X, Y = data
    plain = kind(C=1.0, random_state=0).fit(X.round(3), Y)
    written = np.array([[f"{v:.3f}" for v in row] for row in X], dtype=object)
    same_answers(plain, kind(C=1.0, random_state=0).fit(written, Y), X)


# ---------------------------------------------------------------------------- data frames out


def test_predictions_as_data_frames(kind, data, tmp_path):
    X, Y = data
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(120) * 10)
    labels = pd.DataFrame(Y, columns=["calm", "sad", "loud"])
    model = kind(C=1.0, random_state=0).fit(frame, labels)
    plain, prob = model.predict(frame), model.predict_proba(frame)
    assert isinstance(plain, np.ndarray)
    assert model.set_output(predict="pandas") is model
    for own in (model, clone(model).fit(frame, labels)):  # a clone keeps the choice
        found = own.predict(frame)
        pd.testing.assert_index_equal(found.index, frame.index)
        assert found.columns.tolist() == ["calm", "sad", "loud"]
        np.testing.assert_array_equal(found, plain)
        np.testing.assert_array_equal(own.predict_proba(frame), prob)
        assert own.predict_proba(frame).columns.tolist() == found.columns.tolist()
        np.testing.assert_array_equal(own.predict_log_proba(frame), np.log(prob))
    assert model.score(frame, labels) == (plain == Y).all(axis=1).mean()
    model.set_output(predict=None)
    assert isinstance(model.predict(frame), pd.DataFrame)
    save(model, tmp_path / "m.colabel")  # a saved model has forgotten the container
    assert isinstance(load(tmp_path / "m.colabel").predict(frame), np.ndarray)
    model.set_output(predict="default")
    assert isinstance(model.predict(frame), np.ndarray)
    with pytest.raises(ValueError, match="predict='xarray' is unknown"):
        model.set_output(predict="xarray")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_data_frames_of_other_libraries(kind, data, library):
    """They go in as features and labels; answers come back as polars frames where asked for."""
    polars = pytest.importorskip("polars")
    X, Y = data
    names, labels = list("abcd"), ["calm", "sad", "loud"]
    make = polars.DataFrame if library == "polars" else pytest.importorskip("pyarrow").table
    frame = make(dict(zip(names, X.T, strict=True)))
    model = kind(C=1.0, random_state=0).fit(frame, make(dict(zip(labels, Y.T, strict=True))))
    same_answers(kind(C=1.0, random_state=0).fit(X, Y), model, X)
    assert model.label_names_ == tuple(labels)
    plain, prob = model.predict(frame), model.predict_proba(frame)
    model.set_output(predict="polars")
    found = model.predict(frame)
    assert isinstance(found, polars.DataFrame)
    assert found.columns == labels
    np.testing.assert_array_equal(found.to_numpy(), plain)
    np.testing.assert_array_equal(model.predict_proba(frame).to_numpy(), prob)
    classes = make({"grade": np.where(Y[:, 0], "low", "high"), "risk": Y.sum(axis=1)})
    other = kind(C=1.0, random_state=0).set_output(predict="polars").fit(frame, classes)
    assert other.predict_proba(frame).columns[:2] == ["grade=high", "grade=low"]


def test_data_frames_of_every_kind_of_labels(kind, data):
    X, Y = data
    model = kind(C=1.0, random_state=0).set_output(predict="pandas")
    sets = [{name for name, on in zip("uvw", row, strict=True) if on} for row in Y]
    assert model.fit(X, sets).predict(X).columns.tolist() == ["u", "v", "w"]
    grades = np.column_stack([np.where(Y[:, 0], "high", "low"), Y[:, 1] + Y[:, 2]])
    found = model.fit(X, grades, label_names=["risk", "grade"]).predict(X)
    assert found["risk"].isin(["high", "low"]).all()
    prob = model.predict_proba(X)
    assert prob.columns.tolist() == [
        ("risk", "high"), ("risk", "low"), ("grade", "0"), ("grade", "1"), ("grade", "2")
    ]  # fmt: skip
    np.testing.assert_allclose(prob["risk"].sum(axis=1), 1.0)
    one = model.fit(X, np.where(Y[:, 0], "high", "low"))
    assert one.predict_proba(X).columns.tolist() == ["high", "low"]
    assert one.predict(X).shape == (120, 1)


def test_thresholds_give_data_frames_too(data):
    X, Y = data
    model = ThresholdedClassifier(BinaryRelevance(C=1.0), random_state=0).fit(X, Y)
    plain, prob = model.predict(X), model.predict_proba(X)
    model.set_output(predict="pandas")
    np.testing.assert_array_equal(model.predict(X), plain)
    np.testing.assert_array_equal(model.predict_proba(X), prob)
    assert model.predict(X).columns.tolist() == list(model.label_names_)


# ---------------------------------------------------------------------------- mistakes, all models


def _mistakes():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), rng.integers(0, 2, size=(30, 2))
    hole, gaps = X.copy(), Y.astype(float)
    hole[4, 1] = gaps[:, 1] = np.nan
    masked = np.ma.MaskedArray(X, mask=np.isnan(hole))
    frame = pd.DataFrame(hole, columns=["age", "weight", "height"])
    number = "n_jobs='all' must be a number"
    tuned = ThresholdedClassifier(BinaryRelevance(), n_jobs="all")
    lacking = "CTBN has no parameter 'class_weight'. It has C, .* BinaryRelevance takes"
    first = "NaN .first in row 4, column 1"
    return {
        "C is text": (lambda: CTBN(C="1").fit(X, Y), "C='1' must be a positive number"),
        "Cs are text": (lambda: CTBN(C=["1", "2"]).fit(X, Y), "must be a positive number"),
        "n_jobs": (lambda: BinaryRelevance(n_jobs="all").fit(X, Y), number),
        "n_jobs of thresholds": (lambda: tuned.fit(X, Y), number),
        "no labels": (lambda: BinaryRelevance().fit(X), r"Relevance requires y .* fit\(X, y\)"),
        "estimator first": (
            lambda: BinaryRelevance(LinearSVC()).fit(X, Y),
            r"given by name: estimator=LinearSVC\(\)",
        ),
        "class_weight": (lambda: CTBN(class_weight="balanced"), lacking),
        "a parameter of none": (lambda: MLkNN(neighbors=3), "no parameter 'neighbors'. It has k, "),
        "NaN": (lambda: CTBN().fit(hole, Y), f"{first}.*JointStack and JointForest.*SimpleImputer"),
        "NaN in a frame": (lambda: CTBN().fit(frame, Y), "the column 'weight'"),
        "NaN in CSR": (lambda: CTBN().fit(sp.csr_array(hole), Y), first[5:]),
        "masked": (lambda: CTBN().fit(masked, Y), first),
        "NaN to predict": (lambda: CTBN(C=1.0).fit(X, Y).predict(hole), "JointForest"),
        "lengths that differ": (lambda: CTBN().fit(X[:-1], Y), "X has 29 rows but y has 30"),
        "no weight": (
            lambda: CTBN().fit(X, Y, sample_weight=np.zeros(30)),
            "[Ss]ample weights .*zero",
        ),
        "negative": (lambda: CTBN().fit(X, Y, sample_weight=np.full(30, -1.0)), "[Nn]egative"),
        "a label never observed": (lambda: CTBN().fit(X, gaps), "y1"),
    }


@pytest.mark.parametrize("name", _mistakes())
def test_mistakes_are_answered_by_sentences(name):
    mistake, sentence = _mistakes()[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        mistake()


def test_more_neighbours_than_rows_are_warned_of(data):
    with pytest.warns(UserWarning, match="k=500 neighbours are asked for, but there are 120 rows"):
        model = MLkNN(k=500).fit(*data)
    assert model.k_ == 119


# --------------------------------------------------------------- entries that mean two things


@pytest.mark.parametrize("model", [BinaryRelevance(C=1.0), MLkNN(), IBLR(random_state=0)])
def test_repeated_entries_of_sparse_rows_are_summed(rng, model):
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.6)
    Y = (X[:, :2] + 0.3 * rng.normal(size=(60, 2)) > 0).astype(int)
    whole = sp.csr_array(X)
    halves = sp.csr_array(
        (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr),
        shape=whole.shape,
    )
    expected = clone(model).fit(whole, Y).predict_proba(whole)
    found = clone(model).fit(halves, Y).predict_proba(halves)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert halves.nnz == 2 * whole.nnz  # the caller's matrix is as it was
