from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from colabel.datasets import DatasetError, read_arff, read_meka, read_mulan
from colabel.datasets.arff import ArffSource

HEAD = """% a comment
@RELATION  "odd name"

@Attribute size NUMERIC  % metres
@attribute 'the colour' {red, 'dark blue', "it's \\"odd\\""}
@attribute on{0,1}
@attribute\thot\t{FALSE,TRUE}
@attribute kind {a,b,c}
@DATA
"""


def test_dense_rows_with_quotes_comments_and_missing_values(write):
    path = write(
        HEAD
        + "1.5,'dark blue',1,TRUE,a\n\n% comment\n ? , ?, 0 , FALSE , c\n"
        '-2e-3,"it\'s \\"odd\\"",1,true,b\n'.replace("true", "TRUE")
    )
    data = read_arff(path, labels=["kind", "hot"])
    assert data.feature_names == (
        *("size", "the colour=red", "the colour=dark blue", 'the colour=it\'s "odd"', "on"),
    )
    nan = np.nan
    expected = [[1.5, 0, 1, 0, 1], [nan, nan, nan, nan, 0], [-0.002, 0, 0, 1, 1]]
    np.testing.assert_array_equal(data.X, expected)
    # One textual variable makes Y textual; columns stay in the order of the file.
    assert data.label_names == ("hot", "kind")
    assert data.Y.tolist() == [["1", "a"], ["0", "c"], ["1", "b"]]


def test_integer_labels_keep_their_values(write):
    path = write("@relation r\n@attribute x real\n@attribute y {3,-1,10}\n@data\n0,3\n1,-1\n2,10\n")
    data = read_arff(path, labels=1)
    assert data.Y.dtype == np.int64
    assert data.Y.ravel().tolist() == [3, -1, 10]


def test_missing_labels_are_nan_or_none(write):
    head = "@relation r\n@attribute x real\n@attribute y {0,1}\n@attribute z {%s}\n@data\n"
    numbers = read_arff(write(head % "0,1" + "0,?,1\n1,1,0\n"), labels=2)
    np.testing.assert_array_equal(numbers.Y, [[np.nan, 1], [1, 0]])
    texts = read_arff(write(head % "a,b" + "0,1,b\n1,1,?\n"), labels=2)
    assert texts.Y.tolist() == [["1", "b"], ["1", None]]


def test_quoted_question_mark_is_a_value(write):
    path = write("@relation r\n@attribute x {a,'?',b}\n@attribute y {0,1}\n@data\n'?',1\n?,0\n")
    data = read_arff(path, labels=1)
    assert data.feature_names == ("x=a", "x=?", "x=b")
    np.testing.assert_array_equal(data.X, [[0, 1, 0], [np.nan] * 3])


def test_two_valued_features_fill_one_column(write):
    path = write(
        "@relation r\n@attribute p {YES,NO}\n@attribute q {1,0}\n@attribute r {1,2}\n"
        "@attribute s {left,right}\n@attribute y {0,1}\n@data\nYES,0,2,right,1\nNO,1,1,left,0\n"
    )
    data = read_arff(path, labels=["y"])
    assert data.feature_names == ("p", "q", "r", "s=left", "s=right")
    np.testing.assert_array_equal(data.X, [[1, 0, 2, 0, 1], [0, 1, 1, 1, 0]])


SPARSE = """@relation r
@attribute a numeric
@attribute b {0,1}
@attribute c {NO,YES}
@attribute d {1,0}
@attribute e {x,y,z}
@attribute f {0,1}
@data
{0 2.5, 2 YES,5 1}
{ }
{5 ?,4 z,3 0}
{1 ?,0 0}
"""


