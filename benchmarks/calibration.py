"""What tempering a joint on held-out rows gains: exact match and joint log-loss, before and after.

Every model with ``calibrate=False``, with ``decision="seen"`` (the most probable of the label
vectors that training rows have) and with ``calibrate=True``. Folds are those of seed 0; everything
is learned on training rows. The log-loss is -log P(y | x) in nats per row, its difference with a
paired standard error.

Usage: python -m benchmarks.calibration [emotions image scene] [--models BR CTBN LDS EBN MLKNN]
    [--folds 3] [--seed 0]
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._common import machine, parser, print_table
from colabel import (
    CTBN,
    BayesNetEnsemble,
    BinaryRelevance,
    LDSMixture,
    MLkNN,
    ProbabilisticClassifierChain,
)
from colabel.metrics import exact_match
from studies.datasets import Dataset, kfold, load

MODELS: dict[str, Any] = {
    "BR": BinaryRelevance(random_state=0),
    "CTBN": CTBN(random_state=0),
    "PCC": ProbabilisticClassifierChain(random_state=0),
    "LDS": LDSMixture(random_state=0),
    "EBN": BayesNetEnsemble(random_state=0),
    "MLKNN": MLkNN(),
}


def measured(model: Any, data: Dataset, folds: int, seed: int) -> list[str]:
    """Exact match and log-loss as they are, exact match among seen vectors, both calibrated."""
    match: dict[str, list[float]] = {"plain": [], "seen": [], "calibrated": []}
    loss: dict[str, list[Any]] = {"plain": [], "calibrated": []}
    temperature, seconds = [], 0.0
    for train, test in kfold(data.n_rows, folds, seed):
        X, Y, new, true = data.X[train], data.Y[train], data.X[test], data.Y[test]
        start = time.process_time()
        fitted = model.set_params(calibrate=True, decision="seen").fit(X, Y)
        seconds += (time.process_time() - start) / folds
        calibrated = fitted.joint(new)
        temperature.append(fitted.calibration_.temperature)
        match["calibrated"].append(exact_match(true, calibrated.mode()))
        loss["calibrated"].append(-calibrated.log_prob(true))
        del fitted.calibration_
        plain = fitted.joint(new)
        match["plain"].append(exact_match(true, plain.mode()))
        loss["plain"].append(-plain.log_prob(true))
        match["seen"].append(exact_match(true, fitted.predict(new)))
    before, after = (np.concatenate(loss[name]) for name in ("plain", "calibrated"))
    error = (after - before).std(ddof=1) / np.sqrt(len(after))
    return [
        f"{np.mean(match['plain']):.3f} / {before.mean():.3f}",
        f"{np.mean(match['seen']):.3f}",
        f"{np.mean(match['calibrated']):.3f} / {after.mean():.3f}",
        f"{after.mean() - before.mean():+.3f} ± {error:.3f}",
        f"{np.mean(temperature):.2f}",
        f"{seconds:.1f}",
    ]


def main() -> None:
    """Print one table for each data set."""
    options = parser(__doc__)
    options.add_argument("sets", nargs="*", default=("emotions", "image", "scene"))
    options.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options.add_argument("--folds", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    warnings.simplefilter("ignore")
    print(machine() + "\n")
    header = ["exact / log-loss", "among seen", "calibrated", "difference", "temperature", "CPU s"]
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        rows = [
            [name, short, *measured(MODELS[short], data, arguments.folds, arguments.seed)]
            for short in arguments.models
        ]
        print_table(["data", "model", *header], rows)


if __name__ == "__main__":
    main()
