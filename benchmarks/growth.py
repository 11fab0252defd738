"""Growth: seconds and peak memory of learning and predicting against labels and against rows.

Sparse rows with planted dependencies (see `benchmarks.screening`), every model in a process of its
own, at its defaults but for one C. A cell that takes more CPU seconds than the limit is marked, and
the larger ones of its model are left out.

With `--on NAME`, every model learns from all rows of a real set at its defaults (all C, all folds)
and predicts 2,500 of them; one that refuses is shown with what it says.

Usage: python -m benchmarks.growth [--labels 25 50 100] [--rows 1000 2000] [--models CTBN CDN]
                                   [--limit 60] [--plot docs/images/growth.svg]
       python -m benchmarks.growth --on bibtex [--models PairwiseCRF] [--limit 600]
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import colabel
from benchmarks._common import machine, parser, print_table
from benchmarks.screening import draw
from colabel.core.files import written_whole
from studies.datasets import load

MODELS = (
    "BinaryRelevance",
    "CTBN",
    "ProbabilisticClassifierChain",
    "CDN",
    "CollectiveCRF",
    "PairwiseCRF",
)
ON_REAL_SETS = (*MODELS, "LDSMixture")
LABELS = (25, 50, 100, 200, 400, 800, 1600)
ROWS = (1000, 4000, 16000)
N_PREDICTED = 500
N_REAL_PREDICTED = 2500
LIMIT, ON_REAL_LIMIT = 60, 600


class Cell(NamedTuple):
    """One model on planted data of one size, or on a real set in a folder."""

    model: str
    rows: int = 0
    labels: int = 0
    name: str = ""
    folder: Path = Path()

    def data(self) -> tuple[Any, Any, Any]:
        """Return rows to learn from, their labels, and rows to predict."""
        if self.name:
            real = load(self.name, data_home=self.folder)
            return real.X, real.Y, real.X[:N_REAL_PREDICTED]
        X, Y = draw(self.rows + N_PREDICTED, self.labels, 0)
        return X[: self.rows], Y[: self.rows], X[self.rows :]

    def make(self) -> Any:
        """Return the model, with one C on planted data."""
        C = {} if self.name else {"C": 0.1}
        return getattr(colabel, self.model)(**C, random_state=0)


class Cost(NamedTuple):
    """Wall and CPU seconds of fitting and of predicting, and the process's peak memory."""

    fit: float
    fit_cpu: float
    predict: float
    predict_cpu: float
    peak_mb: float


