"""Features that bend, before models that are linear: exact match and joint log-loss.

Models see the standardised features, and features learned from them on the training folds;
everything that is chosen is chosen on training rows.

Usage: python -m benchmarks.features forest [emotions scene image ...] [--folds 3] [--seed 0]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import (
    BinaryRelevance,
    CollectiveCRF,
    ForestFeatures,
    ProbabilisticClassifierChain,
    joint_of,
)
from colabel.core.arrays import is_sparse
from colabel.datasets import kfold, load
from colabel.metrics import exact_match, joint_log_loss

MODELS = {
    "BR": BinaryRelevance(random_state=0),
    "PCC": ProbabilisticClassifierChain(random_state=0),
    "CollectiveCRF": CollectiveCRF(random_state=0),
}


def forest() -> Mapping[str, BaseEstimator | str]:
    """Log-odds of extra trees, the default, and of a random forest."""
    return {
        "linear": "passthrough",
        "extra trees": ForestFeatures(random_state=0),
        "random forest": ForestFeatures(kind="random", random_state=0),
    }


FEATURES: dict[str, Callable[[], Mapping[str, BaseEstimator | str]]] = {"forest": forest}


def measured(step: BaseEstimator | str, X: Any, Y: Any, folds: int, seed: int) -> dict[str, str]:
    """Measures of all models on one kind of features: exact match / log-loss, and seconds.

    The features are learned once for each fold, and all models learn from them.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
    seconds, kept = 0.0, []
    for train, test in kfold(X.shape[0], folds, seed):
        before = make_pipeline(StandardScaler(with_mean=not is_sparse(X)), clone_of(step))
        start = time.perf_counter()
        rows = before.fit_transform(X[train], Y[train])
        new = before.transform(X[test])
        seconds += (time.perf_counter() - start) / folds
        kept.append(getattr(before[-1], "passthrough_", None))
        for name, model in MODELS.items():
            fitted = clone(model).fit(rows, Y[train])
            log_prob = joint_of(fitted, new).log_prob(Y[test])
            match = exact_match(Y[test], fitted.predict(new))
            found[name].append((match, joint_log_loss(log_prob)))
    cells = {}
    for name, values in found.items():
        match, loss = np.mean(values, axis=0)
        cells[name] = f"{match:.3f} / {loss:.3f}"
    with_x = "–" if None in kept else f"{sum(map(bool, kept))} of {folds}"
    return {**cells, "with X": with_x, "seconds": f"{seconds:.1f}"}


def clone_of(step: BaseEstimator | str) -> Any:
    """Return an unfitted copy of a step of a pipeline."""
    return step if isinstance(step, str) else clone(step)


def main() -> None:
    """Run and print the table."""
    options = parser(__doc__)
    options.add_argument("features", choices=FEATURES)
    options.add_argument("sets", nargs="*", default=["emotions", "scene", "image"])
    options.add_argument("--folds", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{machine()}; {arguments.folds} folds, seed {arguments.seed}; exact / log-loss a row\n")
    rows = []
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        for kind, step in FEATURES[arguments.features]().items():
            cells = measured(step, data.X, data.Y, arguments.folds, arguments.seed)
            rows.append([name, kind, *cells.values()])
            print("\t".join(rows[-1]), flush=True)
    print_table(["data", "features", *MODELS, "with X", "seconds"], rows)


if __name__ == "__main__":
    main()
