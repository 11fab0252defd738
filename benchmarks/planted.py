"""Planted dependencies that few rows must suffice to see.

Sparse rows (300 features, one in twenty in use) and 20 labels; every second label is raised by 3
log-odds where its neighbour is on. An arc counts as found in either direction.

Usage: python -m benchmarks.planted [--rows 1000 2000 4000 8000 16000] [--seeds 0 1 2]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._common import machine, print_table
from colabel import CTBN, BinaryRelevance
from colabel.metrics import exact_match, joint_log_loss

N_FEATURES, N_LABELS, RAISED = 300, 20, 3.0


def draw(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Rows and labels; labels 1, 3, 5, … follow the label before them."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array((rng.random((n_rows, N_FEATURES)) < 0.05).astype(float))
    scores = X @ rng.normal(size=(N_FEATURES, N_LABELS))
    scores -= scores.mean(axis=0) + 2.0
    Y = np.zeros((n_rows, N_LABELS), dtype=int)
    for i in range(N_LABELS):
        raised = RAISED * Y[:, i - 1] if i % 2 else 0.0
        Y[:, i] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-scores[:, i] - raised))
    return X, Y


def arcs(tree: Any) -> tuple[int, int]:
    """Number of planted arcs found, and of others."""
    found = sum(int(tree[i] == i - 1 or tree[i - 1] == i) for i in range(1, N_LABELS, 2))
    return found, int((tree >= 0).sum()) - found


def main() -> None:
    """Fit both forms for several numbers of rows; measure them on 5000 other rows."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[1000, 2000, 4000, 8000, 16000])
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = options.parse_args()
    print(machine() + "\n")
    table = []
    for n_rows in given.rows:
        models = {
            "separate": CTBN(pairs="separate", random_state=0),
            "shared": CTBN(random_state=0),
            "BR": BinaryRelevance(random_state=0),
        }
        for name, model in models.items():
            found = []
            for seed in given.seeds:
                X, Y = draw(n_rows + 5000, seed)
                start = time.process_time()
                model.fit(X[:n_rows], Y[:n_rows])
                seconds = time.process_time() - start
                loss = joint_log_loss(model.joint(X[n_rows:]).log_prob(Y[n_rows:]))
                match = exact_match(Y[n_rows:], model.predict(X[n_rows:]))
                tree = arcs(model.tree_) if name != "BR" else (0, 0)
                found.append((*tree, loss, match, seconds))
            mean = np.mean(found, axis=0)
            table.append(
                [
                    f"{n_rows:,}",
                    name,
                    *(f"{value:.1f}" for value in mean[:2]),
                    f"{mean[2]:.3f}",
                    f"{mean[3]:.4f}",
                    f"{mean[4]:.1f}",
                ]
            )
    header = ["rows", "pairs", "arcs found of 10", "others", "log-loss", "exact match", "CPU s"]
    print_table(header, table)


if __name__ == "__main__":
    main()
