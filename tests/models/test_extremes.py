"""Numbers at the edge of what doubles hold: the right answer, or a sentence with the place."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import colabel
from colabel.joint.lds.network import DependencySets, FeatureColumns
from colabel.models import LabelClassifier
from colabel.models.lazy import row_chunks
from colabel.models.lds.learning import EMOptions, TrainingRows, fit_parameters
from tests.saving.test_model_files import ESTIMATORS, TWO_VALUED, make


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(40, 3))
    return X, (X @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3)) > 0).astype(int)


OWN = [e for e in ESTIMATORS if issubclass(e, LabelClassifier)]


@pytest.mark.parametrize("estimator_class", OWN, ids=lambda e: e.__name__)
@pytest.mark.parametrize("kind", ["a constant column", "a scale", "one entry", "sparse"])
def test_huge_numbers_are_refused_with_their_column(estimator_class, kind, rows):
    X, Y = rows
    X = X.copy()
    if kind == "a constant column":
        X[:, 1] = 1e200
    elif kind == "a scale":
        X[:, 1] *= 1e300
    else:
        X[5, 1] = -1e37  # gradients have no place in single precision: it failed in `predict`
    X = sp.csr_array(X) if kind == "sparse" else X
    with pytest.raises(ValueError, match=r"X holds -?[\d.]+e\+\d+ in column 1; squares of numbers"):
        make(estimator_class).fit(X, Y)


def test_columns_are_named(rows):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows[0], columns=["a", "b", "c"])
    model = colabel.BinaryRelevance(C=1.0).fit(X, rows[1])
    for use in (model.predict, lambda X: model.fit(X, rows[1])):
        with pytest.raises(ValueError, match="in the column 'b'"):
            use(X.assign(b=1e200))
    twice = X.set_axis(["a", "b", "a"], axis=1)  # it was an AttributeError of pandas
    for estimator_class in OWN:
        with pytest.raises(ValueError, match="X has more than one column 'a': rename"):
            make(estimator_class).fit(twice, rows[1])


@pytest.mark.parametrize("estimator_class", OWN, ids=lambda e: e.__name__)
def test_long_indices_are_indices(estimator_class, rows):
    """scikit-learn's trees refuse CSR rows whose indices have 64 bits."""
    X, Y = rows
    X = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    long = sp.csr_array(X)
    long.indices, long.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    short = make(estimator_class).fit(X, Y)
    assert np.array_equal(make(estimator_class).fit(long, Y).predict(long), short.predict(X))


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e300])
def test_extreme_weights_are_refused(weight, rows):
    X, Y = rows
    weights = np.ones(len(X))
    weights[3] = weight
    for estimator_class in OWN:
        if "sample_weight" in inspect.signature(estimator_class.fit).parameters:
            with pytest.raises(ValueError, match=re.escape(f"sample_weight holds {weight:g}")):
                make(estimator_class).fit(X, Y, sample_weight=weights)


def test_weights_that_are_only_small_count(rows):
    """Of all weights times 1e-6, with C times 1e6, comes the same model."""
    X, Y = rows
    usual = colabel.BinaryRelevance(C=1.0, tol=1e-9).fit(X, Y, sample_weight=np.full(40, 2.0))
    small = colabel.BinaryRelevance(C=1e6, tol=1e-9).fit(X, Y, sample_weight=np.full(40, 2e-6))
    np.testing.assert_allclose(small.predict_proba(X), usual.predict_proba(X), atol=1e-4)


def test_three_variables_of_forty_values_need_little_memory(rng):
    """The mixture once asked for 29 GiB here: a square matrix of the states of a label set."""
    import tracemalloc

    X, Y = rng.normal(size=(200, 4)), rng.integers(0, 40, size=(200, 3))
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = colabel.LDSMixture(smoothing=1.0, random_state=0).fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(map(len, model.network_)) == 2  # a set of 64,000 states
    assert peak < 3e8


def test_variables_of_many_values_are_asked_about_fewer_rows_at_once(rng):
    """16,384 rows of a tree over two variables of 200 values were 5 GB."""
    X, Y = rng.normal(size=(60, 2)), rng.integers(0, 20, size=(60, 2))
    space, _ = colabel.labels.LabelSpace.infer(Y)
    parts = list(row_chunks(X, space, numbers=20 * 40 * 7))
    assert [len(part) for part in parts] == [7] * 8 + [4]
    np.testing.assert_array_equal(np.vstack(parts), X)
    many, _ = colabel.labels.LabelSpace.infer(np.arange(800) // 4)
    parts = row_chunks(np.zeros((4000, 1)), many)
    assert [len(part) for part in parts] == [1677, 1677, 646]  # of 200 values


def test_larger_tables_are_refused_with_their_size():
    sizes, columns = (40, 40, 40), FeatureColumns((5,) * 200)
    sets = DependencySets(((), (0,), (0, 1)), sizes)  # up to 64,000 states
    labels, features = np.zeros((1, 3), dtype=np.int32), np.zeros((1, 200), dtype=np.int32)
    rows = TrainingRows(labels, sizes, features, columns, np.ones(1))
    with pytest.raises(ValueError, match=r"tables have 192,000,000 numbers.*set max_parents=1"):
        fit_parameters(rows.counts, columns, sets, EMOptions(n_jobs=1))


@pytest.mark.parametrize("estimator_class", [colabel.CollectiveCRF, colabel.PairwiseCRF])
def test_two_variables_of_sixty_values_are_no_field(estimator_class, rng):
    """A curvature of 3,600 by 3,600 cells, and gigabytes on the way there."""
    X, Y = rng.normal(size=(400, 3)), rng.integers(0, 60, size=(400, 3))
    Y[:, 1] %= 2
    with pytest.raises(ValueError, match=r"of 'y0' and 'y2' has 3,\d+ cells: more than 2,500 are"):
        estimator_class().fit(X, Y)


# ------------------------------------------------------------------------ thresholds


def test_a_rare_label_is_not_predicted_in_every_row(rng):
    """One row in 200 carries it, and the features say nothing about it."""
    assert colabel.ThresholdedClassifier in TWO_VALUED
    for n_rows in (200, 2000):
        X = rng.normal(size=(n_rows, 4))
        Y = np.column_stack([X[:, 0] > 0, np.arange(n_rows) % 200 == 7]).astype(int)
        model = colabel.ThresholdedClassifier(colabel.BinaryRelevance(C=0.1), random_state=0)
        model.fit(X, Y)
        assert model.predict(X)[:, 1].mean() < 0.1
        assert model.thresholds_[1] == 0.5


def test_a_rare_label_that_features_tell_keeps_its_threshold(rng):
    X = rng.normal(size=(1000, 4))
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] + 0.3 * rng.normal(size=1000) > 2]).astype(int)
    model = colabel.ThresholdedClassifier(colabel.BinaryRelevance(C=0.01), random_state=0)
    model.fit(X, Y)
    assert model.thresholds_[1] < 0.4
    assert model.held_out_f1_[1] > 0.35
