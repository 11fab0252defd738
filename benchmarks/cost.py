"""What fitting costs: CPU seconds and memory of every model in rows and in labels.

Synthetic rows with 30 features and labels that depend on them and on each other; the models'
defaults but for one value of C. Prints a table; with `--page` its lines replace those of the same
models on a page, and with `--plot` all lines of the page are drawn. The site's page on cost shows
both.

    python -m benchmarks.cost --page docs/guide/cost.md --plot docs/images/cost.svg
    python -m benchmarks.cost --only JointForest --page docs/guide/cost.md
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import colabel
from benchmarks.cold import models

ROWS = (250, 1000, 4000)
LABELS = (5, 20, 60)
USUAL_ROWS, USUAL_LABELS = 1000, 20
# A setting four times as large is not tried where one took longer.
_LONG_SECONDS = 15.0
_CHOICES = {"C": 0.1, "logistic_C": 0.1, "alphas": 10.0, "smoothing": 1.0, "random_state": 0}

SETTINGS = [(n, USUAL_LABELS) for n in ROWS] + [(USUAL_ROWS, d) for d in LABELS]
HEAD = (
    "| model | "
    + " | ".join([*(f"{n} rows" for n in ROWS), *(f"{d} labels" for d in LABELS)])
    + " | ms per row | MB |\n|---|"
    + "---:|" * (len(SETTINGS) + 2)
)

Costs = tuple[float, float]  # CPU seconds to fit, CPU milliseconds to predict a row


def data(n_rows: int, n_labels: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows (n, 30) and labels (n, d), each depending on the one before."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 30))
    scores = X @ rng.normal(size=(30, n_labels)) / 5 - 1
    for i in range(1, n_labels):
        scores[:, i] += np.where(scores[:, i - 1] > 0, 1.0, -0.5)
    return X, (scores + rng.logistic(size=scores.shape) > 0).astype(int)


def make(name: str) -> Any:
    """A model with its penalty given; the members of a `JointStack` choose theirs."""
    around = name in ("ConformalSets", "ThresholdedClassifier")
    model = getattr(colabel, name)(*[colabel.BinaryRelevance(C=0.1)] * around)
    own = model.get_params(deep=False)
    return model.set_params(**{key: value for key, value in _CHOICES.items() if key in own})


def measured(name: str, n_rows: int, n_labels: int) -> Costs:
    """CPU seconds to fit, and CPU milliseconds to predict a row."""
    X, Y = data(n_rows + 100, n_labels)
    start = time.process_time()
    model = make(name).fit(X[:n_rows], Y[:n_rows])
    fitted = time.process_time()
    model.predict(X[n_rows:])
    return fitted - start, (time.process_time() - fitted) * 10


def memory(name: str) -> float:
    """Megabytes that a fit of the usual size needs at most, beside the rows."""
    X, Y = data(USUAL_ROWS, USUAL_LABELS)
    model = make(name)
    tracemalloc.start()
    model.fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def costs(name: str) -> dict[tuple[int, int], Costs]:
    """Costs at every setting; NaN at those left out."""
    few = data(100, 3)
    clone(make(name)).fit(*few).predict(few[0])  # compiles
    found: dict[tuple[int, int], Costs] = {}
    for settings in ([(n, USUAL_LABELS) for n in ROWS], [(USUAL_ROWS, d) for d in LABELS]):
        before = 0.0
        for setting in settings:
            if setting not in found:
                tried = before < _LONG_SECONDS
                found[setting] = measured(name, *setting) if tried else (np.nan, np.nan)
            before = found[setting][0]
    return found


def line(name: str) -> str:
    """Measure a model; return its line of the table."""
    found = costs(name)
    seconds = " | ".join(_said(found[setting][0]) for setting in SETTINGS)
    per_row = found[USUAL_ROWS, USUAL_LABELS][1]
    return f"| {name} | {seconds} | {_said(per_row)} | {memory(name):.0f} |"


def lines_of(page: str) -> dict[str, str]:
    """The lines of the table on a page, by model."""
    table = page.partition(HEAD + "\n")[2].partition("\n\n")[0]
    return {each.split("|")[1].strip(): each for each in table.splitlines()}


def with_lines(page: str, lines: dict[str, str]) -> str:
    """Return a page with some lines of its table replaced or added, the models in order."""
    before = lines_of(page)
    every = before | lines
    table = "\n".join(every[name] for name in sorted(every))
    return page.replace("\n".join([HEAD, *before.values()]), f"{HEAD}\n{table}")


def main() -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=models())
    parser.add_argument("--page", type=Path)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: dict[str, str] = {}
    print(HEAD)
    for name in asked.only:
        lines[name] = line(name)
        print(lines[name], flush=True)
        if asked.page:
            page = asked.page.read_text(encoding="utf-8")
            asked.page.write_text(with_lines(page, lines), encoding="utf-8")
    if asked.page:
        lines = lines_of(asked.page.read_text(encoding="utf-8"))
    if asked.plot:
        _draw(lines, asked.plot)


def _said(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.2g}"


def _draw(lines: dict[str, str], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True, layout="constrained")
    for place, (name, cells) in enumerate(lines.items()):
        style = ("osD^vPX*"[place % 8], ("-", "--", ":")[place // 8])
        seconds = [np.nan if s.strip() == "–" else float(s) for s in cells.split("|")[2:-3]]
        rows, labels = seconds[: len(ROWS)], seconds[len(ROWS) :]
        axes[0].loglog(ROWS, rows, label=name, marker=style[0], linestyle=style[1])
        axes[1].loglog(LABELS, labels, label=name, marker=style[0], linestyle=style[1])
    axes[0].set(xlabel=f"rows ({USUAL_LABELS} labels)", ylabel="CPU seconds to fit")
    axes[1].set(xlabel=f"labels ({USUAL_ROWS} rows)")
    for each, sizes in zip(axes, (ROWS, LABELS), strict=True):
        each.set_xticks(sizes, [f"{size:,}" for size in sizes])
        each.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    main()
