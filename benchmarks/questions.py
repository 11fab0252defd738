"""How many labels a person must be asked until 95 % of the rows are right.

A model fitted to the other folds predicts the rows of one. Then one label after the other is asked,
of whichever row it is worth most, and its true value told to the joint; the row's prediction is the
most probable vector given all that was told. Ways to choose:

- subset, hamming, log: `next_question` by these losses. The loss "log" is the entropy of the label
  given all that was told, for that is what its value removes of the joint's;
- random: any label of any row;
- alone: without a joint. The probabilities of single labels are those of the same model, the label
  asked is the one most in doubt, and its value tells nothing of the others.

The figures are labels asked a row, means over folds ± their standard error; "saved" compares log
with alone.

Usage: python -m benchmarks.questions [emotions image yeast enron] [--models CTBN PCC JF]
    [--right 0.95] [--folds 3] [--seed 0] [--only N]
    [--ways subset hamming log random]
"""

from __future__ import annotations

import heapq
import time
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks._common import machine, parser, print_table
from benchmarks.conformal import MODELS
from colabel.core.arrays import Array, Codes, Flags
from colabel.decide import next_question
from colabel.joint import Independent, Joint
from colabel.labels import MISSING
from studies.datasets import kfold, load

Policy = Callable[[Joint, np.random.Generator], Array]


def by_loss(loss: str) -> Policy:
    """Expected loss that each label would remove, (n, d)."""
    return lambda joint, _: next_question(joint, loss).gain


def at_random(joint: Joint, rng: np.random.Generator) -> Array:
    """Chance, (n, d)."""
    return rng.random((joint.n_rows, joint.space.n_labels))


POLICIES: dict[str, Policy] = {
    "subset": by_loss("subset"),
    "hamming": by_loss("hamming"),
    "log": by_loss("log"),
    "random": at_random,
}


def paths(
    joint: Joint, truth: Codes, policy: Policy, rng: np.random.Generator
) -> tuple[Array, Flags]:
    """Worth (n, d) of a row's next question, and whether it is right (n, d + 1), by labels told."""
    n_rows, n_labels = truth.shape
    evidence = np.full(truth.shape, MISSING, dtype=np.int32)
    worth, right = np.empty((n_rows, n_labels)), np.ones((n_rows, n_labels + 1), dtype=bool)
    for told in range(n_labels):
        now = joint.given_codes(evidence) if told else joint
        right[:, told] = (now.mode_codes() == truth).all(axis=1)
        value = np.where(evidence != MISSING, -np.inf, policy(now, rng))
        label = value.argmax(axis=1)
        worth[:, told] = value[np.arange(n_rows), label]
        evidence[np.arange(n_rows), label] = truth[np.arange(n_rows), label]
    return worth, right


def asked(worth: Array, right: Flags, share: float) -> float:
    """Labels asked a row until a share of the rows is right, always where it is worth most."""
    n_rows, n_labels = worth.shape
    told = np.zeros(n_rows, dtype=int)
    queue = [(-worth[row, 0], row) for row in range(n_rows)]
    heapq.heapify(queue)
    n_right, count = int(right[:, 0].sum()), 0
    while n_right < share * n_rows:
        _, row = heapq.heappop(queue)
        n_right += int(right[row, told[row] + 1]) - int(right[row, told[row]])
        told[row] += 1
        count += 1
        if told[row] < n_labels:
            heapq.heappush(queue, (-worth[row, told[row]], row))
    return float(count / n_rows)


def main() -> None:
    """Print a table."""
    options = parser(__doc__)
    options.add_argument("sets", nargs="*", default=("emotions", "image", "yeast", "enron"))
    options.add_argument("--models", nargs="*", choices=MODELS, default=["CTBN"])
    options.add_argument("--right", type=float, default=0.95)
    options.add_argument("--folds", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, help="the first N folds alone")
    options.add_argument("--ways", nargs="*", choices=POLICIES, default=list(POLICIES))
    arguments = options.parse_args()
    chosen = {name: POLICIES[name] for name in dict.fromkeys([*arguments.ways, "log"])}
    warnings.simplefilter("ignore")
    print(machine() + "\n")
    rows = []
    for name in arguments.sets:
        data = load(name, data_home=arguments.data)
        for short in arguments.models:
            start = time.process_time()
            lines = []
            folds = list(kfold(data.n_rows, arguments.folds, arguments.seed))[: arguments.only]
            for train, test in folds:
                X, Y, new = data.X[train], data.Y[train], data.X[test]
                truth = np.asarray(data.Y[test], dtype=np.int32)
                joint = MODELS[short].fit(X, Y).joint(new)
                with np.errstate(divide="ignore"):
                    alone = Independent(joint.space, [np.log(t) for t in joint.marginal_tables()])
                ways = [(joint, policy) for policy in chosen.values()]
                line = []
                for of, policy in [*ways, (alone, POLICIES["log"])]:
                    worth, right = paths(of, truth, policy, np.random.default_rng(0))
                    line.append(asked(worth, right, arguments.right))
                lines.append([(joint.mode_codes() == truth).all(axis=1).mean(), *line])
            seconds = (time.process_time() - start) / len(folds)
            mean, error = np.mean(lines, axis=0), np.full(len(lines[0]), np.nan)
            if len(lines) > 1:
                error = np.std(lines, axis=0, ddof=1) / np.sqrt(len(lines))
            counts = [f"{m:.2f} ± {e:.2f}" for m, e in zip(mean[1:], error[1:], strict=True)]
            saved = 1 - mean[1 + list(chosen).index("log")] / mean[-1]
            cells = [f"{mean[0]:.3f}", *counts, f"{100 * saved:.0f} %", f"{seconds:.0f}"]
            rows.append([name, str(data.Y.shape[1]), short, *cells])
            print(rows[-1], flush=True)
    print()
    header = [
        "data",
        "labels",
        "model",
        "right unasked",
        *chosen,
        "alone",
        "saved",
        "CPU s per fold",
    ]
    print_table(header, rows)


if __name__ == "__main__":
    main()
