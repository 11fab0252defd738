"""Preprocessing, held to scikit-learn's own column by column."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.tables import Column, Frame, Preprocessor, TableError, choose_columns
from colabel.tables.model import terms_of_row


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
    filled = np.where(np.isnan(a), np.nanmean(a), a)
    expected = [filled, frame.column("b"), np.isnan(a).astype(float)]
    for j, column in enumerate(expected):
        np.testing.assert_allclose(X[:, j], (column - column.mean()) / column.std())
    colours = frame.column("colour")
    for j, value in enumerate([None, "green", "red"], start=3):  # missing sorts first, as ""
        np.testing.assert_array_equal(X[:, j], [c == value for c in colours])
    assert X.shape == (40, 6)


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
    block = sp.random_array((30, 50), density=0.1, random_state=rng, format="csr")
    names = tuple(f"x{j}" for j in range(50))
    frame = Frame(sp.csr_array(block), names)
    X = Preprocessor([Column(n, "number") for n in names]).fit(frame).transform(frame)
    assert sp.issparse(X)
    top = np.abs(block.toarray()).max(axis=0)
    np.testing.assert_allclose(X.toarray(), block.toarray() / np.where(top > 0, top, 1))


def test_texts_without_words():
    frame = Frame.of({"t": ["!", "?", None]})
    with pytest.raises(TableError, match="no words"):
        Preprocessor([Column("t", "text")]).fit(frame)


DATES = ["2024-02-29", None, "2026-11-15 18:00", "2025-01-01T06:00:00Z", "2024-02-29"]


def expected_of_dates():
    days = [(date(2024, 2, 29), 0), (date(2026, 11, 15), 0.75), (date(2025, 1, 1), 0.25)]
    rows = np.array(
        [
            [d.year, d.month, d.weekday(), (d - date(2024, 2, 29)).days + part]
            for d, part in [*days, days[0]]
        ]
    )
    filled = np.insert(rows, 1, rows.mean(axis=0), axis=0)
    features = np.column_stack([filled, [0, 1, 0, 0, 0]])
    return (features - features.mean(axis=0)) / features.std(axis=0)


def test_dates_become_year_month_weekday_and_days():
    frame = Frame.of({"when": DATES, "size": [1.0, 2, 3, 4, 5]})
    columns = [Column("when", "date"), Column("size", "number")]
    preprocessor = Preprocessor(columns)
    X = preprocessor.fit_transform(frame)
    np.testing.assert_allclose(X[:, 1:], expected_of_dates(), atol=1e-12)
    assert preprocessor.column_of_feature().tolist() == [1, 0, 0, 0, 0, 0]
    one = frame.rows(slice(0, 1))
    terms = terms_of_row(preprocessor, one, preprocessor.transform(one))
    assert list(zip(terms.names, terms.values, strict=True)) == [
        ("when", "2024-02-29"),
        ("size", "1"),
    ]
    later = Frame.of({"when": ["2031-01-01", "soon"], "size": [1.0, 2]})
    assert np.isfinite(preprocessor.transform(later.rows(slice(0, 1)))).all()
    with pytest.raises(TableError, match=r"'when' holds 'soon', which is no date like 2026-11-15"):
        preprocessor.transform(later)
    empty = Frame.of({"when": [None], "size": [3.0]})
    np.testing.assert_allclose(preprocessor.transform(empty), [[0, 0, 0, 0, 0, 2]], atol=1e-12)


@pytest.mark.parametrize("form", ["%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p"])
def test_dates_in_any_form_are_the_same_dates(form):
    """As they are in a data frame and in a Parquet file of dates."""
    expected = expected_of_dates()
    moments = [None if d is None else datetime.fromisoformat(d[:16]) for d in DATES]
    texts = [None if m is None else m.strftime(form) for m in moments]
    for column in (texts, np.array(moments, dtype="datetime64[ns]")):
        frame = Frame.of({"when": column})
        (chosen,) = choose_columns(frame).used
        assert chosen.kind == "date"
        np.testing.assert_allclose(Preprocessor([chosen]).fit_transform(frame), expected, atol=1e-9)
