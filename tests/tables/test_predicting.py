"""Predictions of a table, what to ask, and answers as files: as the joint says, however cut."""

from __future__ import annotations

import csv
import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from colabel.decide import next_question
from colabel.tables import (
    Asker,
    PredictionRequest,
    Predictor,
    TableError,
    TableModel,
    TableRequest,
    answers_written,
    load_table,
    make_model,
    open_table,
    read_frame,
    texts_of,
)
from colabel.tables.predicting import csv_of

N = 60


def write_table(path, rng, n_rows):
    """Write two numbers, a colour, two labels, and some of them again; return the labels."""
    X = rng.normal(size=(n_rows, 2))
    a = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(int)
    b = (2 * a - 1 + X[:, 1] + rng.normal(size=n_rows) > 0).astype(int)
    with path.open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["id", "u", "v", "colour", "a", "b", "known_b", "known"])
        for i in range(n_rows):
            known = "" if i % 3 else str(b[i])
            tags = ["", "a", "!b", "a;!b"][i % 4]
            colour = "red" if i % 2 else "blue"
            writer.writerow(
                [f"k{i}", f"{X[i, 0]:.3f}", f"{X[i, 1]:.3f}", colour, a[i], b[i], known, tags]
            )
    return np.column_stack([a, b])


def fitted(file, labels=("a", "b"), settings=None, conformal=False):
    data = load_table(TableRequest(file, labels, drop=["id", "known*"]))
    estimator = make_model("ctbn", 0, {"C": 1.0, **(settings or {})}, conformal=conformal)
    return TableModel.fit(estimator, data.features, data.choice, data.labels)


@pytest.fixture
def file(tmp_path, rng):
    path = tmp_path / "t.csv"
    write_table(path, rng, N)
    return path


@pytest.fixture
def model(file):
    return fitted(file)


def columns_of(answerer, n_rows=None):
    found = pa.concat_tables(answerer.answers(n_rows))
    return dict(zip(found.column_names, map(list, zip(*texts_of(found), strict=True)), strict=True))


def answers(model, file, n_rows=None, **request):
    return columns_of(Predictor(model, open_table(file), PredictionRequest(**request)), n_rows)


def test_the_answers_are_the_joints(model, file):
    found = answers(model, file, top_k=3, keep=["id"])
    joint = model.joint(read_frame(file))
    assert found["row"] == [str(i + 1) for i in range(N)]
    assert found["id"] == [f"k{i}" for i in range(N)]
    mode = joint.mode()
    assert [found["a"], found["b"]] == mode.T.astype(str).tolist()
    marginals = np.array([found["p_a"], found["p_b"]], dtype=float).T
    np.testing.assert_allclose(marginals, joint.marginals(), rtol=1e-5)
    best = joint.top_k(3)
    for k in range(3):
        expected = [
            ";".join(n for n, on in zip("ab", labels, strict=True) if on) or "no label"
            for labels in best.labels[:, k]
        ]
        assert found[f"set_{k + 1}"] == expected
        prob = np.array(found[f"p_set_{k + 1}"], dtype=float)
        np.testing.assert_allclose(prob, np.exp(best.log_prob[:, k]), rtol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 7, N])
def test_chunks_do_not_matter(model, file, n_rows):
    request = {"top_k": 2, "given": ["known_*"], "decision": "f1"}
    assert answers(model, file, n_rows, **request) == answers(model, file, **request)


def test_known_labels_in_columns_of_their_own(model, file):
    found = answers(model, file, given=["known_*"])
    frame = read_frame(file)
    joint = model.joint(frame)
    evidence = np.array([np.nan if i % 3 else frame.column("b")[i] for i in range(N)])
    given = joint.given({"b": evidence}).marginals()
    np.testing.assert_allclose(np.array(found["p_a"], float), given[:, 0], rtol=1e-5)
    known = ~np.isnan(evidence)
    assert (np.array(found["b"], float)[known] == evidence[known]).all()


def test_known_tags(model, file):
    found = answers(model, file, given=["known"])
    for i in range(N):
        if i % 4 in (1, 3):
            assert float(found["p_a"][i]) == 1
        if i % 4 in (2, 3):
            assert float(found["p_b"][i]) == 0


def test_no_more_sets_than_there_are(model, file):
    found = answers(model, file, top_k=99, probabilities=False)
    assert [n for n in found if n.startswith("set_")] == ["set_1", "set_2", "set_3", "set_4"]
    assert not any(n.startswith("p_a") for n in found)
    total = np.array([found[f"p_set_{k}"] for k in range(1, 5)], float).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, atol=1e-4)
    every = [{found[f"set_{k}"][i] for k in range(1, 5)} for i in range(3)]
    assert every == [{"a", "b", "a;b", "no label"}] * 3


