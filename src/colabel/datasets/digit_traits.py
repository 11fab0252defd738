"""Traits of handwritten digits: a multi-label set that needs no download."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from colabel.datasets.dataset import Dataset

TRAITS: dict[str, frozenset[int]] = {
    "even": frozenset({0, 2, 4, 6, 8}),
    "prime": frozenset({2, 3, 5, 7}),
    "square": frozenset({0, 1, 4, 9}),
    "above_four": frozenset({5, 6, 7, 8, 9}),
    "loop": frozenset({0, 6, 8, 9}),
    "triangular": frozenset({0, 1, 3, 6}),
    "fibonacci": frozenset({0, 1, 2, 3, 5, 8}),
}


def load_digit_traits() -> Dataset:
    """Load scikit-learn's bundled digits, labelled with seven traits of the digit shown.

    The labels of a row are facts about its digit (0 to 9): ``even``; ``prime`` {2, 3, 5, 7};
    ``square`` {0, 1, 4, 9}; ``above_four`` {5, ..., 9}; ``loop``, drawn with a closed loop,
    {0, 6, 8, 9}; ``triangular`` {0, 1, 3, 6}; ``fibonacci`` {0, 1, 2, 3, 5, 8}. A 4 does not
    count as a loop: most fours in these images are open at the top. Each digit has a label
    vector of its own, so ten of the 128 vectors occur and the labels depend strongly on each
    other.

    Returns
    -------
    Dataset
        X of shape (1797, 64), pixel intensities 0 to 16; Y of shape (1797, 7), 0/1.

    Examples
    --------
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> data
    Dataset('digit_traits': 1797 rows, 64 features, 7 labels)
    >>> dict(zip(data.label_names, data.Y[0].tolist()))
    {'even': 1, 'prime': 0, 'square': 1, 'above_four': 0, 'loop': 1, 'triangular': 1,
     'fibonacci': 1}
    """
    bunch = load_digits()
    table = np.array([[digit in trait for trait in TRAITS.values()] for digit in range(10)])
    return Dataset(
        name="digit_traits",
        X=np.asarray(bunch.data, dtype=np.float64),
        Y=table[bunch.target].astype(np.int64),
        feature_names=tuple(bunch.feature_names),
        label_names=tuple(TRAITS),
        description="8x8 images of handwritten digits and seven traits of the digit shown.",
    )
