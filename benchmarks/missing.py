"""Missing labels: what models learn from rows that lack some of their labels.

A share of the training labels is removed at random. Each model learns from what is left, and by
four makeshifts: (a) from the complete rows alone, (b) with missing labels as 0, (d) after filling
in each label by the prediction of its own regression; (c) is `BinaryRelevance` on the known labels.
Five folds; joint log-loss in nats per row, exact match, and CPU seconds of the fits. Dense features
are standardised on the training rows.

Usage: python -m benchmarks.missing [--data DIR] [--sets emotions yeast scene]
                                    [--shares 0.2 0.5 0.8] [--folds 5] [--models PCC CDN ...]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import (
    CDN,
    CTBN,
    IBLR,
    BayesNetEnsemble,
    BinaryRelevance,
    CollectiveCRF,
    EnsembleOfChains,
    JointForest,
    LDSMixture,
    MixtureOfTrees,
    MLkNN,
    PairwiseCRF,
    ProbabilisticClassifierChain,
    StackedBinaryRelevance,
)
from studies.datasets import load

Array = NDArray[np.float64]
MODELS: dict[str, Callable[[], Any]] = {
    "CTBN": lambda: CTBN(random_state=0, n_jobs=1),
    "PCC": lambda: ProbabilisticClassifierChain(random_state=0, n_jobs=1),
    "ECC": lambda: EnsembleOfChains(random_state=0, n_jobs=1),
    "CDN": lambda: CDN(random_state=0, n_jobs=1),
    "CHF": lambda: StackedBinaryRelevance(random_state=0, n_jobs=1),
    "ML-kNN": lambda: MLkNN(random_state=0, n_jobs=1),
    "IBLR": lambda: IBLR(random_state=0, n_jobs=1),
    "EBN": lambda: BayesNetEnsemble(random_state=0, n_jobs=1),
    "LDS": lambda: LDSMixture(random_state=0, n_jobs=1),
    "CML": lambda: CollectiveCRF(random_state=0, n_jobs=1),
    "MLCRF": lambda: PairwiseCRF(random_state=0, n_jobs=1),
    "trees": lambda: MixtureOfTrees(random_state=0, n_jobs=1),
    "forest": lambda: JointForest(random_state=0, n_jobs=1),
}
HOW = ("complete", "known", "(a) rows", "(b) as 0", "(c) BR", "(d) filled in")


def fits(make: Callable[[], Any], X: Array, Y: Array, partial: Array) -> dict[str, Any]:
    """Return functions that fit the model to complete labels, and in five ways to partial ones."""
    whole = ~np.isnan(partial).any(axis=1)

    def alone() -> Any:
        return BinaryRelevance(random_state=0, n_jobs=1).fit(X, partial)

    def filled() -> Any:
        return make().fit(X, np.where(np.isnan(partial), alone().predict(X), partial))

    ways = (
        lambda: make().fit(X, Y),
        lambda: make().fit(X, partial),
        lambda: make().fit(X[whole], Y[whole]),
        lambda: make().fit(X, np.nan_to_num(partial)),
        alone,
        filled,
    )
    return dict(zip(HOW, ways, strict=True))


def measured(fit: Callable[[], Any], X: Array, Y: Array) -> tuple[float, float, float]:
    """Fit, and return log-loss, exact match and CPU seconds; NaN where it cannot be fitted."""
    start = time.process_time()
    try:
        model = fit()
    except ValueError:  # no complete row is left
        return np.nan, np.nan, np.nan
    seconds = time.process_time() - start
    joint = model.joint(X)
    match = (joint.mode() == Y).all(axis=1).mean()
    return float(-joint.log_prob(Y).mean()), float(match), seconds


def main() -> None:
    """Measure what the command line asks for."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="+", default=["emotions", "scene", "yeast"])
    options.add_argument("--shares", nargs="+", type=float, default=[0.2, 0.5, 0.8])
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    given = options.parse_args()
    warnings.simplefilter("ignore")
    print(machine(), "\n")
    for name in given.sets:
        data = load(name, data_home=given.data)
        X, Y = np.asarray(data.X, dtype=np.float64), np.asarray(data.Y, dtype=np.float64)
        splits = list(KFold(5, shuffle=True, random_state=0).split(X))[: given.folds]
        for share in given.shares:
            print(f"{name}, {share:.0%} of the labels removed: log-loss / exact match / seconds\n")
            rows = []
            for title in given.models:
                found = []
                for fold, (train, test) in enumerate(splits):
                    scaler = StandardScaler().fit(X[train])
                    gone = np.random.default_rng(fold).random(Y[train].shape) < share
                    partial = np.where(gone, np.nan, Y[train])
                    ways = fits(MODELS[title], scaler.transform(X[train]), Y[train], partial)
                    rows_out = scaler.transform(X[test])
                    found.append([measured(fit, rows_out, Y[test]) for fit in ways.values()])
                mean = np.mean(found, axis=0)
                rows.append([title, *(f"{a:.3f} / {b:.3f} / {c:.1f}" for a, b, c in mean)])
            print_table(["model", *HOW], rows)


if __name__ == "__main__":
    main()
