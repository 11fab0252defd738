"""PairwiseCRF against the figures of its paper: structure on synthetic data, ten-fold on real data.

Synthetic: the learned graph of 500 rows against the true one, 20 seeds of each problem. Real:
ten-fold cross-validation, features standardised on the training rows (rcv1_top10 as it is), all
penalties chosen inside each training fold, beside the other methods on the same folds.

Usage: python -m benchmarks.crf [--data DIR] [--only synthetic emotions yeast] [--folds 10]
       [--methods CRF CML BR CC PCC] [--repeats 20] [--seeds 0 1 2]
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import (
    BinaryRelevance,
    ClassifierChain,
    CollectiveCRF,
    PairwiseCRF,
    ProbabilisticClassifierChain,
)
from colabel.models import JointClassifier
from studies.datasets import SYNTHETIC_GRAPHS, kfold, load, make_synthetic

# Tables 2 and 3 of the paper: exact match and log-loss a fold.
PUBLISHED = {
    "emotions": {
        "CRF": (0.371, 130.4),
        "BR": (0.265, 153.5),
        "CC": (0.268, 169.6),
        "PCC": (0.317, 134.9),
    },
    "scene": {
        "CRF": (0.687, 252.4),
        "BR": (0.541, 344.7),
        "CC": (0.632, 395.0),
        "PCC": (0.666, 258.9),
    },
    "yeast": {
        "CRF": (0.225, 923.9),
        "BR": (0.151, 1500.3),
        "CC": (0.193, 2303.8),
        "PCC": (0.230, 932.1),
    },
    "image": {
        "CRF": (0.452, 347.0),
        "BR": (0.281, 432.5),
        "CC": (0.426, 480.3),
        "PCC": (0.449, 354.7),
    },
    "rcv1_top10": {
        "CRF": (0.541, 922.6),
        "BR": (0.439, 1267.0),
        "CC": (0.497, 1421.9),
        "PCC": (0.519, 1009.0),
    },
}
METHODS: dict[str, Any] = {
    "CRF": PairwiseCRF,
    "CML": CollectiveCRF,
    "BR": BinaryRelevance,
    "CC": ClassifierChain,
    "PCC": ProbabilisticClassifierChain,
}
UNSCALED = frozenset({"rcv1_top10"})
# A million parameters: penalties are compared on one quarter of the rows, not on five fifths.
SETTINGS = {"rcv1_top10": {"cv": 0.25}}


class FoldResult(NamedTuple):
    """What one test fold gave."""

    log_loss: float
    exact_match: float
    n_edges: int
    seconds: float
    cpu_seconds: float


def _is_true_graph(kind: str, edges: set[tuple[str, str]]) -> bool:
    """Whether a graph is the true one; in SD3 y1 - y2 may join, for y3 makes them dependent."""
    allowed = {("y1", "y2")} if kind == "SD3" else set()
    truth = set(SYNTHETIC_GRAPHS[kind])
    return truth <= edges <= truth | allowed


def synthetic(n_repeats: int) -> None:
    """Count how often the true graph is found."""
    rows = []
    for kind in SYNTHETIC_GRAPHS:
        start, found, graphs = time.perf_counter(), 0, Counter[str]()
        for seed in range(n_repeats):
            data = make_synthetic(kind, n_rows=500, random_state=seed)
            model = PairwiseCRF(random_state=0).fit(data.X, data.Y)
            edges = {(f"y{i + 1}", f"y{j + 1}") for i, j in model.graph_}
            found += _is_true_graph(kind, edges)
            graphs[", ".join(f"{a}-{b}" for a, b in sorted(edges)) or "none"] += 1
        listed = "; ".join(f"{graph}: {count}" for graph, count in graphs.most_common())
        seconds = (time.perf_counter() - start) / n_repeats
        rows.append([kind, f"{found} of {n_repeats}", listed, f"{seconds:.1f}"])
    print_table(["problem", "true graph", "graphs learned", "seconds a fit"], rows)


def _fold(model: JointClassifier, data: Any, train: Any, test: Any, scaled: bool) -> FoldResult:
    X, Y = data.X, np.asarray(data.Y)
    if scaled:
        X = StandardScaler().fit(X[train]).transform(X)
    start, cpu_start = time.perf_counter(), time.process_time()
    model.fit(X[train], Y[train])
    joint = model.joint(X[test])
    log_loss = -float(joint.log_prob(Y[test]).sum())
    matched = float((joint.mode() == Y[test]).all(axis=1).mean())
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    n_edges = len(getattr(model, "graph_", ()))
    return FoldResult(log_loss, matched, n_edges, seconds, cpu_seconds)


def real(name: str, methods: list[str], n_folds: int, seed: int, data_home: Any) -> None:
    """Print one line for each method."""
    data = load(name, data_home=data_home)
    rows = []
    for method in methods:
        folds = kfold(data.X.shape[0], 10, seed)[:n_folds]
        results = [
            _fold(
                METHODS[method](random_state=0, **SETTINGS.get(name, {})),
                data,
                train,
                test,
                name not in UNSCALED,
            )
            for train, test in folds
        ]
        log_loss, match, edges, seconds, cpu_seconds = np.array(results).T
        published = PUBLISHED[name].get(method, ("-", "-"))
        rows.append(
            [
                name,
                seed,
                method,
                f"{log_loss.mean():.1f} ± {log_loss.std() / np.sqrt(len(folds)):.1f}",
                published[1],
                f"{match.mean():.3f} ± {match.std() / np.sqrt(len(folds)):.3f}",
                published[0],
                f"{edges.min():.0f}-{edges.max():.0f}",
                f"{seconds.sum():.0f}",
                f"{cpu_seconds.sum():.0f}",
            ]
        )
    header = ["data", "seed", "method", "log-loss a fold", "published", "exact match", "published"]
    print_table([*header, "edges", f"seconds, {n_folds} folds", "of CPU"], rows)


def main() -> None:
    """Run and print the tables."""
    options = parser(__doc__)
    everything = ["synthetic", *PUBLISHED]
    options.add_argument("--only", nargs="+", choices=everything, default=everything)
    options.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    options.add_argument("--folds", type=int, default=10, help="how many of the ten folds to run")
    options.add_argument("--repeats", type=int, default=20, help="seeds of each synthetic problem")
    options.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of the folds")
    arguments = options.parse_args()
    print(machine() + "\n")
    for name in arguments.only:
        if name == "synthetic":
            synthetic(arguments.repeats)
        else:
            for seed in arguments.seeds:
                real(name, arguments.methods, arguments.folds, seed, arguments.data)


if __name__ == "__main__":
    main()
