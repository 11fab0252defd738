"""Walking a forest: scikit-learn's own answers beside those of plain arrays, on one core.

Usage: python -m benchmarks.forests [--trees 300] [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks._common import machine, print_table
from colabel.learn.forest.contents import PlainForest, tree_means
from colabel.learn.forest.forest import Forest

# rows, features, labels, fewest rows in a leaf
CASES = ((4000, 100, 6, 1), (4000, 100, 6, 5), (2000, 300, 14, 3))


def best(answer: Callable[[], object], repeats: int) -> float:
    """Least seconds of some repetitions, after one that compiles."""
    answer()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(case: tuple[int, int, int, int], n_trees: int, repeats: int) -> list[str]:
    """Time one forest with many outputs, and one with a single output."""
    n_rows, n_features, n_labels, smallest = case
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    Y = (X[:, :n_labels] + rng.normal(size=(n_rows, n_labels)) > 0).astype(np.int32)
    grown = RandomForestClassifier(n_trees, min_samples_leaf=smallest, random_state=0, n_jobs=1)
    grown.fit(X, Y)
    forest = Forest.of(grown)
    table = rng.random((forest.n_leaves, n_labels)).astype(np.float32)
    seconds = [
        best(lambda: grown.apply(X), repeats),
        best(lambda: forest.leaves(X, 1), repeats),
        best(lambda: grown.predict_proba(X), repeats),
        best(lambda: tree_means(forest.leaves(X, 1), table, 1), repeats),
    ]
    single = RandomForestClassifier(n_trees, min_samples_leaf=smallest, random_state=0, n_jobs=1)
    single.fit(X, Y[:, 0])
    plain = PlainForest.of(single)
    seconds += [
        best(lambda: single.predict_proba(X), repeats),
        best(lambda: plain.predict_proba(X), repeats),
    ]
    return [" x ".join(map(str, case)), *(f"{each:.3f}" for each in seconds)]


def main() -> None:
    """Run and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trees", type=int, default=300)
    options.add_argument("--repeats", type=int, default=5)
    arguments = options.parse_args()
    print(f"{machine()}; {arguments.trees} trees, seconds\n")
    header = ["rows x features x labels x least leaf", "apply", "Forest.leaves"]
    header += ["predict_proba, all labels", "leaves and averages"]
    header += ["predict_proba, one label", "PlainForest"]
    print_table(header, [measure(case, arguments.trees, arguments.repeats) for case in CASES])


if __name__ == "__main__":
    main()
