"""Sets of label vectors with guaranteed coverage: that they keep the promise, and their sizes.

Rows are split at random, over and over: a fifth is new, and of the others 40 % calibrate. Beside
the sets that `ConformalSets` gives stand those of *label-wise* conformal prediction, with the same
model and the same rows: every label alone has a set of values at level 1 - (1 - coverage) / d, and
their product covers the vector (Bonferroni). Coverage and sizes are means over splits, ± the
standard error of that mean; the size of a product is the product of sizes, so its mean is dominated
by the largest: medians stand beside, as do rows whose set is not listed within `--most` vectors.
Of these, whether the true vector is in the whole set is known all the same; how large the set is,
is estimated from draws for the score "probability" (for a mass the vectors listed are counted).

Usage: python -m benchmarks.conformal [emotions image yeast enron] [--models CTBN PCC JF]
    [--coverage 0.9] [--splits 10] [--first 0] [--nonconformity mass probability] [--cv 0.4]
    [--most 4096] [--store .conformal.jsonl]

Of data with more than 20 labels, whose sets are too large to list, CTBN and the score "probability"
are measured and no more than 16 vectors listed, unless the options say otherwise. Every split is
written down when it is done: a command that was stopped goes on there, and --store '' forgets them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks._common import machine, parser, print_table
from colabel import CTBN, JointForest, ProbabilisticClassifierChain
from colabel.core.arrays import Array, Flags
from colabel.decide import CalibrationScores, Nonconformity, conformal_sets, p_value
from colabel.joint import Joint
from studies.datasets import Dataset, load

_DRAWS = 2000
_MANY_LABELS = 20
Lines = dict[str, list[float]]

MODELS: dict[str, Any] = {
    "CTBN": CTBN(random_state=0),
    "PCC": ProbabilisticClassifierChain(random_state=0),
    "JF": JointForest(random_state=0),
}


def label_wise(
    joint: Joint, truth: NDArray[Any], new: Joint, new_truth: NDArray[Any], coverage: float
) -> tuple[Flags, Array]:
    """Whether the product of single labels' sets has the true vector, and its size, (n,) each."""
    n_labels = joint.space.n_labels
    level = (1.0 - coverage) / n_labels
    covered, size = np.ones(new.n_rows, dtype=bool), np.ones(new.n_rows)
    tables = zip(joint.marginal_tables(), new.marginal_tables(), strict=True)
    for label, (known, asked) in enumerate(tables):
        own = 1.0 - known[np.arange(len(known)), truth[:, label]]
        held_out = CalibrationScores.of(own, np.ones(len(own)))
        kept = p_value([held_out], [1.0 - asked]) > level + 1e-12
        covered &= kept[np.arange(len(kept)), new_truth[:, label]]
        size *= kept.sum(axis=1)
    return covered, size


