"""RankSVM: the contract, kernels, thresholds, errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import RankSVM
from colabel.metrics import exact_match
from colabel.models.margin._ranking import best_thresholds

TIGHT = {"tol": 1e-8, "max_iter": 20000, "random_state": 0}


def linear_labels(rng, n_rows=150, n_labels=4):
    X = rng.normal(size=(n_rows, 5))
    scores = X @ rng.normal(size=(5, n_labels)) + 0.3 * rng.normal(size=(n_rows, n_labels))
    return X, (scores > 0.5).astype(int)


# tests/test_conformance.py has the linear one; kernels differ in one matrix
@parametrize_with_checks([RankSVM(kernel="rbf", max_iter=100)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_learns_linear_labels(rng):
    X, Y = linear_labels(rng, 500)
    model = RankSVM(C=10.0, random_state=0).fit(X[:400], Y[:400])
    chance = exact_match(Y[400:], np.tile(Y[:400].mean(axis=0) > 0.5, (100, 1)).astype(int))
    assert model.score(X[400:], Y[400:]) > chance + 0.1
    assert model.duality_gap_ <= model.tol * model.objective_
    assert model.coef_.shape == (4, 5)
    assert model.intercept_.shape == (4,)
    assert model.threshold_.shape == (5,)


def test_objective_is_the_published_one(rng):
    X, Y = linear_labels(rng, 40, 3)
    model = RankSVM(C=0.5, random_state=0).fit(X, Y)
    scores = X @ model.coef_.T + model.intercept_
    total = 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2))
    for s, y in zip(scores, Y, strict=True):
        on, off = s[y == 1], s[y == 0]
        if len(on) and len(off):
            total += 0.5 * np.maximum(0, 1 - on[:, None] + off).mean()
    np.testing.assert_allclose(model.objective_, total, rtol=1e-10)


def test_threshold_regresses_the_best_cuts(rng):
    X, Y = linear_labels(rng)
    model = RankSVM(random_state=0).fit(X, Y)
    scores = X @ model.coef_.T + model.intercept_
    design = np.column_stack([scores, np.ones(len(X))])
    best = best_thresholds(scores, Y.astype(bool))
    fitted = design @ np.linalg.lstsq(design, best, rcond=None)[0]
    np.testing.assert_allclose(design @ model.threshold_, fitted, atol=1e-8)
    margins = model.decision_function(X)
    np.testing.assert_allclose(margins, scores - fitted[:, None], atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), margins > 0)


def test_a_single_label_is_a_binary_svm(rng):
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "yes", "no")
    # w_yes = -w_no = w/2 halves the penalty: C/2 of an ordinary machine
    model = RankSVM(C=1.0, kernel="linear", fit_intercept=False, **TIGHT).fit(X, y)
    both = np.vstack([X, -X])  # mirrored rows force the constant of SVC to zero
    mirrored = np.concatenate([y, np.where(y == "yes", "no", "yes")])
    expected = SVC(kernel="linear", C=1.0, tol=1e-8).fit(both, mirrored)
    assert expected.intercept_[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=2e-3)
    assert set(model.predict(X)) <= {"yes", "no"}


def test_linear_kernel_equals_the_linear_form(rng):
    X, Y = linear_labels(rng, 60)
    linear = RankSVM(**TIGHT).fit(X, Y)
    kernel = RankSVM(kernel="poly", degree=1, gamma=1.0, coef0=0.0, **TIGHT).fit(X, Y)
    np.testing.assert_allclose(kernel.objective_, linear.objective_, rtol=1e-6)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=2e-2)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_kernels_learn_what_lines_cannot(rng, kernel):
    X = rng.uniform(-1, 1, size=(400, 2))
    inside = (X**2).sum(axis=1) < 0.5
    Y = np.column_stack([inside, ~inside, X[:, 0] * X[:, 1] > 0]).astype(int)
    curved = RankSVM(C=10.0, kernel=kernel, random_state=0).fit(X[:300], Y[:300])
    straight = RankSVM(C=10.0, random_state=0).fit(X[:300], Y[:300])
    assert curved.score(X[300:], Y[300:]) > straight.score(X[300:], Y[300:]) + 0.3


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_features_give_the_answers_of_dense_ones(rng, kernel):
    X, Y = linear_labels(rng, 80)
    X[np.abs(X) < 0.7] = 0.0
    dense = RankSVM(kernel=kernel, **TIGHT).fit(X, Y)
    sparse = RankSVM(kernel=kernel, **TIGHT).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-2
    )


def test_weights_count_rows_and_order_does_not_matter(rng):
    X, Y = linear_labels(rng, 60)
    weight = rng.integers(0, 3, size=60)
    repeated = rng.permutation(np.repeat(np.arange(60), weight))
    one = RankSVM(kernel="rbf", random_state=0).fit(X, Y, sample_weight=weight)
    two = RankSVM(kernel="rbf", random_state=0).fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)


def test_rows_without_pairs_count_for_the_threshold_only(rng):
    X, Y = linear_labels(rng, 80)
    extra = rng.normal(size=(40, 5))
    without = RankSVM(random_state=0, tol=1e-6).fit(X, Y)
    more = RankSVM(random_state=0, tol=1e-6).fit(
        np.vstack([X, extra]), np.vstack([Y, np.zeros((40, 4), dtype=int)])
    )
    np.testing.assert_allclose(more.objective_, without.objective_, rtol=1e-5)
    assert more.predict(X).sum() < without.predict(X).sum()


def test_labels_that_never_or_always_hold(rng):
    X = rng.normal(size=(30, 2))
    for Y in (np.zeros((30, 3), dtype=int), np.ones((30, 3), dtype=int)):
        for kernel in ("linear", "rbf"):
            model = RankSVM(kernel=kernel).fit(X, Y)
            np.testing.assert_array_equal(model.predict(X), Y)


def test_any_container_of_labels(rng):
    X, Y = linear_labels(rng, 60, 3)
    names = ("a", "b", "c")
    sets = [{name for name, on in zip(names, row, strict=True) if on} for row in Y]
    plain = RankSVM(random_state=0).fit(X, Y)
    as_sets = RankSVM(random_state=0).fit(X, sets)
    as_sparse = RankSVM(random_state=0).fit(X, sp.csr_array(Y))
    assert as_sets.label_names_ == names
    expected = plain.predict(X)
    np.testing.assert_array_equal(as_sparse.predict(X).toarray(), expected)
    assert as_sets.predict(X)[0] == {n for n, on in zip(names, expected[0], strict=True) if on}


def test_pipeline_and_grid_search(rng):
    X, Y = linear_labels(rng, 90)
    pipeline = make_pipeline(StandardScaler(), RankSVM(random_state=0))
    search = GridSearchCV(pipeline, {"ranksvm__C": [0.01, 1.0]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0


def test_no_probabilities():
    model = RankSVM()
    for name in ("joint", "predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)


def test_a_fit_that_does_not_converge_says_so(rng):
    X, Y = linear_labels(rng)
    with pytest.warns(ConvergenceWarning, match=r"2 sweeps.*Scale the features") as caught:
        RankSVM(C=1e4, max_iter=2).fit(X, Y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "C=0.0 must be a positive number"),
        ({"C": "big"}, "C='big' must be a positive number"),
        ({"kernel": "sigmoid"}, "kernel='sigmoid' must be one of 'linear', 'rbf', 'poly'"),
        ({"gamma": "none"}, "gamma='none' must be"),
        ({"gamma": -1.0}, "gamma=-1.0 must be a positive number"),
        ({"coef0": -1.0}, "coef0=-1.0 must be a number that is not negative"),
        ({"degree": 0}, "degree=0 must be an integer of at least 1"),
        ({"tol": -1e-3}, "tol=-0.001 must be a positive number"),
        ({"max_iter": 0}, "max_iter=0 must be an integer of at least 1"),
    ],
)
def test_wrong_parameters(rng, parameters, message):
    X, Y = linear_labels(rng, 20)
    with pytest.raises(ValueError, match=message):
        RankSVM(**parameters).fit(X, Y)


def test_class_variables_and_missing_labels_are_refused(rng):
    X, Y = linear_labels(rng, 20, 2)
    with pytest.raises(ValueError, match=r"Only binary classification.*'y1' has 3 classes"):
        RankSVM().fit(X, np.column_stack([Y[:, 0], np.arange(20) % 3]))
    with pytest.raises(ValueError, match="'y0' has 1 class"):
        RankSVM().fit(X, ["same"] * 20)
    missing = Y.astype(float)
    missing[3, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"1 missing labels .*RankSVM learns from whole label vectors"
    ):
        RankSVM().fit(X, missing)


def test_a_cut_that_sees_the_features_mends_separable_labels(rng):
    """What all weight vectors have in common is lost to the scores, and says how many labels."""
    X, weights = rng.normal(size=(400, 10)), rng.normal(size=(10, 5))
    Y = (X @ weights > 0).astype(int)
    published = RankSVM(random_state=0).fit(X[:300], Y[:300])
    mended = RankSVM(cut="features", random_state=0).fit(X[:300], Y[:300])
    assert mended.threshold_.shape == (16,)
    np.testing.assert_allclose(published.coef_, mended.coef_)
    np.testing.assert_allclose(published.coef_.sum(axis=0), 0.0, atol=1e-8)
    assert mended.score(X[:300], Y[:300]) > published.score(X[:300], Y[:300]) + 0.15
    assert mended.score(X[300:], Y[300:]) > published.score(X[300:], Y[300:]) + 0.15


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_cut_is_the_same_for_sparse_rows(rng, kernel):
    X = np.where(rng.random((80, 6)) < 0.4, rng.normal(size=(80, 6)), 0.0)
    Y = (X[:, :3] + 0.5 * rng.normal(size=(80, 3)) > 0).astype(int)
    dense = RankSVM(kernel=kernel, cut="features", random_state=0).fit(X, Y)
    sparse = RankSVM(kernel=kernel, cut="features", random_state=0).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(dense.threshold_, sparse.threshold_, atol=1e-6)


def test_an_unknown_cut(rng):
    with pytest.raises(ValueError, match="cut='x' must be one of 'scores', 'features'"):
        RankSVM(cut="x").fit(np.ones((2, 1)), [[0, 1], [1, 0]])
