"""FeatureBins: by hand, against slow versions, and scikit-learn's contract."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel.preprocess import FeatureBins
from tests.asserts import assert_each_equal

WIDTH = FeatureBins(strategy="width")
BINS = [FeatureBins(), WIDTH]


@parametrize_with_checks(BINS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def table(rng):
    """Draw 120 rows of four features, the last constant, and three labels that follow them."""
    X = rng.normal(size=(120, 4)).round(2)
    X[:, 2] = rng.integers(0, 3, 120)
    X[:, 3] = 7.0
    Y = (X[:, [0, 1, 0]] + rng.normal(scale=0.3, size=(120, 3)) > [0.0, 0.5, 1.0]).astype(int)
    return X, Y


# ----------------------------------------------------------------- equal frequency and width


@pytest.mark.parametrize(
    ("bins", "column", "cuts", "codes"),
    [
        (FeatureBins(), [1, 2, 3, 4, 10, 20, 30, 40], [2.5, 7, 25], [0, 0, 1, 1, 2, 2, 3, 3]),
        (FeatureBins(2), [1, 2, 3, 4, 10, 20, 30, 40], [7], [0] * 4 + [1] * 4),
        (WIDTH, [0, 1, 2, 3, 8], [2, 4, 6], [0, 0, 1, 1, 3]),
        # a value that most rows share has a bin of its own, and few values are kept
        (FeatureBins(), [0] * 90 + [*range(1, 11)], [0.5], [0] * 90 + [1] * 10),
        (FeatureBins(), [0, 0, 0, 1, 9], [0.5, 5], [0, 0, 0, 1, 2]),
        (WIDTH, [0, 0, 0, 1, 9], [0.5, 5], [0, 0, 0, 1, 2]),
        (FeatureBins(), [5, 5, 5], [], [0, 0, 0]),
    ],
    ids=str,
)
def test_cuts_by_hand(bins, column, cuts, codes):
    X = np.array(column, dtype=float)[:, None]
    bins = clone(bins).fit(X)
    assert bins.cuts_[0].tolist() == cuts
    assert bins.n_bins_.tolist() == [len(cuts) + 1]
    assert bins.transform(X).ravel().tolist() == codes
    # values beyond those seen fall into the outermost bins
    assert bins.transform([[-1e9], [1e9]]).ravel().tolist() == [0, len(cuts)]


@pytest.mark.parametrize("n_bins", [2, 3, 4, 7])
def test_quantile_bins_are_as_even_as_distinct_values_allow(n_bins, rng):
    X = rng.normal(size=(101, 3))
    codes = FeatureBins(n_bins).fit_transform(X)
    for column in codes.T:
        counts = np.bincount(column, minlength=n_bins)
        assert len(counts) == n_bins
        assert counts.max() - counts.min() <= 1


def test_width_agrees_with_scikit_learn(rng):
    X = rng.normal(size=(100, 3))
    theirs = KBinsDiscretizer(4, encode="ordinal", strategy="uniform").fit_transform(X)
    np.testing.assert_array_equal(FeatureBins(strategy="width").fit_transform(X), theirs)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # scikit-learn sums the rows
def test_extreme_and_neighbouring_values_are_told_apart():
    tiny = np.nextafter(1.0, 2.0)
    X = np.array([[-1.7e308, 1.0], [1.7e308, tiny], [0.0, 1.0]])
    for strategy in ("quantile", "width"):
        bins = FeatureBins(strategy=strategy).fit(X)
        assert bins.transform(X).tolist() == [[0, 0], [2, 1], [1, 0]]
    wide = 1.7e308 * np.linspace(-1.0, 1.0, 9)[:, None]
    assert len(np.unique(FeatureBins(strategy="width").fit_transform(wide))) == 4


# ---------------------------------------------------------------------------- what they share


@pytest.mark.parametrize("bins", BINS, ids=str)
def test_sparse_rows_are_binned_like_dense_ones(bins, table):
    X, Y = table
    X[X[:, 0] < 0.3, 0] = 0.0
    dense = clone(bins).fit(X, Y)
    sparse = clone(bins).fit(sp.csr_array(X), Y)
    np.testing.assert_array_equal(dense.transform(X), sparse.transform(sp.csr_array(X)))


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        (FeatureBins(1), "n_bins=1 must be an integer of at least 2"),
        (FeatureBins(2.5), r"n_bins=2.5 must be an integer"),
        (FeatureBins(strategy="kmeans"), "strategy='kmeans' must be one of 'quantile', 'width'"),
    ],
)
def test_wrong_parameters_are_named(bins, message):
    with pytest.raises(ValueError, match=message):
        bins.fit([[0.0], [1.0]], [[0], [1]])


@pytest.mark.parametrize("strategy", ["quantile", "width"])
def test_a_weight_is_a_number_of_copies(table, rng, strategy):
    X, _ = table
    copies = rng.integers(0, 4, size=len(X))
    weighted = FeatureBins(strategy=strategy).fit(X, sample_weight=copies)
    repeated = FeatureBins(strategy=strategy).fit(np.repeat(X, copies, axis=0))
    assert_each_equal(weighted.cuts_, repeated.cuts_)
    plain = FeatureBins(strategy=strategy).fit(X)
    different = zip(plain.cuts_, weighted.cuts_, strict=True)
    assert any(len(one) != len(two) or (one != two).any() for one, two in different)


def test_weights_that_are_all_zero_are_refused(table):
    # by scikit-learn itself, or by FeatureBins where that is older
    with pytest.raises(ValueError, match=r"weights (are zero|must contain at least one non-zero)"):
        FeatureBins().fit(table[0], sample_weight=np.zeros(120))
