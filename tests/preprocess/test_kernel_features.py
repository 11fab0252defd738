"""KernelFeatures against the dense kernel matrix, and on rows of every kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import BinaryRelevance, KernelFeatures
from colabel.preprocess.kernel import (
    LabelsAlone,
    clearly_better,
    gaussian,
    inverse_root,
    squared_distances,
)

SAMPLINGS = ("kmeans", "uniform")


@pytest.fixture(name="X")
def rows_of_units(rng):
    return rng.normal(size=(60, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, -7.0, 100.0]


@pytest.fixture
def circles(rng):
    """Rows (300, 2) and two labels: one of distance from the centre, one of side."""
    X = rng.normal(size=(300, 2))
    return X, np.column_stack([(X**2).sum(axis=1) > 1.5, X[:, 0] > 0]).astype(int)


@pytest.fixture
def lines(rng):
    """Rows (300, 4) and labels whose log-odds are linear."""
    X = rng.normal(size=(300, 4))
    return X, (2.0 * X[:, :3] + rng.logistic(size=(300, 3)) > 0).astype(int)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def true_kernel(X, Z, width):
    """Return the kernel (n, m) of rows that are standardised by the first."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return np.exp(-(cdist((X - mean) / scale, (Z - mean) / scale) ** 2) / (2 * width**2))


# ------------------------------------------------------------------- what the features are


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("n_landmarks", [15, 60])
def test_features_are_the_landmarks_projection(X, rng, sampling, n_landmarks):
    """phi(x)'phi(z) = k(x, L) K^-1 k(L, z), by the pseudo-inverse of the dense matrix."""
    Z = X[:20] + 0.1 * rng.normal(size=(20, 4))
    made = KernelFeatures(2.0, n_landmarks, linear=False, sampling=sampling, random_state=0)
    features = made.fit(np.repeat(X, 2, axis=0))
    assert features.n_landmarks_ == n_landmarks  # copies of a row are one landmark
    landmarks = features.landmarks_ * X.std(axis=0) + X.mean(axis=0)
    cross = true_kernel(X, landmarks, 2.0)
    own = (Z - X.mean(axis=0)) / X.std(axis=0)
    to_own = np.exp(-(cdist(own, features.landmarks_) ** 2) / 8.0)
    among = np.exp(-(cdist(features.landmarks_, features.landmarks_) ** 2) / 8.0)
    expected = cross @ np.linalg.pinv(among, hermitian=True, rcond=1e-10) @ to_own.T
    found = features.transform(X) @ features.transform(Z).T / features.kernel_variance_
    np.testing.assert_allclose(found, expected, atol=1e-7)
    if n_landmarks == len(X):  # all rows are landmarks: the kernel itself
        np.testing.assert_allclose(found, true_kernel(X, Z, 2.0), atol=1e-7)


def test_chosen_landmarks_are_better_than_rows_at_random(rng):
    sizes = [400, *[4] * 11]  # one crowd, and a few rows elsewhere
    X = np.repeat(rng.normal(size=(12, 3)) * 4, sizes, axis=0)
    X += 0.1 * rng.normal(size=X.shape)
    unseen = dict.fromkeys(SAMPLINGS, 0.0)  # k(x, x) - phi(x)'phi(x), each cluster counting alike
    for sampling, seed in itertools.product(SAMPLINGS, range(5)):
        made = KernelFeatures(1.0, 24, linear=False, sampling=sampling, random_state=seed)
        phi = made.fit_transform(X)
        residual = 1.0 - (phi**2).sum(axis=1) / made.kernel_variance_
        unseen[sampling] += np.average(residual, weights=1.0 / np.repeat(sizes, sizes))
    assert unseen["kmeans"] < unseen["uniform"]


