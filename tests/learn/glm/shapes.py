"""Rows of every shape."""

from __future__ import annotations

import numpy as np


def features(rng, n_rows, n_features):
    """Correlated features of unequal scales and means, a third of them zero."""
    X = rng.normal(size=(n_rows, n_features)) @ rng.normal(size=(n_features, n_features))
    return (X + rng.normal(size=n_features)) * (rng.random(X.shape) < 0.7)


def weights(rng, n_rows, wanted):
    return rng.uniform(0.2, 3.0, size=n_rows) * (rng.random(n_rows) < 0.9) if wanted else None


def single(rng):
    return features(rng, 60, 1)


def wide(rng):
    return features(rng, 30, 100)


def wide_and_shifted(rng):
    return rng.normal(size=(30, 100)) + 50.0


def a_little_wide(rng):
    return features(rng, 30, 45)


def tall(rng):
    return features(rng, 300, 5)


def rank_deficient(rng):
    X = features(rng, 80, 3)
    return np.hstack([X, X[:, :1], X @ rng.normal(size=(3, 4))])


def constant_columns(rng):
    X = features(rng, 80, 3)
    return np.hstack([np.full((80, 1), 0.1), X, np.full((80, 1), 7.0), np.zeros((80, 1))])


def only_constant_columns(_):
    return np.tile([0.1, 7.0, 0.0], (50, 1))


def badly_scaled(rng):
    return rng.normal(size=(200, 7)) * 10.0 ** np.arange(-6, 7, 2)


def one_huge_column(rng):
    X = rng.normal(size=(200, 3))
    X[:, 0] *= 1e7
    return X


def shifted(rng):
    return rng.normal(size=(100, 3)) + np.array([1e3, -1e3, 0])
