"""Missing labels: what models learn from rows that lack some of their labels.

A share of the training labels is removed at random. Each model learns from what is left, and by
four makeshifts: (a) from the complete rows alone, (b) with missing labels as 0, (d) after filling
in each label by the prediction of its own regression; (c) is `BinaryRelevance` on the known labels.
XGBoost and CatBoost learn a model per label from the rows in which it is known. The figures are the
joint log-loss in nats per row, exact match, and CPU seconds of the fits. Dense features are
standardised on the training rows.

`python -m benchmarks.missing run FILE [--sets emotions ...] [--shares 0.5 ...] [--folds 2]` adds
lines to a file and goes on where it stopped; `python -m benchmarks.missing table FILE` prints
tables.
"""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import colabel
from benchmarks._common import finished, parser, print_table, resumed
from studies.datasets import iterative_stratification, load

Array = NDArray[np.float64]
SETS = "emotions", "yeast", "scene", "enron", "water_quality"
MODELS = (
    *("CTBN", "ProbabilisticClassifierChain", "EnsembleOfChains", "CDN", "StackedBinaryRelevance"),
    *("MLkNN", "IBLR", "BayesNetEnsemble", "LDSMixture", "CollectiveCRF", "PairwiseCRF"),
    *("MixtureOfTrees", "JointForest", "JointStack"),
)
PEERS = "XGBoost", "CatBoost"
WAYS = "known", "(a) rows", "(b) as 0", "(c) BR", "(d) filled in"
MOST_LOSS = 50.0  # nats, of a row: a vector that a model calls impossible


class PerLabel:
    """A boosted model per label, fitted to the rows in which the label is known."""

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def fit(self, X: Any, Y: Array) -> PerLabel:
        """Fit; a label with one known value alone has its smoothed frequency."""
        self.models: list[Any] = []
        for column in Y.T:
            known = ~np.isnan(column)
            target = column[known].astype(int)
            if np.ptp(target) == 0:
                self.models.append((target.sum() + 0.5) / (len(target) + 1))
                continue
            if self.peer == "XGBoost":
                from xgboost import XGBClassifier

                model = XGBClassifier(n_jobs=1, random_state=0)
            else:
                from catboost import CatBoostClassifier

                model = CatBoostClassifier(
                    iterations=300,
                    thread_count=1,
                    random_seed=0,
                    verbose=False,
                    allow_writing_files=False,
                )
            self.models.append(model.fit(X[known], target))
        return self

    def marginals(self, X: Any) -> Array:
        """Return P(y_i = 1 | x), (n, d)."""
        columns = [
            np.full(X.shape[0], model) if isinstance(model, float) else model.predict_proba(X)[:, 1]
            for model in self.models
        ]
        return np.asarray(np.clip(np.stack(columns, axis=1), 1e-7, 1 - 1e-7))


