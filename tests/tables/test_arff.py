from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from colabel.datasets import read_dataset
from colabel.tables import (
    ReadingOptions,
    TableError,
    TableRequest,
    load_table,
    open_table,
    read_chunks,
    read_frame,
)

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
        HEAD + "1.5,'dark blue',1,TRUE,a\n\n% comment\n ? , ?, 0 , FALSE , c\n"
        '-2e-3,"it\'s \\"odd\\"",1,TRUE,b\n'
    )
    frame = read_frame(path)
    assert frame.names == ("size", "on", "hot", "the colour", "kind")
    np.testing.assert_array_equal(frame.numbers, [[1.5, 1, 1], [np.nan, 0, 0], [-0.002, 1, 1]])
    assert frame.column("the colour").tolist() == ["dark blue", None, 'it\'s "odd"']
    data = read_dataset(path, labels=["kind", "hot"])
    assert data.feature_names == (
        *("size", "on", "the colour=red", "the colour=dark blue", 'the colour=it\'s "odd"'),
    )
    nan = np.nan
    expected = [[1.5, 1, 0, 1, 0], [nan, 0, nan, nan, nan], [-0.002, 1, 0, 0, 1]]
    np.testing.assert_array_equal(data.X, expected)
    # values come back as they stand; columns stay in the order of the file
    assert data.label_names == ("hot", "kind")
    assert data.Y.tolist() == [["TRUE", "a"], ["FALSE", "c"], ["TRUE", "b"]]


@pytest.mark.parametrize(
    ("declared", "rows", "labels"),
    [
        ("{3,-1,10}", ["3", "-1", "10"], [3, -1, 10]),
        ("{0,1}", ["0", "?", "1"], [0, 1]),  # a row without labels is left out
        ("{a,'?',b}", ["'?'", "?", "b", "a"], ["?", "b", "a"]),
        ("{TRUE,FALSE}", ["TRUE", "FALSE"], ["TRUE", "FALSE"]),
    ],
)
def test_labels_keep_their_values(write, declared, rows, labels):
    head = f"@relation r\n@attribute x real\n@attribute y {declared}\n@data\n"
    path = write(head + "".join(f"{i},{value}\n" for i, value in enumerate(rows)))
    assert read_dataset(path, labels=-1).Y.ravel().tolist() == labels


def test_a_missing_label_is_none(write):
    head = "@relation r\n@attribute x real\n@attribute y {0,1}\n@attribute z {0,1}\n@data\n"
    assert read_dataset(write(head + "0,?,1\n1,1,0\n"), -2).Y.tolist() == [[None, 1], [1, 0]]


