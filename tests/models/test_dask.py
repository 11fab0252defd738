"""A fit on Dask arrays is the fit on the same rows in memory, whatever the chunks."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import colabel.models
from colabel import (
    CDN,
    CTBN,
    IBLR,
    BinaryRelevance,
    ClassifierChain,
    CollectiveCRF,
    EnsembleOfChains,
    JointForest,
    MLkNN,
    PairwiseCRF,
    ProbabilisticClassifierChain,
    StackedBinaryRelevance,
)
from colabel.learn.chunks.chunked_data import counting_passes, drawn_rows
from colabel.learn.conditional import TrainingData

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from tests.learn.chunks.problems import (  # noqa: E402
    equal_lengths,
    in_chunks,
    labels_that_depend,
)

N_ROWS = 160
GRID = (0.1, 1.0)
# a tolerance this loose would show any other path of the solver
LOOSE = {"tol": 0.1, "random_state": 0}
MODELS = {
    "br": BinaryRelevance(C=GRID, cv=3, **LOOSE),
    "br, one C": BinaryRelevance(C=1.0, **LOOSE),
    "ctbn": CTBN(C=GRID, cv=2, **LOOSE),
    "ctbn, separate": CTBN(C=GRID, cv=0.4, pairs="separate", **LOOSE),
    "ctbn, screened": CTBN(C=1.0, cv=2, max_parents=1, **LOOSE),
    "cc": ClassifierChain(C=GRID, cv=2, label_scale=(1.0, 10.0), **LOOSE),
    "pcc": ProbabilisticClassifierChain(C=1.0, cv=2, order="correlation", max_parents=2, **LOOSE),
    "ecc": EnsembleOfChains(2, C=1.0, cv=2, **LOOSE),
    "cdn": CDN(C=GRID, cv=2, max_parents=2, n_sweeps=50, burn_in=10, **LOOSE),
    "stacked": StackedBinaryRelevance(C=GRID, cv=2, **LOOSE),
    "stacked, in sample": StackedBinaryRelevance(C=1.0, first_layer="in_sample", **LOOSE),
    "pairwise": PairwiseCRF(C=1.0, ridge=1.0, group=0.5, **LOOSE),
    "pairwise, chosen": PairwiseCRF(C=1.0, ridge=(0.1, 1.0), group=(0.0, 2.0), cv=2, **LOOSE),
    "pairwise, constant": PairwiseCRF(
        C=1.0, ridge=1.0, group=0.0, max_candidates=3, edge_features="none", **LOOSE
    ),
    "collective": CollectiveCRF(C=1.0, ridge=0.5, **LOOSE),
    "collective, supported": CollectiveCRF(C=1.0, cv=0.4, training="supported", **LOOSE),
}
TWO = (90, 70)
UNEVEN = (1, 80, 0, 7, 72)  # one is empty, one has one row


@pytest.fixture(autouse=True)
def one_thread():
    """Rows are few: threads would only wait for each other."""
    with dask.config.set(scheduler="synchronous"):
        yield


def proba(model, X):
    found = model.predict_proba(X)
    return np.hstack(found) if isinstance(found, list) else np.asarray(found)


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6)) * [1, 2, 0.5, 1, 1, 3] + [0, 5, 0, 0, -2, 1]
    return X, labels_that_depend(X - X.mean(axis=0), rng)


@pytest.fixture(scope="module")
def sparse():
    rng = np.random.default_rng(1)
    X = sp.random_array((N_ROWS, 30), density=0.2, random_state=rng, format="csr")
    X = sp.csr_array(sp.hstack([X, sp.csr_array((N_ROWS, 6))], format="csr"))  # and empty columns
    return X, labels_that_depend(X, rng)


def same_fit(model, X, Y, lengths, weight=None, tolerance=1e-6):
    here = clone(model).fit(X, Y, weight)
    there = clone(model).fit(
        in_chunks(X, lengths),
        in_chunks(Y, lengths),
        None if weight is None else in_chunks(weight, lengths),
    )
    np.testing.assert_allclose(proba(there, X), proba(here, X), rtol=0, atol=tolerance)
    return here, there


@pytest.mark.parametrize("name", MODELS)
def test_dense_chunks_give_the_fit_of_all_rows(name, dense):
    here, there = same_fit(MODELS[name], *dense, UNEVEN)
    if hasattr(here, "C_"):
        np.testing.assert_array_equal(there.C_, here.C_)
    if hasattr(here, "tree_"):
        np.testing.assert_array_equal(there.tree_, here.tree_)
    if hasattr(here, "graph_"):
        np.testing.assert_array_equal(there.graph_, here.graph_)
        np.testing.assert_allclose(there.ridge_, here.ridge_)
        np.testing.assert_allclose(there.edge_strengths_, here.edge_strengths_, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["br", "ctbn", "ctbn, separate", "cc", "stacked, in sample", "pairwise", "collective"],
)
def test_sparse_chunks_give_the_fit_of_all_rows(name, sparse):
    same_fit(MODELS[name], *sparse, UNEVEN)


@pytest.mark.parametrize("name", ["br", "collective"])
@pytest.mark.parametrize("size", [1, 5, 24])
def test_chunks_of_any_size(name, size, dense):
    X, Y = (part[:24] for part in dense)
    same_fit(MODELS[name], X, Y, equal_lengths(24, size))


@pytest.mark.parametrize(
    "name", ["br", "ctbn, separate", "ctbn, screened", "pcc", "ecc", "cdn", "stacked", "pairwise"]
)
def test_weights(name, dense):
    X, Y = dense
    weight = np.random.default_rng(2).integers(0, 3, N_ROWS).astype(float)
    same_fit(MODELS[name], X, Y, TWO, weight)


@pytest.mark.parametrize("name", ["br", "ctbn", "ctbn, separate", "cc", "pairwise"])
def test_class_variables_of_several_values(name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 4))
    first = (X[:, 0] + rng.normal(size=N_ROWS) > 0).astype(int)
    second = np.clip(np.rint(X[:, 1] + first + 0.7 * rng.normal(size=N_ROWS)), 0, 2).astype(int)
    third = np.where(rng.random(N_ROWS) < 0.02, 2, second % 2)  # a rare value
    same_fit(MODELS[name], X, np.stack([first, second, third], axis=1), TWO)


@pytest.mark.parametrize(("name", "share"), [("br", 0.2), ("ctbn", 0.08), ("ctbn, separate", 0.2)])
def test_missing_labels(name, share, dense):
    """Up to the share from which a CTBN in memory draws the parents that rows lack."""
    X, Y = dense
    Y = np.where(np.random.default_rng(4).random(Y.shape) < share, np.nan, Y)
    same_fit(MODELS[name], X, Y, TWO)


def few_rows_of_a_parent(rng):
    """Rows of which there are fewer than half the features are solved in their own span."""
    X = rng.normal(size=(N_ROWS, 60))
    Y = labels_that_depend(X, rng, 3)
    Y[:, 1] = np.arange(N_ROWS) < 24
    return X, Y


def many_labels(rng):
    """More vectors than are enumerated: a field looks at modes too."""
    X = rng.normal(size=(N_ROWS, 2))
    return X, labels_that_depend(X, rng, 15)


def fewer_rows_than_features(rng):
    X = rng.normal(size=(30, 50))
    return X, labels_that_depend(X, rng, 2)


def in_units(scale, shift=0.0, dtype=float):
    def make(rng):
        X = rng.normal(size=(N_ROWS, 6))
        return (X * scale + shift).astype(dtype), labels_that_depend(X, rng)

    return make


@pytest.mark.parametrize(
    ("model", "make", "lengths"),
    [
        (MODELS["ctbn"], few_rows_of_a_parent, TWO),
        (MODELS["ctbn, separate"], few_rows_of_a_parent, TWO),
        (CollectiveCRF(C=1.0, ridge=(1.0, 10.0), cv=0.4, **LOOSE), many_labels, UNEVEN),
        (MODELS["br"], fewer_rows_than_features, (20, 10)),
        (MODELS["br"], in_units([1, 1e9, 1, 1e-3, 1, 1], [0, 0, 1e6, 0, 0, 0]), TWO),
        (MODELS["br"], in_units(1.0, dtype=np.float32), TWO),
        (MODELS["br"], in_units(10.0, dtype=int), TWO),
    ],
)
def test_rows_of_other_shapes_and_units(rng, model, make, lengths):
    same_fit(model, *make(rng), lengths)


def test_data_frames(dense):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(dense[0], columns=list("abcdef"))
    Y = pd.DataFrame(dense[1], columns=["u", "v", "w", "z"])
    here = clone(MODELS["br"]).fit(X, Y)
    rows, labels = dd.from_pandas(X, npartitions=3), dd.from_pandas(Y, npartitions=3)
    there = clone(MODELS["br"]).fit(rows, labels)
    assert there.label_names_ == here.label_names_
    assert there.feature_names_in_.tolist() == list("abcdef")
    found = there.predict_proba(rows)
    np.testing.assert_allclose(found.compute(), here.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(there.predict(rows).compute(), here.predict(X))


def test_one_label_alone_and_a_decision_among_vectors_seen(dense):
    X, Y = dense
    y = np.array(["no", "yes"])[Y[:, 0]]
    here, there = same_fit(MODELS["br"], X, y, TWO)
    assert there.classes_.tolist() == here.classes_.tolist() == ["no", "yes"]
    lazy = there.predict(in_chunks(X, TWO))
    assert lazy.compute().tolist() == here.predict(X).tolist()
    _, there = same_fit(BinaryRelevance(C=1.0, decision="seen", random_state=0), X, Y, TWO)
    np.testing.assert_array_equal(there.seen_, np.unique(Y, axis=0))


def test_answers_are_lazy_and_by_chunk(dense):
    X, Y = dense
    model = clone(MODELS["ctbn"]).fit(X, Y)
    rows, labels = in_chunks(X, TWO), in_chunks(Y, TWO)
    predicted, prob, joint = model.predict(rows), model.predict_proba(rows), model.joint(rows)
    assert predicted.chunks == prob.chunks == (TWO, (4,))
    assert predicted.dtype == model.predict(X).dtype
    np.testing.assert_array_equal(predicted.compute(), model.predict(X))
    np.testing.assert_allclose(prob.compute(), model.predict_proba(X))
    whole = model.joint(X)
    np.testing.assert_array_equal(joint.mode().compute(), whole.mode())
    np.testing.assert_allclose(joint.marginals().compute(), whole.marginals())
    np.testing.assert_allclose(joint.entropy().compute(), whole.entropy())
    np.testing.assert_allclose(joint.log_prob(labels).compute(), whole.log_prob(Y))
    given = joint.given({0: 1}).marginals()
    np.testing.assert_allclose(given.compute(), whole.given({0: 1}).marginals())
    best = joint.ask(lambda rows: rows.top_k(2).log_prob, (2,))
    np.testing.assert_allclose(best.compute(), whole.top_k(2).log_prob)
    assert "2 chunks" in repr(joint)


def test_columns_are_checked_before_anything_is_computed(dense):
    model = clone(MODELS["br, one C"]).fit(*dense)
    for ask in (model.predict, model.predict_proba, model.joint):
        with pytest.raises(ValueError, match="X has 2 features"):
            ask(X4)


def test_tables_of_several_values_are_lazy(dense):
    X, _ = dense
    Y = np.stack([np.digitize(X[:, 0], [-0.5, 0.5]), X[:, 1] > 5], axis=1).astype(int)
    model = clone(MODELS["br, one C"]).fit(X, Y)
    rows = in_chunks(X, TWO)
    for lazy, table in zip(model.predict_proba(rows), model.predict_proba(X), strict=True):
        np.testing.assert_allclose(lazy.compute(), table)
    for lazy, table in zip(
        model.joint(rows).marginals(), model.joint(X).marginal_tables(), strict=True
    ):
        np.testing.assert_allclose(lazy.compute(), table)


def test_folds_and_tasks_share_their_passes(dense):
    """Passes do not grow with the number of labels or folds."""
    X, Y = dense

    def passes(n_labels, cv):
        count = []
        with counting_passes(count.append):
            BinaryRelevance(C=GRID, cv=cv, random_state=0).fit(
                in_chunks(X, TWO), in_chunks(Y[:, :n_labels], TWO)
            )
        assert set(count) == {N_ROWS}
        return len(count)

    assert passes(4, 5) <= passes(1, 2) + 20


def test_a_part_that_rows_and_labels_share_is_read_once_in_a_pass(dense):
    X, Y = dense
    reads, passes = [], []

    def read(start, stop):
        reads.append(start)
        return np.hstack([X[start:stop], Y[start:stop]])

    parts = [dask.delayed(read)(0, 90), dask.delayed(read)(90, N_ROWS)]
    table = da.concatenate(
        [da.from_delayed(p, (m, 10), float) for p, m in zip(parts, TWO, strict=True)]
    )
    with counting_passes(passes.append):
        BinaryRelevance(C=1.0, random_state=0).fit(table[:, :6], table[:, 6:])
    assert len(reads) == 2 * (1 + len(passes))  # and once for the values of the labels


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_forest_of_few_rows_learns_from_all(dense, calibrate):
    forest = JointForest(20, calibrate=calibrate, random_state=0)
    same_fit(forest, *dense, UNEVEN, tolerance=1e-12)


@pytest.mark.parametrize("lengths", [TWO, UNEVEN])
def test_a_forest_of_many_rows_learns_from_a_sample(dense, lengths):
    X, Y = dense
    forest = JointForest(20, max_rows=60, random_state=0)
    there = clone(forest).fit(in_chunks(X, lengths), in_chunks(Y, lengths))
    every = TrainingData(X, Y.astype(np.int32), (2,) * Y.shape[1], None)
    drawn = drawn_rows(60 / N_ROWS, forest._seed(), every)
    assert 40 < drawn.sum() < 80
    here = clone(forest).fit(X[drawn], Y[drawn])
    np.testing.assert_array_equal(proba(there, X), proba(here, X))


X4, Y4 = da.zeros((4, 2), chunks=2), da.zeros((4, 2), chunks=2)


@pytest.mark.parametrize(
    ("model", "X", "Y", "error", "match"),
    [
        (MLkNN(), X4, Y4, TypeError, "MLkNN does not learn from Dask arrays; BinaryRelevance"),
        (MLkNN(), X4, Y4, TypeError, r"sample of the rows as NumPy arrays, such as X\[rows\]"),
        (BinaryRelevance(calibrate=True), X4, Y4, TypeError, r"calibrate=.*leave calibrate out"),
        (BinaryRelevance(device="cpu"), X4, Y4, ValueError, "device='cpu' is for rows in memory"),
        (BinaryRelevance(cv=[]), X4, Y4, TypeError, "names rows, which are in chunks"),
        (BinaryRelevance(), X4, Y4[:2], ValueError, "X has 4 rows but y has 2"),
        (BinaryRelevance(), X4, np.zeros((4, 2)), TypeError, "y is ndarray: give y as a Dask"),
        (EnsembleOfChains(bootstrap=True), X4, Y4, TypeError, "leave bootstrap out"),
        (PairwiseCRF(edge_features=[0]), X4, Y4, TypeError, 'give "all" or "none"'),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(model, X, Y, error, match):
    with pytest.raises(error, match=match):
        model.fit(X, Y)


def test_models_that_learn_from_chunks_are_named_as_they_declare_it(monkeypatch):
    with pytest.raises(
        TypeError, match=r"BinaryRelevance, CDN, .* JointForest \(of a sample\)"
    ) as no:
        MLkNN().fit(X4, Y4)
    named = {name for name in colabel.models.__all__ if name in re.findall(r"\w+", str(no.value))}
    tested = {type(model).__name__ for model in MODELS.values()}
    assert named == {*tested, "JointForest", "MLkNN"}
    monkeypatch.setattr(MLkNN, "fits_chunks", True)
    with pytest.raises(TypeError, match="MLkNN"):
        IBLR().fit(X4, Y4)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_bad_numbers_are_named_by_row_and_column(value, store, dense):
    X = dense[0].copy()
    X[130, 2] = value
    with pytest.raises(ValueError, match="in row 130, column 2"):
        BinaryRelevance().fit(in_chunks(store(X), TWO), in_chunks(dense[1], TWO))


def test_bad_labels_and_weights_are_named(dense):
    X, Y = in_chunks(dense[0], TWO), dense[1].astype(float)
    weight = np.where(np.arange(N_ROWS) == 130, -1.0, 1.0)
    with pytest.raises(ValueError, match="sample_weight holds -1 in row 130"):
        BinaryRelevance().fit(X, in_chunks(Y, TWO), in_chunks(weight, TWO))
    Y[120, 1] = np.nan
    with pytest.raises(ValueError, match=r"1 missing labels .the first is label 1 of row 120"):
        ClassifierChain().fit(X, in_chunks(Y, TWO))
    with pytest.raises(ValueError, match="no observed value for 'y0'"):
        BinaryRelevance().fit(X, in_chunks(np.full((N_ROWS, 1), np.nan), TWO))