def asked(model: Any, X: Any, Y: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the loss of each row (n,) and whether its most probable vector is right."""
    if isinstance(model, PerLabel):
        p = model.marginals(X)
        loss = -np.where(Y == 1, np.log(p), np.log1p(-p)).sum(axis=1)
        return loss, ((p > 0.5) == Y).all(axis=1)
    joint = model.joint(X)
    return np.minimum(-joint.log_prob(Y), MOST_LOSS), (joint.mode() == Y).all(axis=1)


def cell(set: str, share: float, model: str, fold: int, most: int) -> dict[str, Any]:
    """Fit a model in all ways; losses, exact match, seconds, and paired differences to `known`."""
    data = load(set)
    X, Y = data.X, np.asarray(data.Y, dtype=np.float64)
    rows = np.random.default_rng(0).permutation(len(Y))
    train, test = iterative_stratification(Y[rows].astype(int), 5, 0)[fold]
    train, test = rows[train][:most], rows[test][:most]
    Y = Y[:, np.ptp(Y[train], axis=0) > 0]
    if sparse.issparse(X):
        inside, outside = X[train].toarray(), X[test].toarray()
    else:
        scaler = StandardScaler().fit(X[train])
        inside, outside = scaler.transform(X[train]), scaler.transform(X[test])
    gone = np.random.default_rng(fold).random(Y[train].shape) < share
    partial = np.where(gone, np.nan, Y[train])
    whole = ~gone.any(axis=1)
    alone = colabel.BinaryRelevance(random_state=0).fit(inside, partial)
    filled = np.where(gone, alone.predict(inside), partial)
    ways = {
        "known": (inside, partial),
        "(a) rows": (inside[whole], Y[train][whole]),
        "(b) as 0": (inside, np.nan_to_num(partial)),
        "(d) filled in": (inside, filled),
        "complete": (inside, Y[train]),
    }
    if model in (*PEERS, "JointStack"):  # which is dear
        ways = {"known": ways["known"]}
    elif share != 0.5:
        del ways["complete"]  # the same for all shares
    result: dict[str, Any] = {}
    base = None
    for way, (features, labels) in ways.items():
        if len(labels) < 10:
            continue
        start = time.process_time()
        fresh: Any = PerLabel(model) if model in PEERS else getattr(colabel, model)(random_state=0)
        try:
            fitted = fresh.fit(features, labels)
            seconds = time.process_time() - start
            loss, right = asked(fitted, outside, Y[test])
        except ValueError as error:  # too few rows are left
            result[way] = str(error)
            continue
        base = loss if way == "known" else base
        result[way] = [float(loss.mean()), float(right.mean()), seconds, *_paired(loss, base)]
    loss, right = asked(alone, outside, Y[test])
    result["(c) BR"] = [float(loss.mean()), float(right.mean()), 0.0, *_paired(loss, base)]
    return result


def _paired(loss: Array, base: Array | None) -> tuple[float, float]:
    """Mean and standard error of how much larger losses are than those of `known`."""
    if base is None:
        return np.nan, np.nan
    lead = loss - base
    return float(lead.mean()), float(lead.std(ddof=1) / len(lead) ** 0.5)


def table(file: Path) -> None:
    """Print, for each data set and share, a line for each model: means over folds."""
    groups: dict[Any, Any] = defaultdict(lambda: defaultdict(list))
    for line in finished(file):
        groups[line["set"], line["share"]][line["model"]].append(line)
    for (name, share), models in groups.items():
        print(f"{name}, {share:.0%} of the labels removed: log-loss (exact match)\n")
        rows = []
        for model, cells in models.items():
            shown: list[Any] = [model, len(cells)]
            for way in (*WAYS, "complete"):
                found = np.array([one[way] for one in cells if isinstance(one.get(way), list)])
                if not len(found):
                    shown.append("–")
                    continue
                loss, right, _, lead, error = found.mean(axis=0)
                error /= len(found) ** 0.5
                worse = " **better**" if way != "known" and lead < -2 * error else ""
                shown.append(f"{loss:.3f} ({right:.3f}){worse if way[1] in 'abc' else ''}")
            spent = [one["known"][2] for one in cells if isinstance(one["known"], list)]
            whole = [one["complete"][2] for one in cells if isinstance(one.get("complete"), list)]
            ratio = f" ({np.mean(spent) / np.mean(whole):.1f} x complete)" if whole else ""
            rows.append([*shown, f"{np.mean(spent):.1f}{ratio}" if spent else "–"])
        print_table(["model", "folds", *WAYS, "complete labels", "CPU s"], rows)


def main() -> None:
    """Measure cells, or print tables."""
    options = parser(__doc__)
    options.add_argument("what", choices=["run", "table"])
    options.add_argument("file", type=Path)
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--shares", nargs="+", type=float, default=[0.5, 0.2, 0.8])
    options.add_argument("--folds", type=int, default=2)
    options.add_argument("--most", type=int, default=500, help="training rows at most")
    options.add_argument("--models", nargs="+", default=[*PEERS, *MODELS])
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "table":
        table(given.file)
        return
    axes = product(range(given.folds), given.shares, given.sets, given.models)
    cells = (
        {"set": name, "share": share, "model": model, "fold": fold, "most": given.most}
        for fold, share, name, model in axes
    )
    resumed(given.file, cells, cell)


if __name__ == "__main__":
    main()
