"""CDN: learning, sampling and the scikit-learn contract."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from colabel import CDN, BinaryRelevance
from colabel.core.arrays import column_owner
from colabel.core.hashing import row_keys
from colabel.joint import DependencyNetwork, DiscreteDependencyNetwork
from colabel.metrics import exact_match
from tests.models.oracle import Unsmoothed


@pytest.fixture(scope="module")
def coupled():
    """Four labels: y1 mostly copies y0, which helps y2, which y3 mostly contradicts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y0 = (X[:, 0] + rng.logistic(size=400) > 0).astype(int)
    y1 = np.where(rng.random(400) < 0.95, y0, 1 - y0)
    y2 = (X[:, 1] + y0 - 0.5 + rng.logistic(size=400) > 0).astype(int)
    y3 = np.where(rng.random(400) < 0.95, 1 - y2, y2)
    return X, np.column_stack([y0, y1, y2, y3])


@pytest.fixture(scope="module")
def several():
    """Class variables with 3, 2 and 4 values."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    first = np.digitize(X[:, 0] + rng.normal(size=300), [-0.5, 0.7])
    second = (first + rng.normal(size=300) > 1).astype(int)
    third = (first + second + rng.integers(0, 2, size=300)) % 4
    return X, np.column_stack([first, second, third])


# ------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize(("coding", "C", "scale"), [("0/1", 0.5, 1.0), ("-1/+1", 0.02, 2.0)])
def test_conditionals_are_the_regressions_on_features_and_other_labels(coupled, coding, C, scale):
    """Said of 0 and 1, the weights of -1 and +1 are twice as large, at a quarter of the penalty."""
    X, Y = coupled
    written = Y if coding == "0/1" else 2 * Y - 1
    model = CDN(C=C, label_coding=coding, tol=1e-8, random_state=0).fit(X, Y)
    conditionals = model.joint(X[:30]).conditionals
    for i in range(4):
        others = np.delete(np.arange(4), i)
        columns = np.hstack([X, written[:, others]])
        alone = LogisticRegression(C=C, tol=1e-10, max_iter=1000).fit(columns, Y[:, i])
        np.testing.assert_allclose(model.models_.coef[i][0][:5], alone.coef_[0, :5], atol=1e-4)
        weights = scale * alone.coef_[0, 5:]
        np.testing.assert_allclose(model.label_weights_[others, i], weights, atol=1e-4)
        found = conditionals.log_prob(Y[None, :30].astype(np.int32), i)[0]
        np.testing.assert_allclose(found, alone.predict_log_proba(columns[:30]), atol=1e-4)
    assert (np.diag(model.label_weights_) == 0).all()
    assert model.label_weights_[0, 1] > 1
    assert model.label_weights_[2, 3] < -1
    other = CDN(C=C, tol=1e-8, random_state=0).fit(X, Y).label_weights_
    assert np.abs(other).sum() <= np.abs(model.label_weights_).sum()


@pytest.mark.parametrize("coding", ["0/1", "-1/+1"])
@pytest.mark.parametrize("fixture", ["coupled", "several"])
def test_linear_and_estimator_conditionals_agree(fixture, coding, request, rng):
    X, Y = request.getfixturevalue(fixture)
    options = {"label_coding": coding, "random_state": 0}
    ours = CDN(C=0.1, tol=1e-9, **options).fit(X, Y)
    base = Unsmoothed(C=0.1, tol=1e-10, max_iter=2000)
    theirs = CDN(estimator=base, stack=False, **options).fit(X, Y)
    mine, other = ours.joint(X[:20]).conditionals, theirs.joint(X[:20]).conditionals
    codes = np.stack([rng.integers(0, k, size=(3, 20)) for k in mine.cardinalities], axis=-1)
    for i in range(Y.shape[1]):
        np.testing.assert_allclose(mine.log_prob(codes, i), other.log_prob(codes, i), atol=1e-3)


def test_a_value_of_weight_zero_keeps_a_small_probability(several):
    X, Y = several
    model = CDN(C=1.0, random_state=0).fit(X, Y, sample_weight=(Y[:, 0] != 2).astype(float))
    prob = model.predict_proba(X[:50])[0][:, 2]
    assert ((prob > 0) & (prob < 0.05)).all()


# ----------------------------------------------------------------------------------- answering


def test_dependent_labels_are_found_together(coupled):
    X, Y = coupled
    alone = BinaryRelevance(C=1.0).fit(X[:200], Y[:200])
    model = CDN(C=1.0, random_state=0).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > alone.score(X[200:], Y[200:]) + 0.02
    joint = model.joint(X[200:])
    assert isinstance(joint, DependencyNetwork)
    assert joint.log_prob(Y[200:]).mean() > alone.joint(X[200:]).log_prob(Y[200:]).mean() + 0.3
    known = joint.given({"y0": Y[200:, 0], "y2": Y[200:, 2]})
    assert exact_match(Y[200:], known.mode()) > 0.85


@pytest.mark.parametrize("decision", ["f1", "jaccard"])
def test_decisions_from_draws_depend_on_the_row_alone_too(coupled, decision):
    X, Y = coupled
    model = CDN(C=1.0, decision=decision, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[30:40][::-1]), model.predict(X[:40])[:29:-1])


def test_best_and_plain(coupled):
    X, Y = coupled
    model = CDN(C=1.0, random_state=0, n_best=20).fit(X, Y)
    best, plain = (model.set_params(marginals=m).predict(X) for m in ("best", "plain"))
    assert (best != plain).any()


def test_several_values(several):
    X, Y = several
    model = CDN(C=1.0, random_state=0).fit(X[:200], Y[:200])
    assert model.label_weights_.shape == (8, 8)
    owner = column_owner((3, 2, 4))
    assert (model.label_weights_[owner[:, None] == owner] == 0).all()
    tables = model.predict_proba(X[200:])
    assert [table.shape for table in tables] == [(100, 3), (100, 2), (100, 4)]
    assert all(np.allclose(table.sum(axis=1), 1) for table in tables)
    alone = BinaryRelevance(C=1.0).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > alone.score(X[200:], Y[200:])
    assert model.joint(X[200:]).given({"y0": 2}).mode()[:, 0].tolist() == [2] * 100


def test_one_label_is_its_regression(coupled):
    X, y = coupled[0], coupled[1][:, :1]
    found = CDN(C=1.0, tol=1e-8, random_state=0).fit(X, y).predict_proba(X)
    alone = LogisticRegression(C=1.0, tol=1e-10).fit(X, y[:, 0])
    np.testing.assert_allclose(found, alone.predict_proba(X)[:, 1:], atol=1e-4)


# ---------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize(
    "estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=3), KNeighborsClassifier(9)]
)
@pytest.mark.parametrize("stack", [False, True])
def test_any_probabilistic_classifier(coupled, several, estimator, stack):
    for X, Y in (coupled, several):
        model = CDN(estimator=estimator, n_sweeps=20, burn_in=5, n_chains=2, random_state=0)
        model.set_params(stack=stack).fit(X, Y)
        joint = model.joint(X[:10])
        assert isinstance(joint, DependencyNetwork)
        assert joint.log_prob(Y[:10]).mean() > -10
        first = model.predict(X[:10])
        np.testing.assert_array_equal(first, model.predict(X[:10]))
        np.testing.assert_array_equal(first[3:5], model.predict(X[3:5]))
        assert hasattr(model, "C_") == stack


@pytest.mark.parametrize("estimator", [LinearSVC(C=1.0), Perceptron(random_state=0)])
def test_classifiers_without_probabilities(coupled, several, estimator):
    for X, Y in (coupled, several):
        model = CDN(estimator=estimator, random_state=0).fit(X, Y)
        joint = model.joint(X)
        assert isinstance(joint, DiscreteDependencyNetwork)
        assert sum(joint.report.counts.values()) == len(X)
        predicted = model.predict(X)
        # a row that converged obeys every classifier
        settled = np.flatnonzero(joint.report.status == "converged")
        for i in range(Y.shape[1]):
            alone = clone(estimator).fit(np.column_stack([X, others_of(Y, Y, i)]), Y[:, i])
            features = np.column_stack([X[settled], others_of(predicted[settled], Y, i)])
            assert (alone.predict(features) == predicted[settled, i]).mean() > 0.99
        np.testing.assert_array_equal(model.predict(X[5:9]), predicted[5:9])


def others_of(labels, seen, i):
    """0/1 columns of all labels but i: one for two values, else one for each value seen."""
    columns = []
    for j in np.delete(np.arange(seen.shape[1]), i):
        values = np.unique(seen[:, j])
        columns += [labels[:, j] == v for v in (values[1:] if len(values) == 2 else values)]
    return np.column_stack(columns).astype(float)


def test_svm_has_no_probabilities_and_says_so(coupled):
    X, Y = coupled
    model = CDN(estimator=LinearSVC(), random_state=0).fit(X, Y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as error:
        _ = model.predict_proba
    assert "has no predict_proba" in str(error.value.__cause__)
    with pytest.raises(NotImplementedError, match="decide by 'subset'"):
        model.set_params(decision="hamming").predict(X[:3])
    calibrated = CDN(estimator=CalibratedClassifierCV(LinearSVC()), stack=False, random_state=0)
    # regressions are right in .68 of the labels
    assert ((calibrated.fit(X, Y).predict_proba(X) > 0.5) == Y).mean() > 0.65


def test_row_keys_see_content_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.5)
    keys = row_keys(X)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    np.testing.assert_array_equal(row_keys(sp.csr_array(X)), keys)
    np.testing.assert_array_equal(row_keys(X[::-1]), keys[::-1])
    np.testing.assert_array_equal(row_keys(np.where(X == 0, -0.0, X)), keys)
    explicit = sp.csr_array(X)
    explicit.data[:3] = 0.0
    np.testing.assert_array_equal(row_keys(explicit), row_keys(explicit.toarray()))
    swapped = X[:, ::-1]
    assert (row_keys(swapped)[(swapped != X).any(axis=1)] != keys[(swapped != X).any(axis=1)]).all()
