"""What a model says of all rows: against coefficients, and columns that cannot matter."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from colabel import CTBN, BinaryRelevance, compare, describe


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)) * [1.0, 3.0, 1.0, 1.0]
    first = X[:, 0] + rng.logistic(size=600) > 0
    second = first ^ (rng.random(600) < 0.1)
    third = X[:, 1] / 3.0 + rng.logistic(size=600) < 0
    return X, np.stack([first, second, third], axis=1).astype(int)


def test_effects_of_independent_labels_are_coefficients(data):
    X, Y = data
    model = BinaryRelevance(C=1.0).fit(X, Y, label_names=["a", "b", "c"])
    found = describe(model, X, Y, max_rows=600)
    at = [found.columns.index(f"x{j}") for j in range(4)]
    step = np.eye(4) * X.std(axis=0)
    origin, moved = (
        [model.joint(row[None]).marginals()[0] for row in rows] for rows in (np.zeros((4, 4)), step)
    )
    odds = [np.log(p) - np.log1p(-np.array(p)) for p in (origin, moved)]
    np.testing.assert_allclose(found.effects[at], odds[1] - odds[0], atol=1e-6)


def test_columns_that_cannot_matter_are_last(data):
    X, Y = data
    model = CTBN(C=1.0, random_state=0).fit(X, Y, label_names=["a", "b", "c"])
    found = describe(model, X, Y)
    assert set(found.columns[:2]) == {"x0", "x1"}
    assert (np.abs(found.importance[2:]) < 0.05).all()
    assert found.importance[1] > 0.05 > found.errors[1]
    assert found.matters_for(found.columns.index("x1")) == ["−c"]
    assert found.graph["edges"][0]["nats"] > 0.1
    assert {found.graph["labels"][found.graph["edges"][0][end]] for end in ("from", "to")} == {
        "a",
        "b",
    }
    assert json.loads(json.dumps(found.to_dict()))["columns"] == list(found.columns)
    assert found.to_frame().loc[("x1", "c"), "effect"] < 0
    few = describe(model, X, Y, max_columns=2, n_repeats=1)
    assert set(few.columns) == {"x0", "x1"}


def test_sparse_rows_and_tables_are_described_alike(data):
    X, Y = data
    model = BinaryRelevance(C=1.0).fit(X, Y)
    dense, sparse = (describe(model, rows, Y, max_rows=200) for rows in (X, csr_array(X)))
    np.testing.assert_allclose(dense.importance, sparse.importance, atol=1e-9)
    np.testing.assert_allclose(dense.effects, sparse.effects, atol=1e-9)
    table = {f"x{j}": column for j, column in enumerate(X.T)} | {"kind": ["u", "v", "w"] * 200}
    fitted = compare({**table, "a": Y[:, 0], "b": Y[:, 1]}, ["a", "b"], models="br", cv=2).fit()
    found = describe(fitted, table, Y[:, :2], max_rows=200)
    assert found.columns[0] == "x0"
    assert np.isnan(found.effects[found.columns.index("kind")]).all()


def test_labels_that_are_not_known_count_neither_way(data):
    X, Y = data
    model = BinaryRelevance(C=1.0).fit(X, Y)
    holes = Y.astype(float)
    holes[::2, 2] = np.nan
    whole, partly = (describe(model, X, labels, max_rows=600) for labels in (Y, holes))
    at = [partly.columns.index(name) for name in whole.columns]
    np.testing.assert_allclose(partly.by_label[at, :2], whole.by_label[:, :2])
    known = whole.by_label[:, 2].max()
    assert partly.by_label[:, 2].max() == pytest.approx(known, rel=0.5)
