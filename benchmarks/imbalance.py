"""Rare labels: what thresholds and class weights do to F1, and to probabilities.

Binary relevance as it is, with a threshold of its own for every label (`ThresholdedClassifier`),
with ``class_weight="balanced"``, and with both. Rows are held out in folds. The log-loss (nats a
row) is that of the joint, the mean over folds ± its standard error; F1 is that of all rows held out
together, macro-averaged over labels; *probability* is how often the model says that a label is
there, summed over labels and divided by how often it is: 1 for a model that can be believed.

Usage: python -m benchmarks.imbalance [yeast enron] [--folds 10] [--seed 0]
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold

from benchmarks._common import machine, parser, print_table
from colabel import BinaryRelevance, ThresholdedClassifier
from colabel.metrics import exact_match, joint_log_loss
from studies.datasets import Dataset, load

PLAIN = BinaryRelevance(random_state=0)
WEIGHTED = BinaryRelevance(random_state=0, class_weight="balanced")
MODELS: dict[str, Any] = {
    "neither": PLAIN,
    "thresholds": ThresholdedClassifier(PLAIN, random_state=0),
    'class_weight="balanced"': WEIGHTED,
    "both": ThresholdedClassifier(WEIGHTED, random_state=0),
}


def measured(model: Any, data: Dataset, folds: KFold) -> list[str]:
    """Figures of one model, as they stand in the table."""
    predicted, prob = np.zeros_like(data.Y), np.zeros(data.Y.shape)
    losses = []
    start = time.process_time()
    for train, test in folds.split(data.X):
        fitted = clone(model).fit(data.X[train], data.Y[train])
        losses.append(joint_log_loss(fitted.joint(data.X[test]).log_prob(data.Y[test])))
        predicted[test] = fitted.predict(data.X[test])
        prob[test] = fitted.predict_proba(data.X[test])
    error = np.std(losses, ddof=1) / np.sqrt(len(losses))
    return [
        f"{np.mean(losses):.2f} ± {error:.2f}",
        f"{f1_score(data.Y, predicted, average='macro', zero_division=0):.3f}",
        f"{f1_score(data.Y, predicted, average='micro', zero_division=0):.3f}",
        f"{exact_match(data.Y, predicted):.3f}",
        f"{prob.sum() / data.Y.sum():.2f}",
        f"{time.process_time() - start:.0f}",
    ]


def main() -> None:
    """Print a table."""
    options = parser(__doc__)
    options.add_argument("sets", nargs="*", default=("yeast", "enron"))
    options.add_argument("--folds", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    warnings.simplefilter("ignore")
    print(machine() + "\n")
    header = ["data", "by", "log-loss", "macro F1", "micro F1", "exact match", "probability"]
    folds = KFold(arguments.folds, shuffle=True, random_state=arguments.seed)
    rows = []
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        for how, model in MODELS.items():
            rows.append([name, how, *measured(model, data, folds)])
            print(rows[-1], flush=True)
    print()
    print_table([*header, "CPU s"], rows)


if __name__ == "__main__":
    main()
