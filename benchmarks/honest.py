"""Joint log-loss and exact match of every model whose penalties are chosen on held-out rows.

One JSON line a cell (data set, model, fold) is written to a file; a second run goes on where the
first one stopped. Run it with two versions of colabel on the path and compare their files:

    python -m benchmarks.honest run before.jsonl --sets emotions enron
    python -m benchmarks.honest run after.jsonl --sets emotions enron
    python -m benchmarks.honest table before.jsonl after.jsonl

Log-losses are nats per row; differences are paired over the folds, with their standard error.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import colabel
from benchmarks._common import parser, print_table
from colabel.metrics import exact_match, joint_log_loss
from studies.datasets import kfold, load

GRID = (0.001, 0.01, 0.1, 1.0, 10.0)


class SeparateRegressions:
    """scikit-learn's LogisticRegressionCV for each label, with the same grid and folds."""

    def fit(self, X: Any, Y: Any) -> SeparateRegressions:
        """Fit; a label that lacks positives for a fold falls back to its frequency."""
        base = LogisticRegressionCV(
            Cs=list(GRID), cv=5, scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False
        )
        rare = Y.sum(axis=0) < 5
        self._rare, self._share = rare, (Y.sum(axis=0) + 1) / (len(Y) + 2)
        self._models = MultiOutputClassifier(base, n_jobs=1).fit(X, Y[:, ~rare])
        self.C_ = np.array([model.C_ for model in self._models.estimators_])
        return self

    def probabilities(self, X: Any) -> Any:
        """P(y_i = 1 | x), (n, d)."""
        prob = np.tile(self._share, (X.shape[0], 1))
        found = self._models.predict_proba(X)
        prob[:, ~self._rare] = np.stack([table[:, 1] for table in found], axis=1)
        return prob


def _ours(name: str, **parameters: Any) -> Callable[[], Any]:
    return lambda: getattr(colabel, name)(random_state=0, **parameters)


MODELS: dict[str, Callable[[], Any]] = {
    "BR": _ours("BinaryRelevance"),
    "CTBN": _ours("CTBN"),
    "CTBN separate": _ours("CTBN", pairs="separate"),
    "CC": _ours("ClassifierChain"),
    "PCC": _ours("ProbabilisticClassifierChain"),
    "ECC": _ours("EnsembleOfChains"),
    "CDN": _ours("CDN"),
    "CHF": _ours("StackedBinaryRelevance"),
    "MLCRF": _ours("PairwiseCRF"),
    "CML": _ours("CollectiveCRF"),
    "sklearn": SeparateRegressions,
}


def measured(model: Any, X: Any, Y: Any, rows: Any, truth: Any) -> dict[str, Any]:
    """Fit one model and measure it on held-out rows."""
    start, clock = time.process_time(), time.perf_counter()
    model.fit(X, Y)
    seconds = time.process_time() - start
    if isinstance(model, SeparateRegressions):
        prob = model.probabilities(rows)
        log_prob = np.where(truth == 1, np.log(prob), np.log1p(-prob)).sum(axis=1)
        predicted = (prob > 0.5).astype(int)
    else:
        joint = model.joint(rows)
        log_prob = joint.log_prob(truth)
        predicted = model.predict(rows)
    chosen = getattr(model, "C_", None)
    return {
        "log_loss": float(joint_log_loss(log_prob)),
        "exact": float(exact_match(truth, predicted)),
        "largest_C": None if chosen is None else float(np.mean(np.asarray(chosen) >= max(GRID))),
        "fit_cpu_s": seconds,
        "wall_s": time.perf_counter() - clock,
        "rows": len(truth),
    }


def run(out: Path, sets: list[str], models: list[str], n_folds: int, folder: Path) -> None:
    """Measure all cells that the file does not have yet."""
    done = set()
    if out.exists():
        done = {tuple(json.loads(line)["cell"]) for line in out.read_text().splitlines()}
    for name in sets:
        data = load(name, data_home=folder)
        for fold, (train, test) in enumerate(kfold(data.X.shape[0], n_folds, 0)):
            scaler = (MaxAbsScaler() if data.is_sparse else StandardScaler()).fit(data.X[train])
            X, rows = scaler.transform(data.X[train]), scaler.transform(data.X[test])
            for kind in models:
                if (name, kind, fold) in done:
                    continue
                try:
                    found = measured(MODELS[kind](), X, data.Y[train], rows, data.Y[test])
                except Exception as error:  # one that cannot answer must not end the run
                    found = {"error": f"{type(error).__name__}: {error}"}
                line = json.dumps({"cell": [name, kind, fold], **found})
                with out.open("a") as file:
                    file.write(line + "\n")
                print(line, flush=True)


def table(before: Path, after: Path) -> None:
    """Print both files side by side."""
    left, right = _cells(before), _cells(after)
    rows = []
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in right):
        pairs = [
            (left[cell], right[cell])
            for cell in right
            if cell[:2] == (name, kind) and cell in left and "error" not in left[cell] | right[cell]
        ]
        if not pairs:
            continue
        old, new = (
            np.array([[s["log_loss"], s["exact"]] for s in side])
            for side in zip(*pairs, strict=True)
        )
        change = (new - old)[:, 0]
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
        share = [side["largest_C"] for _, side in pairs]
        rows.append(
            [
                name,
                kind,
                f"{old[:, 0].mean():.3f}",
                f"{new[:, 0].mean():.3f}",
                f"{change.mean():+.3f} ± {error:.3f}",
                f"{old[:, 1].mean():.3f}",
                f"{new[:, 1].mean():.3f}",
                "–" if share[0] is None else f"{np.mean(share):.2f}",
                f"{np.mean([a['fit_cpu_s'] for a, _ in pairs]):.1f}",
                f"{np.mean([b['fit_cpu_s'] for _, b in pairs]):.1f}",
            ]
        )
    header = ["data", "model", "log-loss before", "after", "change", "exact match before", "after"]
    print_table([*header, "labels at the largest C", "CPU s a fit before", "after"], rows)


def _cells(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {tuple(line["cell"]): line for line in lines}


def main() -> None:
    """Run or print."""
    options: argparse.ArgumentParser = parser(__doc__)
    verbs = options.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--sets", nargs="+", default=["emotions", "scene", "yeast", "enron"])
    running.add_argument("--models", nargs="+", default=list(MODELS))
    running.add_argument("--folds", type=int, default=3)
    printing = verbs.add_parser("table")
    printing.add_argument("before", type=Path)
    printing.add_argument("after", type=Path)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    if given.verb == "run":
        run(given.out, given.sets, given.models, given.folds, given.data)
    else:
        table(given.before, given.after)


if __name__ == "__main__":
    main()
