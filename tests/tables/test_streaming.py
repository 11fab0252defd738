"""A table in parts is prepared and learned from as the same rows in memory are."""

from __future__ import annotations

import csv
import weakref
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from pyarrow import parquet
from scipy import sparse

from colabel.tables import (
    Predictor,
    TableError,
    TableModel,
    TableRequest,
    load_table,
    make_model,
    open_table,
    prepare_parts,
    summarise,
)
from colabel.tables.streaming import one_by_one

pytest.importorskip("dask")

N = 150
HEADER = ["size", "far", "colour", "note", "when", "a", "b", "c"]


@pytest.fixture
def rows(rng):
    """Numbers, some missing; categories; texts; labels, some missing, some rows without any."""
    words = np.array(["red", "green", "blue", "small", "large", "round", "flat"])
    X = rng.normal(size=(N, 2))
    rows = []
    for i in range(N):
        a = int(X[i, 0] + rng.normal() > 0)
        b = int(2 * a - 1 + X[i, 1] + rng.normal() > 0)
        labels = [a, b, int(rng.random() < 0.4)]
        known = ["" if rng.random() < 0.1 else str(y) for y in labels]
        known = known if i % 40 else [""] * 3
        size = "" if rng.random() < 0.2 else f"{X[i, 0]:.4f}"
        note = " ".join(rng.choice(words, size=5))
        when = "" if i % 11 == 5 else f"{date(2025, 1, 1) + timedelta(int(rng.integers(9)))}"
        rows.append([size, f"{1000 + X[i, 1]:.3f}", "rgb"[i % 3], note, when, *known])
    return rows


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def write(folder, rows, cuts, ending=".csv"):
    folder.mkdir(exist_ok=True)
    files = []
    for k, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        file = folder / f"part-{k}.csv"
        with file.open("w", newline="") as text:
            csv.writer(text).writerows([HEADER, *rows[a:b]])
        if ending == ".parquet":
            numbers = dict.fromkeys(["size", "far", "a", "b", "c"], "float64")
            options = arrow_csv.ConvertOptions(strings_can_be_null=True, column_types=numbers)
            table = arrow_csv.read_csv(file, convert_options=options)
            file = file.with_suffix(ending)
            parquet.write_table(table, file)
        files.append(file)
    return files


def request(path, **more):
    return TableRequest(path, ["a", "b", "c"], **more)


