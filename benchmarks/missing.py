"""Missing labels: what models learn from rows that lack some of their labels.

A share of the training labels is removed at random. Each model learns from what is left, and by
three makeshifts: (a) from the complete rows alone, (b) with missing labels as 0, (d) after filling
in each label by the prediction of its own regression; (c) is `BinaryRelevance` on the known labels.
XGBoost and CatBoost, where they are installed, learn a model per label from the rows in which it is
known. The figures are the joint log-loss in nats per row, exact match, and CPU seconds of the fits.
Dense features are standardised on the training rows.

`python -m benchmarks.missing run FILE [--jobs 8] [--deadline 500] [--longest 300]
[--sets emotions ...] [--shares 0.5 ...] [--folds 0 1 ...] [--models CTBN ...]` measures each set,
model and fold in a process of its own, adds a line to FILE for each share as soon as it ends, and
goes on where it stopped. It reads the data sets as arrays from the folder of FILE, or else writes
them there (`python -m benchmarks.missing arrays FILE` does nothing else): a machine that has these
needs no reader of tables.
`python -m benchmarks.missing table FILE` prints the tables of BENCHMARKS.md, and writes all figures
to docs/missing_labels.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

import colabel
from benchmarks._common import ROOT, finished, markdown, parser

Array = NDArray[np.float64]
SETS = "emotions", "yeast", "scene", "enron", "water_quality"
MODELS = (
    *("CTBN", "ProbabilisticClassifierChain", "EnsembleOfChains", "CDN", "StackedBinaryRelevance"),
    *("MLkNN", "IBLR", "BayesNetEnsemble", "LDSMixture", "CollectiveCRF", "PairwiseCRF"),
    *("MixtureOfTrees", "JointForest", "JointStack"),
)
SHORT = {
    "ProbabilisticClassifierChain": "PCC",
    "EnsembleOfChains": "ECC",
    "StackedBinaryRelevance": "stacked BR",
    "BayesNetEnsemble": "EBN",
    "LDSMixture": "LDS",
}
PEERS = "XGBoost", "CatBoost"
WAYS = "known", "(a) rows", "(b) as 0", "(c) BR", "(d) filled in", "complete"
N_FOLDS = 5
MOST_LOSS = 50.0  # nats, of a row: a vector that a model calls impossible


class PerLabel:
    """A boosted model per label, fitted to the rows in which the label is known."""

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def fit(self, X: Any, Y: Array) -> PerLabel:
        """Fit; a label with one known value alone has its smoothed frequency."""
        self.models: list[tuple[Array, Any]] = []
        for column in Y.T:
            known = ~np.isnan(column)
            values, target = np.unique(column[known], return_inverse=True)
            if len(values) == 1:
                self.models.append((values, (len(target) + 0.5) / (len(target) + 1)))
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
            self.models.append((values, model.fit(X[known], target)))
        return self

    def asked(self, X: Any, Y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return log P(y | x) of each row (n,), and whether the most probable values are right."""
        log_prob, right = np.zeros(len(Y)), np.ones(len(Y), dtype=bool)
        for (values, model), column in zip(self.models, Y.T, strict=True):
            alone = isinstance(model, float)
            table = np.full((len(Y), 1), model) if alone else model.predict_proba(X)
            of_value = np.where(column[:, None] == values, table, 0.0).sum(axis=1)
            of_value = np.where(np.isin(column, values), of_value, 1.0 - model if alone else 0.0)
            log_prob += np.log(np.clip(of_value, 1e-7, 1 - 1e-7))
            right &= values[table.argmax(axis=1)] == column
        return log_prob, right


