"""DiscreteNaiveBayes: by the formula, beside scikit-learn's, and as a base of every model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import (
    CDN,
    CTBN,
    BinaryRelevance,
    ClassifierChain,
    EnsembleOfChains,
    ProbabilisticClassifierChain,
    StackedBinaryRelevance,
)
from studies.methods import DiscreteNaiveBayes


@parametrize_with_checks([DiscreteNaiveBayes()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def log_joint(X, y, rows, weight, alpha):
    """Give log P(c, x) by the formula, value by value."""
    classes = np.unique(y)
    result = np.zeros((len(rows), len(classes)))
    for k, c in enumerate(classes):
        of_class = weight[y == c].sum()
        result[:, k] = np.log((of_class + alpha) / (weight.sum() + alpha * len(classes)))
        for j in range(X.shape[1]):
            n_values = len(np.unique(X[:, j]))
            for i, row in enumerate(rows):
                count = weight[(y == c) & (X[:, j] == row[j])].sum()
                result[i, k] += np.log((count + alpha) / (of_class + alpha * n_values))
    return result


@pytest.fixture
def table(rng):
    """Draw whole numbers, negative ones, halves, one constant and one of a wide range."""
    X = rng.integers(0, 4, (60, 5)).astype(float)
    X[:, 1] -= 2
    X[:, 2] /= 2
    X[:, 3] = 3
    X[:, 4] *= 1e9
    y = (X[:, 0] + rng.integers(0, 3, 60)).astype(int) // 2
    return X, y


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_probabilities_by_the_formula(table, alpha, rng):
    X, y = table
    weight = rng.uniform(0.5, 2.0, 60)
    model = DiscreteNaiveBayes(alpha).fit(X, y, sample_weight=weight)
    unseen = [[9.0, 0, 0.5, 3, 0], [0.5, -7, 0.25, 4, 5e8], [-1e300, 1e300, 1, 3, 1e300]]
    rows = np.vstack([X[:20], unseen])
    expected = log_joint(X, y, rows, weight, alpha)
    np.testing.assert_allclose(model.predict_joint_log_proba(rows), expected)
    prob = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(rows), prob)
    assert model.n_categories_.tolist() == [4, 4, 4, 1, 4]


def test_features_alone_agree_with_scikit_learn(rng):
    X, y = rng.integers(0, 4, (100, 6)), rng.integers(0, 3, 100)
    X[:4] = np.arange(4)[:, None]  # every category occurs: both then smooth alike
    ours = DiscreteNaiveBayes().fit(X, y)
    prior = (np.bincount(y) + 1) / 103
    theirs = CategoricalNB(class_prior=prior).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))


def test_rows_without_weight_bring_no_category():
    X, y = np.array([[0], [1], [5]]), np.array([0, 1, 1])
    with_row = DiscreteNaiveBayes().fit(X, y, sample_weight=[1.0, 1.0, 0.0])
    without = DiscreteNaiveBayes().fit(X[:2], y[:2])
    np.testing.assert_allclose(with_row.predict_proba(X), without.predict_proba(X))


def test_one_class_and_one_row():
    model = DiscreteNaiveBayes().fit([[1, 2]], [7])
    assert model.predict([[0, 0]]).tolist() == [7]
    assert model.predict_proba([[0, 0]]).tolist() == [[1.0]]


def test_sparse_rows_are_read_like_dense_ones(table):
    X, y = table
    dense, sparse = (DiscreteNaiveBayes().fit(rows, y) for rows in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense.predict_proba(X), sparse.predict_proba(sp.csr_array(X)))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_wrong_alpha_is_named(alpha):
    with pytest.raises(ValueError, match="must be positive and finite"):
        DiscreteNaiveBayes(alpha).fit([[0], [1]], [0, 1])


# ------------------------------------------------------------------------ as a base of models


MODELS = {
    "BR": lambda base: BinaryRelevance(estimator=base),
    "CC": lambda base: ClassifierChain(estimator=base),
    "PCC": lambda base: ProbabilisticClassifierChain(estimator=base),
    "ECC": lambda base: EnsembleOfChains(3, estimator=base, random_state=0),
    "ECC, bootstrap": lambda base: EnsembleOfChains(
        3, estimator=base, bootstrap=True, random_state=0
    ),
    "CTBN": lambda base: CTBN(estimator=base, cv=2, random_state=0),
    "CDN": lambda base: CDN(estimator=base, burn_in=10, n_sweeps=40, random_state=0),
    "CHF": lambda base: StackedBinaryRelevance(estimator=base, cv=2, random_state=0),
}
BASES = [
    DiscreteNaiveBayes(),
    GaussianNB(),
    BernoulliNB(binarize=1.5),
    DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=0),
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_binned_rows_a_constant_label_and_unseen_values(model, base, rng):
    X = rng.integers(0, 4, (60, 4))
    Y = np.column_stack([X[:, 0] > 1, (X[:, 0] + X[:, 1]) > 3, np.zeros(60)]).astype(int)
    fitted = MODELS[model](base).fit(X, Y)
    rows = np.vstack([X[:10], [[9, 9, 9, 9]]])
    prob = fitted.predict_proba(rows)
    assert prob.shape == (11, 3)
    assert ((prob >= 0) & (prob <= 1)).all()
    assert (prob[:, 2] < 0.5).all()
    assert (fitted.predict(X)[:, 0] == Y[:, 0]).mean() > 0.9


def test_scikit_learns_categorical_base_refuses_unseen_values(rng):
    # Why DiscreteNaiveBayes exists; if this fails, CategoricalNB has learnt to.
    X, Y = rng.integers(0, 4, (60, 4)), rng.integers(0, 2, (60, 2))
    fitted = BinaryRelevance(estimator=CategoricalNB()).fit(X, Y)
    with pytest.raises(IndexError):
        fitted.predict([[9, 9, 9, 9]])
