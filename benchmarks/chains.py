"""Classifier chains beside the figures of the MLCRF paper, and how long exact modes take.

Ten-fold cross-validation with features standardised on the training folds and C chosen per link
from the default grid by inner cross-validation; the chains go along the labels as they stand.
The log-loss is the sum of -log P(y | x) over a test fold, averaged over the folds, as in print.

Usage: python -m benchmarks.chains [--data DIR] [--sets emotions scene yeast] [--seeds 0]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import Chain, ProbabilisticClassifierChain
from colabel.metrics import exact_match, f1_score, joint_log_loss
from studies.datasets import kfold, load

# (exact match, log-loss a fold) of the MLCRF paper, tables 2 and 3.
PUBLISHED = {
    ("emotions", "CC"): (0.268, 169.6),
    ("emotions", "PCC"): (0.317, 134.9),
    ("scene", "CC"): (0.632, 395.0),
    ("scene", "PCC"): (0.666, 258.9),
    ("yeast", "CC"): (0.193, 2303.8),
    ("yeast", "PCC"): (0.230, 932.1),
}
INFERENCES: dict[str, dict[str, Any]] = {
    "greedy": {"inference": "greedy"},
    "beam, width 10": {"inference": "beam", "beam_width": 10},
    "epsilon 0.01": {"inference": "epsilon", "epsilon": 0.01},
    "monte carlo, 1000 draws": {"inference": "monte_carlo", "n_samples": 1000},
    "exact (branch and bound)": {"inference": "exact"},
}


def dense(X: Any) -> Any:
    """Return rows as an array: standardised rows are not sparse."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def folds_of(data: Any, n_splits: int, seed: int) -> list[tuple[Any, Any, Any, Any]]:
    """Standardised (rows, labels) to train and to test, for each fold."""
    X, Y = dense(data.X), np.asarray(data.Y)
    parts = []
    for train, test in kfold(len(X), n_splits, seed):
        scaler = StandardScaler().fit(X[train])
        parts.append((scaler.transform(X[train]), Y[train], scaler.transform(X[test]), Y[test]))
    return parts


def measured(
    parts: list[tuple[Any, Any, Any, Any]],
) -> tuple[dict[str, np.ndarray[Any, Any]], float, float]:
    """Measures (folds, 4) of CC and PCC, seconds of fitting and of exact modes.

    Both have the same links and differ in the search alone, so they are fitted once.
    """
    found: dict[str, list[tuple[float, ...]]] = {"CC": [], "PCC": []}
    fitting = asking = 0.0
    for rows, labels, test_rows, truth in parts:
        start = time.perf_counter()
        model = ProbabilisticClassifierChain(random_state=0).fit(rows, labels)
        fitting += time.perf_counter() - start
        loss = joint_log_loss(model.joint(test_rows).log_prob(truth), normalize=False)
        for name, inference in (("CC", "greedy"), ("PCC", "exact")):
            start = time.perf_counter()
            predicted = model.set_params(inference=inference).predict(test_rows)
            asking += (time.perf_counter() - start) * (name == "PCC")
            micro, macro = (f1_score(truth, predicted, average=a) for a in ("micro", "macro"))
            found[name].append((exact_match(truth, predicted), loss, micro, macro))
    return {name: np.array(folds) for name, folds in found.items()}, fitting, asking


def accuracy(folder: Path, names: list[str], seeds: list[int]) -> None:
    """Print the figures of every data set."""
    table = []
    for name in names:
        data = load(name, data_home=folder)
        for seed in seeds:
            found, fitting, asking = measured(folds_of(data, 10, seed))
            for model, folds in found.items():
                mean, error = folds.mean(axis=0), folds.std(axis=0, ddof=1) / np.sqrt(len(folds))
                match, loss = PUBLISHED.get((name, model), (np.nan, np.nan))
                table.append(
                    [
                        name,
                        seed,
                        model,
                        f"{mean[0]:.3f} ± {error[0]:.3f}",
                        f"{match:.3f}",
                        f"{mean[1]:.1f} ± {error[1]:.1f}",
                        f"{loss:.1f}",
                        f"{mean[2]:.3f}",
                        f"{mean[3]:.3f}",
                        f"{fitting:.1f}",
                        f"{asking:.2f}" if model == "PCC" else "",
                    ]
                )
    header = "set seed model match print log-loss print micro-F1 macro-F1 fit-s modes-s"
    print_table(header.split(), table)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the second of two results, and its seconds: the first one compiles."""
    work()
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def searches(folder: Path, name: str, n_splits: int) -> None:
    """Print what each search finds on one fold, and how long it takes."""
    data = load(name, data_home=folder)
    rows, labels, test_rows, truth = folds_of(data, n_splits, 0)[0]
    start = time.perf_counter()
    model = ProbabilisticClassifierChain(random_state=0).fit(rows, labels)
    fitting = time.perf_counter() - start
    counts = labels.sum(axis=0)
    print(
        f"{name}: {len(rows)} rows to train ({fitting:.1f} s), {len(truth)} to test, "
        f"{truth.shape[1]} labels, {int((counts == 0).sum())} of them never seen in training, "
        f"{int(((counts > 0) & (counts < 10)).sum())} in fewer than ten rows"
    )
    best = model.joint(test_rows).mode_codes()
    table = []
    for label, search in INFERENCES.items():
        joint = model.set_params(**search).joint(test_rows)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            codes, seconds = timed(joint.mode_codes)
        table.append([label, *_found(joint, codes, best, truth), f"{seconds:.3f}", len(caught) > 0])
    header = "search|exact match|same as exact|mean log P of the vector|seconds|cut short"
    print_table(header.split("|"), table)
    joint = model.joint(test_rows)
    tables, seconds = timed(joint.marginal_tables)
    print(f"marginals of {len(tables)} labels: {seconds:.2f} s. {joint.how}\n")


def _found(joint: Chain, codes: Any, best: Any, truth: Any) -> list[str]:
    same = (codes == best).all(axis=1).mean()
    return [
        f"{exact_match(truth, codes):.3f}",
        f"{same:.3f}",
        f"{joint.log_prob_codes(codes).mean():.4f}",
    ]


def main() -> None:
    """Run and print."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="*", default=["emotions", "scene", "yeast"])
    options.add_argument("--seeds", nargs="+", type=int, default=[0])
    chosen = options.parse_args()
    print(machine(), "\n")
    accuracy(chosen.data, chosen.sets, chosen.seeds)
    searches(chosen.data, "yeast", 3)
    searches(chosen.data, "enron", 3)


if __name__ == "__main__":
    main()
