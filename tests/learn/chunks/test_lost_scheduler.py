"""A scheduler that is lost in the middle of a fit; no other cluster may be there to go on with."""

from __future__ import annotations

import pytest

from colabel import BinaryRelevance
from colabel.learn.chunks.chunked_data import counting_passes

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from tests.learn.chunks.problems import in_chunks, labels_that_depend

LENGTHS = (60, 50, 1, 49)


def test_a_lost_scheduler_is_said_in_one_sentence(rng):
    X = rng.normal(size=(160, 5))
    Y = labels_that_depend(X, rng, 3)
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    client = Client(cluster, timeout=5, heartbeat_interval=200)
    passes = []

    def lose(n_rows):
        passes.append(n_rows)
        if len(passes) == 3:
            cluster.close()

    try:
        with (
            counting_passes(lose),
            pytest.raises(RuntimeError, match=r"^The Dask scheduler is gone.*fit again\.$"),
        ):
            BinaryRelevance(C=1.0).fit(in_chunks(X, LENGTHS), in_chunks(Y, LENGTHS))
    finally:
        client.close(timeout=1)
        cluster.close(timeout=1)
