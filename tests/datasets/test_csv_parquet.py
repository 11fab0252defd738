"""CSV and Parquet."""

from __future__ import annotations

import builtins
import importlib

import numpy as np
import pytest

from colabel.datasets import DatasetError, read_arff, read_csv, read_parquet
from colabel.tables import read_frame

CSV = """\ufeffsize,colour,big,kind
1,red,0,a
2.5,"dark, blue",1,b

,red,1,a
"""


class TestCsv:
    def test_numbers_text_and_missing(self, write):
        data = read_csv(write(CSV, "t.csv"), labels=["kind"])
        assert data.feature_names == ("size", "colour=dark, blue", "colour=red", "big")
        np.testing.assert_array_equal(data.X, [[1, 0, 1, 0], [2.5, 1, 0, 1], [np.nan, 0, 1, 1]])
        assert data.Y.ravel().tolist() == ["a", "b", "a"]

    def test_counted_labels_delimiter_and_drop(self, write):
        path = write("y1;y2;x;junk\n0;TRUE;1.5;q\n1;FALSE;2;r\n", "t.csv")
        data = read_csv(path, labels=2, label_position="first", drop=["junk"], delimiter=";")
        assert data.Y.tolist() == [[0, 1], [1, 0]]
        assert data.X.tolist() == [[1.5], [2]]

    def test_text_that_turns_up_late(self, write):
        path = write("x,y\n" + "1,0\n2,1\n" * 9000 + "b,0\n1,1\n", "t.csv")
        data = read_csv(path, labels=1)
        assert data.feature_names == ("x=1", "x=2", "x=b")
        assert data.X.argmax(axis=1).tolist() == [0, 1] * 9000 + [2, 0]

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("", "is empty"),
            ("a,b\n", "no rows"),
            ("a,a\n1,2\n", "line 1: the column 'a' is named twice"),
            ("a,b\n1,2\n1\n", "line 3: the row has 1 values where the header names 2"),
            (b"a,b\n\xff,2\n", "not utf-8"),
            ("a,b\n1,0.5\n", "whole numbers"),
        ],
    )
    def test_hostile(self, write, text, word):
        path = write(text, "t.csv")
        with pytest.raises(DatasetError, match=word) as caught:
            read_csv(
                path, labels=["b"] if text[:1] in ("a", b"a") and "a,a" not in str(text) else 1
            )
        assert str(path) in str(caught.value)


class TestParquet:
    @pytest.fixture
    def arrow(self):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")

    def test_types(self, arrow, tmp_path):
        pa, pq = arrow
        table = pa.table(
            {
                "n": pa.array([1, None, 3], pa.int32()),
                "t": pa.array(["u", "v", None]).dictionary_encode(),
                "s": pa.array([[1], [2], [3]]),
                "flag": pa.array([True, False, True]),
                "kind": pa.array([2, 0, 1], pa.int8()),
            }
        )
        path = tmp_path / "t.parquet"
        pq.write_table(table, path)
        with pytest.raises(DatasetError, match=r"column 's' is of type list.*drop=\['s'\]"):
            read_parquet(path, labels=2)
        data = read_parquet(path, labels=2, drop=["s"])
        assert data.feature_names == ("n", "t=u", "t=v")
        nan = np.nan
        np.testing.assert_array_equal(data.X, [[1, 1, 0], [nan, 0, 1], [3, nan, nan]])
        assert data.Y.tolist() == [[1, 2], [0, 0], [1, 1]]

    def test_refuses(self, arrow, tmp_path, write):
        with pytest.raises(DatasetError, match="There is no file"):
            read_parquet(tmp_path / "none.parquet", labels=1)
        with pytest.raises(DatasetError, match="cannot be read as Parquet"):
            read_parquet(write("not parquet", "x.parquet"), labels=1)


def test_csv_needs_no_extra(write, monkeypatch):
    real = builtins.__import__

    def guarded(name, *rest, **named):
        if name.split(".")[0] in ("pandas", "polars", "dask"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert read_csv(write("a,b\n1,0\n2,1\n", "t.csv"), labels=1).n_rows == 2


def test_the_same_table_in_three_formats(tmp_path, write):
    """One stack of readers: a data set and a user's own table see the same values."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = importlib.import_module("pyarrow.parquet")
    sizes, colours, big = [1.5, None, 3.0], ["red", "blue", None], [0, 1, 1]
    columns = {"size": sizes, "colour": colours, "big": big}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    rows = [
        ["?" if v is None else str(v) for v in row] for row in zip(*columns.values(), strict=True)
    ]
    lines = [",".join(row) for row in rows]
    arff = "@relation t\n@attribute size numeric\n@attribute colour {blue,red}\n"
    files = {
        tmp_path / "t.parquet": read_parquet,
        write("\n".join(["size,colour,big", *lines]) + "\n", "t.csv"): read_csv,
        write(arff + "@attribute big {0,1}\n@data\n" + "\n".join(lines), "t.arff"): read_arff,
    }
    for file, read in files.items():
        data = read(file, labels=["big"])
        assert data.feature_names == ("size", "colour=blue", "colour=red")
        nan = np.nan
        np.testing.assert_array_equal(data.X, [[1.5, 0, 1], [nan, 1, 0], [3, nan, nan]])
        assert data.Y.ravel().tolist() == big
        frame = read_frame(file)
        np.testing.assert_array_equal(frame.column("size"), [1.5, nan, 3])
        assert frame.column("colour").tolist() == colours
