"""A CSV file is read alike by pyarrow and row by row: the same frames, the same sentences."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.datasets import DatasetError
from colabel.datasets.readers import csv_blocks
from colabel.datasets.readers.csv_source import CsvSource
from colabel.tables import Frame

pytest.importorskip("pyarrow")

N = 40
FILES = {
    "numbers": ["1,2.5,-3e-4"] * N,
    "missing": ["1,,NA", "?,nan,NULL", "Null,-0.0,5"] * N,
    "spaces": [" 1, 2 ,3"] * N,
    "blank lines": ["1,2,3", "", "4,5,6"] * N,
    "texts": ["1,red,a b", "2,blue, c ", "3,,?"] * N,
    "text late": [*["1,2,3"] * N, *["1,x,3", "1,y,NA"] * N],
    "quotes": ["1,2,3"] * N + ['1,"a, b",3', '1,"two', 'lines",4'] * N,
    "plus": ["+1,2,3", "1.,.5,1e3"] * N,
    "own words": ["-999,none,3", "4,5,-999", "4,5, -999 "] * N,
    "not finite": ["1,2,3"] * N + ["1,inf,3"],
    "beyond": ["1,2,3"] * N + ["1,1e400,3"],
    "underscore": ["1,2,3"] * N + ["1,1_000,3"],
    "nan in brackets": ["1,2,3"] * N + ["1,nan(7),3"],
    "too few": ["1,2,3"] * N + ["1,2"],
    "too many": ["1,2,3"] * N + ["1,2,3,4"],
    "one column odd": ["1,2,3"] * N + ["oops,2,3"],
}


def outcome(path, missing, n_rows):
    try:
        source = CsvSource.open(path, missing=missing)
        storage = source.storage()
        frame = Frame.stacked(list(source.chunks(storage, n_rows)))
    except DatasetError as error:
        return str(error)
    columns = {name: frame.column(name).tolist() for name in frame.names}
    return storage, frame.number_names, {k: list(map(repr, v)) for k, v in columns.items()}


@pytest.mark.parametrize("n_rows", [7, 1000])
@pytest.mark.parametrize("name", FILES)
def test_as_row_by_row(tmp_path, monkeypatch, name, n_rows):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,c", *FILES[name]]) + "\n")
    missing = ("-999", "None") if name == "own words" else ()
    monkeypatch.setattr(csv_blocks, "FEWEST_LINES", 1 << 30)
    expected = outcome(path, missing, n_rows)
    monkeypatch.setattr(csv_blocks, "FEWEST_LINES", 1)
    assert outcome(path, missing, n_rows) == expected


def test_pyarrow_reads_most_blocks(tmp_path, monkeypatch):
    """One odd line costs its own block the fast way, not the rest of the file."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,3\n" * 100 + "1,2,\u00a03\n" + "4,5,6\n" * 100)
    monkeypatch.setattr(csv_blocks, "FEWEST_LINES", 1)
    read, taken = csv_blocks.BlockReader.read, []

    def counted(self, lines, storage):
        columns = read(self, lines, storage)
        taken.append(columns is not None)
        return columns

    monkeypatch.setattr(csv_blocks.BlockReader, "read", counted)
    source = CsvSource.open(path)
    frame = Frame.stacked(list(source.chunks(dict.fromkeys("abc", "number"), 10)))
    assert frame.n_rows == 201
    assert frame.numbers.sum() == 100 * 6 + 6 + 100 * 15
    assert taken.count(False) == 1
    assert taken.count(True) == 20


def test_a_category_column_shares_its_texts(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,red\n2, blue\n" * 50)
    monkeypatch.setattr(csv_blocks, "FEWEST_LINES", 1)
    (frame,) = CsvSource.open(path).chunks({"a": "number", "b": "text"}, 1000)
    assert len({id(text) for text in frame.texts["b"]}) == 2
    np.testing.assert_array_equal(frame.numbers[:, 0], [1.0, 2.0] * 50)
