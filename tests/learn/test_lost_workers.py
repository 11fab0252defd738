"""A worker that is lost while classifiers are fitted costs time, not the fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import colabel
from colabel.learn.from_estimator import LOST_WORKER


class FutureCancelledError(Exception):
    """As Dask names what a killed worker leaves behind."""


class Unsteady(GaussianNB):
    """The worker of its first fits is killed."""

    failures = 0

    def fit(self, X, y, sample_weight=None):
        if Unsteady.failures:
            Unsteady.failures -= 1
            raise FutureCancelledError("fit-1234 cancelled for reason: lost dependencies")
        return super().fit(X, y, sample_weight)


def test_lost_workers_are_known_by_the_names_that_libraries_give_them():
    pytest.importorskip("distributed")
    from concurrent.futures import CancelledError
    from concurrent.futures.process import BrokenProcessPool

    from distributed.client import FutureCancelledError as OfDask
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    known = (BrokenProcessPool, CancelledError, CommClosedError, KilledWorker)
    names = {kind.__name__ for kind in (*known, OfDask, TerminatedWorkerError)}
    assert names == LOST_WORKER


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, (X + rng.normal(size=(60, 3)) > 0).astype(int)


@pytest.mark.parametrize("model", [colabel.BinaryRelevance, colabel.CTBN])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_fits_are_made_again(rows, model, failures):
    found = []
    for lost in (0, failures):
        Unsteady.failures = lost
        fitted = model(estimator=Unsteady(), random_state=0, n_jobs=1).fit(*rows)
        found.append(fitted.predict_proba(rows[0]))
        assert Unsteady.failures == 0
    np.testing.assert_array_equal(*found)


def test_workers_that_are_lost_again_and_again_are_told(rows):
    Unsteady.failures = 3
    with pytest.raises(RuntimeError, match=r"Workers were lost 3 times.*more memory"):
        colabel.BinaryRelevance(estimator=Unsteady(), n_jobs=1).fit(*rows)
    assert Unsteady.failures == 0
