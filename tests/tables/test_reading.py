"""Tables are read alike from every format, whole or in chunks."""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from colabel.tables import (
    Frame,
    Preprocessor,
    ReadingOptions,
    TableError,
    TableRequest,
    load_table,
    open_table,
    prepare_parts,
    read_chunks,
    read_frame,
)
from colabel.tables.reading import is_large

ROWS = [
    ("1.5", "red", "a long note, with a comma", "0"),
    ("-2", "blue", "another one", "1"),
    ("", "red", "", "1"),
    ("3e2", "", "the third, 5 €", "0"),
]


def as_csv(delimiter=","):
    def cell(text):
        return f'"{text}"' if "," in text or delimiter in text else text

    lines = ["size,colour,note,tag".replace(",", delimiter)]
    return "\n".join([*lines, *(delimiter.join(map(cell, row)) for row in ROWS)]) + "\n"


def as_arff(sparse=False):
    header = (
        "@relation r\n@attribute size numeric\n@attribute colour {red, blue, green}\n"
        "@attribute note string\n@attribute tag {0,1}\n@data\n"
    )

    def cell(text):
        return "?" if not text else f"'{text}'" if " " in text else text

    if not sparse:
        return header + "".join(",".join(map(cell, row)) + "\n" for row in ROWS)
    lines = []
    for row in ROWS:
        pairs = [f"{j} {cell(text)}" for j, text in enumerate(row) if j < 3 or text != "0"]
        lines.append("{" + ", ".join(pairs) + "}")
    return header + "\n".join(lines) + "\n"


TEXTS = {
    "csv": ("t.csv", as_csv(), "utf-8"),
    "semicolons": ("t.csv", as_csv(";"), "utf-8"),
    "tsv": ("t.tsv", as_csv("\t"), "utf-8"),
    "marked": ("t.csv", as_csv(), "utf-8-sig"),
    "UTF-16 marked": ("t.csv", as_csv(), "utf-16"),
    "UTF-16 marked, big end first": ("t.csv", "\ufeff" + as_csv(), "utf-16-be"),
    "UTF-16": ("t.csv", as_csv(), "utf-16-le"),
    "UTF-16, big end first": ("t.csv", as_csv(), "utf-16-be"),
    "windows": ("t.csv", as_csv().replace("\n", "\r\n"), "utf-8"),
    "old Mac": ("t.csv", as_csv().replace("\n", "\r"), "utf-8"),
    "arff": ("t.arff", as_arff(), "utf-8"),
    "sparse arff": ("t.arff", as_arff(sparse=True), "utf-8"),
    "gz": ("t.csv.gz", as_csv(), "utf-8"),
}
FORMATS = [*TEXTS, "parquet", "feather", "jsonl", "xlsx"]


def make(folder, how):
    if how in TEXTS:
        name, text, codec = TEXTS[how]
        content = text.encode(codec)
        (folder / name).write_bytes(gzip.compress(content) if how == "gz" else content)
        return folder / name
    file = folder / f"t.{how}"
    sizes, colours, notes, tags = zip(*ROWS, strict=True)
    table = pa.table(
        {
            "size": [float(v) if v else None for v in sizes],
            "colour": pa.array([v or None for v in colours]).dictionary_encode(),
            "note": [v or None for v in notes],
            "tag": [int(v) for v in tags],
        }
    )
    if how == "parquet":
        parquet.write_table(table, file)
    elif how == "feather":
        feather.write_feather(table, file)
    elif how == "jsonl":
        file.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        pytest.importorskip("openpyxl")
        table.to_pandas().to_excel(file, index=False)
    return file


@pytest.mark.parametrize("how", FORMATS)
def test_every_format_gives_the_same_frame(tmp_path, how):
    frame = read_frame(make(tmp_path, how))
    assert set(frame.number_names) == {"size", "tag"}
    np.testing.assert_array_equal(frame.column("size"), [1.5, -2, np.nan, 300])
    np.testing.assert_array_equal(frame.column("tag"), [0, 1, 1, 0])
    assert frame.column("colour").tolist() == ["red", "blue", "red", None]
    assert frame.column("note").tolist() == [row[2] or None for row in ROWS]
    assert frame.is_sparse == (how == "sparse arff")


