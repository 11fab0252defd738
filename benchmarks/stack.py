"""What `JointStack()` costs beside a random forest, and how well it does.

CPU seconds to fit and to answer (modes and log-probabilities of the held-out rows) by one thread,
over those of a `RandomForestClassifier(100)` on the same rows (fit and predict); joint log-loss,
exact match and Hamming accuracy of held-out rows. One fold of real data sets, of which `--inner`
holds out training rows only, and seven generated shapes (`--rows` bounds how many rows are used).
With `--time-limit`, what a fit took of so many seconds by the clock, on three large shapes.

    python -m benchmarks.stack                      # everything
    python -m benchmarks.stack emotions yeast seven --rows 1000 --limit 120
    python -m benchmarks.stack --time-limit 60
    python -m benchmarks.stack --inner --model "JointStack([JointForest(100), CTBN()])"
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier

import colabel
from benchmarks._common import machine, parser, print_table
from colabel.core.arrays import is_sparse
from studies.datasets import kfold, load

REAL = (
    "emotions",
    "scene",
    "yeast",
    "image",
    "enron",
    "medical",
    "water_quality",
    "solar_flare",
    "genbase",
)


class Shape(NamedTuple):
    """A generated data set: so many rows and columns, and the values of each variable."""

    n_rows: int
    n_columns: int
    sizes: tuple[int, ...]
    words: int = 0  # of a row, if the columns count words
    tags: float = 0.0  # of a row, if the labels are tags


SHAPES = {
    "tiny": Shape(154, 16, (3, 2, 4)),
    "seven": Shape(6114, 34, (2, 3, 5, 2, 4, 2, 3)),
    "songs": Shape(335, 68, (2,) * 174, tags=26),
    "hundred": Shape(4000, 500, (2,) * 103, words=40, tags=3.2),
    "abstracts": Shape(9300, 1002, (2,) * 23, words=40, tags=1.7),
    "news": Shape(12900, 1006, (2,) * 20, words=30, tags=1.03),
    "pictures": Shape(3300, 499, (2,) * 374, words=8, tags=3.5),
}
LARGE = {
    "many rows": Shape(200_000, 50, (2,) * 7),
    "many labels": Shape(4000, 500, (2,) * 2000, words=40, tags=5),
    "wide": Shape(20_000, 100_000, (2,) * 30, words=60, tags=3),
}
_WIDE = 10_000  # columns, beyond which words are drawn one by one


def generated(shape: Shape, seed: int = 0) -> tuple[Any, Any]:
    """Rows whose labels follow curves of a few columns and each other; or words and their tags."""
    rng = np.random.default_rng(seed)
    n, p = shape.n_rows, shape.n_columns
    X: Any
    if shape.tags:
        return _tagged(shape, rng)
    topics = rng.dirichlet(np.full(8, 0.3), size=n)
    X = rng.normal(size=(n, p)) + topics @ rng.normal(size=(8, p))
    curves = np.column_stack([np.sin(2 * X[:, :8]), X[:, :8] * X[:, [1, 2, 3, 4, 5, 6, 7, 0]]])
    values = np.column_stack([curves, X[:, :16], 6 * topics])
    Y = np.zeros((n, len(shape.sizes)), dtype=int)
    before = np.zeros(n)
    for j, size in enumerate(shape.sizes):
        slopes = rng.normal(size=values.shape[1]) * (rng.random(values.shape[1]) < 0.3)
        score = values @ slopes + 1.5 * before + rng.logistic(size=n)
        cuts = np.quantile(score, np.arange(1, size) / size)
        Y[:, j] = np.digitize(score, cuts)
        before = Y[:, j] - Y[:, j].mean()
    return X, Y


def _tagged(shape: Shape, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows of a few topics, with words and tags by Zipf's law; without words, normal columns."""
    n, p, d = shape.n_rows, shape.n_columns, len(shape.sizes)
    n_topics = 12 + d // 4
    topics = rng.dirichlet(np.full(n_topics, 1.5 / n_topics), size=n)
    X: Any
    if p > _WIDE:
        owner = np.repeat(np.arange(n), shape.words)
        topic = (topics.cumsum(axis=1)[owner] < rng.random((len(owner), 1))).sum(axis=1)
        rank = (p * rng.random(len(owner)) ** 4).astype(np.int64)
        word = (rank * (2 * topic + 1) + 7919 * topic) % p
        X = sp.csr_array((np.ones(len(owner)), (owner, word)), shape=(n, p))
        X.data = np.log1p(X.data)
    elif shape.words:
        rate = topics @ (rng.gamma(0.1, size=(n_topics, p)) / np.arange(1, p + 1) ** 0.7)
        drawn = rng.poisson(rate * (shape.words / rate.sum(axis=1, keepdims=True)))
        X = sp.csr_array(np.log1p(drawn))
    else:
        X = topics @ rng.normal(size=(n_topics, p)) + 0.5 * rng.normal(size=(n, p))
    affinity = topics @ (rng.gamma(0.05, size=(n_topics, d)) / np.arange(1, d + 1) ** 0.7)
    score = np.log(affinity + 1e-6) + 0.7 * rng.gumbel(size=(n, d))
    count = np.clip(rng.poisson(max(shape.tags - 1, 0.03), size=n) + 1, 1, d)
    rank = np.argsort(np.argsort(-score, axis=1), axis=1)
    return X, (rank < count[:, None]).astype(int)