def test_sparse_rows_omitted_nominal_means_first_value(write):
    data = read_arff(write(SPARSE), labels=["f"])
    assert isinstance(data.X, sparse.csr_array)
    assert data.X.indices.dtype == np.int32
    assert data.feature_names == ("a", "b", "c", "d", "e=x", "e=y", "e=z")
    expected = [
        [2.5, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [0, np.nan, 0, 1, 1, 0, 0],
    ]
    np.testing.assert_array_equal(data.X.toarray(), expected)
    assert data.X.nnz == np.count_nonzero(expected)  # explicit zeros are gone
    np.testing.assert_array_equal(data.Y.ravel(), [1, 0, np.nan, 0])


def test_string_and_date_need_drop(write):
    text = (
        "@relation r\n@attribute id string\n@attribute t date 'yyyy'\n@attribute x real\n"
        "@attribute y {0,1}\n@data\n{0 'a, b',1 '2001',2 1.5,3 1}\n{2 3}\n"
    )
    with pytest.raises(DatasetError, match=r"type string.*drop=\['id'\]"):
        read_arff(write(text), labels=1)
    data = read_arff(write(text), labels=1, drop=["id", "t"])
    np.testing.assert_array_equal(data.X.toarray(), [[1.5], [3]])


def test_gzip_and_encoding(write):
    text = "@relation r\n@attribute é real\n@attribute y {0,1}\n@data\n1,1\n2,0\n"
    packed = write(gzip.compress(text.encode()), "a.arff.gz")
    assert read_arff(packed, labels=1).feature_names == ("é",)
    latin = write(text.encode("latin-1"))
    with pytest.raises(DatasetError, match="not utf-8 text"):
        read_arff(latin, labels=1)
    assert read_arff(latin, labels=1, encoding="latin-1").feature_names == ("é",)
    with pytest.raises(DatasetError, match="no encoding 'klingon'"):
        read_arff(latin, labels=1, encoding="klingon")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_arff(write(gzip.compress(text.encode())[:-12], "b.arff.gz"), labels=1)


DENSE_HEAD = "@relation r\n@attribute x real\n@attribute s {a,b,c}\n@attribute y {0,1}\n@data\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("hello\n", "line 1: expected @relation"),
        ("@relation r\n@attribute x real\n", "line 2: the file ends without a @data"),
        ("@relation r\n@data\n1\n", "before any @attribute"),
        ("@attribute x real\n@attribute x real\n@data\n", "line 2: the attribute 'x' is declared"),
        ("@attribute x\n@data\n", "line 1: an attribute needs a name and a type"),
        ("@attribute x relational\n@data\n", "'relational', which is not read"),
        ("@attribute x {a,b\n@data\n", "not closed"),
        ("@attribute x {}\n@data\n", "value list of 'x' is empty"),
        ("@attribute x {a,'b}\n@data\n", "not closed"),
        ("@attribute x {a,a}\n@data\n", "lists a value twice"),
        (DENSE_HEAD, "no rows"),
        (DENSE_HEAD + "1,a,0\n2,b\n", "line 7: the row has 2 values where 3"),
        (DENSE_HEAD + "1,a,0,0\n", "line 6: the row has 4 values"),
        (DENSE_HEAD + "1,a,0\nx,a,0\n", "line 7: 'x' is not a finite number.*'x' is numeric"),
        (DENSE_HEAD + "1,a,0\n1_0,a,0\n", "line 7: '1_0'"),
        (DENSE_HEAD + "inf,a,0\n", "line 6: 'inf'"),
        (DENSE_HEAD + "1e999,a,0\n", "line 6: '1e999'"),
        (DENSE_HEAD + ",a,0\n", "line 6: ''"),
        (DENSE_HEAD + "1,d,0\n", "'d' is not a value of 's' .it lists 'a', 'b', 'c'"),
        (DENSE_HEAD + "1,'a,0\n", "line 6: a quote is not closed"),
        (DENSE_HEAD + "1,a,0\n{0 1}\n", "line 7: a row in braces"),
        (DENSE_HEAD + "{0 1}\n1,a,0\n", "line 7: a row in braces"),
        (DENSE_HEAD + "{0 1,2 1\n", "line 6: the row opens with {"),
        (DENSE_HEAD + "{0 1,0 2}\n", "line 6: the row gives attribute 0 twice"),
        (DENSE_HEAD + "{2 1}\n{3 1}\n", "line 7: '3' is not the position.*0 to 2"),
        (DENSE_HEAD + "{99999999999999999999 1}\n", "is not the position"),
        (DENSE_HEAD + "{-1 1}\n", "'-1' is not the position"),
        (DENSE_HEAD + "{1.0 a}\n", "'1.0' is not the position"),
        (DENSE_HEAD + "{0 1 1 a}\n", "not a list of 'index value' pairs"),
        (DENSE_HEAD + "{0,1 2 3}\n", "not a list of 'index value' pairs"),
        (DENSE_HEAD + "{0 1,}\n", "not a list of 'index value' pairs"),
        (DENSE_HEAD + "{0 1,1 'a}\n", "not a list of 'index value' pairs"),
        (DENSE_HEAD + "{0 z}\n", "line 6: 'z' is not a finite number"),
        (DENSE_HEAD + "{1 'q'}\n", "line 6: 'q' is not a value of 's'"),
        (DENSE_HEAD + "1,\0,0\n", "is not a value"),
    ],
)
def test_hostile_files_get_a_sentence(write, text, word):
    path = write(text)
    with pytest.raises(DatasetError, match=word) as caught:
        read_arff(path, labels=1)
    assert str(path) in str(caught.value)


