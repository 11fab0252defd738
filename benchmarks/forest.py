"""JointForest beside a label powerset over the same forest, and its cost beside scikit-learn's.

Three folds, one thread. A label powerset takes each label vector of the training rows as a class
of scikit-learn's forest; a vector it excludes counts as one of probability 1e-6. Cost is CPU
seconds of fit and of answers for the test fold (`predict_proba` of scikit-learn's multi-output
forest of the same size; joint, log-probabilities and modes of ours), in one run, after compiling.

Usage: python -m benchmarks.forest [--data DIR] [--sets emotions scene yeast] [--trees 300]
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks._common import machine, parser, print_table
from colabel import JointForest
from studies.datasets import kfold, load

_FLOOR = 1e-6


class Figures(NamedTuple):
    """Of one fold."""

    exact_match: float
    log_loss: float
    seconds: float


def powerset(model: RandomForestClassifier, X: Any, Y: Any, train: Any, test: Any) -> Figures:
    """Measure a forest over the training rows' label vectors as classes."""
    start = time.process_time()
    vectors, place = np.unique(Y[train], axis=0, return_inverse=True)
    prob = model.fit(X[train], place.ravel()).predict_proba(X[test])
    best = vectors[model.classes_[prob.argmax(axis=1)]]
    seconds = time.process_time() - start
    same = (Y[test][:, None] == vectors[model.classes_]).all(axis=2)
    of_truth = np.maximum((prob * same).sum(axis=1), _FLOOR)
    match = float((best == Y[test]).all(axis=1).mean())
    return Figures(match, float(-np.log(of_truth).mean()), seconds)


def ours(model: JointForest, X: Any, Y: Any, train: Any, test: Any) -> Figures:
    """Measure a JointForest."""
    start = time.process_time()
    joint = model.fit(X[train], Y[train]).joint(X[test])
    log_prob, mode = joint.log_prob(Y[test]), joint.mode()
    seconds = time.process_time() - start
    return Figures(float((mode == Y[test]).all(axis=1).mean()), float(-log_prob.mean()), seconds)


def multi_output(model: RandomForestClassifier, X: Any, Y: Any, train: Any, test: Any) -> float:
    """CPU seconds of scikit-learn's forest over all labels at once."""
    start = time.process_time()
    model.fit(X[train], Y[train]).predict_proba(X[test])
    return time.process_time() - start


def figures_of(X: Any, Y: Any, n_trees: int) -> list[list[str]]:
    """Measure all methods on one data set."""
    folds = kfold(len(X), 3, 0)
    leaf = JointForest().min_samples_leaf

    def forest(least: float) -> RandomForestClassifier:
        return RandomForestClassifier(n_trees, min_samples_leaf=least, random_state=0, n_jobs=1)

    usual = float(np.mean([multi_output(forest(leaf), X, Y, *fold) for fold in folds]))
    joint = JointForest(n_trees, random_state=0, n_jobs=1)
    found = {
        "powerset, leaves of 1": [powerset(forest(1), X, Y, *fold) for fold in folds],
        f"powerset, leaves of {leaf}": [powerset(forest(leaf), X, Y, *fold) for fold in folds],
        "JointForest": [ours(joint, X, Y, *fold) for fold in folds],
    }
    rows = []
    for method, figures in found.items():
        match, loss, seconds = np.mean(figures, axis=0)
        ratio = f"{seconds / usual:.2f}"
        rows.append([method, f"{match:.3f}", f"{loss:.3f}", f"{seconds:.1f}", ratio])
    return rows


def main() -> None:
    """Print a table for each data set."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="+", default=["emotions", "scene", "yeast"])
    options.add_argument("--trees", type=int, default=300)
    given = options.parse_args()
    print(machine() + "\n")
    small = np.random.default_rng(0).normal(size=(30, 3))
    JointForest(2, random_state=0, n_jobs=1).fit(small, small > 0).joint(small).mode()  # compiles
    for name in given.sets:
        data = load(name, data_home=given.data)
        X, Y = np.asarray(_dense(data.X)), np.asarray(_dense(data.Y)).astype(int)
        header = [name, "exact match", "log-loss", "CPU s per fold", "scikit-learn's times"]
        print_table(header, figures_of(X, Y, given.trees))


def _dense(table: Any) -> Any:
    return table.toarray() if hasattr(table, "toarray") else table


if __name__ == "__main__":
    main()