def test_the_inverse_root_leaves_out_what_is_rounding(rng):
    X = np.repeat(rng.normal(size=(7, 2)), 3, axis=0)  # rank 7 of 21
    K = gaussian(squared_distances(X, X), 1.0)
    root = inverse_root(K)
    assert root.shape == (21, 7)
    np.testing.assert_allclose(root.T @ K @ root, np.eye(7), atol=1e-8)
    np.testing.assert_allclose((K @ root) @ (K @ root).T, K, atol=1e-8)


@pytest.mark.parametrize("scaling", ["columns", "common"])
def test_columns_stand_scaled_before_the_kernel(X, scaling):
    options = {"scaling": scaling, "random_state": 0}
    features = KernelFeatures(2.0, 10, **options).fit(X)
    both = features.transform(X)
    scale = X.std(axis=0) if scaling == "columns" else np.sqrt(X.var(axis=0).mean())
    np.testing.assert_allclose(both[:, :4], (X - X.mean(axis=0)) / scale, atol=1e-12)
    alone = KernelFeatures(2.0, 10, linear=False, **options).fit_transform(X)
    np.testing.assert_array_equal(both[:, 4:], alone)
    np.testing.assert_array_equal(features.transform(sp.csr_array(X)), both)
    squares = (X**2).mean(axis=0)  # sparse rows are not centred
    sparse = KernelFeatures(2.0, 10, **options).fit(sp.csr_array(X))
    expected = np.sqrt(squares if scaling == "columns" else squares.mean())
    np.testing.assert_allclose(sparse.scale_, expected)


def test_the_scale_that_predicts_better_is_chosen(rng):
    units = rng.normal(size=(300, 3)) * [1.0, 1e-3, 1e3]
    Y = (2.0 * units / [1.0, 1e-3, 1e3] + rng.logistic(size=(300, 3)) > 0).astype(int)
    found = KernelFeatures(n_landmarks=20, random_state=0).fit(units, Y)
    np.testing.assert_allclose(found.scale_, units.std(axis=0))
    words = (rng.random((300, 400)) < 0.01).astype(float)  # hundreds of rare words, a few common
    words[:, :3] = rng.random((300, 3)) < 0.4
    Y = (3.0 * (words[:, :3] - 0.5) + rng.logistic(size=(300, 3)) > 0).astype(int)
    for rows in (words, sp.csr_array(words)):
        found = KernelFeatures(n_landmarks=20, random_state=0).fit(rows, Y)
        assert len(np.unique(found.scale_)) == 1


@pytest.mark.parametrize("balance", [0.5, 4.0])
def test_the_balance_is_one_of_variances(X, balance):
    found = KernelFeatures(2.0, 10, balance=balance, random_state=0).fit_transform(X)
    np.testing.assert_allclose(found[:, 4:].var(axis=0).sum(), balance * 4, rtol=1e-9)


# ---------------------------------------------------------------------- what "auto" chooses


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_a_kernel_is_chosen_where_labels_bend(circles, store):
    X, Y = store(circles[0]), circles[1]
    features = KernelFeatures(random_state=0).fit(X[:200], Y[:200])
    assert features.width_ is not None
    assert features.gain_ > 0.1
    plain = BinaryRelevance(random_state=0).fit(X[:200], Y[:200])
    bent = make_pipeline(clone(features), clone(plain)).fit(X[:200], Y[:200])
    assert bent.score(X[200:], Y[200:]) > plain.score(X[200:], Y[200:]) + 0.2
    alone = KernelFeatures(linear=False, random_state=0).fit(X, Y)
    assert isinstance(alone.transform(X), np.ndarray)


def test_no_kernel_is_chosen_where_labels_do_not_bend(lines):
    X, Y = lines
    features = KernelFeatures(random_state=0).fit(X, Y)
    assert (features.width_, features.n_landmarks_, features.kernel_variance_) == (None, 0, 0)
    np.testing.assert_allclose(features.transform(X), standardised(X), atol=1e-12)
    assert list(features.get_feature_names_out()) == ["x0", "x1", "x2", "x3"]
    sparse = KernelFeatures(random_state=0).fit(sp.csr_array(X), Y)
    assert sparse.width_ is None
    np.testing.assert_allclose(
        sparse.transform(sp.csr_array(X)).toarray(), X / np.sqrt((X**2).mean(axis=0))
    )


