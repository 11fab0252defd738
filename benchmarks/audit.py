"""Planted label errors: how well `colabel.audit` finds them, beside cleanlab on the same folds.

`python -m benchmarks.audit run FILE [--sets emotions ...] [--rates .01 .03 .1] [--draws 10]` adds
lines to a file and goes on where it stopped; `python -m benchmarks.audit table FILE` prints the
table. Draws are counted from 1, since settings were chosen in sight of draw 0. A third of the rows
is held out: a `JointForest` fitted to the labels with errors, to the corrected and to the true ones
says what corrections do to exact match. cleanlab gets the held-out marginals of
`RandomForestClassifier(100)`, and of its scores and aggregations the one that finds most of the
planted errors. Published labels have errors of their own, which `n_wrong` counts too; those of a
set called "drawn_emotions" are drawn from a chain fitted to emotions, so that there are no others
than the planted ones.
"""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score

import colabel
from benchmarks._common import finished, parser, print_table, resumed
from colabel import JointForest, ProbabilisticClassifierChain
from studies.datasets import iterative_stratification, load

DRAWN = "drawn_"
SETS = "emotions", "scene", "yeast", "medical", "enron", "tmc2007_500"
KINDS = "flipped", "forgotten"
_METHODS = "self_confidence", "normalized_margin", "confidence_weighted_entropy"
_AGGREGATIONS = (
    {"method": "exponential_moving_average", "alpha": 0.8},
    {"method": "softmin", "temperature": 0.1},
)


