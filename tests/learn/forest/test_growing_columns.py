"""Growing a forest: scikit-learn's own concerns, and columns far from zero."""

from __future__ import annotations

import warnings

import numpy as np

from colabel.learn.forest.forest import grow


def test_as_many_vectors_as_rows_are_no_concern():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grow(X, np.arange(30), n_estimators=4)


def test_columns_far_from_zero_are_told_apart():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    away = np.array([1e8, 0.0, 0.0])
    near, _ = grow(X, y, n_estimators=5)
    far, _ = grow(X + away, y, n_estimators=5)
    assert near.shift is None
    assert far.shift[0] > 9e7
    assert far.shift[1:].tolist() == [0.0, 0.0]
    same = far.leaves(X + away) == near.leaves(X)
    assert same.mean() > 0.95
