"""Screened parents against the full search, and a thousand labels with planted dependencies.

Real sets: two thirds of the rows are learned from, the rest measures the log-likelihood. A tree's
arc counts as kept where the screened search has it too, in the same direction. Every fit has a
process of its own, whose peak memory is given (rows and Python itself included).

Planted: sparse rows (500 features, one in twenty in use), labels that one row in fifty carries;
every second label is raised by 3 log-odds where its neighbour is on. An arc counts as found in
either direction.

Usage: python -m benchmarks.screening [yeast enron bibtex] [--parents 5 10 20]
       python -m benchmarks.screening --planted 983 [--rows 16105]
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks._common import machine, parser, print_table
from colabel import CTBN
from studies.datasets import load

N_FEATURES, DENSITY, RATE, RAISED = 500, 0.05, 0.02, 3.0


class Fitted(NamedTuple):
    """A tree, its held-out log-likelihood a row, and what it cost."""

    tree: Any
    log_likelihood: float
    cpu: float
    wall: float
    peak_mb: float


def draw(n_rows: int, n_labels: int, seed: int) -> tuple[Any, Any]:
    """Rows and labels, both CSR; labels 1, 3, 5, … follow the label before them."""
    rng = np.random.default_rng(seed)
    X: Any = sp.random_array((n_rows, N_FEATURES), density=DENSITY, rng=rng, format="csr")
    X.data[:] = 1.0
    weights: Any = rng.normal(scale=0.3, size=(N_FEATURES, n_labels))
    scores = np.asarray(X @ weights)
    scores += np.log(RATE) - scores.mean(axis=0)
    Y = np.zeros((n_rows, n_labels), dtype=np.int8)
    for i in range(n_labels):
        raised = RAISED * Y[:, i - 1] if i % 2 else 0.0
        Y[:, i] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-scores[:, i] - raised))
    return X, sp.csr_array(Y)


def fit(source: str, folder: Path, rows: int, max_parents: Any) -> Fitted:
    """Fit in this process; a number as source is that of planted labels."""
    if source.isdigit():
        X, Y = draw(rows, int(source), 0)
        train, test = np.arange(rows), np.arange(0)
    else:
        data = load(source, data_home=folder)
        X, Y = data.X, data.Y
        order = np.random.default_rng(0).permutation(X.shape[0])
        train, test = np.split(order, [int(0.67 * len(order))])
    cpu, wall = time.process_time(), time.perf_counter()
    model = CTBN(max_parents=max_parents, random_state=0).fit(X[train], Y[train])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    score = float(model.joint(X[test]).log_prob(Y[test]).mean()) if len(test) else np.nan
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Fitted(model.tree_, score, cpu, wall, peak)


def fit_apart(*arguments: Any) -> Fitted:
    """Fit in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(fit, *arguments).result()


def real(names: list[str], folder: Path, parents: list[int]) -> None:
    """Compare screened searches with the full one."""
    table: list[list[str]] = []
    for name in names:
        full = fit_apart(name, folder, 0, None)
        arcs = np.flatnonzero(full.tree >= 0)
        for most in [None, *parents]:
            found = full if most is None else fit_apart(name, folder, 0, most)
            change = 100 * (found.log_likelihood / full.log_likelihood - 1)
            table.append(
                [
                    name,
                    "all" if most is None else str(most),
                    f"{np.mean(found.tree[arcs] == full.tree[arcs]):.2f} of {len(arcs)}",
                    f"{found.log_likelihood:.3f}",
                    f"{-change:+.2f} %",
                    f"{found.cpu:.1f}",
                    f"{full.cpu / found.cpu:.1f}",
                    f"{found.peak_mb:.0f}",
                ]
            )
    print_table(
        ["data", "parents", "arcs kept", "log-likelihood", "change", "CPU s", "times", "peak MB"],
        table,
    )


def planted(n_labels: int, n_rows: int, folder: Path) -> None:
    """Find planted arcs among many labels."""
    found = fit_apart(str(n_labels), folder, n_rows, "auto")
    odd = np.arange(1, n_labels, 2)
    right = int(((found.tree[odd] == odd - 1) | (found.tree[odd - 1] == odd)).sum())
    others = int((found.tree >= 0).sum()) - right
    cells = [f"{right} of {len(odd)}", others, f"{found.cpu:.0f}", f"{found.wall:.0f}"]
    header = ["labels", "rows", "planted arcs found", "others", "CPU s", "s", "peak MB"]
    print_table(header, [[n_labels, f"{n_rows:,}", *cells, f"{found.peak_mb:.0f}"]])


def main() -> None:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", default=["yeast", "enron", "bibtex"])
    options.add_argument("--parents", type=int, nargs="+", default=[5, 10, 20])
    options.add_argument("--planted", type=int, help="number of labels")
    options.add_argument("--rows", type=int, default=16105)
    given = options.parse_args()
    print(machine() + "\n")
    if given.planted:
        planted(given.planted, given.rows, given.data)
    else:
        real(given.names, given.data, given.parents)


if __name__ == "__main__":
    main()
