"""RankSVM: the published objective, its optimum by a generic solver, thresholds by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from colabel.metrics import exact_match
from studies.methods import RankSVM
from studies.methods.rank_svm import best_thresholds


def linear_labels(rng, n_rows=150, n_labels=4):
    X = rng.normal(size=(n_rows, 5))
    scores = X @ rng.normal(size=(5, n_labels)) + 0.3 * rng.normal(size=(n_rows, n_labels))
    return X, (scores > 0.5).astype(int)


def objective(coef, X, Y, C):
    """The published one, written out; the constant is the last weight of each label."""
    scores = np.column_stack([X, np.ones(len(X))]) @ coef.T
    total = 0.5 * np.sum(coef**2)
    for s, y in zip(scores, Y, strict=True):
        on, off = s[y == 1], s[y == 0]
        if len(on) and len(off):
            total += C * np.maximum(0, 1 - on[:, None] + off).mean()
    return total


def test_learns_linear_labels_to_its_tolerance(rng):
    X, Y = linear_labels(rng, 500)
    model = RankSVM(C=10.0, random_state=0).fit(X[:400], Y[:400])
    chance = exact_match(Y[400:], np.tile(Y[:400].mean(axis=0) > 0.5, (100, 1)).astype(int))
    assert model.score(X[400:], Y[400:]) > chance + 0.1
    assert 0 <= model.duality_gap_ <= model.tol * model.objective_
    assert model.objective_ == pytest.approx(objective(model.coef_, X[:400], Y[:400], 10.0))
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-10)  # only differences count


def test_no_generic_solver_gets_below(rng):
    X, Y = linear_labels(rng, 40, 3)
    model = RankSVM(C=0.5, tol=1e-6, max_iter=20000, random_state=0).fit(X, Y)

    def flat(coef):
        return objective(coef.reshape(3, 6), X, Y, 0.5)

    for start in (np.zeros(18), model.coef_.ravel()):
        found = minimize(flat, start, method="Powell", options={"maxiter": 20000, "xtol": 1e-8})
        assert found.fun >= model.objective_ - model.duality_gap_ - 1e-9


def test_thresholds_are_those_of_enumeration_and_regressed(rng):
    scores = rng.normal(size=(60, 5))
    relevant = rng.random((60, 5)) < 0.4
    for own, flags, cut in zip(scores, relevant, best_thresholds(scores, relevant), strict=True):
        ends = np.sort(own)
        tried = [
            ends[0] - 1,
            *(np.add(*pair) / 2 for pair in itertools.pairwise(ends)),
            ends[-1] + 1,
        ]
        errors = [np.sum((own > t) != flags) for t in tried]
        assert np.sum((own > cut) != flags) == min(errors)
    X, Y = linear_labels(rng)
    model = RankSVM(random_state=0).fit(X, Y)
    margins = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), margins > 0)
    scores = np.column_stack([X, np.ones(len(X))]) @ model.coef_.T
    design = np.column_stack([scores, np.ones(len(X))])
    best = best_thresholds(scores, Y.astype(bool))
    fitted = design @ np.linalg.lstsq(design, best, rcond=None)[0]
    np.testing.assert_allclose(margins, scores - fitted[:, None], atol=1e-8)


def test_sparse_rows_and_searches(rng):
    X, Y = linear_labels(rng)
    dense = RankSVM(random_state=0).fit(X, Y).predict(X)
    np.testing.assert_array_equal(
        RankSVM(random_state=0).fit(sp.csr_array(X), Y).predict(sp.csr_array(X)), dense
    )
    search = GridSearchCV(RankSVM(random_state=0), {"C": [0.01, 1.0]}, cv=3).fit(X, Y)
    assert search.predict(X).shape == Y.shape


def test_what_does_not_converge_or_is_no_label_is_told(rng):
    X, Y = linear_labels(rng)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 sweeps"):
        RankSVM(C=100.0, max_iter=1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="0/1 labels"):
        RankSVM().fit(X, Y + 1)
