"""Which columns are what, and which are labels."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.tables import (
    Frame,
    TableError,
    TableRequest,
    choose_columns,
    load_table,
    match_columns,
    read_labels,
    summarise,
)

N = 60


def kind_of(column, **forced):
    frame = Frame.of({"x": column, "other": np.arange(N) ** 2})
    choice = choose_columns(frame, forced)
    return {c.name: c.kind for c in choice.used}.get("x", choice.left_out.get("x"))


def test_kinds_of_columns(rng):
    assert kind_of(rng.normal(size=N)) == "number"
    assert kind_of(np.where(rng.random(N) < 0.5, np.nan, 1.0)) == "number"  # missing varies
    assert kind_of(rng.choice(["a", "b"], N)) == "category"
    assert kind_of([f"some words and number {i}" for i in range(N)]) == "text"
    assert kind_of([f"key{i}" for i in range(N)]) == f"has {N} different values in {N} rows"
    assert kind_of([f"key{i}" for i in range(N)], x="category") == "category"
    assert kind_of(rng.choice(["a", "b"], N), x="text") == "text"


def test_columns_of_no_use():
    assert kind_of(np.ones(N)) == "never varies"
    assert kind_of(np.full(N, np.nan)) == "is empty"
    assert kind_of(np.arange(N) + 7) == "numbers the rows"
    assert kind_of(["a"] * N) == "never varies"
    assert kind_of([None] * (N - 1) + [np.nan]) == "is empty"
    with pytest.raises(TableError, match="numbers the rows"):
        choose_columns(Frame.of({"x": np.arange(N)}))


@pytest.mark.parametrize("n_dates", [2, N])
@pytest.mark.parametrize(
    "form",
    [
        "20{:02d}-11-15",
        "2026-11-15 12:{:02d}:00",
        "2026-11-15T12:{:02d}:00.25Z",
        "20{:02d}/1/5",
        "5.1.20{:02d}",
        "11/15/2026 1:{:02d} PM",
        "15/11/20{:02d}",
    ],
)
def test_dates_are_told_by_their_form(form, n_dates):
    dates = [form.format(i % n_dates) for i in range(N)]
    assert kind_of(dates) == "date"
    assert kind_of([*dates[:-1], None]) == "date"
    assert kind_of([*dates[:-1], "some time in winter"]) != "date"
    assert kind_of(dates, x="category") == "category"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("1/2/20{:02d}", "holds dates whose days and months cannot be told apart"),
        ("15.11.{:02d}", "holds dates of several or unknown forms"),
        ("31.2.20{:02d}", "holds dates of several or unknown forms"),
    ],
)
def test_dates_that_cannot_be_read_are_left_out(form, reason):
    assert kind_of([form.format(i) for i in range(N)]) == f"{reason}: write them as 2026-11-15"
    assert kind_of(["10.4.12", "10.4.13"] * (N // 2)) == "category"  # a version, for all we know


NAMES = ["size", "tag_a", "tag_b", "x,y", "tags"]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["tag_*"], ("tag_a", "tag_b")),
        (["tag_b", "tag_a"], ("tag_a", "tag_b")),  # in the order of the table
        (["tag_a,tag_b"], ("tag_a", "tag_b")),
        (["x,y"], ("x,y",)),  # a name that holds a comma
        (["tag?"], ("tags",)),
        (["*"], tuple(NAMES)),
    ],
)
def test_columns_by_pattern(patterns, found):
    assert match_columns(patterns, NAMES, "label") == found


def test_columns_from_a_list(tmp_path):
    (tmp_path / "names.txt").write_text("tag_a\n\n  tag_b \n")
    assert match_columns([f"@{tmp_path}/names.txt"], NAMES, "label") == ("tag_a", "tag_b")
    (tmp_path / "l.xml").write_text('<labels><label name="tag_b"/><label name="size"/></labels>')
    assert match_columns([f"@{tmp_path}/l.xml"], NAMES, "label") == ("size", "tag_b")


def test_label_values():
    frame = Frame.of(
        {
            "zero_one": [0, 1, 1],
            "words": ["yes", "NO", "yes"],
            "missing": [1, None, 0],
            "grade": [3, 1, 2],
            "risk": ["low", None, "high"],
            "half": [0.5, 1, 0],
        }
    )
    plain = read_labels(frame, ["zero_one", "words"])
    assert plain.codes.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert plain.Y.tolist() == [[0, "yes"], [1, "NO"], [1, "yes"]]  # as they were given
    assert plain.space.is_indicator
    some = read_labels(frame, ["zero_one", "missing"])
    assert some.Y.tolist() == [[0, 1], [1, None], [1, 0]]
    assert some.codes.tolist() == [[0, 1], [1, -1], [1, 0]]
    mixed = read_labels(frame, ["zero_one", "grade", "risk"])
    assert mixed.Y.tolist() == [[0, 3, "low"], [1, 1, None], [1, 2, "high"]]
    with pytest.raises(TableError, match=r"'half' holds 0\.5"):
        read_labels(frame, ["half"])


@pytest.mark.parametrize(
    ("cells", "separator", "names"),
    [
        (["a;b", "", "b"], None, ("a", "b")),
        (["a|b", None, "b"], None, ("a", "b")),
        (["a, b", None, "b, c", "a"], None, ("a", "b", "c")),
        (["a b", "b c", "a"], " ", ("a", "b", "c")),
        (["1;2", "2", "3"], None, ("1", "2", "3")),
    ],
)
def test_columns_of_tags(cells, separator, names):
    frame = Frame.of({"tags": np.array(cells, dtype=object)})
    labels = read_labels(frame, ["tags"], separator)
    assert labels.names == names
    expected = [
        [
            int(n in (c or "").replace(" ", "") if separator is None else n in (c or "").split())
            for n in names
        ]
        for c in cells
    ]
    assert labels.Y.tolist() == expected


def test_one_class_variable_is_not_taken_for_tags():
    frame = Frame.of({"risk": ["low", "high", "low"], "list": ["a;b", "c", "a;b"]})
    assert read_labels(frame, ["risk"]).Y[:, 0].tolist() == ["low", "high", "low"]
    assert read_labels(frame, ["list"], "").Y[:, 0].tolist() == ["a;b", "c", "a;b"]


@pytest.mark.parametrize("column", [np.arange(N) * 7, [f"k{i}" for i in range(N)]])
def test_an_id_is_no_label(column):
    with pytest.raises(TableError, match="'id' holds 60 different values in 60 rows: is it an id"):
        read_labels(Frame.of({"id": column, "a": [0, 1] * (N // 2)}), ["id", "a"])
    nearly = list(column[: N - 8]) + list(column[:8])  # 52 values in 60 rows
    assert read_labels(Frame.of({"id": nearly}), ["id"], "").names == ("id",)


def test_what_was_seen(tmp_path):
    file = tmp_path / "t.csv"
    lines = [f"{i % 5},{'ab'[i % 2]},{i % 2},{i % 2},1,{i % 3 if i else ''}" for i in range(30)]
    file.write_text("size,kind,p,q,always,grade\n" + "\n".join(lines) + "\n,,,,,\n")
    summary = summarise(load_table(TableRequest(file, ["p", "q", "always"], drop=["grade"])))
    assert summary.n_rows == 30
    assert summary.kinds == {"number": ["size"], "category": ["kind"]}
    assert summary.labels[0].counts == {"0": 15, "1": 15}
    assert summary.labels_per_row == 2.0
    assert summary.n_label_sets == 2
    text = " ".join(summary.warnings)
    assert "1 row without any known label" in text
    assert "The same in every row: always" in text
    assert "The labels p, q are the same in every row" in text
    other = summarise(load_table(TableRequest(file, ["p", "grade"], drop=["q", "always"])))
    assert other.labels[1].counts == {"1": 10, "2": 10, "0": 9}
    assert "1 missing label:" in " ".join(other.warnings)
    assert other.labels_per_row is None
