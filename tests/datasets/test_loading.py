"""Data sets as arrays: the same from every format, and from OpenML."""

from __future__ import annotations

import builtins
import gzip
import io
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pyarrow as pa
import pytest
import sklearn
from pyarrow import parquet

from colabel.datasets import load, read_dataset
from colabel.tables import ReadingOptions, TableError, read_frame

CSV = """\ufeffsize,colour,big,kind
1,red,0,a
2.5,"dark, blue",1,b

,red,1,a
"""


def write(folder, text, name="t.csv"):
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def test_numbers_text_and_missing(tmp_path):
    data = read_dataset(write(tmp_path, CSV), labels=["kind"])
    assert data.feature_names == ("size", "big", "colour=dark, blue", "colour=red")
    np.testing.assert_array_equal(data.X, [[1, 0, 0, 1], [2.5, 1, 1, 0], [np.nan, 1, 0, 1]])
    assert data.Y.ravel().tolist() == ["a", "b", "a"]


def test_counted_labels_delimiter_and_drop(tmp_path):
    path = write(tmp_path, "y1;y2;x;junk\n0;TRUE;1.5;q\n1;FALSE;2;r\n")
    data = read_dataset(path, labels=2, drop=["junk"], options=ReadingOptions(delimiter=";"))
    assert data.Y.tolist() == [[0, "TRUE"], [1, "FALSE"]]
    assert data.X.tolist() == [[1.5], [2]]


@pytest.mark.parametrize(
    ("text", "labels", "word"),
    [
        ("", 1, "is empty"),
        *((blank, 1, "t.csv") for blank in ("\n", "\n\n\n", "   \n", "\ufeff")),
        ("a,b\n", ["b"], "no rows"),
        ("a,a\n1,2\n", 1, "line 1: the column 'a' is named twice"),
        ("a,b\n1,2\n1\n", ["b"], "line 3: the row has 1 values where the header names 2"),
        (b"a,b\n\xff,2\n", ["b"], "not utf-8"),
        ("a,b\n1,0.5\n2,1\n", ["b"], "whole numbers"),
        ("x,y\n" + "1,0\n2,1\n" * 9000 + "b,0\n1,1\n", -1, "line 18002: the column 'x' holds 'b'"),
    ],
)
def test_hostile_csv(tmp_path, text, labels, word):
    with pytest.raises(TableError, match=word) as caught:
        read_dataset(write(tmp_path, text), labels)
    assert "t.csv" in str(caught.value)


def test_parquet_types(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "t": pa.array(["u", "v", None]).dictionary_encode(),
            "s": pa.array([[1], [2], [3]]),  # neither a number nor a text: not offered
            "wide": pa.array([2**63 + 1, 2**53 + 1, 0], pa.uint64()),
            "flag": pa.array([True, False, True]),
            "kind": pa.array([2, 0, 1], pa.int8()),
        }
    )
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path)
    data = read_dataset(path, labels=-2)
    assert data.feature_names == ("n", "wide", "t=u", "t=v")
    nan = np.nan
    np.testing.assert_array_equal(data.X[:, [0, 2, 3]], [[1, 1, 0], [nan, 0, 1], [3, nan, nan]])
    assert data.X[0, 1] == float(2**63)
    assert data.Y.tolist() == [[True, 2], [False, 0], [True, 1]]
    with pytest.raises(TableError, match="There is no file"):
        read_dataset(tmp_path / "none.parquet", labels=1)
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        read_dataset(write(tmp_path, "not parquet", "x.parquet"), labels=1)


def test_parquet_with_text_that_is_not_utf_8(tmp_path):
    starts = pa.py_buffer(np.array([0, 2, 4], dtype=np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 2, [None, starts, pa.py_buffer(b"\xff\xfeab")])
    parquet.write_table(pa.table({"text": text, "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"cannot be read as Parquet.*not UTF-8"):
        read_frame(tmp_path / "t.parquet")


def test_csv_needs_no_extra(tmp_path, monkeypatch):
    real = builtins.__import__

    def guarded(name, *rest, **named):
        if name.split(".")[0] in ("pandas", "polars", "dask"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert read_dataset(write(tmp_path, "a,b\n1,0\n2,1\n"), labels=-1).n_rows == 2


def test_the_same_table_in_three_formats(tmp_path):
    """One stack of readers: a data set and a user's own table see the same values."""
    sizes, colours, big = [1.5, None, 3.0], ["red", "blue", None], [0, 1, 1]
    columns = {"size": sizes, "colour": colours, "big": big}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    rows = [
        ["?" if v is None else str(v) for v in row] for row in zip(*columns.values(), strict=True)
    ]
    lines = [",".join(row) for row in rows]
    arff = "@relation t\n@attribute size numeric\n@attribute colour {blue,red}\n"
    write(tmp_path, "\n".join(["size,colour,big", *lines]) + "\n")
    write(tmp_path, arff + "@attribute big {0,1}\n@data\n" + "\n".join(lines), "t.arff")
    for ending in ("parquet", "csv", "arff"):
        data = read_dataset(tmp_path / f"t.{ending}", labels=["big"])
        assert data.feature_names == ("size", "colour=blue", "colour=red")
        nan = np.nan
        np.testing.assert_array_equal(data.X, [[1.5, 0, 1], [nan, 1, 0], [3, nan, nan]])
        assert data.Y.ravel().tolist() == big
        frame = read_frame(tmp_path / f"t.{ending}")
        np.testing.assert_array_equal(frame.column("size"), [1.5, nan, 3])
        assert frame.column("colour").tolist() == colours


def test_from_openml_as_scikit_learn_fetches_it(monkeypatch, tmp_path):
    """The answers are those of scikit-learn's own tests: the first rows of emotions."""
    folder = Path(sklearn.__file__).parent / "datasets/tests/data/openml/id_40589"
    if not folder.is_dir():
        pytest.skip("this scikit-learn comes without its tests")
    answers = {"data/features/": "jdf", "data/qualities/": "jdq", "/download/": "data"}

    class Answer(io.BytesIO):
        def info(self):
            return {"Content-Encoding": ""}

    def urlopen(request, *_, **__):
        url = request if isinstance(request, str) else request.full_url
        kind = next((own for piece, own in answers.items() if piece in url), "jd-")
        (file,) = (file for file in folder.glob("*.gz") if kind in file.name)
        return Answer(gzip.decompress(file.read_bytes()))

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    data = load("emotions")
    assert data.label_names[0] == "amazed.suprised"
    assert data.Y.shape[1] == 6
    assert data.X.shape == (len(data.Y), 72)
    assert set(np.unique(data.Y)) == {0, 1}


def test_openml_refusals(monkeypatch, tmp_path):
    def urlopen(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with (
        pytest.warns(UserWarning, match="network error"),
        pytest.raises(TableError, match=r"'yeast' could not be fetched from OpenML.*no route"),
    ):
        load("yeast")
    with pytest.raises(TableError, match=r"no data set 'emotion': did you mean 'emotions'"):
        load("emotion")
    with pytest.raises(TableError, match=r"no data set 'iris': choose one of emotions"):
        load("iris")
