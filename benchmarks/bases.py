"""Forests as `estimator=`: the labels as columns beside x, as published, or stacked.

Exact match and joint log-loss over three folds, the number of forests fitted and CPU seconds a
fold, prediction included. The Gibbs sampler of a CDN that asks a forest at every step is slow: it
has 20 + 100 sweeps here, in both forms. A version without `stack` runs what it has.

Usage: python -m benchmarks.bases [emotions scene] [--trees 200] [--models PCC CTBN CDN]
"""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks._common import machine, parser, print_table
from colabel import CDN, CTBN, BinaryRelevance, ProbabilisticClassifierChain
from colabel.metrics import exact_match, joint_log_loss
from studies.datasets import kfold, load

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "BR": (BinaryRelevance, {}),
    "PCC": (ProbabilisticClassifierChain, {}),
    "CTBN": (CTBN, {}),
    "CDN": (CDN, {"burn_in": 20, "n_sweeps": 100}),
}


class CountedForest(RandomForestClassifier):  # type: ignore[misc]
    """A random forest that counts its fits."""

    n_fits = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """See `RandomForestClassifier.fit`."""
        CountedForest.n_fits += 1
        return super().fit(X, y, sample_weight)


def measure(name: str, form: dict[str, Any], data: Any, trees: int) -> list[str]:
    """Exact match, log-loss, forests and CPU seconds a fold."""
    figures = []
    kind, options = MODELS[name]
    for train, test in kfold(data.X.shape[0], 3, seed=0):
        CountedForest.n_fits, start = 0, time.process_time()
        forest = CountedForest(trees, random_state=0, n_jobs=1)
        model = kind(estimator=forest, n_jobs=1, random_state=0, **options, **form)
        model.fit(data.X[train], data.Y[train])
        joint, truth = model.joint(data.X[test]), data.Y[test]
        match = exact_match(truth, model.predict(data.X[test]))
        loss = joint_log_loss(joint.log_prob(truth))
        seconds = time.process_time() - start
        figures.append((match, loss, CountedForest.n_fits, seconds))
    match, loss, fits, seconds = np.mean(figures, axis=0)
    return [f"{match:.3f}", f"{loss:.3f}", f"{fits:.0f}", f"{seconds:.0f}"]


def main() -> None:
    """Run the models in both forms."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", default=["emotions", "scene"])
    options.add_argument("--trees", type=int, default=200)
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    given = options.parse_args()
    print(machine() + "\n")
    print_table(["data", "model", "labels", "exact match", "log-loss", "forests", "CPU s"], [])
    for source in given.names:
        data = load(source, data_home=given.data)
        for name in given.models:
            both = "stack" in inspect.signature(MODELS[name][0]).parameters
            forms = [{"stack": False}, {"stack": True}] if both else [{}]
            for form in forms:
                how = "stacked" if form.get("stack") else "none" if name == "BR" else "columns"
                cells = measure(name, form, data, given.trees)
                print("| " + " | ".join([source, name, how, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