def test_other_refusals(write, tmp_path):
    good = write(DENSE_HEAD + "1,a,0\n2,b,1\n")
    with pytest.raises(DatasetError, match="There is no file"):
        read_arff(tmp_path / "none.arff", labels=1)
    with pytest.raises(DatasetError, match="no column 'q'"):
        read_arff(good, labels=["q"])
    with pytest.raises(DatasetError, match="no column 'q'"):
        read_arff(good, labels=1, drop=["q"])
    with pytest.raises(DatasetError, match="between 1 and 2"):
        read_arff(good, labels=3)
    with pytest.raises(DatasetError, match="is a label and in drop"):
        read_arff(good, labels=["y"], drop=["y"])
    with pytest.raises(DatasetError, match="0 feature columns"):
        read_arff(good, labels=["y"], drop=["x", "s"])
    with pytest.raises(DatasetError, match=r"holds '1.5'.*Is this column a feature"):
        read_arff(write(DENSE_HEAD + "1.5,a,0\n", "other.arff"), labels=["x"])
    with pytest.raises(DatasetError, match="label_position is 'middle'"):
        read_arff(good, labels=1, label_position="middle")
    assert read_arff(good, labels=2, label_position="first").label_names == ("x", "s")


def test_one_hot_bomb_is_refused(write, monkeypatch):
    monkeypatch.setattr("colabel.datasets.readers._MOST_CELLS", 1000)
    head = "@relation r\n" + "".join(f"@attribute a{i} {{u,v,w}}\n" for i in range(50))
    path = write(head + "@attribute y {0,1}\n@data\n" + "{}\n" * 10)
    with pytest.raises(DatasetError, match=r"1500 numbers.*list such columns in drop"):
        read_arff(path, labels=1)


def test_chunks_join_up(write):
    rows = "".join(f"{i},{'abc'[i % 3]},{i % 2}\n" for i in range(20))
    data = read_arff(write(DENSE_HEAD + rows), labels=1)
    np.testing.assert_array_equal(data.X[:, 0], np.arange(20))
    rows = "".join(f"{{0 {i},2 {i % 2}}}\n" for i in range(20))
    data = read_arff(write(DENSE_HEAD + rows), labels=1)
    np.testing.assert_array_equal(data.X[:, [0]].toarray().ravel(), np.arange(20))
    assert data.Y.ravel().tolist() == [0, 1] * 10
    with pytest.raises(DatasetError, match="line 26: "):
        read_arff(write(DENSE_HEAD + rows + "{7 1}\n"), labels=1)
    source = ArffSource.open(write(DENSE_HEAD + rows))
    blocks = [values for values, _ in source.coded(n_rows=7)]
    assert [block.shape[0] for block in blocks] == [7, 7, 6]
    np.testing.assert_array_equal(sparse.vstack(blocks)[:, [0]].toarray().ravel(), np.arange(20))


def test_long_hostile_lines_are_read_in_linear_time(write):
    spaces = " " * 200_000
    with pytest.raises(DatasetError):
        read_arff(write(DENSE_HEAD + f"'a{spaces},b{spaces}x'y,{spaces}\n"), labels=1)
    with pytest.raises(DatasetError):
        read_arff(write(DENSE_HEAD + "{0 '" + "\\" * 100_000 + spaces + "}\n"), labels=1)
    with pytest.raises(DatasetError):
        read_arff(write(f"@attribute {spaces}'{spaces}\n"), labels=1)


VALID = (SPARSE + "{0 1}\n").encode()


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([VALID, (HEAD + "1,red,0,TRUE,a\n2,'dark blue',1,FALSE,b\n").encode()]),
    st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=4),
    st.integers(0, 400),
)
def test_damaged_files_never_raise_anything_else(tmp_path_factory, body, edits, cut):
    path = tmp_path_factory.mktemp("fuzz") / "f.arff"
    for place, piece in edits:
        body = body[:place] + piece + body[place + 1 :]
    path.write_bytes(body[:cut] if cut < 300 else body)
    message = str(path)
    try:
        read_arff(path, labels=1)
    except DatasetError as error:
        message = str(error)
    assert str(path) in message


class TestMeka:
    def _text(self, relation):
        return (
            f"@relation {relation}\n@attribute a {{0,1}}\n@attribute b {{0,1}}\n"
            "@attribute c numeric\n@data\n1,0,1\n0,1,1\n"
        )

    def test_first_and_last(self, write):
        first = read_meka(write(self._text("'set: -C 2 -split 5'")))
        assert (first.name, first.label_names) == ("set", ("a", "b"))
        last = read_meka(write(self._text("'set: -C -1'")))
        assert last.label_names == ("c",)
        assert read_meka(write(self._text("': -c 1'"))).name == "file"

    @pytest.mark.parametrize("relation", ["plain", "'a: -C 0'", "'a: -C 3'", "'a: -C x'"])
    def test_refuses(self, write, relation):
        with pytest.raises(DatasetError, match="does not say how many"):
            read_meka(write(self._text(relation)))


