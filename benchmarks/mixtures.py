"""Mixtures of trees and of chains beside a single tree, an ensemble of chains, and a pairwise CRF.

All on the same folds, features standardised on the training folds; nothing is chosen in sight of
test rows. The log-loss is the mean of -log P(y | x) over test rows; ± is the standard error of the
mean difference to CTBN, over all test rows.

Usage: python -m benchmarks.mixtures [--data DIR] [--sets emotions scene image yeast] [--folds 3]
       [--models "trees, linear gate" ECC ...]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks._common import machine, parser, print_table
from benchmarks.chains import folds_of
from colabel import CTBN, EnsembleOfChains, MixtureOfTrees, PairwiseCRF
from studies.datasets import load

Model = Callable[[], Any]

MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "CTBN": lambda: CTBN(random_state=0),
        "trees, constant gate": lambda: MixtureOfTrees(gate="constant", random_state=0),
        "trees, linear gate": lambda: MixtureOfTrees(random_state=0),
        "chains, constant gate": lambda: MixtureOfTrees(
            gate="constant", base="chains", random_state=0
        ),
        "chains, linear gate": lambda: MixtureOfTrees(base="chains", random_state=0),
        "ECC": lambda: EnsembleOfChains(random_state=0),
        "PairwiseCRF": lambda: PairwiseCRF(random_state=0),
    }
)
HEADER = ("set", "model", "exact match", "±", "joint log-loss", "±", "CPU seconds a fold", "trees")


def asked(model: Any, part: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, float, str]:
    """Hits (n,) and log-losses (n,) of the test rows, CPU seconds of fit and answers, size."""
    rows, labels, test_rows, truth = part
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels)
        joint = model.joint(test_rows)
        hits = (joint.mode() == truth).all(axis=1)
        losses = -joint.log_prob(truth)
    return hits, losses, time.process_time() - start, str(getattr(model, "n_trees_", ""))


def compared(
    name: str, parts: list[tuple[Any, Any, Any, Any]], labels: list[str]
) -> list[list[str]]:
    """Rows of the table for one data set; CTBN is what the others are compared with."""
    table: list[list[str]] = []
    first: tuple[Any, Any] | None = None
    for label in labels:
        found = [asked(MODELS[label](), part) for part in parts]
        hits, losses = (np.concatenate([fold[i] for fold in found]) for i in (0, 1))
        first = (hits, losses) if first is None else first
        errors = [
            np.std(1.0 * own - one, ddof=1) / np.sqrt(len(own))
            for own, one in zip((hits, losses), first, strict=True)
        ]
        seconds = np.mean([fold[2] for fold in found])
        table.append(
            [
                name,
                label,
                f"{hits.mean():.3f}",
                f"{errors[0]:.3f}" if table else "",
                f"{losses.mean():.3f}",
                f"{errors[1]:.3f}" if table else "",
                f"{seconds:.1f}",
                ", ".join(fold[3] for fold in found if fold[3]),
            ]
        )
        print(table[-1], flush=True)
    return table


def main() -> None:
    """Run and print."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="*", default=["emotions", "scene", "image", "yeast"])
    options.add_argument("--folds", type=int, default=3)
    options.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    chosen = options.parse_args()
    print(machine(), "\n")
    table = []
    for name in chosen.sets:
        parts = folds_of(load(name, data_home=chosen.data), chosen.folds, 0)
        table += compared(name, parts, ["CTBN", *(m for m in chosen.models if m != "CTBN")])
    print()
    print_table(HEADER, table)


if __name__ == "__main__":
    main()
