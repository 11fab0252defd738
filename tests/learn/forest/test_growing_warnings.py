"""Growing a forest says nothing of scikit-learn's own concerns."""

from __future__ import annotations

import warnings

import numpy as np

from colabel.learn.forest import grow


def test_as_many_vectors_as_rows_are_no_concern():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grow(X, np.arange(30), n_estimators=4)
