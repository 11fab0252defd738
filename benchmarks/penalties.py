"""Is the choice of C honest? Tolerance, patience, width of the grid, strength of other labels.

    python -m benchmarks.penalties tolerance   # do choices change when the solver works harder?
    python -m benchmarks.penalties patience    # or when every path is walked to its end?
    python -m benchmarks.penalties grids       # does a wider grid hurt?

All folds are drawn by seed 0; binary features stay as they are, others are standardised.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import CTBN, BinaryRelevance
from colabel.learn import linear
from colabel.learn.conditional import RowGroup, TrainingData, random_folds
from colabel.learn.linear import PATIENCE, LinearLearner
from colabel.metrics import exact_match, joint_log_loss
from studies.datasets import kfold, load

GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
GRIDS = {".01 … 1": (0.01, 0.1, 1.0), ".001 … 1000": tuple(10.0**k for k in range(-3, 4))}


def _scaled(data: Any, train: Any, test: Any) -> tuple[Any, Any]:
    if data.is_sparse:
        return data.X[train], data.X[test]
    scaler = StandardScaler().fit(data.X[train])
    return scaler.transform(data.X[train]), scaler.transform(data.X[test])


def tolerance(sets: list[str], folder: Path, _: int) -> None:
    """Choices of binary relevance at the default tolerance against tighter ones."""
    rows = []
    for name in sets:
        data = load(name, data_home=folder)
        found = {}
        for tol in (1e-2, 1e-3, 1e-5):
            start = time.process_time()
            model = BinaryRelevance(C=GRID, tol=tol, random_state=0).fit(data.X, data.Y)
            found[tol] = model.C_, time.process_time() - start
        changed = [int((found[1e-2][0] != found[tol][0]).sum()) for tol in (1e-3, 1e-5)]
        seconds = [f"{found[tol][1]:.1f}" for tol in (1e-2, 1e-3, 1e-5)]
        rows.append([name, data.n_labels, *changed, *seconds])
    header = ["data", "labels", "choices changed at 1e-3", "at 1e-5", "CPU s at 1e-2", "1e-3"]
    print_table([*header, "1e-5"], rows)


def patience(sets: list[str], folder: Path, _: int) -> None:
    """Choices on paths that are walked to their end against those that tasks may leave."""
    rows = []
    for name in sets:
        data = load(name, data_home=folder)
        X, _ = _scaled(data, slice(None), slice(0, 1))
        given = TrainingData(X, data.Y.astype(np.int32), (2,) * data.n_labels)
        learning = LinearLearner(np.array(GRID), 1e-2, 1000, 1, False).on(given)
        folds = random_folds(given, 5, 0)
        group = RowGroup(None, np.arange(data.n_labels))
        choices, seconds = [], []
        for points in (None, PATIENCE):
            vars(linear)["PATIENCE"] = points
            start = time.process_time()
            choices += learning.cross_validate([group], folds, lambda _, own: own.choice, "")
            seconds.append(f"{time.process_time() - start:.1f}")
        rows.append([name, data.n_labels, int((choices[0] != choices[1]).sum()), *seconds])
    print_table(["data", "labels", "choices changed", "CPU s to the end", "CPU s"], rows)


def grids(sets: list[str], folder: Path, n_folds: int) -> None:
    """Log-losses with a narrow and a wide grid."""
    rows = []
    for name in sets:
        data = load(name, data_home=folder)
        for kind in (BinaryRelevance, CTBN):
            losses: dict[str, list[float]] = {key: [] for key in GRIDS}
            matches: dict[str, list[float]] = {key: [] for key in GRIDS}
            for train, test in kfold(data.X.shape[0], n_folds, 0):
                X, held = _scaled(data, train, test)
                for key, grid in GRIDS.items():
                    model = kind(C=grid, random_state=0).fit(X, data.Y[train])
                    log_prob = model.joint(held).log_prob(data.Y[test])
                    losses[key].append(joint_log_loss(log_prob, normalize=False))
                    matches[key].append(exact_match(data.Y[test], model.predict(held)))
            narrow, wide = (np.array(losses[key]) for key in GRIDS)
            error = (wide - narrow).std(ddof=1) / np.sqrt(len(wide))
            rows.append(
                [
                    name,
                    kind.__name__,
                    f"{narrow.mean():.1f}",
                    f"{wide.mean():.1f}",
                    f"{(wide - narrow).mean():+.1f} ± {error:.1f}",
                    *(f"{np.mean(matches[key]):.3f}" for key in GRIDS),
                ]
            )
    header = ["data", "method", *(f"log-loss a fold, {key}" for key in GRIDS), "change"]
    print_table([*header, *(f"exact match, {key}" for key in GRIDS)], rows)


def main() -> None:
    """Run one of them."""
    verbs = {
        "tolerance": (tolerance, ["enron", "medical", "bibtex", "tmc2007_500"], 0),
        "patience": (
            patience,
            [
                "emotions",
                "yeast",
                "scene",
                "image",
                "medical",
                "enron",
                "tmc2007_500",
                "genbase",
                "bibtex",
            ],
            0,
        ),
        "grids": (grids, ["emotions", "scene", "enron"], 10),
    }
    options: argparse.ArgumentParser = parser(__doc__)
    options.add_argument("verb", choices=list(verbs))
    options.add_argument("--sets", nargs="+")
    options.add_argument("--folds", type=int, help="of grids: ten")
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    print(machine() + "\n")
    work, sets, folds = verbs[given.verb]
    work(given.sets or sets, given.data, given.folds or folds)


if __name__ == "__main__":
    main()
