"""Readers refuse what they cannot read with a sentence, whatever is wrong with the file."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.datasets import DatasetError
from colabel.datasets.readers import read_csv, read_label_names, read_parquet
from colabel.tables import read_frame


@pytest.mark.parametrize("encoding", ["klingon", "utf-32", "hex"])
def test_xml_of_an_encoding_nobody_reads(tmp_path, encoding):
    file = tmp_path / "labels.xml"
    file.write_text(f'<?xml version="1.0" encoding="{encoding}"?><labels/>')
    with pytest.raises(DatasetError, match="not well-formed XML"):
        read_label_names(file)


@pytest.mark.parametrize("content", ["", "\n", "\n\n\n", "   \n", "\ufeff"])
def test_a_blank_csv(tmp_path, content):
    file = tmp_path / "blank.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError):
        read_csv(file, 1)
    with pytest.raises(DatasetError):
        read_frame(file)


def test_parquet_with_text_that_is_not_utf_8(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    starts = pa.py_buffer(np.array([0, 2, 4], dtype=np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 2, [None, starts, pa.py_buffer(b"\xff\xfeab")])
    parquet.write_table(pa.table({"text": text, "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DatasetError, match="not UTF-8"):
        read_parquet(tmp_path / "t.parquet", ["y"])
    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        read_frame(tmp_path / "t.parquet")


def test_parquet_with_integers_beyond_doubles(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"x": pa.array([2**63 + 1, 2**53 + 1], pa.uint64()), "y": [0, 1]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet", ["y"]).X[0, 0] == float(2**63)
