"""RankSVM and maximum-margin output coding beside the papers' figures.

MaxMarginOutputCoding: ten-fold cross-validation beside papers 002 and 003/004. RankSVM and a
one-vs-rest SVM: ten random splits of paper 000's sizes, C chosen by three-fold cross-validation
of the exact match on the training rows; the paper's printed figures are lost, its claims stand in
../shared/published/README.md. Dense features are standardised on the training rows.

Usage: python -m benchmarks.margins [--data DIR] [--seed 0] [--splits 10] [--parts mmoc ranking]
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks._common import machine, parser, print_table
from colabel import MaxMarginOutputCoding, RankSVM
from colabel.datasets import kfold, load, random_splits
from colabel.metrics import exact_match, f1_score

# (exact match, micro F1, macro F1): MLCRF paper, then exact match on CTBN's slides.
PUBLISHED = {
    "emotions": (".332 / .336", ".687", ".679"),
    "scene": (".664 / .684", ".711", ".721"),
    "yeast": (".219 / .214", ".651", ".473"),
    "image": (".448", ".572", ".578"),
}
# Rows for training and for testing. Paper 000 has 463 + 200 for genbase, which has 662 rows.
SPLITS = {"emotions": (391, 202), "yeast": (1500, 917), "genbase": (462, 200)}


def measures(truth: Any, predicted: Any) -> list[float]:
    """Exact match, micro-F1 and macro-F1."""
    return [
        exact_match(truth, predicted),
        f1_score(truth, predicted, average="micro"),
        f1_score(truth, predicted, average="macro"),
    ]


def evaluate(model: Any, data: Any, splits: Any) -> tuple[NDArray[Any], float]:
    """Measures (splits, 3) of a model, and the seconds it took."""
    found = []
    start = time.perf_counter()
    for train, test in splits:
        rows, held = data.X[train], data.X[test]
        if not data.is_sparse:
            scaler = StandardScaler().fit(rows)
            rows, held = scaler.transform(rows), scaler.transform(held)
        found.append(measures(data.Y[test], model.fit(rows, data.Y[train]).predict(held)))
    return np.array(found), time.perf_counter() - start


def shown(found: NDArray[Any]) -> list[str]:
    """Means with the standard errors over splits."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return [f"{m:.3f} ± {e:.3f}" for m, e in zip(found.mean(axis=0), error, strict=True)]


def output_coding(folder: Any, seed: int) -> None:
    """Ten-fold cross-validation of MaxMarginOutputCoding."""
    rows = []
    for name, published in PUBLISHED.items():
        data = load(name, data_home=folder)
        model = MaxMarginOutputCoding(random_state=0)
        found, seconds = evaluate(model, data, kfold(data.X.shape[0], 10, seed))
        gap = model.duality_gap_ / model.objective_
        cells = [c for pair in zip(shown(found), published, strict=True) for c in pair]
        size = f"{model.code_.shape[1]} of {data.n_labels}"
        rows.append([name, *cells, size, f"{gap:.2%}", f"{seconds:.1f}"])
    header = ["data", "exact match", "published", "micro F1", "published", "macro F1", "published"]
    header += ["components (last fold)", "gap (last fold)", "seconds for ten folds"]
    print("MaxMarginOutputCoding, C = 100, ten folds")
    print_table(header, rows)


def _contenders() -> dict[str, Any]:
    inner = KFold(3, shuffle=True, random_state=0)

    def tuned(model: Any, name: str, grid: list[float]) -> GridSearchCV:
        return GridSearchCV(model, {name: grid}, cv=inner, scoring=_exact_match)

    line = LinearSVC(loss="hinge", dual=True, max_iter=3000, random_state=0)
    large = [0.1, 1.0, 10.0]
    return {
        "RankSVM, linear": tuned(RankSVM(random_state=0), "C", [0.001, 0.01, 0.1]),
        "RankSVM, rbf": tuned(RankSVM(kernel="rbf", random_state=0), "C", large),
        "SVM, linear": tuned(OneVsRestClassifier(line), "estimator__C", [0.01, 0.1, 1.0]),
        "SVM, rbf": tuned(OneVsRestClassifier(SVC()), "estimator__C", large),
    }


def _exact_match(model: Any, X: Any, Y: Any) -> float:
    return exact_match(Y, model.predict(X))


def ranking(folder: Any, seed: int, n_splits: int) -> None:
    """RankSVM and SVM on random splits."""
    header = ["data", "method", "exact match", "micro F1", "macro F1", "seconds, tuning and all"]
    print(f"C by three-fold cross-validation, {n_splits} random splits of paper 000's sizes")
    for name, (train, test) in SPLITS.items():
        data = load(name, data_home=folder)
        splits = random_splits(data.X.shape[0], train, test, n_splits, seed)
        rows = []
        for label, model in _contenders().items():
            found, seconds = evaluate(model, data, splits)
            rows.append([name, label, *shown(found), f"{seconds:.1f}"])
        print_table(header, rows)


def training_time(folder: Any) -> None:
    """One fit of RankSVM to all of yeast."""
    data = load("yeast", data_home=folder)
    X = StandardScaler().fit_transform(data.X)
    rows = []
    for kernel in ("linear", "rbf", "poly"):
        RankSVM(kernel=kernel, random_state=0).fit(X[:50], data.Y[:50])  # compile
        start = time.perf_counter()
        model = RankSVM(kernel=kernel, random_state=0).fit(X, data.Y)
        seconds = time.perf_counter() - start
        gap = model.duality_gap_ / model.objective_
        rows.append([kernel, f"{seconds:.2f}", f"{gap:.1e}", model.n_iter_])
    print("RankSVM on yeast, 2417 x 103 x 14, C = 1")
    print_table(["kernel", "seconds", "relative duality gap", "sweeps"], rows)


def main() -> None:
    """Run the parts asked for."""
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--splits", type=int, default=10)
    options.add_argument("--parts", nargs="+", default=["mmoc", "ranking"])
    arguments = options.parse_args()
    warnings.filterwarnings("ignore")
    print(machine() + "\n")
    if "mmoc" in arguments.parts:
        output_coding(arguments.data, arguments.seed)
    if "ranking" in arguments.parts:
        training_time(arguments.data)
        ranking(arguments.data, arguments.seed, arguments.splits)


if __name__ == "__main__":
    main()
