"""LabelSpace: every container in, the same container out, and a sentence for every refusal."""

from __future__ import annotations

import copy
import enum
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from colabel.labels import MISSING, LabelSpace

pd = pytest.importorskip("pandas")

NAN = float("nan")


class Size(enum.Enum):
    LARGE = 1
    SMALL = 2


def infer(Y: Any, **options: Any) -> tuple[LabelSpace, np.ndarray]:
    space, codes = LabelSpace.infer(Y, **options)
    assert codes.dtype == np.int32
    assert codes.flags.c_contiguous
    assert codes.shape[1] == space.n_labels == len(space.classes)
    return space, codes


# ------------------------------------------------------------------------------- containers


class Wrapped:
    """Not an array, but convertible."""

    def __array__(self, dtype=None, copy=None):
        return np.array([[0, 1], [1, 0]])


TWO_ROWS = np.array(["a", "b"])
DATES = np.array(["2020", "2019"], dtype="datetime64[Y]")
NO_DATE = np.array(["2020", "NaT"], dtype="datetime64[Y]")
MASKED = np.ma.array([[1, 0], [0, 1]], mask=[[0, 1], [0, 0]])
HUGE = np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64)


@pytest.mark.parametrize(
    ("Y", "kind", "classes", "codes"),
    [
        # 0/1 labels keep both values
        *(
            (np.array([[0, 1], [1, 0]], dtype), "matrix", [[0, 1]] * 2, [[0, 1], [1, 0]])
            for dtype in (int, np.int8, np.uint8, bool, float, np.float32)
        ),
        (np.array([[0, 1, -3], [2, 1, 7]]), "matrix", [[0, 2], [1], [-3, 7]], [[0] * 3, [1, 0, 1]]),
        (np.array([["0", "1"], ["0", "0"]]), "matrix", [["0"], ["0", "1"]], [[0, 1], [0, 0]]),
        (np.array([[-128, 10**12], [127, -(10**12)]]), "matrix", [[-128, 127], [-(10**12), 10**12]],
         [[0, 1], [1, 0]]),
        (np.array([[-128], [127]], dtype=np.int8), "matrix", [[-128, 127]], [[0], [1]]),
        (HUGE, "vector", [HUGE.tolist()], [[0], [1]]),
        (np.array([3, 1, 1]), "vector", [[1, 3]], [[1], [0], [0]]),
        (np.array([1.0, 1.0]), "vector", [[1.0]], [[0], [0]]),
        (np.array([True, False]), "vector", [[False, True]], [[1], [0]]),
        (["b", "a"], "vector", [["a", "b"]], [[1], [0]]),
        (np.array(["b", "a"], dtype=object), "vector", [["a", "b"]], [[1], [0]]),
        (np.array(["b", "a"], dtype=np.dtypes.StringDType()), "vector", [["a", "b"]], [[1], [0]]),
        (np.array([b"b", b"a"]), "vector", [[b"a", b"b"]], [[1], [0]]),
        (DATES, "vector", [DATES[::-1].tolist()], [[1], [0]]),
        (np.array([Size.SMALL, Size.LARGE]), "vector", [[Size.LARGE, Size.SMALL]], [[1], [0]]),
        (np.array([2**70, 3]), "vector", [[3, 2**70]], [[1], [0]]),
        (np.array([TWO_ROWS[1], "a", 1], dtype=object), "vector", [[1, "a", "b"]], [[2], [1], [0]]),
        # of several types: by type, then by value
        ([["a", 1], [10, 2], [9, 3], ["B", 1]], "matrix", [[9, 10, "B", "a"], [1, 2, 3]],
         [[3, 0], [1, 1], [0, 2], [2, 0]]),
        ([["B", 1], ["a", 1], [9, 3], [10, 2]], "matrix", [[9, 10, "B", "a"], [1, 2, 3]],
         [[2, 0], [3, 0], [0, 2], [1, 1]]),
        # True and False with 0 and 1
        (pd.DataFrame({"a": [True, False], "b": [0, 0]}), "matrix", [[False, True], [0, 1]],
         [[1, 0], [0, 0]]),
        (MASKED, "matrix", [[0, 1]] * 2, [[1, MISSING], [0, 1]]),
        ([["a", "b"], ["c", NAN]], "matrix", [["a", "c"], ["b"]], [[0, 0], [1, MISSING]]),
        (np.array([[0.0, 1.0], [NAN, 1.0]]), "matrix", [[0, 1]] * 2, [[0, 1], [MISSING, 1]]),
        (NO_DATE, "vector", [DATES[:1].tolist()], [[0], [MISSING]]),
        # lists of numbers are rows of a table
        (pd.Series([[0, 1], [1, 1]]), "matrix", [[0, 1]] * 2, [[0, 1], [1, 1]]),
        ([np.array([0, 1]), np.array([1, 1])], "matrix", [[0, 1]] * 2, [[0, 1], [1, 1]]),
        (np.array([np.array([0, 1]), None, [1, 1]], dtype=object)[[0, 2]], "matrix", [[0, 1]] * 2,
         [[0, 1], [1, 1]]),
        (Wrapped(), "matrix", [[0, 1]] * 2, [[0, 1], [1, 0]]),
    ],
)  # fmt: skip
def test_what_is_read_and_comes_back(Y, kind, classes, codes):
    space, found = infer(Y)
    assert space.kind == kind
    assert [c.tolist() for c in space.classes] == classes
    assert space.is_binary == all(len(c) == 2 for c in classes)
    assert space.is_indicator == all(c == [0, 1] for c in classes)
    assert found.tolist() == codes
    np.testing.assert_array_equal(space.encode(Y), found)
    np.testing.assert_array_equal(space.encode(space.decode(found)), found)
    decoded = np.asarray(space.decode(found))
    if type(Y) is np.ndarray and Y.dtype.kind not in "OT":
        assert decoded.dtype == Y.dtype
        assert all(c.dtype == Y.dtype for c in space.classes)
        np.testing.assert_array_equal(decoded, Y)
        np.testing.assert_array_equal(space.encode(Y.reshape(len(Y), -1)), found)


