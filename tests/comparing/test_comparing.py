"""Comparisons: scores are those of scikit-learn's loop, and the recommendation follows its rule."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from colabel import (
    CTBN,
    BinaryRelevance,
    JointStack,
    ThresholdedClassifier,
    compare,
    decide,
    metrics,
)
from colabel.cli import app
from colabel.comparing import (
    BASELINE,
    DEFAULT_MODELS,
    ModelResult,
    recommend,
)
from colabel.comparing.comparison import made_models
from colabel.comparing.held_out import HeldOut
from colabel.comparing.result import COMPARED
from colabel.core.journal import to_bytes
from colabel.decide.decisions import tuned_threshold
from colabel.labels import LabelSpace
from colabel.report import comparison_html
from colabel.tables import MODEL_NAMES, TableError, TableRequest, load_table, table_of


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

    def watch(progress):
        at_work = progress.left[0][0] if progress.left else None
        done = len(progress.parts) - len(progress.left)
        line = progress.line("br") if len(progress.answers["br"]) > 1 else ""
        steps.append((done, at_work, len(progress.finished), progress.seconds_left, line))

    found = compare(data(["a", "b"]), models=["br", "CTBN"], cv=4, verbose=watch)
    assert list(found.results) == ["br", "ctbn", BASELINE]
    done, at_work, finished, seconds_left, lines = zip(*steps, strict=True)
    assert done == (*range(13),)
    assert at_work == ("br", "ctbn", BASELINE, *3 * ["br"], *3 * ["ctbn"], *3 * [BASELINE], None)
    assert finished[5:] == (0, 1, 1, 1, 2, 2, 2, 3)
    assert np.isnan(seconds_left[0])
    assert seconds_left[1] > 0 == seconds_left[-1]
    assert lines[6].startswith("br: exact match 0.")
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
    one, two = (compare(data(["a", "b"]), models=["ctbn"], cv=3, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(
        one.results["ctbn"].scores["joint_log_loss"], two.results["ctbn"].scores["joint_log_loss"]
    )


def test_a_value_that_a_training_fold_lacks(data):
    found = compare(data(["a", "grade"]), models=["br"], cv=4)
    scores = found.results["br"].scores
    assert np.isinf(scores["joint_log_loss"]).sum() == 1  # the fold with the row of value 9
    assert np.isfinite(scores["exact_match"]).all()
    assert found.to_dict()["models"]["br"]["joint log-loss"]["mean"] is None


def test_a_model_that_fails_is_named(data):
    found = compare(data(["a", "grade"]), models=["br"], cv=3, decision="hamming")
    assert not found.failed
    with pytest.raises(TableError, match="Every model failed"):
        compare(data(["a", "grade"]), models=["br"], cv=3, decision="jaccard")


def result(name, exact, loss, seconds=1.0):
    n = len(exact)
    scores = {name: np.zeros(n) for name in COMPARED} | {"seconds": np.full(n, seconds)}
    scores |= {"exact_match": np.array(exact), "joint_log_loss": np.full(n, 0.0) + loss}
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
    assert "The baseline, which knows only how often labels occur, has 0.100" in reason


def test_among_equals_better_probabilities_win():
    results = {
        "x": result("x", [0.80, 0.90, 0.79], 1.0),
        "y": result("y", [0.82, 0.86, 0.84], 2.0),
        BASELINE: result(BASELINE, [0.1, 0.1, 0.1], 5.0),
    }
    chosen, reason = recommend(results, "exact_match")
    assert chosen == "x"
    assert "within one standard error of the best (Y, 0.840;" in reason
    assert "the difference is 0.010 ± 0.042)" in reason


def test_among_equals_in_everything_the_cheapest_wins_and_independence_is_named():
    noise = np.array([0.01, -0.02, 0.01])
    results = {
        "br": result("br", [0.786, 0.790, 0.780], 1.0 + noise, seconds=0.5),
        "stack": result("stack", [0.787, 0.785, 0.789], 1.0 - noise, seconds=9.0),
    }
    chosen, reason = recommend(results, "exact_match")
    assert chosen == "br"
    assert "less time (0.5 s per fold instead of 9)" in reason
    assert "the labels are independent given the features" in reason
    assert "the difference is 0.002 ± 0.006" in reason
    noisy = result("stack", [0.787, 0.785, 0.789], 0.9 + 10 * noise, seconds=9.0)
    chosen, reason = recommend({**results, "stack": noisy}, "exact_match")
    assert chosen == "br"  # as good within the error, but nothing is said of independence
    assert "independent given the features" not in reason
    results["stack"] = result("stack", [0.986, 0.990, 0.980], 0.5, seconds=9.0)
    assert recommend(results, "exact_match")[0] == "stack"


def test_where_no_row_is_right_the_log_loss_decides():
    results = {
        "x": result("x", [0.02, 0.01, 0.02], 7.0),
        "y": result("y", [0.01, 0.01, 0.01], 6.0),
    }
    chosen, reason = recommend(results, "exact_match")
    assert chosen == "y"
    assert reason.startswith("Hardly any row is right as a whole (at best 0.017 of them)")


def test_no_better_than_nothing():
    results = {
        "x": result("x", [0.2, 0.4, 0.3], 1.0),
        BASELINE: result(BASELINE, [0.3, 0.3, 0.3], 1.0),
    }
    assert "no better than without the features" in recommend(results, "exact_match")[1]


def test_less_is_better_for_a_loss():
    results = {"x": result("x", [0, 0, 0], 1.0), "y": result("y", [1, 1, 1], 2.0)}
    assert recommend(results, "joint_log_loss")[0] == "x"


def test_names_that_stand_for_several():
    assert tuple(made_models("default", 0)) == DEFAULT_MODELS
    assert tuple(made_models(["BR", "BinaryRelevance"], 0)) == ("br",)
    assert tuple(made_models(["default", "stack", "BR"], 0)) == (*DEFAULT_MODELS, "stack")
    every = tuple(made_models(["all"], 0))
    assert {*MODEL_NAMES, "kernel+pcc", "forest+pcc"} == set(every)
    assert set(DEFAULT_MODELS) <= set(every)


def test_models_behind_features_are_compared_and_recommended(ring):
    found = compare(ring, models=["br", "kernel+br", "Forest+BR"], cv=3)
    assert list(found.results) == ["br", "kernel+br", "forest+br", BASELINE]
    assert found.results["kernel+br"].title == "KernelFeatures + BinaryRelevance"
    assert found.recommended in ("kernel+br", "forest+br")
    for name in ("kernel+br", "forest+br"):
        ahead = found.results[name].mean("exact_match") - found.results["br"].mean("exact_match")
        assert ahead > 0.3
    assert found.graph["edges"] == []
    assert not found.untried


def test_of_a_stack_that_was_not_tried_it_is_said_so(data):
    found = compare(data(["a"]), models=["br"], cv=2)
    every = dict.fromkeys(DEFAULT_MODELS, found.results["br"])
    assert "--models default,stack" in replace(found, results=every).untried
    assert "--models default,stack" in replace(found, results={}, failed=every).untried
    assert not replace(found, results=every, failed={"stack": "why"}).untried


def test_a_stack_can_be_recommended(data):
    members = [BinaryRelevance(C=1.0), CTBN(C=1.0, random_state=0)]
    stack = JointStack([(type(m).__name__, m) for m in members], decision="hamming", random_state=0)
    found = compare(data(["a", "b"]), models={"stack": stack}, cv=2)
    assert found.recommended == "stack"
    assert found.graph["title"] == "JointStack"


# ------------------------------------------------------------- labels that are not all known


def test_every_model_takes_missing_labels_and_what_is_known_is_scored(data):
    found = compare(data(["a", "b"]), models=["br", "pcc", "mlknn", "cdn"], cv=2)
    assert list(found.results) == ["br", "pcc", "mlknn", "cdn", BASELINE]
    assert not found.failed
    held, scores = found.results["br"].held_out, found.results["br"].scores
    known = held.true >= 0
    assert not known.all()
    for fold, (_, test) in enumerate(found.folds):
        right = (held.codes == held.true)[test]
        assert scores["hamming_accuracy"][fold] == pytest.approx(right[known[test]].mean())
        whole = known[test].all(axis=1)
        assert scores["exact_match"][fold] == pytest.approx(right[whole].all(axis=1).mean())
        said, true = held.codes[test], held.true[test] == 1
        hits = ((said == 1) & true).sum()
        predicted = ((said == 1) & known[test]).sum()
        assert scores["micro_f1"][fold] == pytest.approx(2 * hits / (predicted + true.sum()))


def test_without_complete_rows_the_log_loss_decides(rng):
    X = rng.normal(size=(90, 3))
    Y = (X[:, [0, 0, 1]] + 0.5 * rng.normal(size=(90, 3)) > 0).astype(float)
    Y[np.arange(90), rng.integers(3, size=90)] = np.nan
    found = compare(X, Y, models=["br", "pcc"], cv=2)
    assert found.measure == "joint_log_loss"
    losses = {name: result.mean("joint_log_loss") for name, result in found.results.items()}
    assert losses[found.recommended] <= losses[BASELINE]
    assert "joint log-loss" in found.reason
    assert "joint log-loss" in comparison_html(found)
    with pytest.raises(TableError, match="Too few rows have all their labels"):
        compare(X, Y, models=["br"], cv=2, measure="exact match")


# ---------------------------------------------------------------------------------- decisions


@pytest.fixture
def rare(rng):
    """A label in a fifth of the rows, about which the features say a little: below one half."""
    X = rng.uniform(-1, 1, (400, 2))
    seldom = rng.random(400) < np.where(X[:, 0] > 0, 0.3, 0.05)
    return X, np.stack([(X[:, 1] > 0), seldom], axis=1).astype(int)


def test_labels_that_are_never_predicted_are_named(rare):
    found = compare(*rare, models="br", cv=3, label_names=["side", "seldom"])
    share = 100 * rare[1][:, 1].mean()
    assert found.warnings[0] == f"Never predicted: seldom (in {share:.1f} % of the rows)."
    now = found.best.decided_mean("subset", "macro_f1")
    best = max(found.best.decided_mean(loss, "macro_f1") for loss in ("f1", "thresholds"))
    assert f"the macro F1 would be {best:.3f}, not {now:.3f} (exact" in found.warnings[1]
    tuned = compare(*rare, models="br", cv=3, thresholds=True, label_names=["side", "seldom"])
    assert tuned.measure == "macro_f1"
    assert not tuned.warnings
    assert tuned.best.mean("macro_f1") == found.best.decided_mean("thresholds", "macro_f1") > now
    assert tuned.best.decided_mean("subset", "macro_f1") == now


def test_thresholds_of_a_fold_are_tuned_on_the_others(rare):
    found = compare(*rare, models="br", cv=2, thresholds=True)
    folds = found.folds
    held = found.best.held_out
    for (_, test), (_, other) in zip(folds, folds[::-1], strict=True):
        for label in range(2):
            cut, _ = tuned_threshold(
                held.marginals[other, label], held.true[other, label], np.ones(len(other))
            )
            np.testing.assert_array_equal(
                held.codes[test, label], held.marginals[test, label] > cut
            )


def test_every_decision_is_that_of_the_joint(rare):
    X, Y = rare
    folds = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]
    found = compare(X, Y, models={"tree": CTBN(C=1.0, random_state=0)}, cv=folds)
    for loss in ("subset", "hamming", "f1"):
        scores = []
        for train, test in folds:
            scale = StandardScaler().fit(X[train])
            model = CTBN(C=1.0, random_state=0).fit(scale.transform(X[train]), Y[train])
            decided = decide(model.joint(scale.transform(X[test])), loss)
            scores.append(metrics.f1_score(Y[test], decided, average="macro"))
        np.testing.assert_allclose(found.best.decisions[loss]["macro_f1"], scores)


def test_class_variables_have_no_thresholds(data):
    with pytest.raises(TableError, match="Thresholds are for labels that are 0 or 1"):
        compare(data(["a", "grade"]), models=["br"], cv=2, thresholds=True)
    found = compare(data(["a", "grade"]), models=["br"], cv=2)
    assert list(found.best.decisions) == ["subset", "hamming", "macro_f1"]
    assert any("grade=9" in sentence for sentence in found.warnings)


# -------------------------------------------------------------------- large tables, work that stops


def test_a_large_table_is_sampled(rare):
    found = compare(*rare, models="br", cv=2, max_rows=100)
    assert len(found.task.codes) == 100
    assert found.sampled == "Compared on 100 of the 400 rows, drawn at random."
    again = compare(*rare, models="br", cv=2, max_rows=100)
    np.testing.assert_array_equal(found.task.codes, again.task.codes)
    assert found.fit().n_rows == 400
    assert not compare(*rare, models="br", cv=2, max_rows=400).sampled


class StopError(Exception):
    pass


def stopped(data, file, n_parts, **options):
    """Compare until so many parts are done, which are kept."""

    def stop(progress):
        if len(progress.parts) - len(progress.left) == n_parts:
            raise StopError

    with pytest.raises(StopError):
        compare(data, **options, verbose=stop, store=file)


def test_a_stopped_comparison_goes_on(rare, tmp_path):
    data, file = table_of(*rare), tmp_path / "compare.part"
    options = {"models": ["br", "ctbn"], "cv": 3}
    stopped(data, file, 4, **options)
    assert len(list(file.iterdir())) == 4
    left = []
    found = compare(
        data, **options, verbose=lambda progress: left.append(progress.left), store=file
    )
    assert left[0] == [("br", 2), ("ctbn", 1), ("ctbn", 2), (BASELINE, 1), (BASELINE, 2)]
    assert not file.exists()
    whole = compare(data, **options)
    for name, result in whole.results.items():
        for measure in set(COMPARED) - {"seconds"}:
            np.testing.assert_array_equal(
                result.scores[measure], found.results[name].scores[measure]
            )


@pytest.mark.parametrize("harm", [lambda c: c[:50], lambda c: b"", lambda c: _other_rows()])
def test_damaged_answers_are_worked_out_again(rare, tmp_path, harm):
    data, file = table_of(*rare), tmp_path / "compare.part"
    options = {"models": ["br"], "cv": 2}
    stopped(data, file, 1, **options)
    for kept in file.iterdir():
        kept.write_bytes(harm(kept.read_bytes()))
    first = []
    found = compare(
        data, **options, verbose=lambda progress: first.append(len(progress.left)), store=file
    )
    assert first[0] == 4
    expected = compare(data, **options).results["br"].scores["exact_match"]
    np.testing.assert_array_equal(found.results["br"].scores["exact_match"], expected)


def _other_rows() -> bytes:
    """An answer about three rows."""
    return to_bytes(({"codes": np.zeros((3, 2), dtype=np.int32)}, {}, 0.0))


def test_another_seed_does_not_take_the_answers(rare, tmp_path):
    data, file = table_of(*rare), tmp_path / "compare.part"
    stopped(data, file, 1, models="br", cv=2)
    first = []
    other = {"models": "br", "cv": 2, "random_state": 1}
    compare(data, **other, verbose=lambda progress: first.append(len(progress.left)), store=file)
    assert first[0] == 4
    assert file.exists()  # what the other had finished
    (tmp_path / "taken").write_text("by something else")
    with pytest.raises(TableError, match="taken is no folder"):
        compare(data, **other, store=tmp_path / "taken")


def test_several_processes_give_the_same(rare):
    one, two = (compare(*rare, models="br", cv=2, n_jobs=n) for n in (1, 2))
    for name, result in one.results.items():
        for measure in set(COMPARED) - {"seconds"}:
            np.testing.assert_array_equal(result.scores[measure], two.results[name].scores[measure])


# ------------------------------------------------------------------------------------ in Python


def test_frames_and_arrays_are_the_same_table(rare):
    X, Y = rare
    frame = pd.DataFrame(
        {"u": X[:, 0], "tag_a": Y[:, 0], "v": X[:, 1], "tag_b": Y[:, 1], "kind": ["x", "y"] * 200}
    )
    without = compare(frame.drop(columns="kind"), "tag_*", models=["br"], cv=2)
    arrays = compare(X, Y, models=["br"], cv=2, label_names=["tag_a", "tag_b"])
    pd.testing.assert_frame_equal(
        without.table.drop(columns="seconds"), arrays.table.drop(columns="seconds")
    )
    sets = [{name for name, on in zip("ab", row, strict=True) if on} for row in Y]
    pd.testing.assert_frame_equal(
        compare(X, sets, models=["br"], cv=2).table.drop(columns="seconds"),
        arrays.table.drop(columns="seconds"),
    )
    found = compare(frame, ["tag_a", "tag_b"], models=["br"], cv=2)
    model = found.fit()
    assert [column.name for column in model.columns] == ["u", "v", "kind"]
    assert model.predict(frame[:3]).shape == (3, 2)
    sparse = compare(csr_array(X), Y, models=["br"], cv=2)
    assert sparse.best.mean("exact_match") > sparse.results[BASELINE].mean("exact_match")
    assert sparse.fit().predict(csr_array(X[:3])).shape == (3, 2)


def test_a_file_can_be_compared(rare, tmp_path):
    X, Y = rare
    file = tmp_path / "t.csv"
    np.savetxt(file, np.hstack([X, Y]), "%g", ",", header="u,v,a,b", comments="")
    assert compare(file, ["a", "b"], models="br", cv=2).data.labels.names == ("a", "b")
    assert compare(str(file), "a", models="br", cv=2).data.labels.names == ("a",)


def test_estimators_can_be_compared(rare):
    plain = DecisionTreeClassifier(max_depth=2, random_state=0)
    found = compare(
        *rare, models=[BinaryRelevance(C=1.0), BinaryRelevance(C=9.0), plain, "ctbn"], cv=2
    )
    names = ["BinaryRelevance", "BinaryRelevance 2", "DecisionTreeClassifier", "ctbn", BASELINE]
    assert list(found.results) == names
    assert np.isnan(found.results["DecisionTreeClassifier"].mean("joint_log_loss"))
    assert found.recommended != "DecisionTreeClassifier"  # no probabilities, so no better ones
    assert compare(*rare, models={"mine": plain}, cv=KFold(3)).recommended == "mine"
    assert "–" in compare(*rare, models={"mine": plain}, cv=2, thresholds=True)._repr_html_()


def test_table_decisions_html_and_figure(rare):
    found = compare(*rare, models="br, ctbn", cv=2)
    assert found.table.index.tolist()[-1] == BASELINE
    assert [result.title for result in found.results.values()][-1] == BASELINE
    assert found.table.loc["br", "exact match"] == found.results["br"].mean("exact_match")
    assert found.decisions.loc[("br", "f1"), "macro F1"] == (
        found.results["br"].decided_mean("f1", "macro_f1")
    )
    html = found._repr_html_()
    assert f"Take {found.recommended}." in html
    assert html.count("<tr") == 4
    ax = found.plot("joint log-loss")
    assert [tick.get_text() for tick in ax.get_yticklabels()][-1] == BASELINE
    assert "joint log-loss (less is better" in ax.get_xlabel()
    with pytest.raises(TableError, match="no measure 'speed'"):
        found.plot("speed")
    assert repr(found).startswith("TableComparison(2 models on 2 folds: take ")


def test_without_pandas_the_table_is_records(rare, monkeypatch):
    found = compare(*rare, models=["br"], cv=2)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [record["model"] for record in found.table] == ["br", BASELINE]


def test_calibration_is_tried_on_the_recommended_model(rare):
    X, Y = rare
    sure = BinaryRelevance(C=1e4)
    noise = np.random.default_rng(0).normal(size=(400, 60))
    found = compare(np.hstack([X, noise]), Y, models={"sure": sure}, cv=4, calibrate=True)
    before, after = found.best.mean("joint_log_loss"), found.calibrated.mean("joint_log_loss")
    assert after < before - 0.1
    assert found.calibration.startswith(
        f"Calibrated, its joint log-loss {before:.3f} becomes {after:.3f}"
    )
    assert found.estimator().calibrate
    assert not found.estimators["sure"].calibrate
    plain = compare(X, Y, models="br", cv=2)
    assert plain.calibrated is plain.sets is None


def test_fitting_a_model_with_thresholds(rare):
    found = compare(*rare, models=["kernel+br", "br"], cv=2, thresholds=True)
    _, model = found.estimator("kernel+br")
    assert isinstance(model, ThresholdedClassifier)
    assert isinstance(model.estimator, BinaryRelevance)
    fitted = found.fit("br")
    assert fitted.model.thresholds_[1] < 0.5
    with pytest.raises(TableError, match="no model 'pcc' here"):
        found.fit("pcc")


@pytest.mark.parametrize(
    ("data", "labels", "said"),
    [
        (np.zeros((3, 2)), "a", "an array has no columns"),
        (np.zeros((3, 2)), [[0, 1]] * 4, "3 rows of features and 4 of labels"),
        (np.zeros(3), [[0, 1]] * 3, "1 dimension"),
        (np.zeros((1, 2)), [[0, 1]], "1 row with labels"),
        (pd.DataFrame({"a": [0, 1], "b": [1, 0]}), ["c"], "No column is named 'c'"),
    ],
)
def test_what_cannot_be_compared(data, labels, said):
    with pytest.raises(TableError, match=said):
        compare(data, labels)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measure": "accuracy"}, "no measure 'accuracy': choose from exact match, joint"),
        ({"models": ["ctbm"]}, "did you mean"),
        ({"decision": "best"}, "no decision"),
        ({"cv": 1}, "cv is 1"),
        ({"models": []}, "No model is named"),
        ({"models": [3]}, "not 3"),
        ({"models": {BASELINE: BinaryRelevance()}}, "cannot be called"),
        ({"coverage": 90}, "coverage is 90: give a probability"),
        ({"max_rows": 1}, "max_rows is 1"),
        ({"time_limit": -1}, "time_limit is -1"),
        ({"thresholds": True, "rules": "y0 -> y1"}, "against rules"),
        ({"groups": np.arange(400), "times": np.arange(400)}, "by groups or by time"),
        ({"weights": np.full(400, -1)}, "weights must be a number"),
    ],
)
def test_requests_that_cannot_be(rare, options, said):
    with pytest.raises(ValueError, match=said):
        compare(*rare, **{"models": "br", **options})


def test_sets_of_the_recommended_model(rng):
    X, Y = rng.normal(size=(400, 3)), np.empty((400, 3), dtype=int)
    Y[:] = X + rng.logistic(size=(400, 3)) > 0
    found = compare(X, Y, models="br", cv=4, coverage=0.8)
    assert found.sets.coverage == 0.8
    assert len(found.sets.covered) == 4
    assert 0.65 < found.sets.covered.mean() < 0.95
    assert 1 < found.sets.size.mean() < 8
    assert not found.sets.cut.any()
    assert f"lists {found.sets.size.mean():.1f} label sets per row" in found.sets.sentence
    assert found.sets.sentence in found._repr_html_()
    assert found.sets.sentence in comparison_html(found)
    assert found.to_dict()["sets"]["size"] == found.sets.size.tolist()


def test_folds_respect_groups_and_time(tmp_path):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 4)
    X = rng.normal(size=(120, 2))
    Y = (X + rng.normal(size=(120, 2)) > 0).astype(int)
    rows = [
        f"p{p},2026-01-{1 + i % 28:02d},{a},{b},{c},{d}"
        for i, (p, a, b, c, d) in enumerate(
            zip(patient, X[:, 0], X[:, 1], Y[:, 0], Y[:, 1], strict=True)
        )
    ]
    table = tmp_path / "visits.csv"
    table.write_text("\n".join(["patient,day,x,z,a,b", *rows]))
    for train, test in compare(X, Y, models="br", cv=3, groups=patient).folds:
        assert not set(patient[train]) & set(patient[test])
    times = np.arange(120) % 28
    for train, test in compare(X, Y, models="br", cv=3, times=times).folds:
        assert times[train].max() < times[test].min()
    for option in (["--groups", "patient"], ["--time", "day"]):
        asked = ["compare", str(table), "-l", "a,b", "-m", "br", "--cv", "3", "--no-report"]
        done = CliRunner().invoke(app, [*asked, "--checkpoint", str(tmp_path / "part"), *option])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, [*asked, "--time", "patient"])
    assert done.exit_code == 2
    assert "give numbers or dates" in " ".join(done.output.split())


def test_weights_are_rows_that_are_there_as_often(rare):
    """Learned and measured with weights, rows count as if they were written so often."""
    X, Y = rare
    times = np.arange(400) % 3  # some not at all
    halves = np.arange(200), np.arange(200, 400)
    often = np.repeat(np.arange(400), times)
    place = [np.flatnonzero(np.isin(often, half)) for half in halves]
    models = {"br": BinaryRelevance(C=1.0)}
    weighted = compare(X, Y, models=models, cv=[halves, halves[::-1]], weights=times)
    repeated = compare(X[often], Y[often], models=models, cv=[place, place[::-1]])
    for measure in ("exact_match", "joint_log_loss", "hamming_accuracy", "macro_f1"):
        one, other = (found.best.mean(measure) for found in (weighted, repeated))
        assert one == pytest.approx(other, abs=0.02)  # columns are scaled without weights
    plain = compare(X, Y, models=models, cv=[halves, halves[::-1]])
    assert abs(plain.best.mean("joint_log_loss") - weighted.best.mean("joint_log_loss")) > 1e-4
    assert weighted.fit().model.predict_proba(X[:3]).shape == (3, 2)
    more = {"neighbours": KNeighborsClassifier(), **models}
    assert (
        "takes no weights" in compare(X, Y, models=more, cv=2, weights=times).failed["neighbours"]
    )


class Slow(BinaryRelevance):
    def fit(self, X, y, sample_weight=None, **options):
        time.sleep(0.2)
        return super().fit(X, y, sample_weight, **options)


def test_slow_models_are_left_out_of_a_short_time(rare):
    models = {"slow": Slow(C=1.0), "br": BinaryRelevance(C=1.0)}
    found = compare(*rare, models=models, cv=20, time_limit=3.0)
    assert list(found.failed) == ["slow"]
    assert "would not be done within 3 s" in found.failed["slow"]
    assert len(found.results["br"].scores["exact_match"]) == 20
    assert not compare(*rare, models=models, cv=2, time_limit=60.0).failed
