"""Fits on a cluster of two worker processes, one of which is killed at some moment."""

from __future__ import annotations

import os
import signal

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

import colabel
from colabel import BinaryRelevance
from colabel.learn.chunks.chunked_data import counting_passes

pytest.importorskip("distributed")

import dask
from distributed import Client, LocalCluster

from tests.learn.chunks.problems import in_chunks, labels_that_depend
from tests.platforms import with_signals

LENGTHS = (60, 50, 1, 49)
MODEL = BinaryRelevance(C=(0.1, 1.0), cv=2, tol=0.3, random_state=0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 5))
    return X, labels_that_depend(X, rng, 3)


@pytest.fixture
def client():
    """Two workers, other ones in each test: not every killed one is started again by its nanny."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit="1GB",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def untouched(rows):
    """A fit in this process, of which no worker can be lost, and its number of passes."""
    counted = []
    with dask.config.set(scheduler="synchronous"), counting_passes(counted.append):
        return clone(MODEL).fit(*chunks(rows)), len(counted)


def chunks(rows):
    X, Y = rows
    return in_chunks(X, LENGTHS), in_chunks(Y, LENGTHS)


def coefficients(model):
    return np.concatenate(model.models_.coef)


def test_a_cluster_gives_the_fit_of_rows_in_memory(rows, client):
    here, there = clone(MODEL).fit(*rows), clone(MODEL).fit(*chunks(rows))
    np.testing.assert_allclose(coefficients(there), coefficients(here), atol=1e-8)
    lazy = there.predict_proba(in_chunks(rows[0], LENGTHS))
    np.testing.assert_allclose(lazy.compute(), here.predict_proba(rows[0]), atol=1e-8)


class Killer:
    """Kills a worker process just before the pass of some number."""

    def __init__(self, client, moment):
        self.client, self.moment, self.n_passes = client, moment, 0

    def __call__(self, n_rows):
        self.n_passes += 1
        if self.n_passes == self.moment:
            victim = min(self.client.run(os.getpid).values())
            os.kill(victim, signal.SIGKILL)


@with_signals
# while rows are checked, axes found, folds drawn, penalties chosen, and in the last fit
@pytest.mark.parametrize("moment", [1, 2, 3, 10, -2])
def test_a_killed_worker_costs_only_its_chunks(rows, untouched, client, moment):
    expected, n_passes = untouched
    killer = Killer(client, moment if moment > 0 else n_passes + moment)
    X, Y = client.persist(list(chunks(rows)))  # in the memory of the workers
    with counting_passes(killer):
        found = clone(MODEL).fit(X, Y)
    assert killer.n_passes == n_passes
    np.testing.assert_array_equal(coefficients(found), coefficients(expected))
    np.testing.assert_array_equal(found.C_, expected.C_)


@pytest.mark.parametrize("model", ["BinaryRelevance", "JointStack"])
def test_small_fits_go_to_the_cluster_by_joblib(rows, client, model):
    makes = {
        "BinaryRelevance": BinaryRelevance(estimator=GaussianNB(), n_jobs=2),
        "JointStack": colabel.JointStack(
            [("nb", BinaryRelevance(estimator=GaussianNB())), ("br", BinaryRelevance(C=1.0))],
            n_jobs=2,
            random_state=0,
        ),
    }
    here = clone(makes[model]).set_params(n_jobs=1).fit(*rows)
    before = client.run_on_scheduler(_n_finished)
    with joblib.parallel_config("dask"):
        there = clone(makes[model]).fit(*rows)
    assert client.run_on_scheduler(_n_finished) > before
    np.testing.assert_allclose(there.predict_proba(rows[0]), here.predict_proba(rows[0]))


def _n_finished(dask_scheduler):
    return dask_scheduler.transition_counter
