"""A CSV file is read as an obvious reader, row by row, reads it: however it is cut into blocks."""

from __future__ import annotations

import csv
import gzip
import io
import math
import tracemalloc

import numpy as np
import pytest

from colabel.tables import Frame, ReadingOptions, TableError, open_table, read_chunks, read_frame

N = 40
FILES = {
    "numbers": ["1,2.5,-3e-4"] * N,
    "missing": ["1,,NA", "?,nan,NULL", "Null,-0.0,5"] * N,
    "spaces": [" 1, 2 ,3"] * N,
    "blank lines": ["1,2,3", "", "4,5,6"] * N,
    "texts": ["1,red,a b", "2,blue, c ", "3,,?"] * N,
    "text late": [*["1,2,3"] * N, *["1,x,3", "1,y,NA"] * N],
    "quotes": ["1,2,3"] * N + ['1,"a, b",3', '1,"two', 'lines",4', '1,"say ""so""",3'] * N,
    "stray quotes": ['1,5" pipe,3', "1,7,3"] * N + ['1,6" pipe,3', "1,tall,3"] * N,
    "plus": ["+1,2,3", "1.,.5,1e3"] * N,
    "quoted numbers": ["", "1.5, 7 ,-2e-3", '1,nan,"2.5"', "1,2,NA", "", "1,2,?"] * N,
    "own words": ["-999,none,3", "4,5,-999", "4,5, -999 "] * N,
    "own words among texts": ["1,x,-999", "2,none,?", "-999,?,null"] * N,
    "not finite": ["1,2,3"] * N + ["1,inf,3"],
    "beyond": ["1,2,3"] * N + ["1,1e400,3"],
    "underscore": ["1,2,3"] * N + ["1,1_000,3"],
    "nan in brackets": ["1,2,3"] * N + ["1,nan(7),3"],
    "no-break space": ["1,2,3"] * N + ["1,2,\u00a03"],
    "too few": ["1,2,3"] * N + ["1,2"],
    "too many": ["1,2,3"] * N + ["1,2,3,4"],
    "one column odd": ["1,2,3"] * N + ["oops,2,3"],
}


def obvious(text, missing):
    """Columns of numbers or texts; or the words that an error must hold."""
    words = {"", "?", "na", "nan", "null", *map(str.lower, missing)}

    def number(cell):
        if cell in words or cell.lower() in words:
            return math.nan
        value = float(cell)
        if math.isinf(value) or "_" in cell or "(" in cell:
            raise ValueError
        return value

    reader = csv.reader(io.StringIO(text))
    names = next(reader)
    rows = []
    for row in reader:
        if row and len(row) != len(names):
            return f"line {reader.line_num}: the row has {len(row)} values"
        if row:
            rows.append((reader.line_num, [cell.strip() for cell in row]))
    columns = {}
    for j, name in enumerate(names):
        odd, n_known = [], 0
        for line, row in rows:
            n_known += row[j].lower() not in words
            try:
                number(row[j])
            except ValueError:
                odd.append(line)
        if odd and 2 * len(odd) <= n_known:
            return f"line {odd[0]}: the column {name!r} holds"
        if odd:
            columns[name] = [None if r[j].lower() in words else r[j] for _, r in rows]
        else:
            columns[name] = [number(row[j]) for _, row in rows]
    return columns


@pytest.mark.parametrize("n_rows", [1, 7, 1000])
@pytest.mark.parametrize("name", FILES)
def test_as_row_by_row(tmp_path, name, n_rows):
    path = tmp_path / "t.csv"
    text = "\n".join(["a,b,c", *FILES[name]]) + "\n"
    path.write_text(text, encoding="utf-8")
    missing = ("-999", "None") if name.startswith("own words") else ()
    expected = obvious(text, missing)
    options = ReadingOptions(missing=missing)
    source = open_table(path, options)
    if isinstance(expected, str):
        chunks = read_chunks(source, dict.fromkeys("abc", "number"), n_rows)
        for read in (source.storage, lambda: list(chunks)):
            with pytest.raises(TableError) as caught:
                read()
            assert expected in str(caught.value)
        return
    storage = source.storage()
    chunks = list(read_chunks(source, storage, n_rows))
    some = list(read_chunks(source, {name: storage[name] for name in "ac"}, n_rows))
    assert set(some[0].names) == {"a", "c"}
    for frame in (read_frame(path, options), *map(Frame.stacked, (chunks, some))):
        for column in frame.names:
            values = expected[column]
            assert (column in frame.texts) == any(isinstance(v, str) for v in values)
            np.testing.assert_array_equal(frame.column(column), np.array(values))


def test_a_value_over_many_lines(tmp_path):
    """Blocks end with a row, not within quotes."""
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text).writerows([["a", "b"], *([i, f"one\n{i}\n\nthree"] for i in range(200))])
    for n_rows in (1, 3, 50):
        chunks = read_chunks(open_table(path), {"a": "number", "b": "text"}, n_rows)
        frame = Frame.stacked(list(chunks))
        assert frame.column("a").tolist() == list(range(200))
        assert frame.column("b")[-1] == "one\n199\n\nthree"


def test_a_wide_table_is_read_by_its_cells(tmp_path, rng):
    """Work grows with the cells, not with the square of the columns."""
    width = 5000
    numbers = rng.integers(0, 9, size=(12, width)).astype(str)
    numbers[3, 7], numbers[5, 8] = "NA", ""
    colours = ["red", "blue"] * 6
    lines = [",".join([*row, colour]) for row, colour in zip(numbers, colours, strict=True)]
    header = ",".join([*(f"x{j}" for j in range(width)), "colour"])
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *lines]))
    frame = read_frame(path)
    expected = np.where(np.isin(numbers, ["NA", ""]), "nan", numbers).astype(float)
    np.testing.assert_array_equal(frame.numbers, expected)
    assert frame.column("colour").tolist() == colours
    path.write_text("\n".join([header, *lines, lines[0].replace("red", "red,1")]))
    with pytest.raises(TableError, match=f"line 14: the row has {width + 2} values"):
        read_frame(path)


def test_a_small_file_may_unpack_to_a_long_one(tmp_path):
    """A chunk is in memory, not the file: 20 MB of text from 20 kB."""
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 5_000_000))
    source = open_table(path)
    tracemalloc.start()
    n_rows = sum(
        len(chunk) for chunk in read_chunks(source, {"a": "number", "b": "number"}, 1 << 14)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_rows == 5_000_000
    assert peak < 8_000_000
