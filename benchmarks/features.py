"""What features before a model gain: exact match, joint log-loss and seconds, with and without.

kernel: KernelFeatures with its defaults; forest: ForestFeatures with its defaults (extra trees) and
by a random forest; each before five joints. Three folds, seed 0; everything is
chosen on training rows. The log-loss is -log P(y | x) in nats per row; seconds are those of the
features' fit_transform alone and of the model's fit, a fold.

Usage: python -m benchmarks.features kernel|forest [emotions scene image yeast] [--data DIR]
    [--folds 3] [--seed 0]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from benchmarks._common import machine, parser, print_table
from colabel import (
    CTBN,
    BinaryRelevance,
    CollectiveCRF,
    ForestFeatures,
    KernelFeatures,
    PairwiseCRF,
    ProbabilisticClassifierChain,
)
from colabel.metrics import exact_match
from studies.datasets import Dataset, kfold, load

FEATURES: dict[str, dict[str, Any]] = {
    "kernel": {"kernel": KernelFeatures(random_state=0)},
    "forest": {
        "extra trees": ForestFeatures(random_state=0),
        "random forest": ForestFeatures(kind="random", random_state=0),
    },
}
MODELS: tuple[Any, ...] = (
    BinaryRelevance(random_state=0),
    CTBN(random_state=0),
    ProbabilisticClassifierChain(random_state=0),
    PairwiseCRF(random_state=0),
    CollectiveCRF(random_state=0),
)
SETS = ("emotions", "scene", "image", "yeast")


class Fold(NamedTuple):
    """Training and test rows with their labels, and the seconds that the features took."""

    X_train: Any
    Y_train: Any
    X_test: Any
    Y_test: Any
    seconds: float


def folds_of(data: Dataset, features: Any, n_folds: int, seed: int) -> list[Fold]:
    """Compute the folds' features; those of X as it is where there are none."""
    folds = []
    for train, test in kfold(data.n_rows, n_folds, seed):
        start = time.perf_counter()
        if features is None:
            X_train, X_test = data.X[train], data.X[test]
            seconds = 0.0
        else:
            made = clone(features)
            X_train = made.fit_transform(data.X[train], data.Y[train])
            seconds = time.perf_counter() - start
            X_test = made.transform(data.X[test])
        folds.append(Fold(X_train, data.Y[train], X_test, data.Y[test], seconds))
    return folds


def measured(model: Any, folds: Sequence[Fold]) -> list[str]:
    """Exact match, log-loss in nats per row, columns, seconds of the features and of the fit."""
    found = []
    for fold in folds:
        start = time.perf_counter()
        fitted = clone(model).fit(fold.X_train, fold.Y_train)
        seconds = time.perf_counter() - start
        match = exact_match(fold.Y_test, fitted.predict(fold.X_test))
        loss = -fitted.joint(fold.X_test).log_prob(fold.Y_test).mean()
        found.append((match, loss, fold.X_train.shape[1], fold.seconds, seconds))
    match, loss, columns, before, fit = np.mean(found, axis=0)
    return [f"{match:.3f}", f"{loss:.3f}", f"{columns:.0f}", f"{before:.1f}", f"{fit:.1f}"]


def main() -> None:
    """Print one table for each data set."""
    options = parser(__doc__)
    options.add_argument("features", choices=FEATURES)
    options.add_argument("sets", nargs="*", default=SETS)
    options.add_argument("--folds", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    print(machine() + "\n")
    measures = ["exact match", "log-loss", "columns", "s of features", "s of fit"]
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        rows = []
        for label, features in {"–": None, **FEATURES[arguments.features]}.items():
            folds = folds_of(data, features, arguments.folds, arguments.seed)
            rows += [
                [name, type(model).__name__, label, *measured(model, folds)] for model in MODELS
            ]
        print_table(["data", "model", "features", *measures], rows)


if __name__ == "__main__":
    main()
