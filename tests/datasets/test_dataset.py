from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from colabel.datasets import Dataset
from colabel.datasets import load_digit_traits as digit_traits
from colabel.tables import TableError


def test_names_are_filled_in_and_repr_is_short():
    data = Dataset("t", sparse.csr_array(np.eye(2)), np.array([[0], [1]]))
    assert repr(data) == "Dataset('t': 2 rows, 2 sparse features, 1 labels)"
    assert data.feature_names == ("x1", "x2")
    assert data.is_sparse


@pytest.mark.parametrize(
    ("X", "Y", "names", "word"),
    [
        (np.eye(2), np.zeros((3, 1), int), (), "same number of rows"),
        (np.eye(2), np.zeros(2, int), (), "two dimensions"),
        (np.eye(2), np.zeros((2, 1), int), ("a",), "names for 2 columns"),
    ],
)
def test_wrong_shapes(X, Y, names, word):
    with pytest.raises(TableError, match=word):
        Dataset("t", X, Y, names)


def test_digit_traits_tell_the_digits_apart():
    data = digit_traits()
    assert data.X.shape == (1797, 64)
    assert data.label_names == (
        *("even", "prime", "square", "above_four", "loop", "triangular", "fibonacci"),
    )
    assert len(set(map(tuple, data.Y.tolist()))) == 10
    assert set(data.Y.ravel()) == {0, 1}
    from sklearn.datasets import load_digits

    digits = load_digits().target
    seven = data.Y[digits == 7]
    assert (seven == [0, 1, 0, 1, 0, 0, 0]).all()
    assert (data.Y[digits == 4] == [1, 0, 1, 0, 0, 0, 0]).all()