@pytest.mark.parametrize("how", FORMATS)
def test_chunks_make_up_the_whole(tmp_path, how):
    source = open_table(make(tmp_path, how))
    chunks = list(read_chunks(source, source.storage(), n_rows=3))
    assert [chunk.n_rows for chunk in chunks] == [3, 1]
    whole, joined = read_frame(source.path), Frame.stacked(chunks)
    for name in whole.names:
        np.testing.assert_array_equal(whole.column(name), joined.column(name))


@pytest.mark.parametrize("how", FORMATS)
def test_only_the_columns_asked_for(tmp_path, how):
    source = open_table(make(tmp_path, how))
    (chunk,) = read_chunks(source, {"note": "text", "size": "number"})
    assert chunk.names == ("size", "note")


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_cell(tmp_path, quote):
    notes = ["short", "long " * 50_000 + "end", "short again"]
    cells = [f"{quote}{note}{quote}" for note in notes]
    file = tmp_path / "t.csv"
    file.write_text("size,note\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    frame = read_frame(file)
    assert frame.column("note").tolist() == notes
    np.testing.assert_array_equal(frame.column("size"), [0, 1, 2])


def test_text_that_begins_with_numbers(tmp_path):
    file = tmp_path / "t.csv"
    lines = ["1"] * 17_000 + ["x"] * 17_001  # more than a chunk of numbers first
    file.write_text("a,b\n" + "".join(f"{v},1\n" for v in lines))
    frame = read_frame(file)
    assert frame.column("a")[[0, -1]].tolist() == ["1", "x"]


def test_a_column_said_to_be_text(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("zip,b\n01234,1\n99999,2\n")
    assert read_frame(file, ReadingOptions(as_text=("zip",))).column("zip").tolist() == [
        "01234",
        "99999",
    ]


def test_columns_that_are_not_there(tmp_path):
    source = open_table(make(tmp_path, "csv"))
    with pytest.raises(TableError, match="no column 'weight'"):
        list(read_chunks(source, {"weight": "number"}))


def test_numbers_wanted_where_there_is_text(tmp_path):
    for how in ("csv", "arff", "parquet"):
        source = open_table(make(tmp_path, how))
        with pytest.raises(TableError.__mro__[1], match="colour"):
            list(read_chunks(source, {"colour": "number"}))


def test_frames_of_other_things():
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame({"n": [1, 2], "t": ["a", None], "b": [True, False]})
    frame = Frame.of(data)
    assert frame.number_names == ("n", "b")
    assert frame.column("t").tolist() == ["a", None]
    assert Frame.of(np.eye(2)).n_rows == 2
    with pytest.raises(TableError, match="not int"):
        Frame.of(3)
    with pytest.raises(TableError, match="rows"):
        Frame.of({"a": [1], "b": [1, 2]})


def test_dates_of_a_parquet_file_are_those_of_a_csv_file(tmp_path):
    moments = [datetime(2024, 2, 29, 6), None, datetime(2026, 11, 15), datetime(2025, 1, 1, 12)]
    table = pa.table(
        {
            "when": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": pa.array([m and m.date() for m in moments], pa.date32()),
            "a": [0, 1, 1, 0],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    lines = [f"{m or ''},{m.date() if m else ''},{a}" for m, a in zip(moments, "0110", strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["when,day,a", *lines]))
    features = []
    for name in ("t.parquet", "t.csv"):
        data = load_table(TableRequest(tmp_path / name, ["a"]))
        assert data.choice.of_kind("date") == ["when", "day"]
        features.append(Preprocessor(data.choice.used).fit_transform(data.features))
    np.testing.assert_allclose(*features)


def with_commas(tmp_path, n_rows, name="t.csv"):
    """A table with 1.234,5 and tags of a comma, and what it means."""
    price = [1234.5 + 1000 * i for i in range(n_rows)]
    cells = [f"{p:,.1f}".translate(str.maketrans(",.", ".,")) for p in price]
    lines = [f"{cell};{i % 7};{1 + i % 2},{3 + i % 3}" for i, cell in enumerate(cells)]
    file = tmp_path / name
    file.write_text("\n".join(["price;size;tags", *lines]))
    return file, price


@pytest.mark.parametrize("n_rows", [30, 3000])  # row by row, and more than pyarrow is asked for
def test_decimal_commas_are_found_out(tmp_path, n_rows):
    file, price = with_commas(tmp_path, n_rows)
    with pytest.warns(UserWarning, match=r"is read as \d+\.5 \(--decimal ,\)"):
        found = load_table(TableRequest(file, ["tags"]))
    np.testing.assert_array_equal(found.features.column("price"), price)
    assert found.labels.names == ("1", "2", "3", "4", "5")  # tags are no decimals
    said = load_table(TableRequest(file, ["tags"], options=ReadingOptions(decimal=",")))
    np.testing.assert_array_equal(said.features.numbers, found.features.numbers)
    chunks = read_chunks(open_table(file, ReadingOptions(decimal=",")), {"price": "number"}, 7)
    np.testing.assert_array_equal(np.concatenate([c.column("price") for c in chunks]), price)


def test_decimal_commas_in_parts(tmp_path):
    pytest.importorskip("dask")
    parts = [with_commas(tmp_path, 20, f"p{k}.csv")[0] for k in range(2)]
    (tmp_path / "scratch").mkdir()
    with pytest.warns(UserWarning, match="--decimal ,"):
        table = prepare_parts(TableRequest(parts[0], ["tags"]), parts, tmp_path / "scratch")
    assert table.choice.of_kind("number") == ["price", "size"]
    whole = load_table(TableRequest(parts[0], ["tags"], options=ReadingOptions(decimal=",")))
    expected = Preprocessor(whole.choice.used).fit(whole.features)
    np.testing.assert_allclose(table.preprocessor.numbers_.mean, expected.numbers_.mean)


@pytest.mark.parametrize(
    ("cells", "decimal", "numbers"),
    [
        (["1,234.5", "2"], ".", [1234.5, 2]),
        (["1,234,567", "1.5"], ".", [1234567, 1.5]),
        (["1,234", "0.5"], ".", [1234, 0.5]),
        (["1.234.567", "-2"], ",", [1234567, -2]),
        (["1 234,5", "0,25"], ",", [1234.5, 0.25]),
        (["1\u00a0234,5", ""], ",", [1234.5, np.nan]),
        (["0,123", "1e3"], ",", [0.123, 1000]),
    ],
)
def test_thousands(tmp_path, cells, decimal, numbers):
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["x;y", *(f"{cell};1" for cell in cells)]), encoding="utf-8")
    with pytest.warns(UserWarning, match=re.escape(f"(--decimal {decimal})")):
        np.testing.assert_array_equal(read_frame(file).column("x"), numbers)


def test_a_comma_nobody_can_tell(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x;y\n1,234;1\n12,500;2\n")
    with pytest.raises(TableError, match=r"1,234, which may be 1\.234 or 1234: say"):
        read_frame(file)
    for decimal, first in ((",", 1.234), (".", 1234.0)):
        assert read_frame(file, ReadingOptions(decimal=decimal)).column("x")[0] == first
    assert read_frame(file, ReadingOptions(as_text=("x",))).column("x")[0] == "1,234"
    file.write_text("x;y\n1,5;1\n2,5;1\n2.5;2\n")  # both: left to the user, as before
    assert read_frame(file).texts.keys() == {"x"}
    file.write_text("x;y\n1,5;1\n2,5;1\n2.5;2\n")
    with pytest.raises(TableError, match=r"line 4: .* holds '2\.5 \(with a decimal comma\)'"):
        read_frame(file, ReadingOptions(decimal=","))
    with pytest.raises(TableError, match="give a point or a comma"):
        read_frame(file, ReadingOptions(decimal=";"))


def test_what_is_large_is_known_before_it_is_unpacked(tmp_path):
    """128 MB of text in short cells are 512 MB of numbers, and are read in parts."""
    small, bomb = tmp_path / "small.csv", tmp_path / "bomb.csv.gz"
    small.write_text("a,b\n" + "0,1\n" * 1000)
    bomb.write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 32_000_000, compresslevel=1))
    assert not is_large([small])
    assert is_large([bomb])


@pytest.mark.parametrize("ending", ["jsonl", "feather", "xlsx"])
def test_what_is_no_such_file_is_refused(tmp_path, ending):
    file = tmp_path / f"t.{ending}"
    file.write_bytes(b"no such thing")
    with pytest.raises(TableError, match=r"cannot be read as (JSON|Feather|Excel)"):
        read_frame(file)
