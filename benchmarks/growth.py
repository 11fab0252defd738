"""Growth: seconds and peak memory of learning and predicting against labels and against rows.

Sparse rows with planted dependencies (see `benchmarks.screening`), every model in a process of its
own, at its defaults but for one C. A cell that takes longer than the limit is left out, and so are
the larger ones of its model.

Usage: python -m benchmarks.growth [--labels 25 50 100] [--rows 1000 2000] [--models CTBN CDN]
                                   [--limit 600] [--plot docs/images/growth.svg]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import colabel
from benchmarks._common import machine, print_table
from benchmarks.screening import draw
from colabel.core.files import written_whole

MODELS = (
    "BinaryRelevance",
    "CTBN",
    "ProbabilisticClassifierChain",
    "CDN",
    "CollectiveCRF",
    "PairwiseCRF",
)
LABELS = (25, 50, 100, 200, 400, 800, 1600)
ROWS = (1000, 2000, 4000, 8000, 16000)
N_PREDICTED = 500


class Cell(NamedTuple):
    """One model on one size."""

    model: str
    rows: int
    labels: int


class Cost(NamedTuple):
    """Seconds of fitting, seconds a thousand rows predicted, and the process's peak memory."""

    fit: float
    predict: float
    peak_mb: float


def measure(cell: Cell, sender: Connection) -> None:
    """Fit and predict in this process and send the cost."""
    X, Y = draw(cell.rows + N_PREDICTED, cell.labels, 0)
    make = getattr(colabel, cell.model)
    warm_X, warm_Y = draw(200, 6, 1)
    make(C=0.1, random_state=0).fit(warm_X, warm_Y).predict(warm_X)  # compiles
    clock = time.perf_counter()
    model = make(C=0.1, random_state=0).fit(X[: cell.rows], Y[: cell.rows])
    fitted = time.perf_counter()
    model.predict(X[cell.rows :])
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(Cost(fitted - clock, (done - fitted) * 1000 / N_PREDICTED, peak))


def within(limit: float, cell: Cell) -> Cost | None:
    """Measure in a process of its own; None where it is not done in time, or fails."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(cell, sender))
    process.start()
    sender.close()
    try:
        cost: Cost | None = receiver.recv() if receiver.poll(limit) else None
    except EOFError:  # it said why on standard error
        cost = None
    process.terminate()
    process.join()
    return cost


def grown(cells: Sequence[Cell], limit: float) -> dict[Cell, Cost]:
    """Measure cells of growing size, model by model, up to the first that is too large."""
    found: dict[Cell, Cost] = {}
    stopped: set[str] = set()
    for cell in cells:
        cost = None if cell.model in stopped else within(limit, cell)
        if cost is None:
            stopped.add(cell.model)
            continue
        found[cell] = cost
        print(*cell, *(f"{number:.1f}" for number in cost), flush=True)
    return found


def plot(by_labels: dict[Cell, Cost], by_rows: dict[Cell, Cost], path: Path) -> None:
    """Draw seconds and memory against labels and rows, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for column, (found, size) in enumerate(((by_labels, "labels"), (by_rows, "rows"))):
        for model in dict.fromkeys(cell.model for cell in found):
            own = {cell: cost for cell, cost in found.items() if cell.model == model}
            sizes = [getattr(cell, size) for cell in own]
            axes[0, column].plot(sizes, [cost.fit for cost in own.values()], "o-", label=model)
            axes[1, column].plot(sizes, [cost.peak_mb for cost in own.values()], "o-")
        for row, what in enumerate(("seconds to fit", "peak memory, MB")):
            axes[row, column].set(xscale="log", yscale="log", xlabel=size, ylabel=what)
    axes[0, 0].legend(frameon=False, fontsize="small")
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix[1:])
    plt.close(figure)


def main() -> None:
    """Measure, print the tables, and draw them where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--labels", type=int, nargs="*", default=LABELS)
    options.add_argument("--rows", type=int, nargs="*", default=ROWS)
    options.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    options.add_argument("--usual-rows", type=int, default=2000, help="where labels grow")
    options.add_argument("--usual-labels", type=int, default=100, help="where rows grow")
    options.add_argument("--limit", type=float, default=600.0, help="seconds of a cell")
    options.add_argument("--plot", type=Path, help="an SVG or PNG file to draw")
    given = options.parse_args()
    print(machine() + "\n")
    by_labels = grown(
        [Cell(m, given.usual_rows, d) for d in sorted(given.labels) for m in given.models],
        given.limit,
    )
    by_rows = grown(
        [Cell(m, n, given.usual_labels) for n in sorted(given.rows) for m in given.models],
        given.limit,
    )
    print()
    header = ["model", "rows", "labels", "s to fit", "s a 1000 rows", "peak MB"]
    for found in (by_labels, by_rows):
        ordered = sorted(found.items(), key=lambda item: MODELS.index(item[0].model))
        print_table(
            header,
            [
                [*cell, f"{c.fit:.2f}", f"{c.predict:.2f}", f"{c.peak_mb:.0f}"]
                for cell, c in ordered
            ],
        )
    if given.plot:
        plot(by_labels, by_rows, given.plot)


if __name__ == "__main__":
    main()
