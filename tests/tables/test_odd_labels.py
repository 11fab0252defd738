"""Thirty odd label columns: what is read, and what comes back in predictions; or what is said."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from colabel import BinaryRelevance, load, save
from colabel.tables import (
    PredictionRequest,
    Predictor,
    TableError,
    TableModel,
    TableRequest,
    load_table,
    open_table,
    table_of,
)

TIMES = 8  # so that there are rows enough for a stray value to be one

# cells of a single label column, the labels that are read, and the cells that may come back
READ = {
    "0 and 1": (["0", "1", "1"], ("y",), {"0", "1"}),
    "0 and 1 with blanks": (["0", "1", ""], ("y",), {"0", "1"}),
    "0.0 and 1.0": (["0.0", "1.0", "1"], ("y",), {"0", "1"}),
    "-1 and 1": (["-1", "1", "1"], ("y",), {"-1", "1"}),
    "grades": (["1", "2", "3", "2"], ("y",), {"1", "2", "3"}),
    "yes and no": (["yes", "no", "yes"], ("y",), {"yes", "no"}),
    "Yes, No and blanks": (["Yes", "No", "", "Yes"], ("y",), {"Yes", "No"}),
    "yes in several spellings": (["yes", "no", "NO", "no"], ("y",), {"yes", "no"}),
    "oui and non": (["oui", "non", "oui"], ("y",), {"oui", "non"}),
    "ja and nein": (["ja", "nein", "ja"], ("y",), {"ja", "nein"}),
    "True and False": (["True", "False", "True"], ("y",), {"True", "False"}),
    "TRUE and FALSE": (["TRUE", "FALSE", "?"], ("y",), {"TRUE", "FALSE"}),
    "t and f": (["t", "f", "t"], ("y",), {"t", "f"}),
    "names": (["low", "high", "low"], ("y",), {"low", "high"}),
    "accents": (["été", "hiver", "été", "ÉTÉ"], ("y",), {"été", "hiver", "ÉTÉ"}),
    "numbers and more names": (
        ["1", "two", "three", "four"],
        ("y",),
        {"1", "two", "three", "four"},
    ),
    "one name": (["only", "only", ""], ("y",), {"only"}),
    "tags with ;": (["a;b", "a", "b;c", ""], ("a", "b", "c"), {"a;b", "a", "b;c", "", "b", "c"}),
    "tags with |": (["a|b", "a", ""], ("a", "b"), {"a|b", "a", "b", ""}),
    "tags with commas": (["a, b", "b, c", "a"], ("a", "b", "c"), None),
    "numbers as tags": (["1;2", "2", "1"], ("1", "2"), {"1;2", "1", "2", ""}),
    "one tag a row, and one of two": (["a", "b", "a;b"], ("a", "b"), {"a", "b", "a;b", ""}),
    "lists of Python": (
        ["['billing', 'login']", "['login']", "[]"],
        ("billing", "login"),
        {"['billing', 'login']", "['billing']", "['login']", "[]"},
    ),
    "lists of one": (["['a']", "['b']", "['a']"], ("a", "b"), None),
    "lists of JSON": (
        ['["a", "b, c"]', '["a"]', "[]"],
        ("a", "b, c"),
        {'["a", "b, c"]', '["a"]', '["b, c"]', "[]"},
    ),
    "sets of Python": (["{'a', 'b'}", "{'a'}", "set()"], ("a", "b"), None),
    "brackets that are no list": (["[sic]", "plain", "[sic]"], ("y",), {"[sic]", "plain"}),
    "blanks around": ([" low", "high ", "low"], ("y",), {"low", "high"}),
}

# cells, what the user says, and the words of the sentence
REFUSED = {
    "a stray number": (["0", "1"] * 30 + ["7"], {}, "row 61: .* 'y' holds '7', while all other 60"),
    "a stray name": (["0", "1"] * 30 + ["x"], {}, "row 61: .* 'y' holds 'x', while all other 60"),
    "a stray word": (["yes", "no"] * 30 + ["maybe"], {}, "holds 'maybe', while all other 60"),
    "half a label": (["0.5", "1", "0"] * 9, {}, "row 1: .* holds 0.5: labels are whole numbers"),
    "an id": ([f"k{i}" for i in range(40)], {}, "is it an id, or text"),
    "a comma nobody can tell": (
        ["Paris, France", "Rome, Italy"] * 9,
        {},
        "two tags, or one value .*--separator , .*--separator ''",
    ),
    "a separator that splits nothing": (
        ["a;b", "b"] * 9,
        {"separator": "|"},
        "'\\|' stands in none of the values of 'y', which hold ';' between tags",
    ),
    "a list among which one is none": (
        ["['a']", "['b']"] * 9,
        {"separator": ","},
        "which hold lists written out",
    ),
    "nothing": ([""] * 20, {}, "Every label is missing"),
}


def write(folder, cells):
    file = folder / "t.csv"
    with file.open("w", newline="", encoding="utf-8") as text:
        rows = ([i * i % 17, cell] for i, cell in enumerate(cells))
        csv.writer(text).writerows([["x", "y"], *rows])
    return file


def fitted(data):
    return TableModel.fit(BinaryRelevance(C=1.0), data.features, data.choice, data.labels)


@pytest.mark.parametrize("name", READ)
def test_what_is_read_and_what_comes_back(tmp_path, name):
    cells, labels, back = READ[name]
    file = write(tmp_path, cells * TIMES)
    data = load_table(TableRequest(file, ["y"]))
    assert data.labels.names == labels
    save(fitted(data), tmp_path / "m.colabel")
    predictor = Predictor(load(tmp_path / "m.colabel"), open_table(file), PredictionRequest())
    found = {str(value) for chunk in predictor.answers() for value in chunk["y"].to_pylist()}
    if back is None:  # whatever is written is read again
        again = load_table(TableRequest(write(tmp_path, [*cells * TIMES, *found]), ["y"]))
        assert again.labels.names == labels
    else:
        assert found <= back


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path, name):
    cells, said, words = REFUSED[name]
    with pytest.raises(TableError, match=words):
        load_table(TableRequest(write(tmp_path, cells), ["y"], **said))


def test_what_is_refused_has_a_spelling(tmp_path):
    stray = write(tmp_path, ["0", "1"] * 30 + ["7"])
    data = load_table(TableRequest(stray, ["y"], category=["y"]))
    assert data.labels.space.classes[0].tolist() == [0, 1, 7]
    towns = write(tmp_path, ["Paris, France", "Rome, Italy"] * 9)
    assert load_table(TableRequest(towns, ["y"], ",")).labels.names[0] == "France"
    assert load_table(TableRequest(towns, ["y"], "")).labels.space.classes[0][0] == "Paris, France"


@pytest.mark.parametrize("container", ["parquet", "jsonl", "feather", "pandas", "polars", "arrow"])
def test_types_of_other_containers_come_back(tmp_path, container):
    """True and False as such, whole numbers without a fraction, lists as tags."""
    columns = {
        "x": [i * i % 17 for i in range(24)],
        "b": [True, False, None] * 8,
        "n": [0, 1, None] * 8,
        "f": [0.0, 1.0, 1.0] * 8,
        "tags": [["a", "b"], ["a"], []] * 8,
    }
    table = pa.table(columns)
    data = table
    if container == "parquet":
        data = tmp_path / "t.parquet"
        parquet.write_table(table, data)
    elif container == "feather":
        feather = pytest.importorskip("pyarrow.feather")
        data = tmp_path / "t.feather"
        feather.write_feather(table, data)
    elif container == "jsonl":
        data = tmp_path / "t.jsonl"
        data.write_text("\n".join(map(json.dumps, table.to_pylist())))
    elif container != "arrow":
        pytest.importorskip(container)
        data = table.to_pandas() if container == "pandas" else _polars(columns)

    def read(labels, drop):
        if isinstance(data, type(tmp_path)):
            return load_table(TableRequest(data, labels, drop=drop))
        kept = [name for name in columns if name not in drop]
        return table_of(data[kept] if container != "arrow" else data.select(kept), labels)

    few = read(["b", "n", "f"], ["tags"])
    classes = few.labels.space.classes
    assert [own.tolist() for own in classes] == [[False, True], [0, 1], [0, 1]]
    assert few.labels.space.is_indicator
    predicted = fitted(few).predict(few.features)
    assert {type(value) for value in predicted[:, 0].tolist()} <= {bool, int}
    tags = read(["tags"], ["b", "n", "f"])
    assert tags.labels.names == ("a", "b")
    np.testing.assert_array_equal(tags.labels.Y, [[1, 1], [1, 0], [0, 0]] * 8)


def _polars(columns):
    import polars

    return polars.DataFrame(columns)
