"""What rules cost, and what they buy.

`python -m benchmarks.rules cost`: 500 labels in a hierarchy of depth five, exclusions among
siblings. It prints CPU seconds for a thousand rows, with and without the rules: of a tree along the
hierarchy, of independent labels, and (200 rows) of a tree across the hierarchy, which no
elimination fits, so that there are draws. `python -m benchmarks.rules fitted --models ...` does so
of models fitted to rows of such labels.

`python -m benchmarks.rules run FILE [--sets ...] [--models ...]` suggests rules from the training
rows of real data (support of ten rows or more; all of them, or those that independent labels would
obey with a probability below 1/1000) and applies them to held-out rows, beside the usual repair of
the most probable labels. It goes on where it stopped; `python -m benchmarks.rules table FILE`
prints the table.
"""

from __future__ import annotations

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
MODELS: dict[str, Any] = {
    model.__name__: model for model in (BinaryRelevance, CTBN, JointStack, PairwiseCRF)
}
N_FOLDS, MOST_ROWS, MIN_SUPPORT = 3, 2400, 10
KINDS = {"all": np.inf, "surprising": np.log(1e-3)}  # log-chance of a rule at most


def hierarchy(rng: np.random.Generator, n_labels: int = N_LABELS) -> list[int]:
    """Return the parent of each label, -1 for a root."""
    parents, depth, children = [-1] * N_ROOTS, [1] * N_ROOTS, [0] * n_labels
    while len(parents) < n_labels:
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


def repaired(marginals: Sequence[Array], rules: CompiledRules) -> Codes:
    """Take the most probable value of each label (n, K_i), then change some until all rules hold.

    A change leaves as few rules broken as one can; of these, it is the one that costs least.
    """
    logs = [np.log(np.maximum(table, 1e-12)) for table in marginals]
    codes = np.stack([table.argmax(axis=1) for table in logs], axis=1).astype(np.int32)
    labels = np.concatenate([np.full(table.shape[1], i) for i, table in enumerate(logs)])
    values = np.concatenate([np.arange(table.shape[1]) for table in logs])
    each = np.arange(len(labels))
    for at in np.flatnonzero(~rules.may_hold(codes)):
        cost = np.concatenate([table[at].max() - table[at] for table in logs])
        cost[codes[at][labels] == values] = np.inf
        while np.isfinite(cost).any() and not rules.may_hold(codes[at][None])[0]:
            changed = np.repeat(codes[at][None], len(labels), axis=0)  # one change each
            changed[each, labels] = values
            broken = sum((~node.may_hold(changed)).astype(int) for node in rules.nodes)
            best = np.lexsort((cost, np.where(np.isfinite(cost), broken, len(rules.nodes) + 1)))[0]
            codes[at] = changed[best]
            cost[labels == labels[best]] = np.inf
    return codes


def overlap(codes: Codes, truth: Codes) -> list[int]:
    """Counts for the micro-averaged F1: twice the labels in common, and those of both."""
    both = 2 * int(((codes == truth) & (truth > 0)).sum())
    return [both, int((codes > 0).sum() + (truth > 0).sum())]


