"""Answers are written alike by the compiled kernel and by Python's own formatting."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from colabel.tables.answers import Answers, CodedTexts


def as_python_writes(answers: Answers) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(answers.rows())
    return text.getvalue().encode()


def test_numbers_of_every_size(rng):
    of_every_size = rng.random(20_000) * 10.0 ** rng.integers(-300, 300, size=20_000)
    odd = [0.0, 1.0, 0.5, 1e-4, 9.9999949e-5, 9.9999951e-5, 999999.4, 999999.6, 1e5, 1e6, 1e-5]
    odd += [0.1, 0.999999, 0.9999994, 0.9999996, 1 / 512, 5e-324, 1.7e308, np.nan, 123456.0, 1e22]
    values = np.concatenate([odd, np.negative(odd[1:]), rng.random(20_000), of_every_size])
    answers = Answers({"p": values})
    assert answers.to_csv().decode().split("\n")[:-1] == [row[0] for row in answers.rows()]


def test_rows_as_csv_writes_them():
    texts = CodedTexts.of(["plain", 'with "quotes"', "a,b", None, "two\nlines", "ümläut", "plain"])
    whole = np.array([0, -1, 10, 99, 1_000_000, -(2**53), 2**53])
    answers = Answers({"t": texts, "n": whole, "p": np.linspace(0, 1, 7), "u": texts})
    assert answers.to_csv() == as_python_writes(answers)
    assert answers.n_rows == 7


def test_a_table_of_pyarrow():
    pytest.importorskip("pyarrow")
    answers = Answers({"t": CodedTexts(("b", "a"), np.array([1, 0, 1])), "p": np.ones(3)})
    assert answers.to_arrow().to_pydict() == {"t": ["a", "b", "a"], "p": [1.0, 1.0, 1.0]}