def rows_of(name: str, folder: Any, most: int, inner: bool) -> tuple[Any, Any, Any, Any]:
    """Training and held-out rows, (X, Y, X_new, Y_new)."""
    shape = {**SHAPES, **LARGE}.get(name)
    if shape is not None:
        X, Y = generated(shape)
    else:
        data = load(name, data_home=folder)
        X, Y = data.X, np.asarray(data.Y)
    train, test = next(iter(kfold(len(Y), 5, 0)))
    if inner:
        again, held = next(iter(kfold(len(train), 3, 1)))
        train, test = train[again], train[held]
    train, test = train[:most], test[:most]
    return X[train], Y[train], X[test], Y[test]


class _LateError(Exception):
    pass


def _stop(*_: Any) -> None:
    raise _LateError


def cell(make: Callable[[], Any], rows: tuple[Any, Any, Any, Any]) -> list[Any]:
    """CPU seconds of the forest, of fit and answer, the ratio, and three measures."""
    X, Y, X_new, Y_new = rows
    start = time.process_time()
    forest = RandomForestClassifier(100, random_state=0).fit(X, Y)
    forest.predict(X_new)
    of_forest = time.process_time() - start
    start = time.process_time()
    model = make().fit(X, Y)
    fitted = time.process_time() - start
    start = time.process_time()
    joint = model.joint(X_new)
    mode = joint.mode()
    asked = time.process_time() - start
    loss = -float(joint.log_prob(Y_new).mean())
    answered = time.process_time() - start
    exact = float((mode == Y_new).all(axis=1).mean())
    marginals = colabel.decide(joint, "hamming")
    hamming = float((marginals == Y_new).mean())
    seconds = [f"{value:.2f}" for value in (of_forest, fitted, asked)]
    ratio = f"{(fitted + answered) / of_forest:.1f}"
    return [*seconds, ratio, f"{loss:.4f}", f"{exact:.4f}", f"{hamming:.4f}"]


def limited(make: Callable[[], Any], rows: tuple[Any, Any, Any, Any], seconds: float) -> list[Any]:
    """Seconds by the clock that a fit takes of a limit, CPU seconds, and who is left."""
    start, cpu = time.perf_counter(), time.process_time()
    model = make().set_params(time_limit=seconds).fit(*rows[:2])
    used, cpu = time.perf_counter() - start, time.process_time() - cpu
    n_rows = int(model.prior_.counts.sum())
    loss = -float(model.joint(rows[2][:500]).log_prob(rows[3][:500]).mean())
    return [
        f"{used:.1f}",
        f"{cpu:.1f}",
        f"{n_rows:,}",
        ", ".join(model.member_names_),
        f"{loss:.3f}",
    ]


def main() -> None:
    """Print one line for each data set."""
    options = parser(__doc__)
    options.add_argument("sets", nargs="*")
    options.add_argument("--time-limit", type=float, help="seconds by the clock of a fit")
    options.add_argument("--rows", type=int, default=1 << 30, help="most rows of a data set")
    options.add_argument("--limit", type=int, default=600, help="CPU seconds of a cell")
    options.add_argument("--inner", action="store_true", help="hold out training rows only")
    options.add_argument("--model", default="JointStack(random_state=0)", help="what is measured")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    from sklearn.pipeline import make_pipeline

    names = {**{name: getattr(colabel, name) for name in colabel.__all__}}
    names["pipe"] = make_pipeline

    def make() -> Any:
        return eval(asked.model, names)

    print(f"{machine()}; {asked.model}\n")
    signal.signal(signal.SIGPROF, _stop)
    lines = []
    limit = asked.time_limit
    for name in asked.sets or (LARGE if limit else [*REAL, *SHAPES]):
        rows = rows_of(name, asked.data, asked.rows, asked.inner)
        stored = "sparse" if is_sparse(rows[0]) else "dense"
        signal.setitimer(signal.ITIMER_PROF, asked.limit)
        try:
            figures = limited(make, rows, limit) if limit else cell(make, rows)
        except _LateError:
            figures = [f"more than {asked.limit} CPU s"]
        signal.setitimer(signal.ITIMER_PROF, 0)
        what = f"{rows[0].shape[0]} x {rows[0].shape[1]} {stored}, {rows[1].shape[1]}"
        lines.append([name, what, *figures])
        print(*lines[-1], flush=True)
    print()
    head = ["forest", "fit", "answer", "ratio", "log-loss", "exact match", "Hamming accuracy"]
    if limit:
        head = [f"s of {limit:g}", "CPU s", "rows used", "members", "log-loss"]
    print_table(["data", "rows x columns, labels", *head], lines)


if __name__ == "__main__":
    main()