def test_series_gives_its_name():
    assert infer(pd.Series([1, 2], name="grade"))[0].names == ("grade",)
    assert infer(pd.Series([1, 2]))[0].names == ("y0",)


def test_frame_of_many_dtypes():
    frame = pd.DataFrame(
        {
            "category": pd.Categorical(["u", "v", None], categories=["v", "u", "unused"]),
            "nullable": pd.array([1, None, 2], dtype="Int64"),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "string": pd.array(["s", "t", None], dtype="string"),
            "object": ["x", None, "y"],
            "date": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            7: [0.0, 1.0, NAN],
        }
    )
    space, codes = infer(frame)
    assert space.names == (*list(frame.columns)[:-1], "7")
    assert [c.tolist() for c in space.classes[:5]] == [
        ["u", "v"],
        [1, 2],
        [False, True],
        ["s", "t"],
        ["x", "y"],
    ]
    assert [c.dtype.kind for c in space.classes] == ["O", "i", "b", "O", "O", "M", "f"]
    np.testing.assert_array_equal(codes == MISSING, frame.isna())
    np.testing.assert_array_equal(space.encode(frame), codes)
    np.testing.assert_array_equal(space.encode(frame[frame.columns[::-1]]), codes)
    np.testing.assert_array_equal(space.encode(space.decode(codes)), codes)


def test_sparse_stored_zeros_and_nan():
    stored = sparse.csr_array(([1.0, 0.0, NAN], ([0, 0, 1], [0, 1, 1])), shape=(3, 2))
    _, codes = infer(stored)
    np.testing.assert_array_equal(codes, [[1, 0], [0, -1], [0, 0]])


