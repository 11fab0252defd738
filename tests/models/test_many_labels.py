"""Many labels: nothing as large as rows by labels squared is ever held."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from colabel import CDN, CTBN, CollectiveCRF, PairwiseCRF, ProbabilisticClassifierChain

N_ROWS, N_LABELS = 200, 300
MODELS = {
    "cdn": CDN(C=0.1, burn_in=2, n_sweeps=10, n_best=5, random_state=0, n_jobs=1),
    "collective": CollectiveCRF(C=0.1, ridge=1.0, max_iter=5, n_jobs=1),
    "ctbn": CTBN(C=0.1, max_parents=4, random_state=0, n_jobs=1),
    "pairwise": PairwiseCRF(
        C=0.1, ridge=1.0, group=3.0, edge_features="none", max_iter=5, n_jobs=1
    ),
    "pcc": ProbabilisticClassifierChain(C=0.1, inference="beam", beam_width=2, n_jobs=1),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    Y = (rng.random((N_ROWS, N_LABELS)) < 0.03).astype(int)
    Y[:, 1::2] |= Y[:, ::2] & (rng.random((N_ROWS, N_LABELS // 2)) < 0.7)
    return X, Y


@pytest.mark.filterwarnings("ignore:The field did not reach the tolerance")
@pytest.mark.parametrize("name", MODELS)
def test_memory_is_a_multiple_of_rows_by_labels(rows, name):
    X, Y = rows
    model = MODELS[name]
    model.fit(X[:40], Y[:40, :5]).predict(X[:2])  # compiles
    tracemalloc.start()
    try:
        model.fit(X, Y).predict(X[:50])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # numbers of four bytes of rows by labels squared would be 150 times that, doubles 300 times
    assert peak < 100 * 8 * N_ROWS * N_LABELS