def asked(model: Any, X: Any, Y: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the loss of each row (n,) and whether its most probable vector is right."""
    if isinstance(model, PerLabel):
        log_prob, right = model.asked(X, Y)
        return np.minimum(-log_prob, MOST_LOSS), right
    joint = model.joint(X)
    loss = np.minimum(-joint.log_prob(Y), MOST_LOSS)
    if isinstance(joint, colabel.joint.LDSPosterior) and joint.inference != "exact":
        loss[:] = np.nan  # it adds up the label vectors seen, which is no log-loss
    return loss, (joint.mode() == Y).all(axis=1)


def arrays(folder: Path, name: str, data_home: Path) -> Any:
    """Return the arrays of a data set and its folds; written to the folder if it has none."""
    file = folder / f"{name}.npz"
    if not file.is_file():
        # these read tables, by packages that a machine which only measures may lack
        from studies.datasets import iterative_stratification, load

        data = load(name, data_home=data_home)
        X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
        Y = np.asarray(data.Y, dtype=np.float64)
        rows = np.random.default_rng(0).permutation(len(Y))
        folds = iterative_stratification(Y[rows].astype(int), N_FOLDS, 0)
        parts: dict[str, Any] = {f"train{f}": rows[train] for f, (train, _) in enumerate(folds)}
        parts |= {f"test{f}": rows[test] for f, (_, test) in enumerate(folds)}
        parts |= {"X": X, "Y": Y, "sparse": np.array(not isinstance(data.X, np.ndarray))}
        np.savez_compressed(file, **parts)
    return np.load(file)


def cells(file: Path, set: str, model: str, fold: int, most: int, shares: list[float]) -> None:
    """Measure a model at some shares; add a line to a file for each."""
    data = arrays(file.parent, set, file.parent)
    X, Y = data["X"], data["Y"]
    train, test = data[f"train{fold}"][:most], data[f"test{fold}"][:most]
    Y = Y[:, np.ptp(Y[train], axis=0) > 0]
    inside, outside = X[train], X[test]
    if not data["sparse"]:
        scaler = StandardScaler().fit(inside)
        inside, outside = scaler.transform(inside), scaler.transform(outside)
    is_warm = False
    for share in shares:
        gone = np.random.default_rng(fold).random(Y[train].shape) < share
        partial = np.where(gone, np.nan, Y[train])
        if not is_warm:  # compiled loops are loaded before seconds are counted
            with suppress(ValueError):
                for labels in (partial, Y[train]):
                    asked(fitted(model, inside[:60], labels[:60]), outside[:9], Y[test][:9])
        is_warm = True
        found = cell(model, share, inside, Y[train], gone, outside, Y[test])
        line = {"set": set, "share": share, "model": model, "fold": fold, "most": most, **found}
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def fitted(model: str, X: Array, Y: Array) -> Any:
    """Return a model or a peer by its defaults, fitted."""
    fresh: Any = PerLabel(model) if model in PEERS else getattr(colabel, model)(random_state=0)
    return fresh.fit(X, Y)


def cell(
    model: str, share: float, X: Array, Y: Array, gone: Any, X_test: Array, Y_test: Array
) -> dict[str, Any]:
    """Fit a model in all ways: what each says of the test rows, and how `known` compares."""
    partial = np.where(gone, np.nan, Y)
    whole = ~gone.any(axis=1)
    alone = colabel.BinaryRelevance(random_state=0).fit(X, partial)
    ways = {
        "known": (X, partial),
        "(a) rows": (X[whole], Y[whole]),
        "(b) as 0": (X, np.nan_to_num(partial)),
        "(d) filled in": (X, np.where(gone, alone.predict(X), partial)),
        "complete": (X, Y),
    }
    if model in PEERS:
        ways = {"known": ways["known"]}
    if share != 0.5:
        ways.pop("complete", None)  # the same for all shares
    if model == "JointStack":  # which is dear
        del ways["(d) filled in"]
    result: dict[str, Any] = {}
    losses: dict[str, Array] = {}

    def record(way: str, model: Any, seconds: float, base: str) -> None:
        loss, right = asked(model, X_test, Y_test)
        losses[way] = loss
        lead = loss - losses.get(base, np.nan)
        result[way] = {
            "loss": loss.mean(),
            "error": loss.std(ddof=1) / len(loss) ** 0.5,
            "exact": right.mean(),
            "seconds": seconds,
            "lead": lead.mean(),
            "lead error": lead.std(ddof=1) / len(lead) ** 0.5,
        }

    for way, (features, labels) in ways.items():
        if len(labels) < 10:
            continue
        start = time.process_time()
        try:
            found = fitted(model, features, labels)
            record(way, found, time.process_time() - start, "known")
        except ValueError as error:  # too few rows are left
            result[way] = str(error)
    record("(c) BR", alone, 0.0, "known")
    if "complete" in losses:
        whole_alone = colabel.BinaryRelevance(random_state=0).fit(X, Y)
        record("complete BR", whole_alone, 0.0, "complete")
    return result


def run(given: Any) -> None:
    """Measure the cells that a file does not have: a process for a set, model and fold."""
    file = given.file.resolve()
    for name in given.sets:
        arrays(file.parent, name, given.data)
    done = finished(file)
    todo = []
    for fold, name, model in product(given.folds, given.sets, given.models):
        one = {"set": name, "model": model, "fold": fold, "most": given.most}
        ended = [line["share"] for line in done if one.items() <= line.items()]
        shares = [share for share in given.shares if share not in ended]
        todo += [{**one, "shares": shares}] if shares else []
    last = time.monotonic() + given.deadline
    threads = dict.fromkeys(("OMP", "NUMBA", "OPENBLAS", "MKL"), "1")
    environment = {**os.environ, **{f"{name}_NUM_THREADS": n for name, n in threads.items()}}

    def measured(one: dict[str, Any]) -> None:
        left = last - time.monotonic()
        if left < 0:
            return
        command = [sys.executable, "-m", "benchmarks.missing", "cells", str(file)]
        command += ["--told", json.dumps(one)]
        limit = min(given.longest, left)
        try:
            subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=None if limit == np.inf else limit,
            )
        except subprocess.TimeoutExpired:
            print(f"{one}: not ended in {limit:.0f} s", file=sys.stderr, flush=True)
        except subprocess.CalledProcessError as error:
            print(f"{one}: {error.stderr}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(given.jobs) as workers:
        for _ in workers.map(measured, todo):
            pass


def means(cells: list[Any], way: str) -> dict[str, float]:
    """Mean of the figures of a way over folds; errors are those of the mean."""
    found = [one[way] for one in cells if isinstance(one.get(way), dict)]
    if not found:
        return {}
    n = len(found)
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    for name in ("error", "lead error"):
        mean[name] = float(np.sum([one[name] ** 2 for one in found])) ** 0.5 / n
    return mean


def behind(cells: list[Any], way: str, whole: list[Any]) -> str:
    """Say by the letter of a way that `known` is two standard errors behind it; else nothing.

    A capital C says that in the cells `whole` complete labels are behind BR, too.
    """
    lead = means(cells, way)
    if not lead or not lead["lead"] < -2 * lead["lead error"]:
        return ""
    return "C" if way == "(c) BR" and behind(whole, "complete BR", whole) else way[1]


def cost_ratio(cells: list[Any]) -> float:
    """CPU seconds of the fits, with those of complete labels as 1."""
    both = [one for one in cells if isinstance(one.get("complete"), dict)]
    both = [one for one in both if isinstance(one["known"], dict)]
    seconds = [sum(one[way]["seconds"] for one in both) for way in ("known", "complete")]
    return seconds[0] / seconds[1] if both else np.nan


PAGE = ROOT / "docs" / "missing_labels.md"
ABOUT = """# Missing labels: all figures

`python -m benchmarks.missing run FILE`, then `table FILE`: a share of the labels of at most
{most} training rows is removed at random, in each of {n_folds} folds. Cells: log-loss±standard
error (exact match); in brackets, how much more than that of `known` the log-loss is, bold where
that is two standard errors below zero. (a): complete rows alone, where there are ten; (b): NaN as
0; (c): `BinaryRelevance` on what is known (C: complete labels are behind it, too); (d): each label
filled in by the prediction of its own regression; complete: nothing is missing. CPU seconds are
those of `known`; `x complete` compares them with the complete fit. A log-loss counts at most
{most_loss:.0f} nats per row. `LDSMixture` adds up the label vectors seen on enron and
water_quality, which is no log-loss. What took too long is left out (see `folds`).
"""


def table(file: Path) -> None:
    """Write the page of all figures, and print the tables of BENCHMARKS.md."""
    groups: dict[Any, Any] = defaultdict(lambda: defaultdict(list))
    for line in finished(file):
        groups[line["set"], line["share"]][line["model"]].append(line)
    lines = finished(file)
    told = {"most": lines[0]["most"], "n_folds": 1 + max(line["fold"] for line in lines)}
    order = [(name, share) for name in SETS for share in sorted({key[1] for key in groups})]
    page = [ABOUT.format(**told, most_loss=MOST_LOSS)]
    for name, share in order:
        rows = []
        for model in (*MODELS, *PEERS):
            cells, whole = groups[name, share][model], groups[name, 0.5][model]
            if not cells:
                continue
            shown: list[Any] = [SHORT.get(model, model), len(cells)]
            for way in WAYS:
                mean = means(cells, way)
                if not mean:
                    shown.append("–")
                    continue
                error = "±{error:.2f}" if way == "known" else ""
                text = ("{loss:.2f}" + error + " ({exact:.3f})").format(**mean).replace("nan", "–")
                if way not in ("known", "complete") and not np.isnan(mean["lead"]):
                    lead = "[{lead:+.2f}±{lead error:.2f}]".format(**mean)
                    mark = behind(cells, way, whole)
                    text += f" **{lead}{' C' if mark == 'C' else ''}**" if mark else f" {lead}"
                shown.append(text)
            spent, ratio = means(cells, "known").get("seconds", np.nan), cost_ratio(cells)
            rows.append([*shown, f"{spent:.1f}", "–" if np.isnan(ratio) else f"{ratio:.1f}"])
        page += [f"## {name}, {share:.0%} of the labels removed\n"]
        page += [markdown(["model", "folds", *WAYS, "CPU s", "x complete"], rows)]
    PAGE.write_text("\n".join(page), encoding="utf-8")
    for measure in ("loss", "exact"):
        print(_compact(groups, measure))


def _compact(groups: dict[Any, Any], measure: str) -> str:
    sets = [name for name in SETS if any(key[0] == name for key in groups)]
    shares = sorted({share for _, share in groups})
    of_loss = measure == "loss"

    def figure(cells: list[Any], way: str, whole: list[Any]) -> str:
        mean = means(cells, way)
        if not mean or np.isnan(mean[measure]):
            return "–"
        ways = ("(a) rows", "(b) as 0", "(c) BR") if way == "known" and of_loss else ()
        marks = "".join(behind(cells, other, whole) for other in ways)
        return f"{mean[measure]:.2f}{marks}" if of_loss else f"{mean[measure]:.3f}"[1:]

    def row(model: str, own: str, ways: tuple[str, str]) -> list[str]:
        shown = [own]
        for name in sets:
            half = groups[name, 0.5][model]
            found = [figure(groups[name, share][model], ways[0], half) for share in shares]
            whole = figure(half, ways[1], half)
            shown.append(" ".join(found) + ("" if whole == "–" else f" ({whole})"))
        ratios = [cost_ratio(groups[name, 0.5][model]) for name in sets]
        told = [ratio for ratio in ratios if not np.isnan(ratio)]
        of_cost = f"{min(told):.1f}-{max(told):.1f}" if told and own != "BR" else "–"
        return [*shown, of_cost] if of_loss else shown

    rows = [row("CTBN", "BR", ("(c) BR", "complete BR"))]
    rows += [
        row(model, SHORT.get(model, model), ("known", "complete"))
        for model in (*MODELS, *PEERS)
        if any(model in found for found in groups.values())
    ]
    return markdown(["model", *sets, *(["cost"] if of_loss else [])], rows)


def main() -> None:
    """Measure cells, or print tables."""
    options = parser(__doc__)
    options.add_argument("what", choices=["run", "arrays", "table", "cells"])
    options.add_argument("file", type=Path, help="of results")
    options.add_argument("--told", type=json.loads, help="of `cells`: what to measure, as JSON")
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--shares", nargs="+", type=float, default=[0.5, 0.2, 0.8])
    options.add_argument("--folds", nargs="+", type=int, default=list(range(N_FOLDS)))
    options.add_argument("--most", type=int, default=500, help="training rows at most")
    options.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options.add_argument(
        "--longest", type=float, default=np.inf, help="seconds of a process, at most"
    )
    options.add_argument("--deadline", type=float, default=np.inf, help="seconds of all, at most")
    peers = [name for name in PEERS if find_spec(name.lower())]
    options.add_argument("--models", nargs="+", default=[*peers, *MODELS])
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "table":
        table(given.file)
    elif given.what == "cells":
        cells(given.file, **given.told)
    elif given.what == "arrays":
        for name in given.sets:
            arrays(given.file.resolve().parent, name, given.data)
    else:
        run(given)


if __name__ == "__main__":
    main()