SETS = [{"b", "a"}, {"c"}, set()]


@pytest.mark.parametrize(
    "Y",
    [
        SETS,
        [frozenset(s) for s in SETS],
        [["b", "a"], ["c"], []],
        [("b", "a", "b"), ("c",), ()],
        pd.Series(SETS),
        pd.Series([["b", "a"], ["c"], []]),
        np.array([{"b", "a"}, {"c"}, set()], dtype=object),
        [["b", "a"], {"c"}, set()],
    ],
    ids=["sets", "frozensets", "lists", "tuples", "series", "series of lists", "array", "mixed"],
)
def test_sets(Y):
    space, codes = infer(Y)
    assert space.kind == "sets"
    assert space.names == ("a", "b", "c")
    np.testing.assert_array_equal(codes, [[1, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert space.decode(codes) == SETS
    np.testing.assert_array_equal(space.encode(Y), codes)
    np.testing.assert_array_equal(space.encode(codes), codes)
    np.testing.assert_array_equal(space.encode(sparse.csr_array(codes)), codes)


def test_equally_long_lists_of_strings():
    """Sets or class variables? Nobody can tell, and both have a spelling."""
    rows = [["a", "b"], ["b", "c"]]
    for ambiguous in (rows, list(map(tuple, rows)), [["a"], ["b"]]):
        with pytest.raises(ValueError, match=r"sets or class variables.*set.row. .*numpy.array"):
            infer(ambiguous)
    assert infer(np.array(rows))[0].kind == "matrix"
    assert infer([set(row) for row in rows])[0].kind == "sets"
    assert infer([*rows, ["a"]])[0].kind == "sets"  # of different lengths
    table, _ = infer(np.array(rows))
    np.testing.assert_array_equal(table.encode(rows), [[0, 0], [1, 1]])
    assert infer(pd.Series(rows))[0].kind == "sets"
    space, _ = infer(SETS)
    np.testing.assert_array_equal(space.encode(rows), [[1, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(space.encode(np.array(rows)), [[1, 1, 0], [0, 1, 1]])


def test_sets_of_numbers_come_back_as_numbers():
    space, codes = infer([{10, 9}, {2}, None])
    assert space.names == ("2", "9", "10")
    assert space.decode(codes) == [{10, 9}, {2}, None]


def test_numpy_strings_sort_with_strings():
    assert infer([set(TWO_ROWS), {"c", "a"}])[0].names == ("a", "b", "c")


def test_sets_with_given_names():
    space, codes = infer([{"b"}, set()], names=["b", "never"])
    assert space.names == ("b", "never")
    np.testing.assert_array_equal(codes, [[1, 0], [0, 0]])
    numbered, codes = infer([{2}, {1}], names=[2, 1])
    assert numbered.decode(codes) == [{2}, {1}]
    matrix, _ = infer(np.eye(2, dtype=int), names=["a", "b"])
    np.testing.assert_array_equal(matrix.encode([{"b"}, set()]), [[0, 1], [0, 0]])


# ----------------------------------------------------------------------------- missing labels


@pytest.mark.parametrize("gap", [None, NAN, pd.NA, pd.NaT, np.datetime64("NaT"), np.float64("nan")])
def test_missing_in_object_columns(gap):
    Y = np.array([[1, "a"], [gap, "b"], [0, gap]], dtype=object)
    space, codes = infer(Y)
    np.testing.assert_array_equal(codes, [[1, 0], [-1, 1], [0, -1]])
    assert space.classes[0].dtype.kind == "i"


def test_missing_comes_back_as_none_where_there_is_no_nan():
    integers, _ = infer(np.eye(2, dtype=int))
    decoded = integers.decode(np.array([[0, -1]]))
    assert decoded.dtype == object
    assert decoded.tolist() == [[0, None]]


@pytest.mark.parametrize("Y", [SETS, sparse.csr_array(np.eye(3, dtype=int))])
def test_sets_and_sparse_cannot_hold_single_missing_labels(Y):
    space, codes = infer(Y)
    codes[0, 1] = MISSING
    with pytest.raises(ValueError, match=r"Label 1 of row 0 is missing.*cannot say so.*values"):
        space.decode(codes)


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("Y", "words"),
    [
        (None, r"requires y to be passed, but the target y is None"),
        ([], r"Y is empty.*\(0,\).*0 rows"),
        (np.zeros((0, 3)), r"Y is empty.*\(0, 3\).*0 rows"),
        (np.zeros((3, 0)), r"Y is empty.*\(3, 0\).*0 columns"),
        (pd.DataFrame({"a": []}), r"Y is empty.*\(0, 1\)"),
        (sparse.csr_array((0, 2)), r"Y is empty.*\(0, 2\)"),
        ([[], []], r"Y is empty.*0 columns"),
        ([set(), set()], r"Y is empty.*none of its 2 sets"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\).*3 dimensions.*\(n, d\)"),
        ([[[0], [1]]], r"3 dimensions"),
        (3, r"0 dimensions"),
        ("abc", r"0 dimensions"),
        ([[0, 1], [1]], r"ragged.*lengths seen: 1, 2.*set of labels"),
        ([[0, 1], 1], r"ragged"),
        ([np.zeros(2), np.zeros(3)], r"ragged.*set of labels"),
        ([{"a"}, 3], r"Row 1 of Y is 3.*set"),
        ([{"a", None}], r"holds a missing value"),
        ([{1, "1"}], r"occur more than once: '1'"),
        (sparse.csr_array([[0, 2]]), r"Sparse Y holds 2 at row 0, column 1.*dense"),
        (sparse.coo_array(np.array([0, 1])), r"sparse with shape \(2,\)"),
        (np.full(3, NAN), r"no observed value for 'y0'"),
        (np.array([[0, NAN], [1, NAN]]), r"no observed value for 'y1'"),
        (pd.DataFrame({"a": [0, 1], "b": [None, None]}), r"no observed value for 'b'"),
        (np.full(3, np.inf), r"infinity in variable 'y0'"),
        (["a", float("inf")], r"infinity in variable 'y0'"),
        (np.array([[0, 0.5]]), r"^Unknown label type: continuous.*'y1'.*0\.5.*classifies"),
        ([0.5, None], r"^Unknown label type: continuous"),
        (np.array([1j]), r"Unknown label type.*complex"),
        (np.array([[{"a"}, 1]], dtype=object), r"'y0'.*cannot be classes.*unhashable"),
        (pd.DataFrame([[0, 1]], columns=["a", "a"]), r"occur more than once: 'a'"),
    ],
)
def test_infer_refuses(Y, words):
    with pytest.raises(ValueError, match=words):
        LabelSpace.infer(Y)


@pytest.mark.parametrize(
    ("Y", "names", "words"),
    [
        (np.eye(2), ["a"], r"1 entries \('a'\).*2 label variables"),
        (np.eye(2), ["a", "a"], r"occur more than once: 'a'"),
        (np.eye(2), "ab", r"single string 'ab'"),
        ([{"x"}, {"q"}], ["x"], r"unknown labels 'q'.*known are 'x'"),
        ([{"x"}], "x", "single string"),
    ],
)
def test_infer_refuses_names(Y, names, words):
    with pytest.raises(ValueError, match=words):
        LabelSpace.infer(Y, names=names)


@pytest.mark.parametrize(
    "values",
    [["['billing', 'login']", "['login']", "[]"], ['["a", "b"]', '["b"]'], ["{'a'}", "set()"]],
)
def test_lists_written_out_are_not_one_class_variable(values):
    with pytest.raises(ValueError, match=r"lists of labels written out: read them.*literal_eval"):
        LabelSpace.infer(values * 5)
    assert LabelSpace.infer(["[sic]", "plain"] * 5)[0].classes[0].tolist() == ["[sic]", "plain"]


def test_words_for_there_and_not_there():
    """Two words are 0/1 labels in a table, and come back as they were given."""
    frame = pd.DataFrame({"a": ["Yes", "No", "Yes"], "b": ["TRUE", "FALSE", None], "c": [0, 1, 1]})
    space, codes = infer(frame)
    assert space.is_indicator
    np.testing.assert_array_equal(codes, [[1, 1, 0], [0, 0, 1], [1, MISSING, 1]])
    assert (
        space.decode(codes).tolist()
        == frame.astype(object).where(frame.notna(), None).values.tolist()
    )
    assert not infer(pd.DataFrame({"a": ["no", "yes"], "b": ["left", "right"]}))[0].is_indicator
    assert not infer(["no", "yes"])[0].is_indicator  # one class variable


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_data_frames_of_any_library(library):
    pytest.importorskip(library)
    columns = {"a": [0, 1, None], "b": ["x", None, "y"], "c": [True, False, True]}
    if library == "polars":
        import polars as frames

        Y = frames.DataFrame(columns)
    else:
        import pyarrow as frames

        Y = frames.table(columns)
    space, codes = infer(Y)
    assert space.names == ("a", "b", "c")
    np.testing.assert_array_equal(codes, [[0, 0, 1], [1, MISSING, 0], [MISSING, 1, 1]])
    assert space.classes[0].dtype.kind == "i"
    assert infer(Y["c"] if library == "polars" else Y.column("c"))[0].kind == "vector"


@pytest.mark.parametrize("container", [list, np.array, "series", "frame"])
@pytest.mark.parametrize(
    ("values", "separator"),
    [
        (["a;b", "a", "b;c", "c", "a;c"], ";"),
        (["red|small", "red|large", "blue|small", "blue|large"], "|"),
        (["a, b", "b", "a", "a, b, c", "c"], ","),
        (["1,2", "2", "1"], ","),
    ],
)
def test_joined_labels_are_not_one_class_variable(values, separator, container):
    y = values * 5
    if isinstance(container, str):
        y = pd.Series(y, name="tags") if container == "series" else pd.DataFrame({"t": y})
    else:
        y = container(y)
    with pytest.raises(ValueError, match=re.escape(f"joined by {separator!r}: split them")):
        LabelSpace.infer(y)
    space, _ = LabelSpace.infer(np.array(values * 5)[:, None])  # said to be classes as they stand
    assert space.classes[0].tolist() == sorted(values)


@pytest.mark.parametrize(
    "values",
    [
        ["Paris, France", "Lyon, France", "Bonn, Germany", "Rome, Italy"],
        ["x;y", "z", "w", "u"],
        ["a", "b", "c", "d", "a;b"],  # one in five
        ["a;b", "c;d"],
        ["1", "2"],
    ],
)
def test_classes_with_a_separator_in_their_name_stay(values):
    assert LabelSpace.infer(values * 5)[0].classes[0].tolist() == sorted(values)


@pytest.mark.parametrize(
    ("train", "Y", "words"),
    [
        (np.eye(2), [[0, 2]], r"'y1'.*as 2.*learnt with are 0\.0, 1\.0"),
        ([["a", 1], ["b", 2]], [["z", 1]], r"'y0'.*as 'z'.*learnt with are 'a', 'b'"),
        ([["a", 1], ["b", 2]], [["a", "1"]], r"'y1'.*as '1'.*learnt with are 1, 2"),
        ([[1, 5], [2, 5], [3, 5]], [[9, 5]], r"'y0'.*as 9"),
        (np.eye(2), [[0, 1, 1]], r"Y has 3 columns, but there are 2.*\(n, 2\)"),
        (np.eye(2), [0, 1], r"Y has 1 column, but there are 2"),
        (np.eye(2), sparse.csr_array(np.eye(3)), r"Y has 3 columns"),
        (SETS, [{"a", "zz"}], r"unknown labels 'zz'.*known are 'a', 'b', 'c'"),
        (np.array([[0, 2]]), [{"a"}], r"label sets.*other values"),
        (np.array([[0, 2]]), sparse.csr_array([[0, 1]]), r"sparse.*other values"),
        (np.eye(2), np.zeros((0, 2)), r"Y is empty"),
        (np.array(["2020"], dtype="M8[Y]"), ["soon"], r"as 'soon'"),
    ],
)
def test_encode_refuses(train, Y, words):
    space, _ = infer(train)
    with pytest.raises(ValueError, match=words):
        space.encode(Y)


def test_encode_matches_frames_by_name_or_by_position_where_names_are_default():
    space, codes = infer(pd.DataFrame({"a": [0, 1], "b": [1, 1]}))
    np.testing.assert_array_equal(space.encode(pd.DataFrame({"b": [1, 1], "a": [0, 1]})), codes)
    for columns in ({"a": [0], "c": [1]}, {"a": [0]}, {"a": [0], "b": [0], "c": [1]}):
        with pytest.raises(ValueError, match=r"columns of Y are not those.*(absent: 'b'|: 'c')"):
            space.encode(pd.DataFrame(columns))
    space, _ = infer(np.eye(2, dtype=int))
    np.testing.assert_array_equal(space.encode(pd.DataFrame({"a": [0], "b": [1]})), [[0, 1]])


def test_encode_across_dtypes():
    space, _ = infer(np.array([[0, 2], [1, 3]]))
    for Y in ([[0.0, 3.0], [1.0, 2.0]], [[False, 3], [True, 2]], np.array([[0, 3], [1, 2]], "O")):
        assert space.encode(Y).tolist() == [[0, 1], [1, 0]]


# ------------------------------------------------------------------- questions about the space


def test_index():
    space, _ = infer(np.eye(3), names=["quiet-still", "sad", "angry"])
    assert space.index("sad") == space.index(1) == space.index(np.int64(1)) == 1
    with pytest.raises(KeyError, match=r"no label 'quiet'.*did you mean 'quiet-still'"):
        space.index("quiet")
    with pytest.raises(KeyError, match=r"no label 'xyz'.*there are 'quiet-still', 'sad'"):
        space.index("xyz")
    for outside in (3, -1):
        with pytest.raises(KeyError, match=rf"no label {outside}: positions go from 0 to 2"):
            space.index(outside)


def test_repr_names_a_few():
    assert repr(infer(np.eye(9))[0]).endswith("given as matrix: y0, y1, y2, y3, y4, y5, …)")
    assert repr(infer(["a", "b"])[0]) == "LabelSpace(1 class variable given as vector: y0[2])"


def test_values_of_any_leading_shape():
    space, _ = infer(np.array([[0, 5, 1], [2, 6, 1], [4, 5, 1]]))
    codes = np.random.default_rng(0).integers(0, [3, 2, 1], size=(4, 2, 5, 3))
    values = space.values(codes)
    assert values.shape == codes.shape
    for index in np.ndindex(*codes.shape):
        assert values[index] == space.classes[index[-1]][codes[index]]
    assert space.values(codes[0, 0, 0]).shape == (3,)


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (np.zeros((2, 3), dtype=int), r"shape \(2, 3\).*\(\.\.\., 2\)"),
        (np.zeros((2, 2)), r"dtype float64.*integers"),
        (np.array([[0, 2]]), r"Code 2 of label 'y1' is out of range.*0 to 1"),
        (np.array([[-2, 0]]), r"Code -2 of label 'y0'"),
    ],
)
def test_values_refuses(codes, words):
    space, _ = infer(np.eye(2))
    with pytest.raises(ValueError, match=words):
        space.values(codes)
    with pytest.raises(ValueError, match=words):
        space.decode(codes)
    with pytest.raises(ValueError, match=r"shape \(2,\).*`values`"):
        space.decode(np.array([0, 1]))


@pytest.mark.parametrize("Y", [SETS, [["a", 1], [None, 2]], ["x", "y"], sparse.eye_array(3)])
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_pickle_and_deepcopy(Y, clone):
    space, codes = infer(Y)
    other = clone(space)
    assert repr(other) == repr(space)
    assert other.members == space.members
    np.testing.assert_array_equal(other.encode(Y), codes)


def test_pandas_is_not_needed():
    # scikit-learn imports pandas where it is installed, so only its absence can be tested
    code = (
        "import sys; sys.modules['pandas'] = None; from colabel.labels import LabelSpace; "
        "space, codes = LabelSpace.infer([{'a'}, {'b'}, None]); space.decode(codes)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_large_matrix_is_read_by_columns():
    Y = np.random.default_rng(0).integers(0, 3, size=(20_000, 100))
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        space, codes = infer(Y)
    finally:
        sys.setprofile(None)
    assert calls < 100_000  # a walk over single values would make two million
    np.testing.assert_array_equal(codes, Y)
    assert set(space.cardinalities) == {3}


# --------------------------------------------------------------------------------- round trips

shapes = hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=6)
cells = st.one_of(st.integers(-3, 3), st.text("ab", max_size=2), st.booleans(), st.none())


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(st.sampled_from([np.int64, np.int8, np.bool_, np.uint16]), shapes)
    | hnp.arrays(np.float64, shapes, elements=st.integers(-3, 3))
    | hnp.arrays(np.dtype("U2"), shapes, elements=st.text("abc", max_size=2))
)
def test_decode_inverts_infer(Y):
    space, codes = infer(Y)
    decoded = space.decode(codes)
    assert decoded.dtype == Y.dtype
    np.testing.assert_array_equal(decoded, Y)
    np.testing.assert_array_equal(space.encode(decoded), codes)
    assert all(c.tolist() == sorted(set(c.tolist())) for c in space.classes)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(object, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=cells))
def test_object_tables_round_trip(Y):
    missing = np.vectorize(lambda value: value is None, otypes=[bool])(Y)
    if missing.all(axis=0).any():
        with pytest.raises(ValueError, match="no observed value"):
            LabelSpace.infer(Y)
        return
    space, codes = infer(Y)
    np.testing.assert_array_equal(codes == MISSING, missing)
    decoded = space.values(codes)
    # True and 1 are one value, as in Python
    assert (decoded[~missing] == Y[~missing]).all()
    np.testing.assert_array_equal(space.encode(Y), codes)
    np.testing.assert_array_equal(space.encode(Y[::-1]), codes[::-1])
    reordered, _ = infer(Y[::-1])
    assert [c.tolist() for c in reordered.classes] == [c.tolist() for c in space.classes]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.text("abc", min_size=1, max_size=2)) | st.none(), min_size=1))
def test_sets_round_trip(Y):
    if not any(Y):
        return
    space, codes = infer(Y)
    assert space.decode(codes) == Y
    np.testing.assert_array_equal(space.encode(Y), codes)
    assert list(space.names) == sorted(set().union(*(row or set() for row in Y)))


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize("dtype", [int, bool, float])
@settings(max_examples=10, deadline=None)
@given(hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(0, 1)))
def test_sparse_round_trip(make, dtype, dense):
    space, codes = infer(make(dense.astype(dtype)))
    assert space.kind == "sparse"
    assert set(space.cardinalities) == {2}
    decoded = space.decode(codes)
    assert isinstance(decoded, sparse.csr_array)
    assert decoded.dtype.kind == "i"
    for found in (codes, decoded.toarray(), space.encode(make(dense)), space.encode(dense)):
        np.testing.assert_array_equal(found, dense)
