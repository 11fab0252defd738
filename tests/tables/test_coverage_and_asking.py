"""Sets with a guarantee, and what to ask next, for a table."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.decide import next_question
from colabel.tables import (
    Asker,
    PredictionRequest,
    Predictor,
    TableError,
    TableModel,
    TableRequest,
    load_table,
    make_model,
    open_table,
    texts_of,
)


def write_table(file, rng, n_rows, labels=True):
    x = rng.normal(size=(n_rows, 2))
    a = (x[:, 0] + rng.normal(size=n_rows) > 0).astype(int)
    b = ((a == 1) & (rng.random(n_rows) < 0.8)).astype(int)
    lines = ["id,u,v,a,b"]
    for i in range(n_rows):
        known = f"{a[i]},{b[i]}" if labels else ","
        lines.append(f"k{i},{x[i, 0]:.6f},{x[i, 1]:.6f},{known}")
    file.write_text("\n".join(lines) + "\n")
    return np.column_stack([a, b])


@pytest.fixture
def table(tmp_path, rng):
    write_table(tmp_path / "train.csv", rng, 300)
    return tmp_path


def fitted(table, labels=("a", "b"), **options):
    data = load_table(TableRequest(table / "train.csv", list(labels), drop=["id"]))
    estimator = make_model("ctbn", 0, {"C": 1.0}, **options)
    return TableModel.fit(estimator, data.features, data.choice, data.labels)


def answers(predictor):
    found = next(predictor.answers())
    return [dict(zip(found.column_names, row, strict=True)) for row in texts_of(found)]


def test_sets_with_a_coverage(table, rng):
    truth = write_table(table / "new.csv", rng, 400)
    model = fitted(table, conformal=True)
    source = open_table(table / "new.csv")
    request = PredictionRequest(probabilities=False, keep=["id"], coverage=0.8)
    rows = answers(Predictor(model, source, request))
    assert list(rows[0]) == [
        "row",
        "id",
        "a",
        "b",
        "n_sets",
        "sets",
        "sets_listed",
        "sure_a",
        "sure_b",
    ]
    texts = {(0, 0): "no label", (1, 0): "a", (0, 1): "b", (1, 1): "a;b"}
    listed = [row["sets"].split(" | ") for row in rows]
    covered = [texts[tuple(y)] in own for y, own in zip(truth.tolist(), listed, strict=True)]
    assert 0.7 < np.mean(covered) < 0.95
    assert [len(own) for own in listed] == [int(row["n_sets"]) for row in rows]
    assert {row["sets_listed"] for row in rows} == {"all"}
    assert {row["sure_a"] for row in rows} <= {"yes", "no", "unsure"}


def test_a_list_that_is_cut_says_so(table, rng):
    write_table(table / "new.csv", rng, 5)
    data = load_table(TableRequest(table / "train.csv", ["a", "b"], drop=["id"]))
    settings = {"C": 1.0, "conformal.max_listed": 1}
    estimator = make_model("ctbn", 0, settings, conformal=True)
    model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    request = PredictionRequest(coverage=0.95)
    rows = answers(Predictor(model, open_table(table / "new.csv"), request))
    assert {row["sets_listed"] for row in rows} == {"not listed within 1"}


def test_promises_that_cannot_be_kept_are_refused(table, rng):
    source = open_table(table / "train.csv")
    with pytest.raises(TableError, match="fit it with colabel fit --conformal"):
        Predictor(fitted(table), source, PredictionRequest(coverage=0.9))
    model = fitted(table, conformal=True)
    with pytest.raises(TableError, match="either --coverage or --given"):
        Predictor(model, source, PredictionRequest(coverage=0.9, given=["a"]))
    for wrong in (0.0, 1.0, 90.0, float("nan")):
        with pytest.raises(TableError, match="give a probability"):
            Predictor(model, source, PredictionRequest(coverage=wrong))


def test_settings_of_sets():
    model = make_model("kernel+pcc", 3, {"conformal.cv": 5, "decision": "f1"}, conformal=True)
    assert (model.cv, model.decision, model.random_state) == (5, "f1", 3)
    assert [type(step).__name__ for step in model.estimator] == [
        "KernelFeatures",
        "ProbabilisticClassifierChain",
    ]
    with pytest.raises(TableError, match="ConformalSets has no parameter 'level'"):
        make_model("ctbn", 0, {"conformal.level": 0.9}, conformal=True)


def test_what_to_ask(table, rng):
    write_table(table / "new.csv", rng, 30, labels=False)
    model = fitted(table)
    asker = Asker(model, open_table(table / "new.csv"), "hamming", n_questions=9, keep=["id"])
    rows = answers(asker)
    assert [*rows[0]] == ["row", "id", "expected_loss", "ask_1", "gain_1", "ask_2", "gain_2"]
    frame = next(asker.predictor.frames())
    found = next_question(model.joint(frame), "hamming")
    assert [row["ask_1"] for row in rows] == found.labels.tolist()
    gains = [[float(row["gain_1"]), float(row["gain_2"])] for row in rows]
    np.testing.assert_allclose(gains, -np.sort(-found.gain, axis=1), atol=1e-6)
    np.testing.assert_allclose([float(r["expected_loss"]) for r in rows], found.risk, atol=1e-6)
    assert [row["id"] for row in rows] == [f"k{i}" for i in range(30)]


def test_known_labels_of_the_table_are_not_asked(table):
    (table / "new.csv").write_text("u,v,a,b\n0,0,,\n0,0,1,\n0,0,,0\n0,0,1,1\n")
    rows = answers(Asker(fitted(table), open_table(table / "new.csv")))
    asked = [row["ask_1"] for row in rows]
    assert asked[1:] == ["b", "a", ""]
    assert rows[3]["gain_1"] == ""
    assert float(rows[3]["expected_loss"]) == pytest.approx(0, abs=1e-9)


def test_the_loss_of_the_model_is_the_default(table):
    source = open_table(table / "train.csv")
    assert type(Asker(fitted(table), source).loss).__name__ == "Subset"
    model = fitted(table)
    model.model.set_params(decision="f1")
    assert type(Asker(model, source).loss).__name__ == "F1"
    with pytest.raises(TableError, match=r"no loss 'square': choose from subset, .*, log"):
        Asker(model, source, "square")