CONSTANT = np.ones((300, 2), int)


@pytest.mark.parametrize(
    ("options", "n_rows", "labels", "width", "n_landmarks"),
    [
        ({}, 300, None, True, None),
        ({"width": 0.9}, 300, None, 0.9, None),  # what is given is not chosen
        ({"n_landmarks": 30}, 300, None, True, 30),
        ({}, 1, None, None, 0),
        ({}, 2, None, None, 0),
        ({}, 3, None, None, 0),
        ({}, 300, CONSTANT, None, 0),
        ({"linear": False}, 300, CONSTANT, True, 200),  # without columns there is always one
    ],
    ids=str,
)
def test_which_kernel_is_chosen(circles, options, n_rows, labels, width, n_landmarks):
    X, Y = circles[0][:n_rows], (circles[1] if labels is None else labels)[:n_rows]
    features = KernelFeatures(random_state=0, **options).fit(X, Y)
    assert features.width_ > 0 if width is True else features.width_ == width
    if n_landmarks is None:
        assert features.n_landmarks_ >= 100
    else:
        assert features.n_landmarks_ == n_landmarks
    if width is None:
        np.testing.assert_allclose(features.transform(X) * features.scale_, X - X.mean(axis=0))


def test_a_kernel_is_kept_where_none_is_better(lines):
    """The width that was given, and where there are no columns beside it."""
    given = KernelFeatures(width=0.1, random_state=0).fit(*lines)
    assert given.width_ == 0.1
    assert given.gain_ < 0
    alone = KernelFeatures(linear=False, random_state=0).fit(*lines)
    assert alone.width_ is not None
    assert alone.transform(lines[0]).shape == (300, alone.components_.shape[1])


def test_the_choice_is_that_of_the_held_out_likelihood(circles):
    """The width found is the best of the grid, by an exhaustive search."""
    X, Y = circles
    chosen = KernelFeatures(n_landmarks=40, random_state=0).fit(X, Y)
    judge = LabelsAlone.of(X, Y, np.random.RandomState(0), None)
    score = {}
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
        width = chosen.width_ * factor
        features = KernelFeatures(width, 40, random_state=0).fit(X)
        score[factor] = judge.log_prob(features.transform(X)[judge.rows]).mean()
    assert max(score, key=score.__getitem__) in (0.5, 1.0, 2.0)
    assert score[1.0] > score[0.25]
    assert score[1.0] > score[4.0]


