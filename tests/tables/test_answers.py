"""Answers as lines of CSV files: as Python writes them, with six digits, and no formulas."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest

from colabel.tables.answers import Answers, answers_written, coded_texts


def as_python_writes(answers: Answers) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(answers.rows())
    return text.getvalue().encode()


def test_numbers_of_every_size(rng):
    of_every_size = rng.random(20_000) * 10.0 ** rng.integers(-10, 15, size=20_000)
    odd = [0.0, 1.0, 0.5, 1e-4, 9.9999949e-5, 9.9999951e-5, 999999.4, 999999.6, 1e5, 1e6, 1e-5]
    odd += [0.1, 0.999999, 0.9999994, 0.9999996, 1 / 512, 123456.0]
    values = np.concatenate([odd, np.negative(odd[1:]), rng.random(20_000), of_every_size])
    texts = Answers({"p": values}).to_csv().decode().split("\n")[:-1]
    for text, value in zip(texts, values.tolist(), strict=True):
        assert float(text) == float(f"{value:.6g}")
        assert len(text.lstrip("-").replace(".", "").split("e")[0].strip("0")) <= 6
    extreme = np.array([5e-324, 1.7e308, 1e-30, np.nan])
    assert [*map(float, Answers({"p": extreme}).to_csv().split()[:3])] == extreme[:3].tolist()
    assert Answers({"p": extreme}).rows()[3] == ("",)


def test_rows_as_csv_writes_them():
    texts = ["plain", 'with "quotes"', "a,b", None, "two\nlines", "ümläut", "plain"]
    whole = np.array([0, -1, 10, 99, 1_000_000, -(2**53), 2**53])
    columns = {"t": texts, "n": whole, "p": np.linspace(0, 1, 7), "u": texts}
    answers = Answers.of(list(columns), list(columns.values()))
    assert answers.to_csv() == as_python_writes(answers)
    assert answers.n_rows == 7
    empty = Answers({"t": coded_texts(("a",), np.zeros(0, dtype=int)), "p": np.zeros(0)})
    assert empty.to_csv() == b""


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "=HYPERLINK(1,2)"])
def test_what_a_spreadsheet_would_run_is_harmless(tmp_path, text):
    answers = Answers({text: coded_texts((text, "-1.5", "plain"), np.array([0, 1, 2]))})
    file = tmp_path / "out.csv"
    for safe, mark in ((True, "'"), (False, "")):
        with answers_written(file, safe=safe) as write:
            write(answers)
        with file.open(newline="", encoding="utf-8") as lines:
            # a number may be negative
            assert [row[0] for row in csv.reader(lines)] == [mark + text] * 2 + ["-1.5", "plain"]


def test_a_table_of_pyarrow():
    answers = Answers({"t": coded_texts(("b", "a"), np.array([1, 0, 1])), "p": np.ones(3)})
    found = answers.to_arrow()
    assert found.to_pydict() == {"t": ["a", "b", "a"], "p": [1.0, 1.0, 1.0]}
    assert found.schema.field("t").type == pa.string()