def spoiled(
    Y: NDArray[Any], kind: str, rate: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels with planted errors, and where these are."""
    wrong = rng.random(Y.shape) < rate
    if kind == "forgotten":
        wrong &= Y == 1
    return np.where(wrong, 1 - Y, Y), wrong


def forest_marginals(X: Any, Y: NDArray[Any], folds: Any) -> NDArray[Any]:
    """Held-out P(y_i = 1 | x) of a multi-output forest."""
    held_out = np.zeros(Y.shape)
    for train, test in folds:
        forest = RandomForestClassifier(100, random_state=0).fit(X[train], Y[train])
        each = zip(forest.predict_proba(X[test]), forest.classes_, strict=True)
        columns = [p[:, 1] if len(c) == 2 else np.full(len(test), float(c[0])) for p, c in each]
        held_out[test] = np.stack(columns, axis=1)
    return held_out


def precision(wrong: Any, suspicion: Any) -> float:
    """Average precision of a ranking."""
    finite = np.nan_to_num(suspicion, neginf=-1e9, posinf=1e9)
    return float(average_precision_score(wrong.ravel(), finite.ravel()))


def by_cleanlab(given: NDArray[Any], marginals: NDArray[Any], wrong: NDArray[Any]) -> Any:
    """Best average precision (labels, rows) over all of cleanlab's scores and aggregations."""
    from cleanlab.multilabel_classification import rank

    labels = [np.flatnonzero(row).tolist() for row in given]
    found_labels, found_rows = [], []
    for method in _METHODS:
        scores = rank.get_label_quality_scores_per_class(labels, marginals, method=method)
        found_labels.append(precision(wrong, -scores))
        for options in _AGGREGATIONS:
            scores = rank.get_label_quality_scores(
                labels, marginals, method=method, aggregator_kwargs=options
            )
            found_rows.append(precision(wrong.any(axis=1), -scores))
    return max(found_labels), max(found_rows)


def cell(set: str, kind: str, rate: float, draw: int, most: int) -> dict[str, Any]:
    """Plant errors in training rows, look for them with both, and return the figures."""
    data = load(set.removeprefix(DRAWN))
    rng = np.random.default_rng(draw)
    rows = rng.permutation(data.X.shape[0])
    Y = np.asarray(data.Y).astype(int)
    if set.startswith(DRAWN):
        rows = rows[: 3 * most // 2]
        chain = ProbabilisticClassifierChain(C=0.1, random_state=0).fit(data.X[rows], Y[rows])
        Y[rows] = chain.joint(data.X[rows]).sample(1, rng)[0]
    train, test = np.split(rows[: 3 * most // 2], [min(most, 2 * len(rows) // 3)])
    Y = Y[:, Y[train].sum(axis=0) >= 5]
    X, given, wrong = data.X[train], *spoiled(Y[train], kind, rate, rng)
    folds = iterative_stratification(given, 5, seed=0)
    started = time.process_time()
    marginals = forest_marginals(X, given, folds)
    result: dict[str, Any] = {"forest_s": time.process_time() - started}
    result["cleanlab"] = by_cleanlab(given, marginals, wrong)
    started = time.process_time()
    found = colabel.audit("auto", X, given, cv=folds, n_explained=0)
    result["audit_s"] = time.process_time() - started
    result["audit"] = (
        precision(wrong, found.wrong_log_odds),
        precision(wrong.any(axis=1), found.score),
    )
    count = found.n_wrong()
    result["n_wrong"] = int(wrong.sum()), count.rate, count.low, count.high
    result["exact"] = []
    for labels in (given, found.corrected()[0], Y[train]):
        predicted = JointForest(random_state=0).fit(X, labels).predict(data.X[test])
        result["exact"].append(float((predicted == Y[test]).all(axis=1).mean()))
    return result


def table(file: Path) -> None:
    """Print means over draws, with standard errors of the paired lead."""
    groups = defaultdict(list)
    for one in finished(file):
        groups[one["set"], one["kind"], one["rate"]].append(one)
    rows = []
    for (name, kind, rate), cells in groups.items():
        shown: list[Any] = [name, kind, f"{rate:.0%}", len(cells)]
        for place in (0, 1):
            ours = np.array([one["audit"][place] for one in cells])
            theirs = np.array([one["cleanlab"][place] for one in cells])
            lead = ours - theirs
            error = f" ± {lead.std(ddof=1) / len(lead) ** 0.5:.3f}" if len(lead) > 1 else ""
            shown += [f"{theirs.mean():.3f}", f"{ours.mean():.3f}", f"{lead.mean():+.3f}{error}"]
        true, estimate = (np.mean([one["n_wrong"][at] for one in cells]) for at in (0, 1))
        within = np.mean([o["n_wrong"][2] <= o["n_wrong"][0] <= o["n_wrong"][3] for o in cells])
        exact = np.mean([one["exact"] for one in cells], axis=0)
        seconds = [np.mean([one[key] for one in cells]) for key in ("forest_s", "audit_s")]
        shown += [f"{true:.0f}", f"{estimate:.0f}", f"{within:.2f}"]
        shown += [f"{match:.3f}" for match in exact]
        rows.append([*shown, *(f"{s:.0f}" for s in seconds)])
    labels = ["labels: cleanlab", "audit", "lead", "rows: cleanlab", "audit", "lead"]
    counts = ["wrong labels", "estimate", "in the interval", "exact match", "corrected", "true"]
    counts += ["forest, CPU s", "audit, CPU s"]
    print_table(["data", "errors", "rate", "draws", *labels, *counts], rows)


def main() -> None:
    """Run cells, or print the table."""
    options = parser(__doc__)
    options.add_argument("what", choices=["run", "table"])
    options.add_argument("file", type=Path)
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--rates", nargs="+", type=float, default=[0.01, 0.03, 0.1])
    options.add_argument("--draws", type=int, default=10)
    options.add_argument("--most", type=int, default=1000, help="training rows at most")
    given = options.parse_args()
    if given.what == "run":
        axes = product(range(1, 1 + given.draws), given.sets, KINDS, given.rates)
        cells = (
            {"set": name, "kind": kind, "rate": rate, "draw": draw, "most": given.most}
            for draw, name, kind, rate in axes
        )
        resumed(given.file, cells, cell)
    else:
        table(given.file)


if __name__ == "__main__":
    main()