def split_rows(n_rows: int, cv: float, seed: int) -> tuple[NDArray[Any], ...]:
    """Rows to fit to, to calibrate with, and new ones."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_new = n_rows // 5
    n_known = round(cv * (n_rows - n_new))
    return order[n_new + n_known :], order[n_new : n_new + n_known], order[:n_new]


def largest(scores: Array, options: Any) -> float:
    """The score that no vector of a set exceeds."""
    place = int(np.ceil(options.coverage * (len(scores) + 1) - 1e-9))
    return float(np.sort(scores)[place - 1]) if place <= len(scores) else np.inf


def estimated_sizes(joint: Joint, most: float) -> Array:
    """Number of vectors (n,) with -log P(y) of at most `most`: E[1[y is one] / P(y)], by draws."""
    rng, found = np.random.default_rng(0), np.zeros(joint.n_rows)
    for _ in range(_DRAWS // 100):
        for draw in joint.sample_codes(100, rng):
            score = -joint.log_prob_codes(draw)
            found += np.where(score <= most, np.exp(np.minimum(score, most)), 0.0) / _DRAWS
    return found


def measured(model: Any, data: Dataset, seed: int, options: Any) -> Lines:
    """Coverage, mean and median size, share that is cut, seconds, of one split; a line a kind."""
    found: Lines = {}
    codes = np.asarray(data.Y, dtype=np.int32)
    fit, known, new = split_rows(data.n_rows, options.cv, seed)
    start = time.process_time()
    fitted = clone(model).fit(data.X[fit], data.Y[fit])
    joints = fitted.joint(data.X[known]), fitted.joint(data.X[new])
    fit_seconds = time.process_time() - start
    for kind in options.nonconformity:
        start = time.process_time()
        rule = Nonconformity(kind, options.most)
        scores = rule.of_codes(joints[0], codes[known])
        held_out = [CalibrationScores.of(scores, np.ones(len(known)))]
        sets = conformal_sets([joints[1]], held_out, options.coverage, rule)
        inside = sets.contains_codes(codes[new])
        cut = np.flatnonzero(sets.cut & ~inside)
        if len(cut):
            beyond = rule.of_codes(joints[1].rows(cut), codes[new][cut])
            inside[cut] = p_value(held_out, [beyond]) > 1 - options.coverage + 1e-12
        seconds = fit_seconds + time.process_time() - start
        size = sets.sizes.astype(np.float64)
        if kind == "probability" and sets.cut.any():
            rows = np.flatnonzero(sets.cut)
            size[rows] = estimated_sizes(joints[1].rows(rows), largest(scores, options))
        line = [inside.mean(), size.mean(), np.median(size), sets.cut.mean()]
        found[kind] = [*map(float, line), seconds]
    covered, size = label_wise(joints[0], codes[known], joints[1], codes[new], options.coverage)
    line = [covered.mean(), size.mean(), np.median(size), 0.0]
    found["label-wise"] = [*map(float, line), fit_seconds]
    return found


def settled(options: Any, n_labels: int) -> Any:
    """Return the options with what is measured of data with so many labels, if not said."""
    many = n_labels > _MANY_LABELS
    usual = {
        "models": ["CTBN"] if many else list(MODELS),
        "most": 16 if many else 4096,
        "nonconformity": ["probability"] if many else ["mass", "probability"],
    }
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**{**usual, **given})


class Store:
    """Splits that were measured, by what they were measured with, one line of JSON each."""

    def __init__(self, file: str) -> None:
        self._file = Path(file) if file else None
        self._found: dict[str, Lines] = {}
        if self._file is not None and self._file.exists():
            for line in self._file.read_text().splitlines():
                key, found = json.loads(line)
                self._found[json.dumps(key)] = found

    def splits(self, name: str, short: str, data: Dataset, options: Any) -> Iterator[Lines]:
        """Measure the splits that were not yet."""
        for seed in range(options.first, options.first + options.splits):
            kinds = options.nonconformity
            key = [name, short, seed, options.coverage, options.cv, options.most, kinds]
            if json.dumps(key) not in self._found:
                found = measured(MODELS[short], data, seed, options)
                self._found[json.dumps(key)] = found
                if self._file is not None:
                    with self._file.open("a") as stream:
                        stream.write(json.dumps([key, found]) + "\n")
            yield self._found[json.dumps(key)]


def written(lines: list[list[float]]) -> list[str]:
    """Mean and standard error of what was measured."""
    table = np.array(lines)
    many = len(table) > 1
    error = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if many else np.nan * table[0]
    mean = table.mean(axis=0)
    return [
        f"{mean[0]:.3f} ± {error[0]:.3f}",
        f"{mean[1]:.3g} ± {error[1]:.2g}",
        f"{mean[2]:.3g}",
        f"{100 * mean[3]:.0f} %",
        f"{mean[4]:.1f}",
    ]


def main() -> None:
    """Print a table."""
    options = parser(__doc__)
    options.add_argument("sets", nargs="*", default=("emotions", "image", "yeast", "enron"))
    options.add_argument("--models", nargs="*", choices=MODELS)
    options.add_argument("--coverage", type=float, default=0.9)
    options.add_argument("--splits", type=int, default=10)
    options.add_argument("--first", type=int, default=0, help="seed of the first split")
    options.add_argument("--cv", type=float, default=0.4)
    options.add_argument("--most", type=int)
    options.add_argument("--nonconformity", nargs="*")
    options.add_argument("--store", default=".conformal.jsonl", help="file of the splits done")
    given = options.parse_args()
    store = Store(given.store)
    warnings.simplefilter("ignore")
    print(machine() + "\n")
    header = ["data", "labels", "model", "sets", "coverage", "mean size", "median", "cut", "CPU s"]
    rows = []
    for name in given.sets:
        data = load(name, data_home=given.data)
        arguments = settled(given, data.Y.shape[1])
        for short in arguments.models:
            found = list(store.splits(name, short, data, arguments))
            for kind in found[0]:
                lines = [split[kind] for split in found]
                rows.append([name, str(data.Y.shape[1]), short, kind, *written(lines)])
                print(rows[-1], flush=True)
    print()
    print_table(header, rows)


if __name__ == "__main__":
    main()
