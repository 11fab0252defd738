"""Answers as lines of CSV files: as Python writes them, with six digits, and no formulas."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colabel.tables import answers_written, texts_of
from colabel.tables.predicting import csv_of


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
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.to_pydict() == {"t": ["a", "b", "a"] * 2, "p": [1.0] * 6}
    assert found.schema.field("t").type == pa.string()
