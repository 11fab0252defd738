"""Many rows of few features in memory: CTBN at its defaults, in a process of its own.

Usage: python -m benchmarks.tall [--rows 100000] [--features 64] [--labels 7] [--pairs shared]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from benchmarks._common import machine
from colabel import CTBN
from colabel.core.hashing import row_keys


def main() -> None:
    """Draw rows, fit once, and report seconds and the process's peak resident memory."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--features", type=int, default=64)
    options.add_argument("--labels", type=int, default=7)
    options.add_argument("--pairs", default="shared", choices=["shared", "separate"])
    options.add_argument("--jobs", type=int, default=1)
    given = options.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.rows, given.features))
    scores = X @ rng.normal(size=(given.features, given.labels)) / np.sqrt(given.features)
    Y = np.zeros((given.rows, given.labels), dtype=int)
    for i in range(given.labels):  # every label follows the one before it
        follows = 0.0 if i == 0 else 2.0 * Y[:, i - 1] - 1.0
        Y[:, i] = rng.random(given.rows) < 1.0 / (1.0 + np.exp(-scores[:, i] - follows))
    CTBN(cv=2, random_state=0, n_jobs=1, pairs=given.pairs).fit(X[:200], Y[:200])  # compiles
    clock = time.perf_counter()
    row_keys(X)
    digests = time.perf_counter() - clock
    start, clock = time.process_time(), time.perf_counter()
    model = CTBN(random_state=0, n_jobs=given.jobs, pairs=given.pairs).fit(X, Y)
    seconds, wall = time.process_time() - start, time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = int((model.tree_[1:] == np.arange(given.labels - 1)).sum())
    print(machine())
    print(
        f"{given.rows} x {given.features}, {given.labels} labels, pairs={given.pairs}:"
        f" {seconds:.1f} CPU s, {wall:.1f} s, peak memory {peak:.2f} GiB;"
        f" keys of the rows {digests:.2f} s; {found} of {given.labels - 1} arcs as drawn"
    )


if __name__ == "__main__":
    main()
