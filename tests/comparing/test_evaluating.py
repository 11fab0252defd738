"""`colabel.evaluate`: its measures against scikit-learn's and plain counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colabel import CTBN, BinaryRelevance, ConformalSets, evaluate
from colabel.datasets import load_digit_traits
from colabel.metrics import joint_log_loss_scorer


@pytest.fixture(scope="module")
def data():
    return load_digit_traits()


@pytest.fixture(scope="module")
def model(data):
    return CTBN(C=0.01, random_state=0).fit(
        data.X[:600], data.Y[:600], label_names=data.label_names
    )


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_frames_and_sets_are_measured_like_arrays(data, model):
    X, Y = data.X[600:800], np.asarray(data.Y[600:800])
    named = {f"x{i}": column for i, column in enumerate(X.T)}
    labels = dict(zip(data.label_names, Y.T, strict=True))
    expected = evaluate(model, X, Y).to_json()
    for module in ("pandas", "polars"):
        frame = pytest.importorskip(module).DataFrame
        assert evaluate(model, frame(named), frame(labels)).to_json() == expected
    sets = [{name for name in labels if labels[name][i]} for i in range(len(Y))]
    by_sets = BinaryRelevance(C=0.01, random_state=0).fit(X, sets)
    by_matrix = BinaryRelevance(C=0.01, random_state=0).fit(X, Y)
    found = evaluate(by_sets, pytest.importorskip("pandas").DataFrame(named), sets).measures
    wanted = evaluate(by_matrix, X, Y).measures
    assert found["exact_match"].value == pytest.approx(wanted["exact_match"].value)


def test_measures_are_those_of_scikit_learn(data, model):
    X, Y = data.X[600:1000], np.asarray(data.Y[600:1000])
    scores = evaluate(model, X, Y)
    predicted, marginals = model.predict(X), model.predict_proba(X)
    expected = {
        "exact_match": metrics.accuracy_score(Y, predicted),
        "micro_f1": metrics.f1_score(Y, predicted, average="micro"),
        "macro_f1": metrics.f1_score(Y, predicted, average="macro"),
        "joint_log_loss": -model.joint(X).log_prob(Y).mean(),
        "coverage_error": metrics.coverage_error(Y, marginals),
        "ranking_loss": metrics.label_ranking_loss(Y, marginals),
        "macro_average_precision": metrics.average_precision_score(Y, marginals),
    }
    for name, value in expected.items():
        assert scores.measures[name].value == pytest.approx(value), name
    first = scores.labels[0]
    assert first.name == "even"
    assert first.precision == pytest.approx(metrics.precision_score(Y[:, 0], predicted[:, 0]))
    assert first.recall == pytest.approx(metrics.recall_score(Y[:, 0], predicted[:, 0]))
    right = (predicted == Y).all(axis=1)
    assert scores.measures["exact_match"].error == pytest.approx(right.std() / 20, rel=0.3)
    top = np.take_along_axis(Y, np.argsort(-marginals, axis=1)[:, :1], axis=1)
    assert scores.measures["precision_at_1"].value == pytest.approx(top.mean())


def test_rankings_with_ties_and_rows_without_labels(rng):
    """A model that gives few different probabilities, to rows that may have no label or all."""
    X = rng.integers(0, 2, size=(120, 2)).astype(float)
    Y = (rng.random((120, 3)) < 0.2 + 0.6 * X[:, [0, 1, 1]]).astype(int)
    Y[:5], Y[5:10] = 0, 1
    model = BinaryRelevance(C=1.0).fit(X, Y)
    found, marginals = evaluate(model, X, Y).measures, model.predict_proba(X)
    expected = metrics.label_ranking_loss(Y, marginals)
    assert found["ranking_loss"].value == pytest.approx(expected)
    assert found["coverage_error"].value == pytest.approx(metrics.coverage_error(Y, marginals))
    assert all(np.isfinite(one.error) for one in found.values())


def test_labels_in_the_place_of_others_are_counted(data, model):
    X, Y = data.X[600:1000], np.asarray(data.Y[600:1000])
    predicted = model.predict(X)
    worst = evaluate(model, X, Y).confusions[0]
    i, j = data.label_names.index(worst.missed), data.label_names.index(worst.predicted)
    counted = (Y[:, i] > predicted[:, i]) & (Y[:, j] < predicted[:, j])
    assert worst.n_rows == counted.sum() > 0


def test_values_never_seen_are_counted_not_an_error(rng):
    X = rng.normal(size=(90, 2))
    Y = np.column_stack([np.digitize(X[:, 0], [-0.5, 0.5]), (X[:, 1] > 0) * 1])
    model = BinaryRelevance(C=1.0).fit(X[:60], np.minimum(Y[:60], 1))
    scores = evaluate(model, X[60:], Y[60:])
    assert scores.n_unseen == (Y[60:, 0] == 2).sum() > 0
    assert np.isfinite(scores.measures["joint_log_loss"].value)
    assert "never seen in training" in str(scores)
    assert {one.name for one in scores.labels} >= {"y0=2", "y1=1"}


def test_it_takes_pipelines_conformal_sets_and_strangers(data):
    X, Y = data.X[:300], np.asarray(data.Y[:300])
    pipeline = make_pipeline(StandardScaler(), BinaryRelevance(C=0.1)).fit(X, Y)
    assert evaluate(pipeline, X, Y).coverage is None
    sets = ConformalSets(CTBN(C=0.01, random_state=0), coverage=0.8, random_state=0).fit(X, Y)
    coverage = evaluate(sets, data.X[300:700], data.Y[300:700]).coverage
    assert coverage.value == pytest.approx(0.8, abs=0.12)
    stranger = RandomForestClassifier(20, random_state=0).fit(X, Y)
    scores = evaluate(stranger, data.X[300:500], data.Y[300:500])
    assert np.isnan(scores.measures["joint_log_loss"].value)
    assert scores.measures["exact_match"].value > 0.3


def test_json_holds_everything_and_no_nan(data, model):
    scores = evaluate(model, data.X[600:700], data.Y[600:700])
    plain = json.loads(scores.to_json(), parse_constant=pytest.fail)
    assert plain["measures"]["exact_match"]["value"] == scores.measures["exact_match"].value
    assert len(plain["labels"]) == 7
    assert len(scores.to_frame()) == 7


def test_few_known_labels_are_no_error(data, model):
    """One complete row, a label that no row has, rows without any label, and label sets."""
    X, Y = data.X[600:640], np.asarray(data.Y[600:640], dtype=float)
    one, none, half = (Y.copy() for _ in range(3))
    one[1:, 0], none[:, 0], half[20:] = np.nan, np.nan, np.nan
    found = evaluate(model, X, one)
    assert found.measures["exact_match"].value in (0.0, 1.0)
    assert np.isnan(found.measures["coverage_error"].error)
    assert np.isnan(evaluate(model, X, none).labels[0].f1)
    loss = evaluate(model, X, half).measures["joint_log_loss"].value
    assert loss == pytest.approx(-model.joint(X[:20]).log_prob(Y[:20]).mean())
    assert -joint_log_loss_scorer(model, X, half) == pytest.approx(loss)
    sets = ConformalSets(BinaryRelevance(C=0.01), cv=0.5, random_state=0)
    sets.fit(data.X[:200], data.Y[:200])
    whole = evaluate(sets, X[:20], Y[:20]).coverage
    assert evaluate(sets, X, half).coverage == whole
    with pytest.raises(ValueError, match="missing labels"):
        sets.predict_sets(X).contains(half)
