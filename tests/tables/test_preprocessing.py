"""Preprocessing, held to scikit-learn's own column by column."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from colabel.tables import Column, Frame, Preprocessor, TableError


@pytest.fixture
def frame(rng):
    return Frame.of(
        {
            "a": np.where(rng.random(40) < 0.3, np.nan, rng.normal(3, 2, 40)),
            "b": rng.normal(size=40),
            "colour": np.array(rng.choice(["red", "green", None], 40), dtype=object),
            "note": [f"word{i % 4} and word{i % 3}" for i in range(40)],
        }
    )


COLUMNS = (Column("a", "number"), Column("b", "number"), Column("colour", "category"))


def test_every_part(frame):
    X = Preprocessor(COLUMNS).fit(frame).transform(frame)
    a = frame.column("a")
    filled = np.where(np.isnan(a), np.nanmedian(a), a)
    expected = [filled, frame.column("b"), np.isnan(a).astype(float)]
    for j, column in enumerate(expected):
        np.testing.assert_allclose(X[:, j], (column - column.mean()) / column.std())
    colours = frame.column("colour")
    for j, value in enumerate([None, "green", "red"], start=3):  # missing sorts first, as ""
        np.testing.assert_array_equal(X[:, j], [c == value for c in colours])
    assert X.shape == (40, 6)


def test_texts(frame):
    columns = (Column("note", "text"),)
    X = Preprocessor(columns).fit(frame).transform(frame)
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(frame.column("note"))
    np.testing.assert_allclose(X, expected.toarray())


def test_values_never_seen_before(frame):
    prepared = Preprocessor((*COLUMNS, Column("note", "text"))).fit(frame)
    new = Frame.of({"a": [np.nan], "b": [np.nan], "colour": ["blue"], "note": ["nothing known"]})
    X = prepared.transform(new)
    assert np.isfinite(X).all()
    assert (X[0, 3:] == 0).all()


def test_nothing_is_learned_from_other_rows(frame):
    """Rows that are not in the training fold leave no trace."""
    train = np.arange(20)
    one = Preprocessor(COLUMNS).fit(frame.rows(train)).transform(frame.rows(train))
    changed = Frame.of(
        {
            "a": np.concatenate([frame.column("a")[:20], np.full(20, 1e6)]),
            "b": np.concatenate([frame.column("b")[:20], np.full(20, -1e6)]),
            "colour": np.concatenate([frame.column("colour")[:20], np.array(["x"] * 20, object)]),
        }
    )
    two = Preprocessor(COLUMNS).fit(changed.rows(train)).transform(changed.rows(train))
    np.testing.assert_array_equal(one, two)


def test_sparse_numbers_stay_sparse(rng):
    block = sp.random_array((30, 50), density=0.1, rng=rng, format="csr")
    names = tuple(f"x{j}" for j in range(50))
    frame = Frame(sp.csr_array(block), names)
    X = Preprocessor([Column(n, "number") for n in names]).fit(frame).transform(frame)
    assert sp.issparse(X)
    top = np.abs(block.toarray()).max(axis=0)
    np.testing.assert_allclose(X.toarray(), block.toarray() / np.where(top > 0, top, 1))


def test_many_categories_share_a_column():
    values = [f"c{i % 150}" for i in range(3000)]
    frame = Frame.of({"c": values})
    X = Preprocessor([Column("c", "category")]).fit(frame).transform(frame)
    assert X.sum(axis=1).tolist() == [1.0] * 3000
    # 99 values have a column of their own, the other 51 share the last
    assert sorted(X.sum(axis=0).tolist()) == [20.0] * 99 + [51 * 20.0]


def test_texts_without_words():
    frame = Frame.of({"t": ["!", "?", None]})
    with pytest.raises(TableError, match="no words"):
        Preprocessor([Column("t", "text")]).fit(frame)