def real_cell(
    set: str, model: str, fold: int, *, kinds: Sequence[str] = tuple(KINDS)
) -> dict[str, Any]:
    """Fit a model to two thirds of the rows; return what rules do to its answers on the rest."""
    data = load(set)
    rows = np.random.default_rng(0).permutation(data.X.shape[0])[:MOST_ROWS]
    X = data.X[rows]
    Y = LabelSpace.infer(np.asarray(data.Y)[rows])[1]
    train, test = iterative_stratification(Y, N_FOLDS, 0)[fold]
    varying = np.ptp(Y[train], axis=0) > 0
    Y, names = Y[:, varying], [n for n, v in zip(data.label_names, varying, strict=True) if v]
    scaler = (StandardScaler() if isinstance(X, np.ndarray) else MaxAbsScaler()).fit(X[train])
    started = time.process_time()
    fitted = MODELS[model](random_state=0).fit(
        scaler.transform(X[train]), Y[train], label_names=names
    )
    joint, truth = fitted.joint(scaler.transform(X[test])), Y[test]
    log_prob, mode, marginals = joint.log_prob(truth), joint.mode(), joint.marginal_tables()
    result: dict[str, Any] = {"n": len(test), "fit_s": time.process_time() - started}
    suggested = Rules.suggest(Y[train], names, min_support=MIN_SUPPORT)
    for kind, most in ((kind, KINDS[kind]) for kind in kinds):
        rules = Rules(tuple(one.rule for one in suggested if one.log_chance <= most))
        if not rules:
            continue
        compiled = rules.compiled(joint.space)
        started = time.process_time()
        ruled = joint.subject_to(rules)
        answers = {"without": mode, "with": ruled.mode()}
        losses = -ruled.log_prob(truth)
        seconds = time.process_time() - started
        answers["repaired"] = repaired(marginals, compiled)
        allowed = compiled.may_hold(truth)
        loss = -log_prob[allowed].mean(), losses[allowed].mean()
        exact = {how: (codes == truth).all(axis=1) for how, codes in answers.items()}
        result[kind] = {
            "rules": len(rules),
            "truths": int((~allowed).sum()),
            "broken": {how: int((~compiled.may_hold(y)).sum()) for how, y in answers.items()},
            "exact": {how: float(right.mean()) for how, right in exact.items()},
            "f1": {how: overlap(codes, truth) for how, codes in answers.items()},
            "log_loss": loss,
            "changed": {  # rows that are right with rules alone, and those that were right before
                how: [
                    int((exact["with"] & ~exact[how]).sum()),
                    int((exact[how] & ~exact["with"]).sum()),
                ]
                for how in ("without", "repaired")
            },
            "seconds": seconds,
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

        def f1(how: str, folds: Any = folds) -> float:
            both, either = np.sum([one["f1"][how] for _, one in folds], axis=0)
            return float(both / either)

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
                " / ".join(f"{f1(how):.3f}" for how in ways),
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
    """Return features (n, 30), and labels that obey: at most one child of each label there is.

    Each of the first d rows has one label and what is above it, so that no label lacks rows.
    """
    weights = rng.normal(size=(30, len(parents)))
    X = rng.normal(size=(n_rows, 30))
    scores = X @ weights / 4.0 + rng.gumbel(size=(n_rows, len(parents)))
    Y = np.zeros((n_rows, len(parents)), dtype=np.int32)
    children: dict[int, list[int]] = {}
    for label, parent in enumerate(parents):
        children.setdefault(parent, []).append(label)
    for row in range(min(len(parents), n_rows)):
        label = row
        while label >= 0:
            Y[row, label], label = 1, parents[label]
    for row in range(len(parents), n_rows):
        left = [label for label in children[-1] if scores[row, label] > 0]
        while left:
            label = left.pop()
            Y[row, label] = 1
            if label in children and rng.random() < 0.85:
                below = children[label]
                left.append(below[int(scores[row, below].argmax())])
    return X, Y


def fitted_costs(models: Sequence[str], n_labels: int, n_train: int, n_test: int) -> None:
    """Print what rules cost fitted models."""
    rng = np.random.default_rng(0)
    names = [f"g{i}" for i in range(n_labels)]
    parents = hierarchy(rng, n_labels)
    rules = rules_of(parents, names)
    X, Y = hierarchical_rows(rng, parents, n_train + n_test)
    train, test = slice(None, n_train), slice(n_train, None)
    print(f"{n_labels} labels, {len(rules)} rules, {n_train} rows to learn from", flush=True)
    for name in models:
        started = time.process_time()
        model = MODELS[name](random_state=0)
        model.fit(X[train], Y[train], label_names=names)
        fitting = time.process_time() - started
        started = time.process_time()
        joint = model.joint(X[test])
        mode, _ = joint.mode(), joint.marginals()
        plain = time.process_time() - started
        started = time.process_time()
        compiled = rules.compiled(joint.space)
        compiling = time.process_time() - started
        started = time.process_time()
        obeying = model.joint(X[test]).subject_to(compiled)
        ruled, _ = obeying.mode(), obeying.marginals()
        seconds = time.process_time() - started
        broken = [int((~compiled.may_hold(codes)).sum()) for codes in (mode, ruled)]
        right = [float((codes == Y[test]).all(axis=1).mean()) for codes in (mode, ruled)]
        print(
            f"{name:16} fit {fitting:6.1f} s, {n_test} rows: {plain:6.2f} s without, "
            f"{seconds:6.2f} s with rules (compiled in {compiling:.2f} s), {obeying.exact}, "
            f"rows that break one {broken[0]} / {broken[1]}, "
            f"exact match {right[0]:.3f} / {right[1]:.3f}",
            flush=True,
        )


def main() -> None:
    """Do what the command line asks for."""
    options = parser(__doc__)
    options.add_argument("what", choices=["cost", "fitted", "run", "table"])
    options.add_argument("file", type=Path, nargs="?", default=Path("rules.jsonl"))
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--models", nargs="+", default=list(MODELS)[:3], choices=list(MODELS))
    options.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options.add_argument("--labels", type=int, default=N_LABELS)
    options.add_argument("--train", type=int, default=1000, help="rows to learn from")
    options.add_argument("--rows", type=int, default=1000, help="rows to answer about")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "cost":
        costs()
    elif given.what == "fitted":
        fitted_costs(given.models, given.labels, given.train, given.rows)
    elif given.what == "table":
        table(given.file)
    else:
        axes = product(range(N_FOLDS), given.models, given.sets)
        cells = ({"set": name, "model": model, "fold": fold} for fold, model, name in axes)
        resumed(given.file, cells, partial(real_cell, kinds=given.kinds))


if __name__ == "__main__":
    main()
