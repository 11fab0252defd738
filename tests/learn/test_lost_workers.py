"""A worker that is lost while classifiers are fitted costs time, not the fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import colabel
from colabel.learn import from_estimator


class FutureCancelledError(Exception):
    """As Dask names what a killed worker leaves behind."""


class Unsteady(from_estimator.Parallel):
    """joblib, but the first calls find their worker killed."""

    failures = 0

    def __call__(self, calls):
        if Unsteady.failures:
            Unsteady.failures -= 1
            raise FutureCancelledError("fit-1234 cancelled for reason: lost dependencies")
        return super().__call__(calls)


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
    assert names == from_estimator._LOST_WORKER


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, (X + rng.normal(size=(60, 3)) > 0).astype(int)


@pytest.mark.parametrize("model", [colabel.BinaryRelevance, colabel.CTBN])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_fits_are_made_again(rows, monkeypatch, model, failures):
    expected = model(estimator=GaussianNB(), random_state=0).fit(*rows).predict_proba(rows[0])
    monkeypatch.setattr(from_estimator, "Parallel", Unsteady)
    monkeypatch.setattr(Unsteady, "failures", failures)
    found = model(estimator=GaussianNB(), random_state=0).fit(*rows).predict_proba(rows[0])
    assert np.array_equal(found, expected)
    assert Unsteady.failures == 0


def test_workers_that_are_lost_again_and_again_are_told(rows, monkeypatch):
    monkeypatch.setattr(from_estimator, "Parallel", Unsteady)
    monkeypatch.setattr(Unsteady, "failures", 99)
    with pytest.raises(RuntimeError, match=r"Workers were lost 3 times.*more memory"):
        colabel.BinaryRelevance(estimator=GaussianNB()).fit(*rows)
