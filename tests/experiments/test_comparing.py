"""Comparisons: scores are those of scikit-learn's loop, and the recommendation follows its rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colabel import CTBN, BinaryRelevance
from colabel.experiments.comparing import (
    BASELINE,
    DEFAULT_MODELS,
    ComparisonRequest,
    ModelResult,
    compare,
    recommend,
)
from colabel.experiments.held_out import HeldOut
from colabel.experiments.measures import COMPARED
from colabel.labels import LabelSpace
from colabel.tables import MODEL_NAMES, TableError, TableRequest, load_table


@pytest.fixture
def data(tmp_path, rng):
    X = rng.normal(size=(80, 2))
    Y = (X @ [[2, 1], [0, 2]] + rng.normal(size=(80, 2)) > 0).astype(int)
    grade = np.where(np.arange(80) == 5, 9, rng.integers(0, 3, 80))  # 9 once: in one fold only
    file = tmp_path / "t.csv"
    lines = [
        f"{u:.3f},{v:.3f},{a},{b if i % 10 else ''},{g}"
        for i, ((u, v), (a, b), g) in enumerate(zip(X, Y, grade, strict=True))
    ]
    file.write_text("u,v,a,b,grade\n" + "\n".join(lines) + "\n")
    return lambda labels: load_table(
        TableRequest(file, labels, drop=[n for n in ("a", "b", "grade") if n not in labels])
    )


@pytest.fixture
def ring(tmp_path, rng):
    """Two labels that no straight line tells apart: in a ring or not."""
    X = rng.normal(size=(240, 2))
    inside = ((X**2).sum(axis=1) < 1.4).astype(int)
    file = tmp_path / "ring.csv"
    lines = [f"{u:.3f},{v:.3f},{a},{1 - a}" for (u, v), a in zip(X, inside, strict=True)]
    file.write_text("u,v,a,b\n" + "\n".join(lines) + "\n")
    return load_table(TableRequest(file, ["a", "b"]))


def test_scores_and_answers(data):
    steps = []
    found = compare(data(["a", "b"]), ComparisonRequest(["br", "CTBN"], n_folds=4), steps.append)
    assert list(found.results) == ["br", "ctbn", BASELINE]
    assert steps == ["br"] * 4 + ["ctbn"] * 4 + [BASELINE] * 4
    assert not found.failed
    for result in found.results.values():
        assert all(len(result.scores[name]) == 4 for name in COMPARED)
    br = found.results["br"]
    complete = (found.task.codes >= 0).all(axis=1)
    right = (br.held_out.codes == found.task.codes)[complete].all(axis=1)
    # folds are of about equal size, so their mean is about the share of all rows
    assert br.mean("exact_match") == pytest.approx(right.mean(), abs=0.02)
    assert br.mean("exact_match") > found.results[BASELINE].mean("exact_match") + 0.1
    assert ((br.held_out.marginals > 0.5) == br.held_out.codes).mean() > 0.9
    assert found.to_dict()["models"]["br"]["exact match"]["mean"] == br.mean("exact_match")


def test_the_same_seed_gives_the_same_comparison(data):
    one, two = (compare(data(["a", "b"]), ComparisonRequest(["ctbn"], 3, seed=4)) for _ in range(2))
    np.testing.assert_array_equal(
        one.results["ctbn"].scores["joint_log_loss"], two.results["ctbn"].scores["joint_log_loss"]
    )


def test_a_value_that_a_training_fold_lacks(data):
    found = compare(data(["a", "grade"]), ComparisonRequest(["br"], 4))
    scores = found.results["br"].scores
    assert np.isinf(scores["joint_log_loss"]).sum() == 1  # the fold with the row of value 9
    assert np.isfinite(scores["exact_match"]).all()
    assert found.to_dict()["models"]["br"]["joint log-loss"]["mean"] is None


def test_a_model_that_fails_is_named(data):
    found = compare(data(["a", "grade"]), ComparisonRequest(["br"], 3, decision="hamming"))
    assert not found.failed
    with pytest.raises(TableError, match="Every model failed"):
        compare(data(["a", "grade"]), ComparisonRequest(["br"], 3, decision="f1"))


def result(name, exact, loss):
    n = len(exact)
    scores = {name: np.zeros(n) for name in COMPARED}
    scores |= {"exact_match": np.array(exact), "joint_log_loss": np.full(n, loss)}
    space, codes = LabelSpace.infer([[0, 1]])
    return ModelResult(name.upper(), scores, HeldOut(np.zeros(1, int), space, codes, codes))


def test_the_best_is_recommended():
    results = {
        "x": result("x", [0.5, 0.6, 0.5], 1.0),
        "y": result("y", [0.8, 0.9, 0.8], 2.0),
        BASELINE: result(BASELINE, [0.1, 0.1, 0.1], 5.0),
    }
    chosen, reason = recommend(results, "exact_match")
    assert chosen == "y"
    assert "best exact match, 0.833" in reason
    assert "Without the features it would be 0.100" in reason


def test_among_equals_better_probabilities_win():
    results = {
        "x": result("x", [0.80, 0.90, 0.79], 1.0),
        "y": result("y", [0.82, 0.86, 0.84], 2.0),
        BASELINE: result(BASELINE, [0.1, 0.1, 0.1], 5.0),
    }
    chosen, reason = recommend(results, "exact_match")
    assert chosen == "x"
    assert "within one standard error of the best (Y, 0.840)" in reason


def test_no_better_than_nothing():
    results = {
        "x": result("x", [0.2, 0.4, 0.3], 1.0),
        BASELINE: result(BASELINE, [0.3, 0.3, 0.3], 1.0),
    }
    assert "no better than without the features" in recommend(results, "exact_match")[1]


def test_less_is_better_for_a_loss():
    results = {"x": result("x", [0, 0, 0], 1.0), "y": result("y", [1, 1, 1], 2.0)}
    assert recommend(results, "joint_log_loss")[0] == "x"


def test_plans_that_cannot_be():
    with pytest.raises(TableError, match="no measure"):
        ComparisonRequest(measure="accuracy")
    with pytest.raises(TableError, match="did you mean"):
        ComparisonRequest(models=["ctbm"])
    with pytest.raises(ValueError, match="no decision"):
        ComparisonRequest(decision="best")
    assert ComparisonRequest(["BR", "BinaryRelevance"]).short_names == ("br",)


def test_names_that_stand_for_several():
    assert ComparisonRequest().short_names == DEFAULT_MODELS
    assert ComparisonRequest(["default", "stack", "BR"]).short_names == (*DEFAULT_MODELS, "stack")
    every = ComparisonRequest(["all"]).short_names
    assert {*MODEL_NAMES, "kernel+pcc", "forest+pcc"} == set(every)
    assert set(DEFAULT_MODELS) <= set(every)


def test_models_behind_features_are_compared_and_recommended(ring):
    found = compare(ring, ComparisonRequest(["br", "kernel+br", "Forest+BR"], n_folds=3))
    assert list(found.results) == ["br", "kernel+br", "forest+br", BASELINE]
    assert found.results["kernel+br"].title == "KernelFeatures + BinaryRelevance"
    assert found.recommended in ("kernel+br", "forest+br")
    for name in ("kernel+br", "forest+br"):
        ahead = found.results[name].mean("exact_match") - found.results["br"].mean("exact_match")
        assert ahead > 0.3
    assert not len(found.graph.graph.ends)
    assert found.graph.graph.meaning == "BinaryRelevance learns no graph of the labels."
    assert not found.untried


def test_of_a_stack_that_was_not_tried_it_is_said_so(data):
    found = compare(data(["a"]), ComparisonRequest(["br"], 2))
    every = dict.fromkeys(DEFAULT_MODELS, found.results["br"])
    assert "--models default,stack" in replace(found, results=every).untried
    assert "--models default,stack" in replace(found, results={}, failed=every).untried
    assert not replace(found, results=every, failed={"stack": "why"}).untried


def test_a_stack_can_be_recommended(data, monkeypatch):
    members = [BinaryRelevance(C=1.0), CTBN(C=1.0, random_state=0)]
    monkeypatch.setattr(
        "colabel.models.stack.joint_stack.default_members",
        lambda _: [(type(member).__name__, member) for member in members],
    )
    found = compare(data(["a", "b"]), ComparisonRequest(["stack"], 2, decision="hamming"))
    assert found.recommended == "stack"
    assert "A stack of 2 models" in found.graph.graph.meaning
