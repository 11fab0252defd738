"""What is learned of a table from counts of its parts is what is learned of all its rows."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from colabel.tables import Column, Frame, Preprocessor, TableError, choose_columns
from colabel.tables.columns import (
    MOST_VALUES,
    ColumnStatistics,
    NumberStatistics,
    TextStatistics,
    count_words,
)
from colabel.tables.model import CategoryTable, NumberTable, WordTable
from colabel.tables.source import added

N = 240
CUTS = [[N], [1, 2, 3, N], [80, 160, N], [100, 101, 239, N]]


@pytest.fixture
def frame(rng):
    words = np.array(["the", "quick", "brown", "fox", "Déjà", "vu", "x1", "rare0", "rare1"])
    texts = [" ".join(rng.choice(words[:7], size=rng.integers(0, 6))) for _ in range(N)]
    texts[5], texts[70] = texts[5] + " rare0", texts[70] + " rare1 rare1"
    missing = rng.random(N) < 0.2
    return Frame.of(
        {
            "id": np.arange(10, 10 + N),
            "skewed": np.where(missing, np.nan, np.exp(rng.normal(size=N))),
            "far": 1e6 + rng.normal(size=N),
            "constant": np.full(N, 0.1),
            "empty": np.full(N, np.nan),
            "half_empty": np.where(np.arange(N) < 200, np.nan, 3.0),
            "whole": rng.integers(-3, 3, size=N),
            "colour": [["red", "blue", None, ""][i % 4] for i in rng.integers(0, 4, size=N)],
            "town": [f"t{int(i)}" for i in rng.exponential(20, size=N)],
            "key": [f"k{i}" for i in range(N)],
            "day": [
                f"2026-01-{1 + i % 28:02d} 10:{i % 60:02d}" if i not in (0, 1, 150) else None
                for i in range(N)
            ],
            "note": texts,
        }
    )


def coded(column):
    values, codes = np.unique(column.astype(str), return_inverse=True)
    return values.tolist(), codes


def parts_of(frame, cuts):
    return [frame.rows(slice(a, b)) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]


def learned(parts, columns):
    counted = reduce(add, map(ColumnStatistics.of, parts))
    preprocessor = Preprocessor(columns)
    words = [preprocessor.count_words(part) for part in parts]
    return preprocessor.fit_statistics(counted, reduce(added, words))


def assert_same(one, other, frame):
    assert vars(one).keys() == vars(other).keys()
    assert (one.n_features_out_, one.is_sparse_) == (other.n_features_out_, other.is_sparse_)
    for name in ("mean", "scale"):
        a, b = getattr(one.numbers_, name), getattr(other.numbers_, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(one.numbers_.flagged, other.numbers_.flagged)
    a, b = one.transform(frame), other.transform(frame)
    a, b = (x.toarray() if sparse.issparse(x) else x for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cuts", CUTS)
def test_the_same_preprocessor(frame, cuts):
    parts = parts_of(frame, cuts)
    forced = {"town": "category", "note": "text"}
    choice = choose_columns(frame, forced)
    assert choose_columns(reduce(add, map(ColumnStatistics.of, parts)), forced) == choice
    assert choice.left_out.keys() == {"id", "constant", "empty", "key"}
    assert choice.of_kind("date") == ["day"]
    columns = [*choice.used, Column("constant", "number"), Column("empty", "number")]
    assert_same(learned(parts, columns), Preprocessor(columns).fit(frame), frame)


@pytest.mark.parametrize("cuts", CUTS)
def test_sparse_numbers(rng, cuts):
    numbers = sparse.random_array((N, 5), density=0.2, random_state=rng, format="csr")
    numbers.data[3] = np.nan
    numbers.data[4] = -7.0
    frame = Frame(numbers, tuple("abcde"), {})
    choice = choose_columns(frame)
    one, other = learned(parts_of(frame, cuts), choice.used), Preprocessor(choice.used).fit(frame)
    assert one.is_sparse_
    assert_same(one, other, frame)


def test_moments_far_from_zero(rng):
    column = 1e8 + rng.normal(size=(1000, 1))
    parts = [NumberStatistics.of(part) for part in np.split(column, [1, 10, 500])]
    counted = reduce(add, parts)
    np.testing.assert_allclose(counted.squares / 1000, column.var(axis=0), rtol=1e-8)


def test_numbers_as_scikit_learn(rng):
    block = np.where(rng.random((200, 4)) < [0, 0.3, 0.01, 1], np.nan, rng.normal(5, 2, (200, 4)))
    pipeline = make_pipeline(
        SimpleImputer(strategy="mean", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    table = NumberTable.of_statistics(NumberStatistics.of(block), is_sparse=False)
    expected = pipeline.fit_transform(block)
    np.testing.assert_allclose(table.transform(block), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_values", [1, 50, 99, 100, 101, 150])
def test_categories_as_scikit_learn(rng, n_values):
    column = np.array([f"v{i}" for i in rng.integers(0, n_values, size=1000)], dtype=object)
    column[:n_values] = [f"v{i}" for i in range(n_values)]
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=100, sparse_output=False
    ).fit(column[:, None])
    table = CategoryTable.of_statistics(TextStatistics.of(*coded(column)), "column")
    new = np.append(column, "never seen")
    found = table.transform(*coded(new)).toarray()
    np.testing.assert_array_equal(found, encoder.transform(new[:, None]))


def test_words_as_scikit_learn(frame):
    texts = np.array([text or "" for text in frame.column("note")], dtype=object)
    expected = TfidfVectorizer(strip_accents="unicode", sublinear_tf=True, min_df=2).fit(texts)
    table = WordTable.of_counts(count_words(*coded(texts)), N)
    assert list(table.words) == expected.get_feature_names_out().tolist()
    np.testing.assert_allclose(table.idf, expected.idf_)
    assert WordTable.of_counts(count_words(*coded(texts[:0])), 0).words == ()
    np.testing.assert_allclose(
        table.transform(*coded(texts)).toarray(), expected.transform(texts).toarray()
    )


def test_too_many_values_are_no_category():
    n = MOST_VALUES // 2 + 1
    keys = Frame.of({"key": [f"k{i}" for i in range(2 * n)], "size": np.arange(2 * n) % 7})
    halves = map(ColumnStatistics.of, parts_of(keys, [n, 2 * n]))
    for counted in (reduce(add, halves), ColumnStatistics.of(keys)):
        assert counted.texts["key"].counts is None
        assert counted.texts["key"].n_known == 2 * n
        left_out = choose_columns(counted).left_out
        assert left_out == {"key": f"has more than {MOST_VALUES} different values in {2 * n} rows"}
        with pytest.raises(TableError, match="too many for a category"):
            CategoryTable.of_statistics(counted.texts["key"], "key")


def test_the_words_of_most_rows_are_kept():
    counts = count_words(["so bad bad bad", "so it", "it so", "bad it"], np.array([0, 1, 1, 2, 3]))
    assert counts == {"so": 4, "it": 4, "bad": 2}
    often = {f"often{i}": 3 for i in range(9_998)}
    assert WordTable.of_counts({**counts, **often}, 5).words == ("it", *sorted(often), "so")
