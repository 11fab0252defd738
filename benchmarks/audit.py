"""Planted label errors: how well `colabel.audit` finds them, beside cleanlab on the same folds.

`python -m benchmarks.audit run FILE [--sets emotions ...] [--rates .01 .03 .1] [--draws 10]` adds
lines to a file and goes on where it stopped; `python -m benchmarks.audit table FILE` prints the
table. cleanlab gets the held-out marginals of `RandomForestClassifier(100)`, and of its scores and
aggregations the one that finds most of the planted errors.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score

import colabel
from benchmarks._common import parser, print_table
from studies.datasets import iterative_stratification, load

SETS = "emotions", "scene", "yeast", "medical", "enron", "tmc2007_500"
KINDS = "flipped", "forgotten"
MOST_ROWS = 3000
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


def cell(name: str, kind: str, rate: float, draw: int) -> dict[str, Any]:
    """Plant errors, look for them with both, and return the figures."""
    data = load(name)
    rng = np.random.default_rng(draw)
    rows = rng.permutation(data.X.shape[0])[:MOST_ROWS]
    X, Y = data.X[rows], np.asarray(data.Y)[rows].astype(int)
    Y = Y[:, Y.sum(axis=0) >= 5]
    given, wrong = spoiled(Y, kind, rate, rng)
    folds = iterative_stratification(given, 5, seed=0)
    result: dict[str, Any] = {"set": name, "kind": kind, "rate": rate, "draw": draw}
    started = time.process_time()
    marginals = forest_marginals(X, given, folds)
    result["forest_s"] = time.process_time() - started
    result["cleanlab"] = by_cleanlab(given, marginals, wrong)
    started = time.process_time()
    found = colabel.audit("auto", X, given, cv=folds)
    result["audit_s"] = time.process_time() - started
    result["audit"] = precision(wrong, found.log_odds), precision(wrong.any(axis=1), found.score)
    zeros = np.where(given == 0, found.log_odds, -np.inf)
    result["zeros"] = precision(wrong, zeros) if kind == "forgotten" else None
    count = found.n_wrong()
    result["n_wrong"] = int(wrong.sum()), count.rate, count.low, count.high
    return result


def run(file: Path, sets: list[str], rates: list[float], draws: int) -> None:
    """Work through the cells that the file does not have."""
    done = set()
    if file.is_file():
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        done = {(one["set"], one["kind"], one["rate"], one["draw"]) for one in lines}
    for draw in range(draws):
        for name in sets:
            for kind in KINDS:
                for rate in rates:
                    if (name, kind, rate, draw) not in done:
                        line = json.dumps(cell(name, kind, rate, draw))
                        with file.open("a", encoding="utf-8") as stream:
                            stream.write(line + "\n")


def table(file: Path) -> None:
    """Print means over draws, with standard errors of the paired lead."""
    groups = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
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
        seconds = [np.mean([one[key] for one in cells]) for key in ("forest_s", "audit_s")]
        shown += [f"{true:.0f}", f"{estimate:.0f}", f"{within:.2f}"]
        rows.append([*shown, *(f"{s:.0f}" for s in seconds)])
    labels = ["labels: cleanlab", "audit", "lead", "rows: cleanlab", "audit", "lead"]
    counts = ["wrong labels", "estimate", "in the interval", "forest, CPU s", "audit, CPU s"]
    print_table(["data", "errors", "rate", "draws", *labels, *counts], rows)


def main() -> None:
    """Run cells, or print the table."""
    options = parser(__doc__)
    options.add_argument("what", choices=["run", "table"])
    options.add_argument("file", type=Path)
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--rates", nargs="+", type=float, default=[0.01, 0.03, 0.1])
    options.add_argument("--draws", type=int, default=10)
    given = options.parse_args()
    if given.what == "run":
        run(given.file, given.sets, given.rates, given.draws)
    else:
        table(given.file)


if __name__ == "__main__":
    main()
