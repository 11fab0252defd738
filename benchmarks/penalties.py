"""Is the choice of C honest? Tolerance, patience, width of the grid, strength of other labels.

    python -m benchmarks.penalties tolerance   # do choices change when the solver works harder?
    python -m benchmarks.penalties patience    # or when every path is walked to its end?
    python -m benchmarks.penalties grids       # does a wider grid hurt?
    python -m benchmarks.penalties borrowing   # do rare labels gain from the others' curves?

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
from colabel.learn.conditional import RowGroup, TrainingData, random_folds
from colabel.learn.glm import LBFGS, Tasks, held_out_path
from colabel.learn.glm.tasks import best_points
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
        choices, seconds = [], []
        for points in (None, PATIENCE):
            start = time.process_time()
            parts = []
            for first in range(0, data.n_labels, 12):
                own = np.arange(first, min(first + 12, data.n_labels))
                targets = np.ascontiguousarray(given.codes[:, own].T, dtype=np.int16)
                prior = np.stack([learning.frequencies[label] for label in own])
                tasks, grid = Tasks(targets, 2, prior), np.array(GRID)
                found = held_out_path(
                    learning.design, tasks, grid, folds.of_row, 5, LBFGS(), patience=points
                )
                parts.append(best_points(found.total, grid, found.informed))
            choices.append(np.concatenate(parts))
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


def shrunken(total: Any, log_prob: Any, codes: Any) -> Any:
    """Best points of held-out curves (G, T) shrunk towards their pooled curve.

    A curve is measured from the point that is best for all labels together; its variance is that
    of the rows' differences (G, T, n), its expected height the pooled one times the number of rows
    of the rarer value, and the spread between labels follows by the method of moments.
    """
    reference = total.sum(axis=1).argmax()
    curve = total - total[reference]
    noise = log_prob.shape[2] * (log_prob - log_prob[reference]).var(axis=2)
    mass = 1.0 + np.minimum(codes.sum(axis=0), len(codes) - codes.sum(axis=0))
    expected = np.outer(curve.sum(axis=1) / mass.sum(), mass)
    spread = np.maximum(0.0, ((curve - expected) ** 2 - noise).sum(axis=1) / (mass**2).sum())
    own = spread[:, None] * mass**2
    blended = (curve * own + expected * noise) / np.maximum(own + noise, 1e-300)
    return blended.argmax(axis=0)


def borrowing(sets: list[str], folder: Path, n_folds: int) -> None:
    """Log-losses of binary relevance with three ways to choose C."""
    rows = []
    for name in sets:
        data = load(name, data_home=folder)
        losses: dict[str, list[float]] = {"own curve": [], "shrunken": [], "one C": []}
        for train, test in kfold(data.X.shape[0], n_folds, 0):
            X, held = _scaled(data, train, test)
            codes, truth = data.Y[train].astype(np.int32), data.Y[test]
            given = TrainingData(X, codes, (2,) * data.n_labels)
            learning = LinearLearner(np.array(GRID), 1e-2, 1000, 1, False).on(given)
            folds = random_folds(given, 5, 0)
            targets = np.ascontiguousarray(codes.T, dtype=np.int16)
            found = held_out_path(
                learning.design,
                Tasks(targets, 2, np.stack(learning.frequencies)),
                np.array(GRID),
                folds.of_row,
                5,
                LBFGS(),
            )
            choices = {
                "own curve": best_points(found.total, np.array(GRID)),
                "shrunken": shrunken(found.total, found.log_prob, codes),
                "one C": np.full(data.n_labels, found.total.sum(axis=1).argmax()),
            }
            every = RowGroup(None, np.arange(data.n_labels))
            for key, choice in choices.items():
                tables = learning.fit([every], [choice]).log_prob(held)
                picked = [t[np.arange(len(truth)), truth[:, i]] for i, t in enumerate(tables)]
                losses[key].append(joint_log_loss(np.sum(picked, axis=0)))
        rows.append([name, *(f"{np.mean(value):.4f}" for value in losses.values())])
    print_table(["data", "own curve", "shrunken", "one C for all"], rows)


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
        "borrowing": (borrowing, ["emotions", "yeast", "scene", "image", "medical", "enron"], 3),
    }
    options: argparse.ArgumentParser = parser(__doc__)
    options.add_argument("verb", choices=list(verbs))
    options.add_argument("--sets", nargs="+")
    options.add_argument("--folds", type=int, help="ten for grids, three for borrowing")
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    print(machine() + "\n")
    work, sets, folds = verbs[given.verb]
    work(given.sets or sets, given.data, given.folds or folds)


if __name__ == "__main__":
    main()
