"""What fitting costs: seconds and memory of every model in rows and in labels.

Each fit runs in a process of its own, on synthetic rows with 30 features and labels that depend on
them and on each other, with the models' defaults but for one value of C. Prints a table and, with
`--plot`, draws it; the site's page on cost shows both.

    python -m benchmarks.cost --plot docs/images/cost.svg
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROWS = (250, 1000, 4000)
LABELS = (5, 20, 60)
USUAL_ROWS, USUAL_LABELS = 1000, 20
_LIMIT_SECONDS = 60

_FIT = """
import json, resource, sys, time, warnings
import numpy as np
import colabel
warnings.simplefilter("ignore")
name, n_rows, n_labels = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
X = rng.normal(size=(n_rows + 100, 30))
scores = X @ rng.normal(size=(30, n_labels)) / 5 - 1
for i in range(1, n_labels):
    scores[:, i] += np.where(scores[:, i - 1] > 0, 1.0, -0.5)
Y = (scores + rng.logistic(size=scores.shape) > 0).astype(int)
choices = {"C": 0.1, "logistic_C": 0.1, "alphas": 10.0, "smoothing": 1.0, "random_state": 0}
model_class = getattr(colabel, name)
arguments = (colabel.BinaryRelevance(C=0.1),) if name == "ThresholdedClassifier" else ()
model = model_class(*arguments)
model.set_params(**{k: v for k, v in choices.items() if k in model.get_params(deep=False)})
from sklearn.base import clone
few = clone(model).fit(X[:60], Y[:60, :3])
few.predict(X[:5])  # compiles, so that the seconds below are those of the work
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
model.fit(X[:n_rows], Y[:n_rows])
fitted = time.perf_counter()
model.predict(X[n_rows:])
done = time.perf_counter()
more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([fitted - start, (done - fitted) * 10, more / 1024]))
"""


def measured(name: str, n_rows: int, n_labels: int) -> tuple[float, float, float]:
    """Seconds to fit, milliseconds to predict a row, megabytes more; NaN past the limit."""
    command = [sys.executable, "-c", _FIT, name, str(n_rows), str(n_labels)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return (np.nan, np.nan, np.nan)
    fit, predict, memory = json.loads(done.stdout)
    return fit, predict, memory


def main() -> None:
    """Measure, print and draw."""
    from benchmarks.cold import models

    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=models())
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    settings = [(n, USUAL_LABELS) for n in ROWS] + [(USUAL_ROWS, d) for d in LABELS]
    found: dict[str, dict[tuple[int, int], tuple[float, float, float]]] = {}
    print("| model | " + " | ".join(f"{n} rows" for n in ROWS) + " | ", end="")
    print(" | ".join(f"{d} labels" for d in LABELS) + " | ms a row | MB |")
    print("|---|" + "---:|" * (len(ROWS) + len(LABELS) + 2))
    for name in asked.only:
        found[name] = {s: measured(name, *s) for s in dict.fromkeys(settings)}
        seconds = [_said(found[name][s][0]) for s in settings]
        _, per_row, memory = found[name][USUAL_ROWS, USUAL_LABELS]
        print(f"| {name} | {' | '.join(seconds)} | {per_row:.2g} | {memory:.0f} |", flush=True)
    if asked.plot:
        _draw(found, asked.plot)


def _said(seconds: float) -> str:
    return f"over {_LIMIT_SECONDS}" if np.isnan(seconds) else f"{seconds:.2g}"


def _draw(found: dict[str, dict[tuple[int, int], tuple[float, float, float]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True, layout="constrained")
    for place, (name, times) in enumerate(found.items()):
        style = {"marker": "osD^vPX*"[place % 8], "linestyle": ("-", "--", ":")[place // 8]}
        rows = [times[n, USUAL_LABELS][0] for n in ROWS]
        labels = [times[USUAL_ROWS, d][0] for d in LABELS]
        axes[0].loglog(ROWS, rows, label=name, **style)
        axes[1].loglog(LABELS, labels, label=name, **style)
    axes[0].set(xlabel=f"rows ({USUAL_LABELS} labels)", ylabel="seconds to fit")
    axes[1].set(xlabel=f"labels ({USUAL_ROWS} rows)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    main()