def of_blocks(table):
    X, Y = (own.compute() for own in table.dask_arrays())
    return (X.toarray() if sparse.issparse(X) else X), Y


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("cuts", [[], [1], [40, 41, 90], [75]])
def test_prepared_as_in_memory(tmp_path, scratch, rows, cuts, ending):
    (whole,) = write(tmp_path, rows, [], ending)
    data = load_table(request(whole))
    preprocessor = TableModel.fit(
        make_model("br", 0, {"C": 1.0}), data.features, data.choice, data.labels
    ).preprocessor
    parts = write(tmp_path / "parts", rows, cuts, ending)
    found = prepare_parts(request(whole), parts, scratch, block_values=400, n_rows=17)
    X, Y = of_blocks(found)
    expected = preprocessor.transform(data.features)
    expected = expected.toarray() if sparse.issparse(expected) else expected
    np.testing.assert_allclose(X, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(Y, data.labels.Y)
    assert Y.dtype == data.labels.Y.dtype
    assert found.choice == data.choice
    assert found.summary == summarise(data)
    assert len(found.blocks) > len(parts)


def test_counts_of_parts_are_not_held_together(tmp_path, scratch, rows):
    """They are added as they come: memory does not grow with the number of parts."""
    counted, n_alive = [], []

    def run(what, function, parts, combine=None):
        def watched(part):
            n_alive.append(sum(own() is not None for own in counted))
            found = function(part)
            counted.append(weakref.ref(found["every"]))
            return found

        return one_by_one(what, watched if what == "counting" else function, parts, combine)

    parts = write(tmp_path, rows, [10, 30, 50, 70, 90])
    prepare_parts(request(parts[0]), parts, scratch, run)
    assert len(counted) == len(parts) == 6
    assert max(n_alive) <= 2


@pytest.mark.parametrize("labels", [["colour", "a"], ["note"]])
def test_class_variables_and_tags(tmp_path, scratch, rows, labels):
    rows = [[*row[:3], row[3].replace(" ", ";"), *row[4:]] for row in rows]
    (whole,) = write(tmp_path, rows, [])
    asked = TableRequest(whole, labels)
    data = load_table(asked)
    parts = write(tmp_path / "parts", rows, [30, 100])
    found = prepare_parts(asked, parts, scratch)
    _, Y = of_blocks(found)
    np.testing.assert_array_equal(Y, data.labels.Y)
    assert found.labels.space.names == data.labels.names
    assert found.labels.source == data.labels.source
    assert found.summary == summarise(data)


# of shared pairs a CTBN in memory draws the parents that rows lack
@pytest.mark.parametrize(("name", "settings"), [("br", {}), ("ctbn", {"pairs": "separate"})])
def test_the_same_model(tmp_path, scratch, rows, name, settings):
    (whole,) = write(tmp_path, rows, [])
    asked = request(whole, text=["note"])
    data = load_table(asked)
    estimator = make_model(name, 0, {"C": 0.1, **settings})
    expected = TableModel.fit(estimator, data.features, data.choice, data.labels)
    parts = write(tmp_path / "parts", rows, [60])
    found = TableModel.fit_parts(estimator, prepare_parts(asked, parts, scratch))
    assert found.n_rows == expected.n_rows
    frame = data.features
    np.testing.assert_allclose(found.predict_proba(frame), expected.predict_proba(frame), atol=1e-6)
    answers = next(Predictor(found, open_table(whole)).answers())
    assert answers.column_names[1:4] == ["a", "b", "c"]


def refusal(scratch, parts, **more):
    with pytest.raises(TableError) as caught:
        prepare_parts(request(parts[0], **more), parts, scratch)
    return str(caught.value)


def test_bad_rows_name_the_file_and_the_row(tmp_path, scratch, rows):
    parts = write(tmp_path, rows, [60])
    good = parts[1].read_text()
    lines = good.splitlines()
    parts[1].write_text("\n".join([*lines[:5], "1,2,3", *lines[5:]]))
    assert "part-1.csv, line 6: the row has 3 values" in refusal(scratch, parts)
    parts[1].write_text("\n".join([*lines[:5], "oops,2,r,words,,1,0,1", *lines[5:]]))
    assert "part-1.csv, line 6: the column 'size' holds 'oops'" in refusal(scratch, parts)
    parts[1].write_text("\n".join([*lines[:5], "1,2,r,words,,1,0.5,1", *lines[5:]]))
    found = refusal(scratch, parts)
    assert "part-1.csv, row 5: The label column 'b' holds '0.5', while all other" in found
    parts[1].write_text("\n".join([*lines[:5], "1e200,2,r,words,,1,0,1", *lines[5:]]))
    assert "part-1.csv, row 5: the column 'size' holds 1e+200" in refusal(scratch, parts)


def test_parts_that_do_not_belong_together(tmp_path, scratch, rows):
    first, second = write(tmp_path, rows, [60])
    second.write_text(second.read_text().replace("far", "wide", 1))
    assert "has a column 'far' and" in refusal(scratch, [first, second])
    assert "There is no file" in refusal(scratch, [first, tmp_path / "none.csv"])
    second.write_text(",".join(HEADER) + "\n")
    assert "has no rows" in refusal(scratch, [first, second])


def test_a_part_with_a_column_of_nulls(tmp_path, scratch, rows):
    """A part in which a column happens to be empty may declare no type for it."""
    rows = [[*row[:2], row[2] if i >= 40 else "", *row[3:]] for i, row in enumerate(rows)]
    parts = write(tmp_path, rows, [40], ".parquet")
    table = parquet.read_table(parts[0])
    place = table.column_names.index("colour")
    empty = table.set_column(place, "colour", pa.nulls(table.num_rows))
    parquet.write_table(empty, parts[0])
    found = prepare_parts(request(parts[0]), parts, scratch)
    assert "colour" in found.choice.of_kind("category")
    table = found.preprocessor.tables_[0]
    assert table.values == ("", "b", "g", "r")


def test_no_room_for_the_rows(tmp_path, scratch, rows, monkeypatch):
    parts = write(tmp_path, rows, [60])
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    assert "--scratch" in refusal(scratch, parts)


def test_a_column_that_is_text_in_one_part_only(tmp_path, scratch, rows):
    """Of what half the values are is judged by all the parts, as in one file."""
    mixed = [[*row[:2], row[2] if i >= 100 else str(i), *row[3:]] for i, row in enumerate(rows)]
    parts = write(tmp_path, mixed, [100])
    message = refusal(scratch, parts)
    assert "part-1.csv, line 2" in message
    assert "100 of its 150 values are finite numbers" in message


def test_a_part_that_changes_meanwhile(tmp_path, scratch, rows):
    parts = write(tmp_path, rows, [60])

    def run(what, function, parts, combine=None):
        if what == "preparing":
            parts[1].write_text(parts[1].read_text() + ",".join(rows[0]) + "\n")
        return one_by_one(what, function, parts, combine)

    with pytest.raises(TableError, match=r"part-1\.csv has changed while it was read"):
        prepare_parts(request(parts[0]), parts, scratch, run)
