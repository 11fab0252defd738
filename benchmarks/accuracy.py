"""Ten-fold cross-validation beside the figures of the papers of MLCRF and CTBN.

Features are standardised on the training folds, C is chosen per classifier from a grid. The
log-loss is the sum of -log P(y | x) over a test fold, averaged over the folds, as in print.

Usage: python -m benchmarks.accuracy [--data DIR] [--sets emotions scene yeast] [--seeds 0 1 2]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import CTBN, BinaryRelevance
from colabel.metrics import exact_match, f1_score, hamming_accuracy, joint_log_loss
from studies.datasets import kfold, load

# (exact match, log-loss a fold) as printed: CTBN's own slides for exact match, and for log-loss
# of BR the MLCRF paper, which used the same protocol.
PUBLISHED = {
    ("emotions", "BinaryRelevance"): (".266", "153.5"),
    ("emotions", "CTBN"): (".335", "–"),
    ("scene", "BinaryRelevance"): (".521", "344.7"),
    ("scene", "CTBN"): (".626", "–"),
    ("yeast", "BinaryRelevance"): (".147", "1500.3"),
    ("yeast", "CTBN"): (".195", "–"),
}


def evaluate(model: Any, X: Any, Y: Any, seed: int) -> tuple[np.ndarray[Any, Any], float]:
    """Measures (folds, 5) of one model, and the seconds it took."""
    measures = []
    start = time.perf_counter()
    for train, test in kfold(X.shape[0], 10, seed):
        scaler = StandardScaler().fit(X[train])
        model.fit(scaler.transform(X[train]), Y[train])
        rows, truth = scaler.transform(X[test]), Y[test]
        predicted = model.predict(rows)
        measures.append(
            (
                exact_match(truth, predicted),
                joint_log_loss(model.joint(rows).log_prob(truth), normalize=False),
                hamming_accuracy(truth, predicted),
                f1_score(truth, predicted, average="micro"),
                f1_score(truth, predicted, average="macro"),
            )
        )
    return np.array(measures), time.perf_counter() - start


def _row(name: str, model: Any, seeds: list[int], X: Any, Y: Any) -> list[str]:
    """Measure one model on one data set, over ten folds for each seed."""
    runs = [evaluate(model, X, Y, seed) for seed in seeds]
    by_seed = np.array([found.mean(axis=0) for found, _ in runs])
    # Folds of one partition are disjoint; the spread over partitions is not independent.
    error = np.mean([found.std(axis=0, ddof=1) for found, _ in runs], axis=0) / np.sqrt(10)
    mean = by_seed.mean(axis=0)
    match, loss = PUBLISHED.get((name, type(model).__name__), ("–", "–"))
    return [
        name,
        type(model).__name__,
        f"{mean[0]:.4f} ± {error[0]:.4f}",
        ", ".join(f"{value:.4f}" for value in by_seed[:, 0]),
        match,
        f"{mean[1]:.1f} ± {error[1]:.1f}",
        loss,
        *(f"{value:.4f}" for value in mean[2:]),
        f"{np.mean([seconds for _, seconds in runs]):.1f}",
    ]


def main() -> None:
    """Run and print the table."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="+", default=["emotions", "scene", "yeast"])
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = options.parse_args()
    print(machine() + "\n")
    rows = []
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        for model in (BinaryRelevance(random_state=0), CTBN(random_state=0)):
            rows.append(_row(name, model, arguments.seeds, data.X, data.Y))
    seeds = ", ".join(map(str, arguments.seeds))
    header = ["data", "method", "exact match", f"by fold seed {seeds}", "published"]
    header += ["log-loss a fold", "published", "Hamming accuracy", "micro F1", "macro F1"]
    print_table([*header, "seconds for ten folds"], rows)


if __name__ == "__main__":
    main()
