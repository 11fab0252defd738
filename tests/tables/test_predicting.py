"""Predictions of a table: the same however it is cut, and what the joint says."""

from __future__ import annotations

import csv
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from colabel import CTBN
from colabel.tables import (
    PredictionRequest,
    Predictor,
    TableError,
    TableModel,
    TableRequest,
    load_table,
    open_table,
    read_frame,
    texts_of,
)

N = 60


@pytest.fixture
def file(tmp_path, rng):
    X = rng.normal(size=(N, 2))
    a = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    b = (2 * a - 1 + X[:, 1] + rng.normal(size=N) > 0).astype(int)
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["id", "u", "v", "colour", "a", "b", "known_b", "known"])
        for i in range(N):
            known = "" if i % 3 else str(b[i])
            tags = ["", "a", "!b", "a;!b"][i % 4]
            colour = "red" if i % 2 else "blue"
            writer.writerow(
                [f"k{i}", f"{X[i, 0]:.3f}", f"{X[i, 1]:.3f}", colour, a[i], b[i], known, tags]
            )
    return path


@pytest.fixture
def model(file):
    data = load_table(TableRequest(file, ["a", "b"], drop=["id", "known*"]))
    return TableModel.fit(CTBN(C=1.0, random_state=0), data.features, data.choice, data.labels)


def answers(model, file, n_rows=None, **request):
    predictor = Predictor(model, open_table(file), PredictionRequest(**request))
    found = pa.concat_tables(predictor.answers(n_rows))
    return dict(zip(found.column_names, map(list, zip(*texts_of(found), strict=True)), strict=True))


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
    data = load_table(TableRequest(file, ["colour", "a"], drop=["id", "known*"]))
    model = TableModel.fit(CTBN(C=1.0, random_state=0), data.features, data.choice, data.labels)
    found = answers(model, file, top_k=1, given=["colour"])
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
    model = TableModel.fit(CTBN(C=10.0, random_state=0), data.features, data.choice, data.labels)
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