def test_held_out_likelihood_is_that_of_regressions_fitted_without_the_rows(circles):
    X, Y = circles
    judge = LabelsAlone.of(X, Y, np.random.RandomState(0), 1)
    found = judge.log_prob(X[judge.rows], variances=(10.0,), tol=1e-4)
    C = 10.0 / X.var(axis=0).sum()
    for fold in range(judge.folds.n_folds):
        out = judge.folds.of_row == fold
        model = BinaryRelevance(C=C, tol=1e-4).fit(X[~out], Y[~out])
        expected = model.joint(X[out]).log_prob(Y[out])
        np.testing.assert_allclose(found[out], expected, atol=2e-3)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_same_seed_same_features_whatever_the_threads(circles, sampling):
    """Nor does it matter how many rows are transformed at once."""
    X, Y = circles
    X = np.repeat(X, 17, axis=0) + np.random.default_rng(0).normal(size=(5100, 2)) * 0.01
    Y = np.repeat(Y, 17, axis=0)
    one, two, other = (
        KernelFeatures("auto", 30, sampling=sampling, random_state=seed, n_jobs=n_jobs)
        .fit(X, Y)
        .transform(X)
        for seed, n_jobs in ((3, 1), (3, 2), (4, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_labels_of_every_kind(circles):
    X, Y = circles
    codes = Y[:, 0] + Y[:, 1]
    missing = Y.astype(float)
    missing[::7, 0] = np.nan
    missing[3] = np.nan
    names = [[name for name, on in zip("ab", row, strict=True) if on] for row in Y]
    for y in (Y, codes, np.column_stack([codes, Y]), missing, sp.csr_array(Y), names):
        features = KernelFeatures(n_landmarks=30, random_state=0).fit(X, y)
        assert features.width_ is not None
        assert features.gain_ > 0.05


def test_the_labels_that_vary_most_are_compared_by(circles):
    X, Y = (np.tile(part, (10, 1)) for part in circles)
    rare = (np.arange(3000) % 50 == 0).astype(int)
    Y = np.column_stack([rare, rare, np.tile(Y, (1, 16))])  # 34 labels, of which 32 are taken
    judge = LabelsAlone.of(X, Y, np.random.RandomState(0), None)
    assert judge.rows.shape == (2000,)
    np.testing.assert_array_equal(judge.codes, Y[judge.rows, 2:])


def test_better_is_beyond_a_standard_error(rng):
    noise = rng.normal(size=400)
    error = noise.std() / 20
    noise -= noise.mean()
    assert clearly_better(noise + 1.1 * error, np.zeros(400))
    assert not clearly_better(noise + 0.9 * error, np.zeros(400))
    assert clearly_better(noise + 0.9 * error, np.zeros(400), 0.5)


# ---------------------------------------------------------------------------- rows of every kind


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_sparse_rows_stay_sparse(rng, sampling):
    dense = np.where(rng.random((80, 6)) < 0.4, rng.normal(size=(80, 6)), 0.0)
    rows = sp.csr_array(dense)
    features = KernelFeatures(2.0, 20, sampling=sampling, random_state=0).fit(rows)
    found = features.transform(rows)
    assert sp.issparse(found)
    assert sp.issparse(features.landmarks_)
    scaled = dense / np.sqrt((dense**2).mean(axis=0))
    np.testing.assert_allclose(found[:, :6].toarray(), scaled, atol=1e-12)
    assert found[:, :6].nnz == rows.nnz
    among = features.landmarks_.toarray()
    kernel = np.exp(-(cdist(scaled, among) ** 2) / 8.0)
    np.testing.assert_allclose(found[:, 6:].toarray(), kernel @ features.components_, atol=1e-9)
    np.testing.assert_allclose(features.transform(dense), found.toarray(), atol=1e-9)


def test_constant_columns_say_nothing(X):
    constant = np.column_stack([X, np.full(60, 1e9), np.zeros(60), np.full(60, 0.1)])
    found = KernelFeatures(2.0, 10, random_state=0).fit(constant)
    plain = KernelFeatures(2.0, 10, random_state=0).fit(X)
    np.testing.assert_allclose(found.landmarks_[:, :4], plain.landmarks_, atol=1e-9)
    np.testing.assert_allclose(
        found.transform(constant)[:, 7:], plain.transform(X)[:, 4:], atol=1e-7
    )


def test_rows_that_are_all_equal(circles):
    _, Y = circles
    for features in (KernelFeatures(random_state=0), KernelFeatures(1.0, 5, random_state=0)):
        found = features.fit_transform(np.ones((300, 2)), Y)
        np.testing.assert_array_equal(found[:, :2], 0.0)
        np.testing.assert_array_equal(found, np.tile(found[:1], (300, 1)))


@pytest.mark.parametrize("factor", [1e-120, 1e-8, 1e8, 1e120])
def test_units_do_not_matter(X, factor):
    found = KernelFeatures(2.0, 10, random_state=0).fit_transform(X * factor)
    expected = KernelFeatures(2.0, 10, random_state=0).fit_transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_rows_far_from_all_others_have_no_kernel(X, store):
    features = KernelFeatures(2.0, 10, random_state=0).fit(store(X * 1e-100))
    found = features.transform(store(np.full((1, 4), 1e139)))
    found = found.toarray() if sp.issparse(found) else found
    assert (found[:, :4] > 1e139).all()
    np.testing.assert_array_equal(found[:, 4:], 0.0)


@pytest.mark.parametrize("width", [1e-90, 1e90])
def test_extreme_widths_give_numbers(X, width):
    """A kernel of the row alone, or one that all rows share: no landmark, or the same for all."""
    found = KernelFeatures(width, 10, random_state=0).fit_transform(X)
    linear = KernelFeatures(2.0, 10, random_state=0).fit_transform(X)[:, :4]
    np.testing.assert_allclose(found[:, :4], linear)
    n_different = len(np.unique(found[:, 4:].round(9), axis=0))
    assert n_different <= (11 if width < 1 else 1)


def test_single_precision_is_kept(X, rng):
    Y = (X[:, :2] > X[:, :2].mean(axis=0)).astype(int)
    for given in (X, sp.csr_array(X)):
        single = given.astype(np.float32)
        features = KernelFeatures(2.0, 10, random_state=0).fit(single, Y)
        assert features.transform(single).dtype == np.float32
        assert features.landmarks_.dtype == np.float64
        assert features.transform(given).dtype == np.float64


def test_names_are_those_of_columns_and_kernel(X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "kernel0"])
    features = KernelFeatures(2.0, 3, random_state=0).set_output(transform="pandas")
    names = ["a", "b", "c", "kernel0", "kernel_kernel0", "kernel_kernel1", "kernel_kernel2"]
    assert list(features.fit_transform(frame).columns) == names
    for linear, own in ((True, ["x0", "x1", "x2", "x3"]), (False, [])):
        plain = KernelFeatures(2.0, 2, linear=linear, random_state=0).fit(X)
        assert list(plain.get_feature_names_out()) == [*own, "kernel0", "kernel1"]


@parametrize_with_checks(
    [
        KernelFeatures(random_state=0),
        KernelFeatures(1.0, 10, random_state=0),
        KernelFeatures(1.0, 10, linear=False, sampling="uniform", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"width": 0}, r"width=0 must be a positive number or 'auto'\."),
        ({"width": "median"}, r"width='median' must be a positive number or 'auto'\."),
        ({"width": np.inf}, r"width=inf must be"),
        ({"n_landmarks": 0}, r"n_landmarks=0 must be an integer of at least 1, or 'auto'\."),
        ({"n_landmarks": 2.5}, r"n_landmarks=2\.5 must be an integer"),
        ({"n_landmarks": True}, r"n_landmarks=True must be an integer"),
        ({"sampling": "rows"}, r"sampling='rows' must be one of 'kmeans', "),
        ({"scaling": "rows"}, r"scaling='rows' must be one of 'auto', 'columns', 'common'"),
        ({"balance": -1.0}, r"balance=-1\.0 must be a positive number\."),
        ({"linear": "yes"}, r"linear='yes' must be True or False\."),
    ],
)
def test_wrong_parameters_are_named(circles, params, message):
    with pytest.raises(ValueError, match=message):
        KernelFeatures(**params).fit(*circles)


def test_wrong_rows_are_refused(circles):
    X, Y = circles
    with pytest.raises(ValueError, match="X has 300 rows but y has 2"):
        KernelFeatures().fit(X, Y[:2])
    X[3, 1] = 1e200
    with pytest.raises(ValueError, match=r"X holds 1e\+200 in column 1"):
        KernelFeatures().fit(X, Y)
    for params in ({}, {"width": 1.0}, {"n_landmarks": 5}):
        with pytest.raises(ValueError, match=r"y is None\. Give y, or numbers for both\."):
            KernelFeatures(**params).fit(X)