def test_class_variables(file):
    found = answers(fitted(file, ["colour", "a"]), file, top_k=1, given=["colour"])
    assert found["colour"] == read_frame(file).column("colour").tolist()
    assert {"p_colour=blue", "p_colour=red", "p_a=0", "p_a=1"} <= set(found)
    assert found["set_1"][0].startswith("colour=blue;a=")


def test_rows_are_read_as_they_are_needed(model, tmp_path):
    """The first answers are there before what is wrong at the end has been read."""
    long = tmp_path / "long.csv"
    long.write_text("u,v,colour\n" + "0.5,1,red\n" * 5000 + "oops,1,red\n")
    chunks = Predictor(model, open_table(long), PredictionRequest()).answers(n_rows=10)
    assert len(next(chunks)) == 10
    with pytest.raises(TableError, match="line 5002: the column 'u' holds 'oops'"):
        list(chunks)


def test_memory_does_not_grow_with_the_table(model, tmp_path):
    peaks = []
    for n_rows in (2000, 16_000):
        long = tmp_path / "long.csv"
        long.write_text("u,v,colour\n" + "0.5,1,red\n" * n_rows)
        chunks = Predictor(model, open_table(long), PredictionRequest(top_k=2)).answers(n_rows=500)
        next(chunks)  # what is compiled or cached at first use
        tracemalloc.start()
        assert sum(map(len, chunks)) == n_rows - 500
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_feature_is_no_known_label(model, file):
    with pytest.raises(TableError, match="'colour' is a feature"):
        answers(model, file, given=["colour"])


@pytest.mark.parametrize("separator", [";", "|"])
def test_tags_in_tags_out(tmp_path, separator, rng):
    size = rng.normal(size=N)
    tags = [separator.join(["a"] * (x > 0) + ["b"] * (x > -1)) for x in size.tolist()]
    file = tmp_path / "tags.csv"
    lines = [f"{x:.3f},{tag}" for x, tag in zip(size, tags, strict=True)]
    file.write_text("\n".join(["size,tags", *lines]))
    data = load_table(TableRequest(file, ["tags"]))
    estimator = make_model("ctbn", 0, {"C": 10.0})
    model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    found = answers(model, file)
    assert list(found) == ["row", "tags", "p_a", "p_b"]
    expected = [
        separator.join(name for name, on in zip("ab", row, strict=True) if on)
        for row in model.joint(read_frame(file)).mode()
    ]
    assert found["tags"] == expected
    assert set(expected) == {"", "b", f"a{separator}b"}
    assert list(answers(model, file, probabilities=False)) == ["row", "tags"]
    with pytest.raises(TableError, match="'tags' cannot be kept"):
        answers(model, file, keep=["tags"])


@pytest.fixture
def conformal(tmp_path, rng):
    write_table(tmp_path / "train.csv", rng, 300)
    return fitted(tmp_path / "train.csv", conformal=True)


def test_sets_with_a_coverage(conformal, tmp_path, rng):
    truth = write_table(tmp_path / "new.csv", rng, 400)
    request = {"probabilities": False, "keep": ["id"], "coverage": 0.8}
    found = answers(conformal, tmp_path / "new.csv", **request)
    names = ("row", "id", "a", "b", "n_sets", "sets", "sets_listed", "sure_a", "sure_b")
    assert tuple(found) == names
    texts = {(0, 0): "no label", (1, 0): "a", (0, 1): "b", (1, 1): "a;b"}
    listed = [sets.split(" | ") for sets in found["sets"]]
    covered = [texts[tuple(y)] in own for y, own in zip(truth.tolist(), listed, strict=True)]
    assert 0.7 < np.mean(covered) < 0.95
    assert [len(own) for own in listed] == [*map(int, found["n_sets"])]
    assert set(found["sets_listed"]) == {"all"}
    assert set(found["sure_a"]) <= {"yes", "no", "unsure"}


def test_a_list_that_is_cut_says_so(tmp_path, rng):
    write_table(tmp_path / "train.csv", rng, 300)
    model = fitted(tmp_path / "train.csv", settings={"conformal.max_listed": 1}, conformal=True)
    found = answers(model, tmp_path / "train.csv", coverage=0.95)
    assert set(found["sets_listed"]) == {"not listed within 1"}


def test_promises_that_cannot_be_kept_are_refused(model, conformal, file):
    with pytest.raises(TableError, match="fit it with colabel fit --conformal"):
        answers(model, file, coverage=0.9)
    with pytest.raises(TableError, match="either --coverage or --given"):
        answers(conformal, file, coverage=0.9, given=["a"])
    for wrong in (0.0, 1.0, 90.0, float("nan")):
        with pytest.raises(TableError, match="give a probability"):
            answers(conformal, file, coverage=wrong)