def test_two_valued_features_fill_one_column(write):
    path = write(
        "@relation r\n@attribute p {YES,NO}\n@attribute q {1,0}\n@attribute r {1,2}\n"
        "@attribute s {left,right}\n@attribute y {0,1}\n@data\nYES,0,2,right,1\nNO,1,1,left,0\n"
    )
    data = read_dataset(path, labels=["y"])
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
{5 0,4 z,3 0}
{1 ?,0 0}
"""


def test_sparse_rows_omitted_nominal_means_first_value(write):
    data = read_dataset(write(SPARSE), labels=["f"])
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
    np.testing.assert_array_equal(data.Y.ravel(), [1, 0, 0, 0])


def test_strings_and_dates(write):
    text = (
        "@relation r\n@attribute id string\n@attribute t date 'yyyy'\n@attribute x real\n"
        "@attribute y {0,1}\n@data\n{0 'a, b',1 '2001',2 1.5,3 1}\n{2 3}\n"
    )
    frame = read_frame(write(text))
    assert frame.column("id").tolist() == ["a, b", None]
    assert frame.column("t").tolist() == ["2001", None]
    many = text + "".join(f"{{0 id{i},2 {i},3 {i % 2}}}\n" for i in range(40))
    with pytest.raises(TableError, match=r"41 different values in 42 rows.*drop=\['id'\]"):
        read_dataset(write(many), labels=-1)
    data = read_dataset(write(text), labels=-1, drop=["id", "t"])
    np.testing.assert_array_equal(data.X.toarray(), [[1.5], [3]])


def test_gzip_and_encoding(write):
    text = "@relation r\n@attribute é real\n@attribute y {0,1}\n@data\n1,1\n2,0\n"
    packed = write(gzip.compress(text.encode()), "a.arff.gz")
    assert read_frame(packed).names == ("é", "y")
    latin = write(text.encode("latin-1"))
    with pytest.raises(TableError, match="not utf-8 text"):
        read_frame(latin)
    assert read_frame(latin, ReadingOptions(encoding="latin-1")).names == ("é", "y")
    with pytest.raises(TableError, match="no encoding 'klingon'"):
        read_frame(latin, ReadingOptions(encoding="klingon"))
    with pytest.raises(TableError, match="cannot be read"):
        read_frame(write(gzip.compress(text.encode())[:-12], "b.arff.gz"))


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
    with pytest.raises(TableError, match=word) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "drop", "word"),
    [
        (["q"], [], "No column is named 'q'"),
        (-1, ["q"], "No column is named 'q'"),
        (3, [], "between 1 and 2"),
        (["y"], ["y"], "is a label and to be dropped"),
        (["y"], ["x", "s"], "no column for features"),
        (["x"], [], r"holds 1\.5: .*Is this column a feature"),
    ],
)
def test_other_refusals(write, labels, drop, word):
    path = write(DENSE_HEAD + "1.5,a,0\n2,b,1\n")
    with pytest.raises(TableError, match=word):
        read_dataset(path, labels, drop=drop)
    assert read_dataset(write(DENSE_HEAD + "1,a,0\n2,b,1\n"), 2).label_names == ("x", "s")


def test_one_hot_bomb_is_refused(write):
    """A hundred kilobytes would become 51 million cells."""
    head = "@relation r\n" + "".join(f"@attribute a{i} {{u,v,w}}\n" for i in range(1000))
    rows = "{1000 1}\n{}\n" * 8500
    path = write(head + "@attribute x real\n@attribute y {0,1}\n@data\n" + rows)
    with pytest.raises(TableError, match=r"would each become a column.*drop="):
        read_dataset(path, labels=-1)


def test_chunks_join_up(write):
    dense = "".join(f"{i},{'abc'[i % 3]},{i % 2}\n" for i in range(20))
    rows = "".join(f"{{0 {i},2 {i % 2}}}\n" for i in range(20))
    for text in (dense, rows):
        source = open_table(write(DENSE_HEAD + text))
        chunks = list(read_chunks(source, source.storage(), n_rows=7))
        assert [len(chunk) for chunk in chunks] == [7, 7, 6]
        joined = np.concatenate([chunk.column("x") for chunk in chunks])
        np.testing.assert_array_equal(joined, np.arange(20))
    with pytest.raises(TableError, match="line 26: "):
        read_frame(write(DENSE_HEAD + rows + "{7 1}\n"))


@pytest.mark.parametrize("form", ["'a{0},b{0}x'y,{0}", "{{0 '{1}{0}}}"])
def test_long_hostile_lines_are_read_in_linear_time(write, form):
    spaces, slashes = " " * 200_000, "\\" * 100_000
    with pytest.raises(TableError):
        read_frame(write(DENSE_HEAD + form.format(spaces, slashes) + "\n"))
    with pytest.raises(TableError):
        read_frame(write(f"@attribute {spaces}'{spaces}\n"))


MEKA = """@relation {}
@attribute a {{0,1}}
@attribute b {{0,1}}
@attribute c {{0,1}}
@data
1,0,1
1,1,0
0,1,1
"""


@pytest.mark.parametrize(
    ("relation", "names"), [("'set: -C 2 -split 5'", ("a", "b")), ("'set: -C -1'", ("c",))]
)
def test_a_meka_file_says_its_labels(write, relation, names):
    path = write(MEKA.format(relation))
    assert read_dataset(path).label_names == names
    assert load_table(TableRequest(path, [])).labels.names == names
    assert load_table(TableRequest(path, ["b"])).labels.names == ("b",)


@pytest.mark.parametrize("relation", ["plain", "'a: -C 0'", "'a: -C 3'", "'a: -C x'", "'a: -X 2'"])
def test_a_relation_that_names_no_labels(write, relation):
    path = write(MEKA.format(relation))
    for read in (read_dataset, lambda path: load_table(TableRequest(path, []))):
        with pytest.raises(TableError, match="No label is named"):
            read(path)


class TestMulan:
    ARFF = (
        "@relation r\n@attribute x real\n@attribute b {0,1}\n@attribute a {0,1}\n@data\n"
        "1,0,1\n2,1,1\n"
    )

    def test_nested_labels_are_flat_and_in_column_order(self, write):
        path = write(self.ARFF)
        write(
            '<?xml version="1.0"?><labels xmlns="http://mulan.sourceforge.net/labels">'
            '<label name="a"><label name="b"/></label></labels>',
            "file.xml",
        )
        data = read_dataset(path)
        assert data.label_names == ("b", "a")
        assert data.Y.tolist() == [[0, 1], [1, 1]]
        assert read_dataset(path).name == "file"

    @pytest.mark.parametrize(
        ("xml", "word"),
        [
            ("<labels><label/></labels>", "a label without a name"),
            ("<labels></labels>", "names no labels"),
            ('<labels><label name="a"/><label name="a"/></labels>', "'a' twice"),
            ('<labels><label name="zz"/></labels>', "No column is named 'zz'"),
            ('<labels><label name="a">', "not well-formed"),
            ("", "not well-formed"),
            ("\x00\xff", "cannot be read"),
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
        with pytest.raises(TableError, match=word):
            read_dataset(path)

    def test_billion_laughs_stops_at_once(self, write):
        levels = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
        write(
            f'<!DOCTYPE l [<!ENTITY e0 "ha">{levels}]><labels><label name="&e12;"/></labels>',
            "file.xml",
        )
        with pytest.raises(TableError, match="which can harm"):
            read_dataset(write(self.ARFF))


# --- round trip -----------------------------------------------------------------------------

_NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\x85"),
    min_size=1,
    max_size=6,
)
_NUMBERS = st.floats(-1e99, 1e99) | st.sampled_from([0.0, 1.0, np.nan])


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
    frame = read_frame(path)
    assert set(frame.names) == {name for name, _ in columns}
    words = {"no": 0, "false": 0, "yes": 1, "true": 1}
    for j, (name, domain) in enumerate(columns):
        codes = [row[j] for row in rows]
        expected = codes
        if domain is not None:
            expected = [None if np.isnan(code) else domain[int(code)] for code in codes]
            if name in frame.number_names:
                known = [np.nan if v is None else words.get(v.lower(), v) for v in expected]
                expected = np.array(known, dtype=float)
        np.testing.assert_array_equal(frame.column(name), expected)
