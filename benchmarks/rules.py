"""What rules cost, and what they buy.

`python -m benchmarks.rules cost`: 500 labels in a hierarchy of depth five, exclusions among
siblings. It prints CPU seconds for a thousand rows, with and without the rules: of a tree along the
hierarchy, of independent labels, and (200 rows) of a tree across the hierarchy, which no
elimination fits, so that there are draws. `python -m benchmarks.rules fitted` does so of models
fitted to 600 rows of such labels.

`python -m benchmarks.rules run FILE [--sets ...] [--models ...]` suggests rules from the training
rows of real data (support of ten rows or more; all of them, or those that independent labels would
obey with a probability below 1/1000) and applies them to held-out rows, beside the usual repair of
the most probable labels. It goes on where it stopped; `python -m benchmarks.rules table FILE`
prints the table.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks._common import finished, parser, print_table, resumed
from colabel import CTBN, BinaryRelevance, JointStack, PairwiseCRF
from colabel.core.arrays import Array, Codes
from colabel.joint import Tree
from colabel.labels import LabelSpace
from colabel.rules import CompiledRules, Rules
from studies.datasets import iterative_stratification, load

N_LABELS, DEPTH, MOST_CHILDREN, N_ROOTS = 500, 5, 6, 4
SETS = "emotions", "yeast", "medical", "genbase", "enron", "eukaryote_go", "water_quality"
MODELS = {"BinaryRelevance": BinaryRelevance, "CTBN": CTBN, "JointStack": JointStack}
N_FOLDS, MOST_ROWS, MIN_SUPPORT = 3, 2400, 10
KINDS = {"all": np.inf, "surprising": np.log(1e-3)}  # log-chance of a rule at most


def hierarchy(rng: np.random.Generator) -> list[int]:
    """Return the parent of each label, -1 for a root."""
    parents, depth, children = [-1] * N_ROOTS, [1] * N_ROOTS, [0] * N_LABELS
    while len(parents) < N_LABELS:
        above = int(rng.integers(len(parents)))
        if depth[above] < DEPTH and children[above] < MOST_CHILDREN:
            parents.append(above)
            depth.append(depth[above] + 1)
            children[above] += 1
    return parents


def rules_of(parents: Sequence[int], names: Sequence[str]) -> Rules:
    """Each label needs its parent, and siblings exclude each other."""
    siblings: dict[int, list[str]] = {}
    for name, parent in zip(names, parents, strict=True):
        siblings.setdefault(parent, []).append(name)
    groups = (group for parent, group in siblings.items() if parent >= 0 and len(group) > 1)
    excluded = "\n".join(f"at most one of {', '.join(group)}" for group in groups)
    pairs = [(names[i], names[p]) for i, p in enumerate(parents) if p >= 0]
    return Rules.hierarchy(pairs) & Rules.parse(excluded)


def tables(rng: np.random.Generator, parents: Sequence[int], n_rows: int) -> list[Array]:
    """Random conditionals; a label without its parent is rare."""
    found = []
    for parent in parents:
        scores = rng.normal(size=(n_rows, 1 if parent < 0 else 2, 2)) - [0.0, 1.0]
        if parent >= 0:
            scores[:, 0, 1] -= 2.0
        found.append(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))
    return found


def repaired(marginals: Array, rules: CompiledRules) -> Codes:
    """Take each label that is more probable than not, then flip labels until all rules hold.

    A flip leaves as few rules broken as one can; of these, the label that is least sure.
    """
    log_odds = np.log(np.maximum(marginals, 1e-12)) - np.log(np.maximum(1 - marginals, 1e-12))
    codes = (log_odds > 0).astype(np.int32)
    for at in np.flatnonzero(~rules.may_hold(codes)):
        cost = np.abs(log_odds[at])
        while np.isfinite(cost).any() and not rules.may_hold(codes[at][None])[0]:
            flipped = codes[at] ^ np.eye(len(cost), dtype=np.int32)  # (d, d), one flip each
            broken = sum((~node.may_hold(flipped)).astype(int) for node in rules.nodes)
            label = np.lexsort((cost, np.where(np.isfinite(cost), broken, len(rules.nodes) + 1)))[0]
            codes[at, label] ^= 1
            cost[label] = np.inf
    return codes


def f1(codes: Codes, truth: Codes) -> Array:
    """F1 of each row (n,); 1 where both are empty."""
    total = codes.sum(axis=1) + truth.sum(axis=1)
    return np.where(total == 0, 1.0, 2 * (codes & truth).sum(axis=1) / np.maximum(total, 1))


def real_cell(
    set: str, model: str, fold: int, *, kinds: Sequence[str] = tuple(KINDS)
) -> dict[str, Any]:
    """Fit a model to two thirds of the rows; return what rules do to its answers on the rest."""
    data = load(set)
    rows = np.random.default_rng(0).permutation(data.X.shape[0])[:MOST_ROWS]
    X, Y = data.X[rows], np.asarray(data.Y)[rows].astype(np.int32)
    train, test = iterative_stratification(Y, N_FOLDS, 0)[fold]
    varying = np.ptp(Y[train], axis=0) > 0
    Y, names = Y[:, varying], [n for n, v in zip(data.label_names, varying, strict=True) if v]
    scaler = (StandardScaler() if isinstance(X, np.ndarray) else MaxAbsScaler()).fit(X[train])
    started = time.process_time()
    fitted = MODELS[model](random_state=0).fit(
        scaler.transform(X[train]), Y[train], label_names=names
    )
    joint, truth = fitted.joint(scaler.transform(X[test])), Y[test]
    log_prob, mode, marginals = joint.log_prob(truth), joint.mode(), np.asarray(joint.marginals())
    result: dict[str, Any] = {"n": len(test), "fit_s": time.process_time() - started}
    suggested = Rules.suggest(Y[train], names, min_support=MIN_SUPPORT)
    for kind, most in ((kind, KINDS[kind]) for kind in kinds):
        rules = Rules(tuple(one.rule for one in suggested if one.log_chance <= most))
        if not rules:
            continue
        compiled = rules.compiled(joint.space)
        started = time.process_time()
        ruled = joint.subject_to(rules)
        answers = {"without": mode, "repaired": repaired(marginals, compiled), "with": ruled.mode()}
        allowed = compiled.may_hold(truth)
        loss = -log_prob[allowed].mean(), -ruled.log_prob(truth)[allowed].mean()
        exact = {how: (codes == truth).all(axis=1) for how, codes in answers.items()}
        overlap = {how: f1(codes, truth) for how, codes in answers.items()}
        result[kind] = {
            "rules": len(rules),
            "truths": int((~allowed).sum()),
            "broken": {how: int((~compiled.may_hold(y)).sum()) for how, y in answers.items()},
            "exact": {how: float(right.mean()) for how, right in exact.items()},
            "f1": {how: float(score.mean()) for how, score in overlap.items()},
            "log_loss": loss,
            "changed": {  # rows that are right with rules alone, and those that were right before
                how: [
                    int((exact["with"] & ~exact[how]).sum()),
                    int((exact[how] & ~exact["with"]).sum()),
                ]
                for how in ("without", "repaired")
            },
            "seconds": time.process_time() - started,
            "sums": "sums" in ruled.exact,
        }
    return result


def table(file: Path) -> None:
    """Print a line for each data set and model: sums and means over folds."""
    groups = defaultdict(list)
    for line in finished(file):
        for kind in KINDS:
            if kind in line:
                groups[line["set"], kind, line["model"]].append((line["n"], line[kind]))
    rows = []
    for (name, kind, model), folds in groups.items():
        n = sum(size for size, _ in folds)

        def mean(key: str, how: Any, folds: Any = folds, n: int = n) -> float:
            return float(sum(size * one[key][how] for size, one in folds)) / n

        def error(how: str, folds: Any = folds, n: int = n) -> float:
            return float(np.sqrt(sum(sum(one["changed"][how]) for _, one in folds))) / n

        ways = "without", "repaired", "with"
        rows.append(
            [
                f"{name}, {n} rows",
                f"{np.mean([one['rules'] for _, one in folds]):.0f} {kind}",
                sum(one["truths"] for _, one in folds),
                model,
                sum(one["broken"]["without"] for _, one in folds),
                " / ".join(f"{mean('exact', how):.3f}" for how in ways),
                *(
                    f"{mean('exact', 'with') - mean('exact', how):+.4f} ± {error(how):.4f}"
                    for how in ways[:2]
                ),
                " / ".join(f"{mean('f1', how):.3f}" for how in ways),
                " / ".join(f"{mean('log_loss', place):.3f}" for place in (0, 1)),
                f"{sum(one['seconds'] for _, one in folds):.1f}",
            ]
        )
    header = ["data", "rules", "truths that break one", "model", "answers that break one"]
    header += ["exact match without / repaired / with", "with - without", "with - repaired"]
    print_table([*header, "F1", "log-loss without / with", "CPU s"], rows)


def costs() -> None:
    """Print a line for each joint."""
    rng = np.random.default_rng(0)
    names = [f"g{i}" for i in range(N_LABELS)]
    space = LabelSpace(tuple(names), (np.array([0, 1]),) * N_LABELS, "matrix")
    parents = hierarchy(rng)
    rules = rules_of(parents, names)
    across = [-1, *(int(rng.integers(0, i)) for i in range(1, N_LABELS))]
    cases = {
        "tree along the hierarchy": (parents, 1000),
        "independent labels": ([-1] * N_LABELS, 1000),
        "tree across the hierarchy": (across, 200),
    }
    print(f"{len(rules)} rules")
    for name, (shape, n_rows) in cases.items():
        joint = Tree(space, shape, tables(rng, shape, n_rows))
        started = time.process_time()
        joint.mode(), joint.marginals()
        plain = time.process_time() - started
        started = time.process_time()
        obeying = joint.subject_to(rules)
        mode, _ = obeying.mode(), obeying.marginals()
        seconds = time.process_time() - started
        broken = len(rules.violations(mode, names).rows)
        print(
            f"{name:26} {n_rows:5} rows: {plain:6.2f} s without, {seconds:6.2f} s with rules, "
            f"{obeying.exact}, {broken} rules broken"
        )


def hierarchical_rows(
    rng: np.random.Generator, parents: Sequence[int], n_rows: int
) -> tuple[Array, Codes]:
    """Return features (n, 30), and labels that obey: at most one child of each label there is."""
    weights = rng.normal(size=(30, len(parents)))
    X = rng.normal(size=(n_rows, 30))
    scores = X @ weights / 4.0 + rng.gumbel(size=(n_rows, len(parents)))
    Y = np.zeros((n_rows, len(parents)), dtype=np.int32)
    children: dict[int, list[int]] = {}
    for label, parent in enumerate(parents):
        children.setdefault(parent, []).append(label)
    for row in range(n_rows):
        left = [label for label in children[-1] if scores[row, label] > 0]
        while left:
            label = left.pop()
            Y[row, label] = 1
            if label in children and rng.random() < 0.85:
                below = children[label]
                left.append(below[int(scores[row, below].argmax())])
    return X, Y


def fitted_costs(models: Sequence[str]) -> None:
    """Print what rules cost fitted models, for a thousand rows."""
    rng = np.random.default_rng(0)
    names = [f"g{i}" for i in range(N_LABELS)]
    parents = hierarchy(rng)
    rules = rules_of(parents, names)
    X, Y = hierarchical_rows(rng, parents, 1600)
    seen = np.flatnonzero(np.ptp(Y[:600], axis=0) > 0)
    kept = {names[i] for i in seen}
    rules = Rules(tuple(rule for rule in rules if set(re.findall(r"g\d+", rule.text)) <= kept))
    print(f"{len(seen)} labels that vary, {len(rules)} rules", flush=True)
    for name in models:
        started = time.process_time()
        model = (MODELS | {"PairwiseCRF": PairwiseCRF})[name](random_state=0)
        model.fit(X[:600], Y[:600][:, seen], label_names=[names[i] for i in seen])
        fitting = time.process_time() - started
        started = time.process_time()
        joint = model.joint(X[600:])
        mode, _ = joint.mode(), joint.marginals()
        plain = time.process_time() - started
        started = time.process_time()
        compiled = rules.compiled(joint.space)
        compiling = time.process_time() - started
        started = time.process_time()
        obeying = model.joint(X[600:]).subject_to(compiled)
        ruled, _ = obeying.mode(), obeying.marginals()
        seconds = time.process_time() - started
        broken = [int((~compiled.may_hold(codes)).sum()) for codes in (mode, ruled)]
        right = [float((codes == Y[600:][:, seen]).all(axis=1).mean()) for codes in (mode, ruled)]
        print(
            f"{name:16} fit {fitting:6.1f} s, 1000 rows: {plain:6.2f} s without, {seconds:6.2f} s "
            f"with rules (compiled in {compiling:.2f} s), {obeying.exact}, rows that break one "
            f"{broken[0]} / {broken[1]}, exact match {right[0]:.3f} / {right[1]:.3f}",
            flush=True,
        )


def main() -> None:
    """Do what the command line asks for."""
    options = parser(__doc__)
    options.add_argument("what", choices=["cost", "fitted", "run", "table"])
    options.add_argument("file", type=Path, nargs="?", default=Path("rules.jsonl"))
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "cost":
        costs()
    elif given.what == "fitted":
        fitted_costs([*given.models, "PairwiseCRF"])
    elif given.what == "table":
        table(given.file)
    else:
        axes = product(range(N_FOLDS), given.models, given.sets)
        cells = ({"set": name, "model": model, "fold": fold} for fold, model, name in axes)
        resumed(given.file, cells, partial(real_cell, kinds=given.kinds))


if __name__ == "__main__":
    main()
