"""The figures below the README's picture: all seven traits of a digit right, ten folds, seed 0.

Usage: python -m benchmarks.digits
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from benchmarks._common import machine, print_table
from colabel import CTBN, BinaryRelevance, JointForest, KernelFeatures
from colabel.metrics import exact_match
from studies.datasets import kfold, load_digit_traits

MODELS: dict[str, Any] = {
    "seven separate classifiers": BinaryRelevance(random_state=0),
    "a tree": CTBN(random_state=0),
    "seven separate classifiers on KernelFeatures": make_pipeline(
        KernelFeatures(random_state=0), BinaryRelevance(random_state=0)
    ),
    "JointForest": JointForest(random_state=0),
}


def main() -> None:
    """Print a line for each model."""
    data = load_digit_traits()
    print(machine(), "\n")
    table = []
    for name, model in MODELS.items():
        start = time.process_time()
        found = []
        for train, test in kfold(len(data.Y), 10, 0):
            fitted = model.fit(data.X[train], data.Y[train])
            found.append(exact_match(data.Y[test], fitted.predict(data.X[test])))
        cpu = time.process_time() - start
        table.append([name, f"{np.mean(found):.4f}", f"{cpu:.0f}"])
    print_table(["model", "exact match", "CPU s"], table)


if __name__ == "__main__":
    main()
