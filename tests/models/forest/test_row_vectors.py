"""Label vectors of training rows with missing labels, against one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.models.forest import vector_forest
from colabel.models.forest.vector_forest import RowVectors


def test_incomplete_rows_are_shared_by_vectors_that_agree():
    codes = np.array([[0, 0], [0, 1], [0, 1], [0, -1], [1, -1], [-1, 0]], dtype=np.int32)
    found = RowVectors.of(codes, np.ones(6))
    shares = found.shares.toarray()
    place = {tuple(v): i for i, v in enumerate(found.vectors.tolist())}
    assert set(place) == {(0, 0), (0, 1), (1, 0)}
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares[3, place[0, 0]] == pytest.approx(1 / 3)
    assert shares[3, place[0, 1]] == pytest.approx(2 / 3)
    assert shares[4, place[1, 0]] == 1.0  # nothing agrees: the usual value
    assert shares[5, place[0, 0]] == 1.0
    lists = np.zeros((6, 3))
    lists[3, place[0, 0]], lists[3, place[0, 1]] = 0.6, 0.2
    again = found.informed(sp.csr_array(lists), codes)
    np.testing.assert_allclose(again.shares.toarray()[3, place[0, 0]], 0.75)
    np.testing.assert_allclose(again.shares.toarray()[5], shares[5])


def test_lists_inform_shares_as_far_as_they_speak_of_their_vectors(rng):
    codes = np.where(rng.random((30, 4)) < 0.5, -1, rng.integers(0, 2, size=(30, 4)))
    codes = codes.astype(np.int32)
    draws = np.where(codes == -1, rng.integers(0, 2, size=(3, 30, 4)), codes).astype(np.int32)
    rows = RowVectors.drawn(codes, np.arange(30), draws)
    lists = rng.random((30, len(rows.vectors))) * (rng.random((30, len(rows.vectors))) < 0.5)
    lists[:3] = 0.0
    lists /= np.maximum(lists.sum(axis=1, keepdims=True), 1e-9)
    found = rows.informed(sp.csr_array(lists), codes).shares.toarray()
    assert rows.informed(sp.csr_array(lists), codes).vectors.shape == rows.vectors.shape
    for r, (own, share) in enumerate(zip(lists, rows.shares.toarray(), strict=True)):
        given = [((codes[r] == -1) | (codes[r] == v)).all() for v in rows.vectors] * own
        given = given / given.sum() if given.sum() > 0 else given
        on_shares = given * (share > 0)
        expected = on_shares + (1 - on_shares.sum()) * share
        np.testing.assert_allclose(found[r], expected, atol=1e-12)


def slow_agreeing(row, seen, counts):
    """The 32 most frequent vectors that have a row's known labels, one row at a time."""
    known = row >= 0
    found = np.flatnonzero((seen[:, known] == row[known]).all(axis=1))
    return found[np.argsort(-counts[found], kind="stable")[:32]]


def test_incomplete_rows_against_one_at_a_time(rng):
    codes = (rng.random((600, 7)) < 0.4).astype(np.int32) * rng.integers(1, 3, size=7)
    codes = np.where(rng.random((600, 7)) < 0.15, -1, codes).astype(np.int32)
    codes[:5, 1:] = -1  # with which very many vectors agree
    weight = rng.uniform(0.5, 2.0, size=600)
    found = RowVectors.of(codes, weight)
    whole = (codes >= 0).all(axis=1)
    seen, place = np.unique(codes[whole], axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), weights=weight[whole])
    sizes = []
    for row in np.flatnonzero(~whole):
        expected = slow_agreeing(codes[row], seen, counts)
        sizes.append(len(expected))
        got = {
            tuple(found.vectors[v].tolist()): share
            for v, share in enumerate(found.shares[[row]].toarray()[0])
            if share
        }
        if len(expected):
            shares = counts[expected] / counts[expected].sum()
            listed = {tuple(seen[v].tolist()): s for v, s in zip(expected, shares, strict=True)}
            assert got == pytest.approx(listed)
        else:
            assert list(got.values()) == [1.0]
    assert (min(sizes), max(sizes)) == (0, 32)


def test_incomplete_rows_are_looked_up_in_one_call(monkeypatch):
    """Thousands of rows, each with gaps of its own, are no loop of Python."""
    calls = []
    kernel = vector_forest.agreeing_vectors
    monkeypatch.setattr(
        vector_forest, "agreeing_vectors", lambda *of: calls.append(len(of[0])) or kernel(*of)
    )
    codes = np.array([[0, 0], [0, 1], [0, -1], [1, -1], [-1, 0]], dtype=np.int32)
    RowVectors.of(codes, np.ones(5))
    assert calls == [3]


def test_rows_with_missing_labels_are_shared_by_how_often_a_vector_is_drawn():
    codes = np.array([[0, 1], [-1, 1], [1, -1]], dtype=np.int32)
    draws = np.array([[[0, 1], [1, 0]], [[0, 1], [1, 1]], [[1, 1], [1, 1]], [[0, 1], [1, 0]]])
    found = RowVectors.drawn(codes, np.array([1, 2]), draws.astype(np.int32))
    np.testing.assert_array_equal(found.vectors, [[0, 1], [1, 0], [1, 1]])
    expected = [[1, 0, 0], [0.75, 0, 0.25], [0, 0.5, 0.5]]
    np.testing.assert_allclose(found.shares.toarray(), expected)