class TestMulan:
    ARFF = (
        "@relation r\n@attribute x real\n@attribute b {0,1}\n@attribute a {0,1}\n@data\n"
        "1,0,1\n2,1,1\n"
    )

    def test_nested_labels_are_flat_and_in_column_order(self, write):
        path = write(self.ARFF)
        xml = write(
            '<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">'
            '<label name="a"><label name="b"/></label></labels>',
            "file.xml",
        )
        data = read_mulan(path)
        assert data.label_names == ("b", "a")
        assert data.Y.tolist() == [[0, 1], [1, 1]]
        assert read_mulan(path, xml).name == "file"

    @pytest.mark.parametrize(
        ("xml", "word"),
        [
            ("<labels><label/></labels>", "a label has no name"),
            ("<labels></labels>", "names no labels"),
            ('<labels><label name="a"/><label name="a"/></labels>', "'a' twice"),
            ('<labels><label name="zz"/></labels>', "no column 'zz'"),
            ('<labels><label name="a">', "not well-formed"),
            ("", "not well-formed"),
            ("\x00\xff", "not well-formed"),
            (
                '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
                '<labels><label name="&b;"/></labels>',
                "declares a document type",
            ),
            (
                '<!DOCTYPE l SYSTEM "http://127.0.0.1:1/evil.dtd"><labels/>',
                "declares a document type",
            ),
            (
                '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><labels>&x;</labels>',
                "declares a document type",
            ),
        ],
    )
    def test_hostile_xml(self, write, xml, word):
        path = write(self.ARFF)
        write(xml, "file.xml")
        with pytest.raises(DatasetError, match=word):
            read_mulan(path)

    def test_billion_laughs_stops_at_once(self, write):
        levels = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
        write(
            f'<!DOCTYPE l [<!ENTITY e0 "ha">{levels}]><labels><label name="&e12;"/></labels>',
            "file.xml",
        )
        with pytest.raises(DatasetError, match="which can harm"):
            read_mulan(write(self.ARFF))

    def test_size_limit_and_absence(self, write, monkeypatch):
        path = write(self.ARFF)
        with pytest.raises(DatasetError, match="as xml_path"):
            read_mulan(path)
        monkeypatch.setattr("colabel.datasets.readers._LARGEST_XML", 10)
        write('<labels><label name="a"/></labels>', "file.xml")
        with pytest.raises(DatasetError, match="larger than 10 bytes"):
            read_mulan(path)


# --- round trip -----------------------------------------------------------------------------

_NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\x85"),
    min_size=1,
    max_size=6,
)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, np.nan])


@st.composite
def tables(draw):
    """Draw columns (name, values or None) and rows of numbers or codes; NaN is missing."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=5, unique=True))
    domains = [
        draw(st.none() | st.lists(_NAMES, min_size=1, max_size=4, unique=True).map(tuple))
        for _ in names
    ]
    cells = [
        _NUMBERS if domain is None else st.sampled_from([*map(float, range(len(domain))), np.nan])
        for domain in domains
    ]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))
    return list(zip(names, domains, strict=True)), rows


def _quote(text, mark):
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark


def _cell(value, domain, mark):
    if np.isnan(value):
        return "?"
    return repr(value) if domain is None else _quote(domain[int(value)], mark)


def _write_arff(path, columns, rows, dense, mark):
    lines = ["@relation t"]
    for name, domain in columns:
        kind = "real" if domain is None else "{" + ", ".join(_quote(v, mark) for v in domain) + "}"
        lines.append(f"@attribute {_quote(name, mark)} {kind}")
    lines.append("@data")
    for row in rows:
        cells = [_cell(v, d, mark) for v, (_, d) in zip(row, columns, strict=True)]
        if dense:
            lines.append(",".join(cells))
        else:
            pairs = [f"{j} {c}" for j, c in enumerate(cells) if row[j] != 0]
            lines.append("{" + ", ".join(reversed(pairs)) + "}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(([("x", ("?", "'?'"))], [(0.0,), (1.0,), (np.nan,)]), True, "'")
@given(tables(), st.booleans(), st.sampled_from("'\""))
def test_round_trip(tmp_path, table, dense, mark):
    columns, rows = table
    path = tmp_path / "t.arff"
    _write_arff(path, columns, rows, dense, mark)
    source = ArffSource.open(path)
    assert list(source.names) == [name for name, _ in columns]
    assert [a.values for a in source.attributes] == [domain or () for _, domain in columns]
    ((values, _),) = source.coded()
    values = values if dense else values.toarray()
    np.testing.assert_array_equal(values, np.array(rows, dtype=float))
