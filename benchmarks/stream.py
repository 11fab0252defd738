"""Predict a long CSV file with a saved CTBN: rows a second and peak memory.

Usage: python -m benchmarks.stream [--rows 1000000] [--features 64] [--labels 7] [--folder DIR]

The model and the file are made in a temporary folder; `colabel predict` runs in a process of its
own, whose peak resident memory the operating system reports. With --rows twice as large the memory
must not grow: that is the point.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._common import machine, print_table
from colabel import CTBN, save
from colabel.tables import Frame, TableModel, choose_columns, read_labels

_TRAINING_ROWS = 2000
_ROWS_AT_ONCE = 20_000
# Runs the command and says, on standard error, how much memory it took at most.
_COMMAND = """
import resource, sys
from colabel.cli import app
try:
    app(sys.argv[1:])
finally:
    unit = 1 if sys.platform == "darwin" else 1024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, file=sys.stderr)
"""


def main() -> None:
    """Make a model and a file, predict it, print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    options.add_argument("--features", type=int, default=64)
    options.add_argument("--labels", type=int, default=7)
    options.add_argument("--folder", type=Path, help="where the files go for a while")
    options.add_argument("--top-k", type=int, default=0)
    arguments = options.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        model = folder / "model.colabel"
        save(_model(arguments.features, arguments.labels, rng), model)
        rows = []
        for n_rows in arguments.rows:
            table = folder / "table.csv"
            _write(table, n_rows, arguments.features, rng)
            rows.append(_measure(model, table, n_rows, arguments.top_k))
        header = [
            "rows",
            "file",
            "seconds",
            "of processor",
            "rows a second",
            "peak memory",
            "output",
        ]
        print_table(header, rows)


def _model(n_features: int, n_labels: int, rng: np.random.Generator) -> TableModel:
    """Fit a CTBN to labels that follow each other."""
    X = rng.normal(size=(_TRAINING_ROWS, n_features))
    Y = np.zeros((_TRAINING_ROWS, n_labels), dtype=np.int64)
    for i in range(n_labels):
        score = X @ rng.normal(size=n_features) / np.sqrt(n_features) + rng.logistic(size=len(X))
        Y[:, i] = score + (3 * Y[:, i - 1] - 1.5 if i else 0) > 0
    names = [f"x{j}" for j in range(n_features)]
    frame = Frame(np.column_stack([X, Y]), (*names, *(f"y{i}" for i in range(n_labels))))
    labels = read_labels(frame, [f"y{i}" for i in range(n_labels)])
    features = frame.without(labels.names)
    return TableModel.fit(CTBN(C=0.1, random_state=0), features, choose_columns(features), labels)


def _write(table: Path, n_rows: int, n_features: int, rng: np.random.Generator) -> None:
    with table.open("w", encoding="ascii") as text:
        text.write(",".join(f"x{j}" for j in range(n_features)) + "\n")
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            block = rng.normal(size=(min(_ROWS_AT_ONCE, n_rows - start), n_features))
            np.savetxt(text, block, fmt="%.4f", delimiter=",")


def _measure(model: Path, table: Path, n_rows: int, top_k: int) -> list[str]:
    answers = table.with_name("out.csv")
    command = ["predict", str(model), str(table), "-o", str(answers), "--top-k", str(top_k)]
    started, used = time.perf_counter(), _processor_seconds()
    finished = subprocess.run(
        [sys.executable, "-c", _COMMAND, *command], capture_output=True, text=True, check=False
    )
    seconds, used = time.perf_counter() - started, _processor_seconds() - used
    if finished.returncode:
        raise SystemExit(finished.stderr)
    peak = int(finished.stderr.split()[-1]) / 1e6
    with answers.open(encoding="utf-8") as text:
        n_answers = sum(1 for _ in text) - 1
    if n_answers != n_rows:
        raise SystemExit(f"{n_answers} answers for {n_rows} rows.")
    sizes = [f"{file.stat().st_size / 1e6:.0f} MB" for file in (table, answers)]
    speed = f"{n_rows / seconds:,.0f}"
    times = [f"{seconds:.1f}", f"{used:.1f}", speed]
    return [f"{n_rows:,}", sizes[0], *times, f"{peak:.0f} MB", sizes[1]]


def _processor_seconds() -> float:
    """Seconds of processor time that finished child processes have taken."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
