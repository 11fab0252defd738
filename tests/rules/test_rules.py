"""Rules: the language, what they mean, and what is said about those that cannot be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colabel
from colabel.labels import LabelSpace
from colabel.rules import Rules
from tests.joint.oracle import every_vector, make_space
from tests.rules.random_rules import rule_set

SPACE = LabelSpace(
    ("whale", "mammal", "sand", "stage", "treated"),
    (np.array([0, 1]),) * 3 + (np.array(["I", "II", "III", "IV"]), np.array(["no", "yes"])),
    "matrix",
)


def obeying(text, space=SPACE):
    """All vectors that obey, as tuples of codes."""
    rules = Rules.parse(text).compiled(space)
    every = every_vector(space.cardinalities)
    found = {tuple(y) for y in every[rules.may_hold(every)].tolist()}
    assert found == {tuple(y) for y in rules.vectors.tolist()}
    return found


def where(test):
    return {y for y in itertools.product(*map(range, SPACE.cardinalities)) if test(*y)}


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("whale -> mammal", lambda w, m, s, g, t: m or not w),
        ("not (sand and whale)  # never both", lambda w, m, s, g, t: not (s and w)),
        ("exactly one of whale, mammal, sand", lambda w, m, s, g, t: w + m + s == 1),
        ("1..2 of whale, mammal, sand", lambda w, m, s, g, t: 1 <= w + m + s <= 2),
        ("..1 of whale, m*", lambda w, m, s, g, t: w + m <= 1),
        ("2.. of whale, mammal, sand", lambda w, m, s, g, t: w + m + s >= 2),
        ("none of *al*, sand", lambda w, m, s, g, t: not (w or m or s)),
        ("stage=IV -> treated=yes", lambda w, m, s, g, t: g != 3 or t),
        ("stage=IV -> treated", lambda w, m, s, g, t: g != 3 or t),
        ("stage=I* -> treated", lambda w, m, s, g, t: t),
        ("stage!=I -> treated and not sand", lambda w, m, s, g, t: g == 0 or (t and not s)),
        ("whale -> mammal -> sand", lambda w, m, s, g, t: not w or not m or s),
        ("whale or mammal and sand", lambda w, m, s, g, t: w or (m and s)),
        ("'whale' -> \"mammal\"", lambda w, m, s, g, t: m or not w),
        ("exactly one of stage=I, stage=II, sand", lambda w, m, s, g, t: (g < 2) + s == 1),
        ("not exactly one of whale, mammal", lambda w, m, s, g, t: w + m != 1),
        ("all of whale, mammal -> sand", lambda w, m, s, g, t: not (w and m) or s),
    ],
)
def test_what_rules_mean(text, test):
    assert obeying(text) == where(test)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_rules_against_their_tests(seed):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.choice([2, 2, 3, 4], size=rng.integers(1, 5)).tolist())
    text, test = rule_set(rng, sizes)
    every = [y for y in itertools.product(*map(range, sizes)) if test(y)]
    space = make_space(sizes)
    if not every:
        with pytest.raises(ValueError, match="No label vector can obey"):
            Rules.parse(text).compiled(space)
        return
    assert obeying(text, space) == set(every)
    # the text of parsed rules is read back
    assert obeying(str(Rules.parse(text)), space) == set(every)
    # what is partly known may hold only if something that agrees obeys; single rules exactly so
    rules = Rules.parse(text).compiled(space)
    codes = np.stack([rng.integers(-1, k, size=20) for k in sizes], axis=1).astype(np.int32)
    may = rules.may_hold(codes)
    for known, found in zip(codes.tolist(), may, strict=True):
        agrees = any(all(a in (-1, b) for a, b in zip(known, y, strict=True)) for y in every)
        assert found or not agrees


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_contradictions_are_minimal(seed):
    rng = np.random.default_rng(seed)
    sizes = (2, 2, 3)
    parts = [rule_set(rng, sizes) for _ in range(4)]
    lines = [line for text, _ in parts for line in text.splitlines()]
    space = make_space(sizes)
    every = list(itertools.product(*map(range, sizes)))

    def possible(some):
        compiled = [Rules.parse(line) for line in some]
        tests = []
        for rules in compiled:
            try:
                tests.append({tuple(y) for y in rules.compiled(space).vectors.tolist()})
            except ValueError:
                return False
        return bool(set(every).intersection(*tests))

    try:
        Rules.parse("\n".join(lines)).compiled(space)
    except ValueError as error:
        named = [line for number, line in enumerate(lines, 1) if f"line {number}, " in str(error)]
        assert not possible(named)
        for place in range(len(named)):
            assert possible(named[:place] + named[place + 1 :])
    else:
        assert possible(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("whale ->", "Line 1 of the rules: .* a label was expected at the end"),
        ("\nwhale mammal", "Line 2 of the rules: .* 'mammal' was not expected here"),
        ("(whale or sand", r"'\)' was expected at the end"),
        ("whale => mammal", "'mammal' was not expected here: write -> for 'implies'"),
        ("exactly of sand", "a number was expected before 'of'"),
        ("3..1 of sand, whale", "3 is more than 1: write the smaller number first"),
        ("exactly one sand", "'of' was expected before 'sand'"),
        ("'whale -> mammal", "is not closed"),
        ("whael -> mammal", "line 1, 'whael -> mammal': no label is called .* mean 'whale'"),
        ("stage=V -> sand", "'stage' has no value 'V'. Did you mean 'IV'"),
        ("stage -> sand", "write stage=IV to say which is meant"),
        ("*a* -> sand", r"'\*a\*' matches|'stage' has the values"),
        # whale and stage: the second needs a value
        ("at most two of ?????, mammal", "'stage' has the values I, II, III, IV: write stage="),
        ("at most one of zz*, sand", "line 1, .* no label matches 'zz"),
        ("and -> sand", "a label was expected before 'and'; a name like this stands in quotes"),
        ("whale AND sand", "'AND' was not expected here: words of rules are in lower case"),
        ("whale → mammal", "write -> for 'implies'"),
        ("whale <-> mammal", "write two rules"),
        ("whale & mammal", "write and"),
        ("whale -> mammal; sand", "write a rule a line"),
        ("(" * 60 + "sand" + ")" * 60, "too much is inside of something else"),
        ("sand -> " * 60 + "sand", "too much is inside of something else"),
        ("allowed whale, whale = 1 0", "'whale' is named twice"),
        ("allowed whale, sand = 1 7; 0 8", "'sand' has the values 0, 1: no combination has one"),
        ("hierarchy: nowhere.csv", "nowhere.csv cannot be read"),
        ("whale\nnot whale\nsand", "these 2 contradict each other: line 1, 'whale'; line 2,"),
        ("2.. of whale, whale", "No label vector can obey the rule line 1, '2.. of whale, whale'"),
    ],
)
def test_mistakes_are_sentences(text, message):
    with pytest.raises(ValueError, match=message):
        Rules.parse(text).compiled(SPACE)


def test_files_are_written_out(tmp_path):
    (tmp_path / "taxa.csv").write_text("child,parent\nwhale,mammal\n", encoding="utf-8")
    (tmp_path / "seen.csv").write_text("whale,stage\n1,IV\n0,I\n", encoding="utf-8")
    path = tmp_path / "rules.txt"
    path.write_text("hierarchy: taxa.csv # tree\nallowed: seen.csv\n", encoding="utf-8")
    rules = Rules.load(path)
    assert str(rules) == "whale -> mammal\nallowed whale, stage = 1 IV; 0 I"
    test = where(lambda w, m, s, g, t: (m or not w) and (w, g) in ((1, 3), (0, 0)))
    assert obeying(str(rules)) == test
    (tmp_path / "taxa.csv").write_text("whale,mammal,animal\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"taxa.csv, line 1' has 3 columns"):
        Rules.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"whale,mammal\n\nmammal,whale\n", "has a cycle, (whale|mammal) -> (whale|mammal) -> "),
        (b"whale,whale\n", "has a cycle, whale -> whale: no label can be above itself"),
        (b"\nChild,Parent\n\nwhale,mammul\n", "taxa.csv, line 4, .* Did you mean 'mammal'"),
        (b"whale;mammal\n", "'taxa.csv, line 1' has 1 columns: .* with a comma"),
        ("née,mammal\n".encode("latin-1"), "taxa.csv is not in UTF-8"),
    ],
)
def test_files_that_are_wrong(tmp_path, content, message):
    (tmp_path / "taxa.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Rules.parse("hierarchy: taxa.csv", tmp_path).compiled(SPACE)


def test_files_as_windows_writes_them(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "taxa.csv").write_bytes(b"\xef\xbb\xbfchild,parent\r\nwhale,mammal\r\n")
    path = tmp_path / "rules.txt"
    text = b'\xef\xbb\xbf# all\r\nhierarchy: "sub/taxa.csv"  # tree\r\n\r\nnot sand\r\n'
    path.write_bytes(text)
    rules = Rules.load(path)
    assert str(rules) == "whale -> mammal\nnot sand"
    assert [rule.source for rule in rules] == ["taxa.csv, line 2", "line 4"]
    path.write_bytes(b"\xe9 -> sand")
    for bad, message in ((path, "not in UTF-8"), (tmp_path / "no.txt", "cannot be read")):
        with pytest.raises(ValueError, match=message):
            Rules.load(bad)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_any_name_is_read_back(names):
    """Quotes, keywords, numbers, globs, comments; but no line breaks."""
    if any(sign in name for name in names for sign in "\r\n"):
        with pytest.raises(ValueError, match="has a line break"):
            Rules.hierarchy([names])
        return
    space = LabelSpace(tuple(names), (np.array([0, 1]),) * 2, "matrix")
    for rules in (Rules.hierarchy([names]), Rules.allowed([[0, 0], [0, 1], [1, 1]], names)):
        assert obeying(str(rules), space) == {(0, 0), (0, 1), (1, 1)}


def test_accents_may_be_written_in_another_way():
    space = LabelSpace(("née", "b"), (np.array([0, 1]),) * 2, "matrix")
    assert len(obeying("ne\u0301e -> b", space)) == 3


def test_ten_thousand_rules():
    space = make_space((2,) * 500)
    text = "\n".join(f"y{i % 500} -> y{(i * 7 + 1) % 500}" for i in range(10_000))
    assert len(Rules.parse(text).compiled(space).nodes) == 10_000
    with pytest.raises(ValueError, match=r"these 3 contradict .*line 10001, 'y0'; line 10002"):
        Rules.parse(f"{text}\ny0\nnot y1").compiled(space)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rules.parse(["a -> b"]), "Rules are text, a rule a line, but list was given"),
        (lambda: Rules.hierarchy([("a", "b", "c")]), "has 3 columns: a hierarchy has two"),
        (
            lambda: Rules.allowed([[1, np.nan], [np.nan, 0]], ["a", "b"]),
            "Y has no row without missing labels",
        ),
        # stored text reads no files
        (lambda: Rules.parse("hierarchy: taxa.csv", folder=None), "names a file, which is not rea"),
        (lambda: Rules.parse("allowed: seen.csv", folder=None), "names a file, which is not read"),
    ],
)
def test_what_is_no_text_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rules_in_python():
    rules = Rules.hierarchy({"whale": "mammal"}) & Rules.parse("at most one of sand, mammal")
    assert len(rules) == 2
    assert rules[1].text == "at most one of sand, mammal"
    assert obeying(str(rules)) == where(lambda w, m, s, g, t: (m or not w) and s + m < 2)
    Y = [["x y", 1], ["->", 0]]
    table = Rules.allowed(Y, names=["a b", "and"])
    space, _ = LabelSpace.infer(Y, names=["a b", "and"])
    assert len(obeying(str(table), space)) == 2


def test_rows_that_break_rules():
    Y = np.array([[1, 0], [1, 1], [0, np.nan], [1, np.nan], [np.nan, 0]])
    found = Rules.parse("a -> b\nnot a").violations(Y, names=["a", "b"])
    assert found.rows.tolist() == [0, 0, 1, 3]
    assert found.broken.tolist() == [0, 1, 1, 1]
    assert "line 2, 'not a': 3 rows (0, 1, 3)" in str(found)
    assert str(Rules.parse("a or not a").violations(Y, names=["a", "b"])).startswith("No row")


def test_suggestions_hold_in_all_rows(rng):
    Y = (rng.random((400, 6)) < 0.3).astype(float)
    Y[:, 1] = np.maximum(Y[:, 0], Y[:, 1])  # 0 -> 1
    Y[:, 3] *= 1 - Y[:, 2]  # not both
    Y[rng.random(Y.shape) < 0.05] = np.nan
    found = Rules.suggest(Y, names=list("abcdef"))
    texts = [each.rule.text for each in found]
    assert texts[0] in ("a -> b", "at most one of c, d")
    assert {"a -> b", "at most one of c, d"} <= set(texts)
    assert [each.log_chance for each in found] == sorted(each.log_chance for each in found)
    both = Rules(tuple(each.rule for each in found))
    assert not len(both.violations(Y, names=list("abcdef")).rows)
    support = int((np.isfinite(Y[:, :2]).all(axis=1) & (Y[:, 0] == 1)).sum())
    assert next(each.support for each in found if each.rule.text == "a -> b") == support


def test_suggested_values_of_class_variables_hold_and_nothing_is_said_twice():
    rng = np.random.default_rng(0)
    stage = rng.choice(["I", "II", "III"], size=300)
    care = np.where(stage == "III", "drug", rng.choice(["drug", "rest"], size=300))
    ward = np.where(care == "rest", "home", rng.choice(["a", "b", "home"], size=300))
    Y, names = np.column_stack([stage, care, ward]), ["stage", "care", "ward"]
    found = {one.rule.text: one for one in Rules.suggest(Y, names)}
    of_wards = {f"ward={ward} -> care=drug" for ward in "ab"}
    # the last of them says both of the wards' in one
    assert set(found) == {"stage=III -> care=drug", *of_wards, "care=rest -> ward=home"}
    for one in found.values():
        assert not len(Rules((one.rule,)).violations(Y, names).rows)
    assert found["stage=III -> care=drug"].support == (stage == "III").sum()


def test_suggestions_of_two_valued_variables_are_not_listed_with_their_contraries():
    Y = np.array([["hot", "fast"], ["cold", "slow"], ["cold", "fast"]] * 20)
    (found,) = Rules.suggest(Y, names=["heat", "fan"])
    assert found.rule.text in {"heat=hot -> fan=fast", "fan=slow -> heat=cold"}


def test_rules_are_kept_in_files_as_their_text(tmp_path):
    X, Y = np.random.default_rng(0).normal(size=(60, 2)), np.array([[1, 1], [0, 1], [0, 0]] * 20)
    rules = Rules.hierarchy({"whale": "mammal"}) & Rules.allowed(Y, names=["whale", "mammal"])
    model = colabel.RuledClassifier(colabel.BinaryRelevance(C=1.0), rules)
    model.fit(X, Y, label_names=["whale", "mammal"])
    colabel.save(model, tmp_path / "m.colabel")
    loaded = colabel.load(tmp_path / "m.colabel")
    assert isinstance(loaded.rules, Rules)
    assert str(loaded.rules) == str(rules)
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X))
