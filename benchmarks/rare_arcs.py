"""Arcs to and from labels that few rows have: whether to judge them or to leave them out.

CTBN judges all arcs; the rule to leave out those of rare labels was tried here and not built.
Log-likelihood of CTBN on held-out rows, with all arcs and with those alone whose two labels have at
least so many rows of their rarer value. Of the data sets only the training rows of fold 0 are used:
three folds of these, so that the rule is not chosen in sight of test rows. Planted: the rows of
`benchmarks.planted` with every label made rarer.

    python -m benchmarks.rare_arcs --sets medical genbase
    python -m benchmarks.rare_arcs --planted
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._common import data_folder, machine, print_table
from benchmarks.planted import N_FEATURES, N_LABELS, RAISED, arcs
from colabel import CTBN
from colabel.models.ctbn import Search
from studies.datasets import kfold, load

Parts = tuple[Any, Any, Any, Any]


def inner_folds(name: str) -> Iterator[Parts]:
    """Rows and labels to fit and to measure, all of them training rows of fold 0."""
    data = load(name, data_home=data_folder())
    train, _ = next(iter(kfold(data.n_rows, 10, seed=0)))
    X, Y = data.X[train], data.Y[train]
    for inner, held_out in kfold(len(train), 3, seed=1):
        yield X[inner], Y[inner], X[held_out], Y[held_out]


def planted(seed: int, n_rows: int = 1000) -> Parts:
    """Rows as of `benchmarks.planted`, their labels about ten times as rare."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows + 5000, N_FEATURES)) < 0.05).astype(float)
    scores = X @ rng.normal(size=(N_FEATURES, N_LABELS))
    scores -= scores.mean(axis=0) + rng.uniform(3.0, 8.0, N_LABELS)
    Y = np.zeros(scores.shape, dtype=int)
    for i in range(N_LABELS):
        raised = RAISED * Y[:, i - 1] if i % 2 else 0.0
        Y[:, i] = rng.random(len(X)) < 1.0 / (1.0 + np.exp(-scores[:, i] - raised))
    return X[:n_rows], Y[:n_rows], X[n_rows:], Y[n_rows:]


def measured(parts: Parts, fewest: float) -> tuple[Any, Any, float]:
    """Log-probabilities of the held-out rows, the tree, and CPU seconds of the fit."""
    X, Y, X_test, Y_test = parts
    rare = np.minimum(Y.sum(axis=0), len(Y) - Y.sum(axis=0)) < fewest
    best_tree = Search.best_tree

    def of_common(search: Search, errors: float) -> Any:
        gains = search.gains.copy()
        gains[rare], gains[:, rare] = np.nan, np.nan
        return best_tree(replace(search, gains=gains), errors)

    start = time.process_time()
    with warnings.catch_warnings(), mock.patch.object(Search, "best_tree", of_common):
        warnings.simplefilter("ignore")
        model = CTBN(random_state=0).fit(X, Y)
    return model.joint(X_test).log_prob(Y_test), model.tree_, time.process_time() - start


def compared(name: str, parts: list[Parts], rules: list[float], count: bool) -> list[list[str]]:
    """One line of the table for each rule; differences are paired over rows."""
    found = {rule: [measured(each, rule) for each in parts] for rule in rules}
    base = np.concatenate([log_prob for log_prob, _, _ in found[rules[0]]])
    lines = []
    for rule, results in found.items():
        own = np.concatenate([log_prob for log_prob, _, _ in results])
        gap = own - base
        error = gap.std() / np.sqrt(len(gap))
        n_arcs = np.mean([(tree >= 0).sum() for _, tree, _ in results])
        right = np.mean([arcs(tree)[0] for _, tree, _ in results]) if count else np.nan
        seconds = np.mean([seconds for _, _, seconds in results])
        said = [name, f"{rule:g}", f"{-own.mean():.3f}", f"{gap.mean():+.4f} ± {error:.4f}"]
        said += [f"{n_arcs:.1f}", f"{right:.1f}" if count else "", f"{seconds:.1f}"]
        lines.append(said)
    return lines


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", nargs="*", default=[])
    options.add_argument("--planted", action="store_true")
    options.add_argument("--rules", type=float, nargs="+", default=[0.0, 10.0])
    given = options.parse_args()
    print(machine() + "\n")
    table = []
    for name in given.sets:
        table += compared(name, list(inner_folds(name)), given.rules, count=False)
    if given.planted:
        table += compared("planted", [planted(seed) for seed in range(3)], given.rules, count=True)
    print_table(
        ["data", "rows", "log-loss", "log-likelihood a row", "arcs", "planted of 10", "CPU s"],
        table,
    )


if __name__ == "__main__":
    main()