def test_what_to_ask(model, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("id,u,v,colour,a,b\n" + "".join(f"k{i},{i % 7},1,red,,\n" for i in range(30)))
    asker = Asker(model, open_table(new), "hamming", n_questions=9, keep=["id"])
    rows = columns_of(asker)
    assert [*rows] == ["row", "id", "expected_loss", "ask_1", "gain_1", "ask_2", "gain_2"]
    found = next_question(model.joint(next(asker.frames())), "hamming")
    assert rows["ask_1"] == found.labels.tolist()
    gains = np.array([rows["gain_1"], rows["gain_2"]], float).T
    np.testing.assert_allclose(gains, -np.sort(-found.gain, axis=1), atol=1e-6)
    np.testing.assert_allclose(np.array(rows["expected_loss"], float), found.risk, atol=1e-6)
    assert rows["id"] == [f"k{i}" for i in range(30)]


def test_known_labels_of_the_table_are_not_asked(model, tmp_path):
    rows = "".join(f"0,0,red,{known}\n" for known in (",", "1,", ",0", "1,1"))
    (tmp_path / "new.csv").write_text("u,v,colour,a,b\n" + rows)
    asker = Asker(model, open_table(tmp_path / "new.csv"))
    found = columns_of(asker)
    assert found["ask_1"][1:] == ["b", "a", ""]
    assert found["gain_1"][3] == ""
    assert asker.n_open == 3
    assert float(found["expected_loss"][3]) == pytest.approx(0, abs=1e-9)


def test_the_loss_of_the_model_is_the_default(model, file):
    source = open_table(file)
    assert type(Asker(model, source).loss).__name__ == "Subset"
    model.model.set_params(decision="f1")
    assert type(Asker(model, source).loss).__name__ == "F1"
    with pytest.raises(TableError, match=r"no loss 'square': choose from subset, .*, log"):
        Asker(model, source, "square")


def test_numbers_of_every_size(rng):
    of_every_size = rng.random(20_000) * 10.0 ** rng.integers(-10, 15, size=20_000)
    odd = [0.0, 1.0, 0.5, 1e-4, 9.9999949e-5, 9.9999951e-5, 999999.4, 999999.6, 1e5, 1e6, 1e-5]
    odd += [0.1, 0.999999, 0.9999994, 0.9999996, 1 / 512, 123456.0]
    values = np.concatenate([odd, np.negative(odd[1:]), rng.random(20_000), of_every_size])
    texts = csv_of(pa.table({"p": values})).decode().split("\n")[:-1]
    for text, value in zip(texts, values.tolist(), strict=True):
        assert float(text) == float(f"{value:.6g}")
        assert len(text.lstrip("-").replace(".", "").split("e")[0].strip("0")) <= 6
    extreme = pa.table({"p": np.array([5e-324, 1.7e308, 1e-30, np.nan])})
    assert [*map(float, csv_of(extreme).split()[:3])] == extreme["p"].to_pylist()[:3]
    assert texts_of(extreme)[3] == ("",)


def test_rows_as_csv_writes_them():
    texts = ["plain", 'with "quotes"', "a,b", None, "two\nlines", "ümläut", "plain"]
    whole = np.array([0, -1, 10, 99, 1_000_000, -(2**53), 2**53])
    coded = pa.array(texts).dictionary_encode()
    answers = pa.table({"t": texts, "n": whole, "p": np.linspace(0, 1, 7), "u": coded})
    lines = csv.reader(io.StringIO(csv_of(answers).decode(), newline=""))
    assert list(map(tuple, lines)) == texts_of(answers)
    assert csv_of(answers.slice(0, 0)) == b""


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "=HYPERLINK(1,2)"])
def test_what_a_spreadsheet_would_run_is_harmless(tmp_path, text):
    answers = pa.table({text: pa.array([text, "-1.5", "plain"]).dictionary_encode()})
    file = tmp_path / "out.csv"
    for safe, mark in ((True, "'"), (False, "")):
        with answers_written(file, safe=safe) as write:
            write(answers)
        with file.open(newline="", encoding="utf-8") as lines:
            # a number may be negative
            assert [row[0] for row in csv.reader(lines)] == [mark + text] * 2 + ["-1.5", "plain"]


def test_texts_of_a_parquet_file_are_plain(tmp_path):
    answers = pa.table({"t": pa.array(["a", "b", "a"]).dictionary_encode(), "p": np.ones(3)})
    with answers_written(tmp_path / "out.parquet") as write:
        write(answers)
        write(answers)
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.to_pydict() == {"t": ["a", "b", "a"] * 2, "p": [1.0] * 6}
    assert found.schema.field("t").type == pa.string()