def timed(step: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a step returns, and its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = step()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def measure(cell: Cell, limit: int, sender: Connection) -> None:
    """Fit and predict in this process; send the cost, or the sentence of a refusal."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))  # a busy machine is not counted
    warm_X, warm_Y = draw(200, 6, 1)
    cell.make().fit(warm_X, warm_Y).predict(warm_X)  # compiles
    X, Y, new = cell.data()
    try:
        model, fit, fit_cpu = timed(lambda: cell.make().fit(X, Y))
    except ValueError as refusal:
        sender.send(str(refusal))
        return
    _, predict, predict_cpu = timed(lambda: model.predict(new))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(Cost(fit, fit_cpu, predict, predict_cpu, peak))


def within(limit: int, cell: Cell) -> Cost | str:
    """Measure in a process of its own; a sentence where it refuses or is not done in time."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(cell, limit, sender))
    process.start()
    sender.close()
    try:
        cost: Cost | str = receiver.recv()
        process.join()
    except EOFError:  # if it was not stopped, it said why on standard error
        process.join()
        stopped = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        cost = f"over {limit} CPU s" if stopped else "failed"
    return cost


def grown(cells: Sequence[Cell], limit: int) -> dict[Cell, Cost | str]:
    """Measure cells of growing size, model by model, up to the first that is too large."""
    found: dict[Cell, Cost | str] = {}
    stopped: set[str] = set()
    for cell in cells:
        if cell.model in stopped:
            continue
        found[cell] = cost = within(limit, cell)
        if isinstance(cost, str):
            stopped.add(cell.model)
        print(*cell[:4], cost, flush=True)
    return found


def plot(columns: dict[str, dict[Cell, Cost | str]], limit: float, path: Path) -> None:
    """Draw CPU seconds and memory against labels and rows.

    A cross at the limit is a cell that was not done by then.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(columns), figsize=(10, 7), layout="constrained")
    for (size, found), (seconds, memory) in zip(columns.items(), axes.T, strict=True):
        for number, model in enumerate(MODELS):
            own = {getattr(cell, size): cost for cell, cost in found.items() if cell.model == model}
            done = {at: cost for at, cost in own.items() if isinstance(cost, Cost)}
            style = {"marker": "o", "color": f"C{number}"}
            spent = [cost.fit_cpu + cost.predict_cpu for cost in done.values()]
            seconds.plot(list(done), spent, label=model, **style)
            memory.plot(list(done), [c.peak_mb for c in done.values()], **style)
            late = [at for at in own if at not in done]
            seconds.plot(late, [limit] * len(late), "x", color=f"C{number}")
        seconds.set(ylabel="CPU seconds to fit and predict 500 rows", yscale="log")
        memory.set(ylabel="peak memory, MB")
        for each in (seconds, memory):
            each.set(xscale="log", xlabel=size)
            sizes = sorted({getattr(cell, size) for cell in found})
            each.set_xticks(sizes, [f"{at:,}" for at in sizes])
            each.minorticks_off()
        memory.set_ylim(bottom=0.0)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix[1:])
    plt.close(figure)


def print_costs(found: dict[Cell, Cost | str], n_predicted: int) -> None:
    """Print a table, a model's cells together."""
    header = ["model", "data", "s to fit", "CPU s", f"s for {n_predicted:,} rows", "CPU s"]
    table = []
    for cell, cost in sorted(found.items(), key=lambda item: ON_REAL_SETS.index(item[0].model)):
        data = cell.name or f"{cell.rows:,} rows, {cell.labels:,} labels"
        sentence = isinstance(cost, str)
        cells = [cost, *[""] * 4] if sentence else [f"{number:.1f}" for number in cost]
        table.append([cell.model, data, *cells])
    print()
    print_table([*header, "peak MB"], table)


def main() -> None:
    """Measure, print the tables, and draw them where asked."""
    options = parser(__doc__)
    options.add_argument("--labels", type=int, nargs="*", default=LABELS)
    options.add_argument("--rows", type=int, nargs="*", default=ROWS)
    options.add_argument("--on", metavar="NAME", help="a real set, all of it, instead")
    options.add_argument("--models", nargs="+", choices=ON_REAL_SETS)
    options.add_argument("--usual-rows", type=int, default=2000, help="where labels grow")
    options.add_argument("--usual-labels", type=int, default=100, help="where rows grow")
    options.add_argument("--limit", type=int, help="CPU seconds of a cell: 60, of a real set 600")
    options.add_argument("--plot", type=Path, help="an SVG or PNG file to draw")
    given = options.parse_args()
    limit = given.limit or (ON_REAL_LIMIT if given.on else LIMIT)
    print(machine() + "\n", flush=True)
    if given.on:
        models = given.models or ON_REAL_SETS
        cells = [Cell(model, name=given.on, folder=given.data) for model in models]
        print_costs(grown(cells, limit), N_REAL_PREDICTED)
        return
    models = given.models or MODELS
    sizes = {
        "labels": [Cell(m, given.usual_rows, d) for d in sorted(given.labels) for m in models],
        "rows": [Cell(m, n, given.usual_labels) for n in sorted(given.rows) for m in models],
    }
    columns = {size: grown(cells, limit) for size, cells in sizes.items()}
    for found in columns.values():
        print_costs(found, N_PREDICTED)
    if given.plot:
        plot(columns, limit, given.plot)


if __name__ == "__main__":
    main()
