"""Tables that do not fit: `colabel fit` and `colabel predict` on Parquet parts.

Usage: python -m benchmarks.rows [--rows 500000 2500000 10000000] [--predict 1000000]
       [--peers 500000] [--workers 0] [--folder DIR]

Draws 64 features in single precision and 7 labels that follow each other, in parts of 250,000
rows. Fits CTBN with its default folds and one C to each number of rows, in a process of its own:
seconds of processor, and the largest resident memory of any process. Predicts from CSV and from
Parquet: rows in a second of processor, beyond what a table of one row takes. Then what one would
take instead learns from some of the same rows: scikit-learn's logistic regressions, one for each
label, by joblib; XGBoost through Dask where it is installed. Log-losses are of rows held out: of
the labels alone, summed over them, and of the label vectors. All files are removed at the end.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import ROOT, machine, print_table

FEATURES, LABELS, C = 64, 7, 1.0
_PART_ROWS = 250_000
_TEST_ROWS = 50_000
_COLABEL = "from colabel.cli import main; main()"
_PEERS = ("scikit-learn", "xgboost")
_LOSSES = ("log-loss of labels alone", "of label vectors")


def main() -> None:
    """Draw, fit, predict, compare."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[500_000, 2_500_000, 10_000_000])
    options.add_argument("--predict", type=int, default=1_000_000, help="rows to predict")
    options.add_argument("--peers", type=int, default=500_000, help="rows for others; 0: none")
    options.add_argument("--workers", type=int, default=0, help="of colabel fit; 0: threads")
    options.add_argument("--folder", type=Path, help="where the files go for a while")
    options.add_argument("--peer", choices=_PEERS, help=argparse.SUPPRESS)  # in a child
    given = options.parse_args()
    if given.peer:
        _run_peer(given.peer, given.folder, given.peers)
        return
    print(machine())
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        most = max([*given.rows, given.peers, given.predict])
        n_part = min(_PART_ROWS, min(given.rows) // 2)  # two parts or more: one is small enough
        _draw(folder, most, n_part)
        print(f"{LABELS} labels, {FEATURES} features, C = {C}, parts of {n_part:,} rows\n")
        _fits(folder, given.rows, given.workers)
        _predictions(folder, given.predict)
        if given.peers:
            _peers(folder, given.peers, given.workers)


# -------------------------------------------------------------------------------- the rows


def _draw(folder: Path, n_rows: int, n_part: int) -> None:
    """Write parts of rows, the last of them perhaps shorter, and a file of rows held out."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(FEATURES, LABELS)) / np.sqrt(FEATURES)
    _write(folder / "test.parquet", *_rows(_TEST_ROWS, weights, rng))
    for number, start in enumerate(range(0, n_rows, n_part)):
        drawn = _rows(min(n_part, n_rows - start), weights, rng)
        _write(folder / f"part-{number:04d}.parquet", *drawn)


def _rows(n_rows: int, weights: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.standard_normal(size=(n_rows, FEATURES), dtype=np.float32)
    scores = X @ weights
    Y = np.zeros((n_rows, LABELS), dtype=np.int8)
    for i in range(LABELS):  # every label follows the one before it
        follows = 0.0 if i == 0 else 2.0 * Y[:, i - 1] - 1.0
        Y[:, i] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-scores[:, i] - follows))
    return X, Y


def _write(file: Path, X: Any, Y: Any) -> None:
    pyarrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")

    columns = {f"x{j}": X[:, j] for j in range(FEATURES)}
    columns |= {f"y{i}": Y[:, i] for i in range(LABELS)}
    # random numbers do not compress
    parquet.write_table(pyarrow.table(columns), file, compression="none", use_dictionary=False)


def _first_parts(folder: Path, n_rows: int) -> list[Path]:
    """Return parts of exactly so many rows; the last is cut if need be."""
    parquet = importlib.import_module("pyarrow.parquet")

    parts, n_found = [], 0
    for part in sorted(folder.glob("part-*.parquet")):
        n_part = parquet.read_metadata(part).num_rows
        if n_found + n_part > n_rows:
            cut = folder / f"cut-{n_rows}.parquet"
            table = parquet.read_table(part).slice(0, n_rows - n_found)
            parquet.write_table(table, cut, compression="none", use_dictionary=False)
            part, n_part = cut, table.num_rows
        parts.append(part)
        n_found += n_part
        if n_found == n_rows:
            return parts
    raise SystemExit(f"There are {n_found} rows, fewer than {n_rows}.")


# ------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Cost:
    """What a command took, with all the processes it started."""

    seconds: float
    processor: float
    peak_mb: float  # of the largest process
    output: str


def _measured(command: Sequence[str | Path]) -> Cost:
    """Run a command, watching the memory of all its processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = _processor_seconds(), time.perf_counter()
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            peak[0] = max([peak[0], *map(_peak_mb, _tree(process.pid))])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    out, err = process.communicate()
    stop.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{err}")
    seconds = time.perf_counter() - started
    return Cost(seconds, _processor_seconds() - before, peak[0], out)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree(root: int) -> list[int]:
    """Processes that a process has started, and those they have; on Linux."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has just ended
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def _peak_mb(process: int) -> float:
    """The most resident memory a process ever had, in megabytes."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) / 1000 if lines else 0.0


# ------------------------------------------------------------------------ fit and predict


def _fit(folder: Path, n_rows: int, workers: int) -> Cost:
    parts = _first_parts(folder, n_rows)
    command: list[str | Path] = [sys.executable, "-c", _COLABEL, "fit", *parts, "-l", "y*", "-q"]
    command += ["--set", f"C={C}", "-o", folder / "model.colabel"]
    return _measured([*command, "--workers", str(workers)])


def _fits(folder: Path, rows: Sequence[int], workers: int) -> None:
    lines = []
    for n_rows in rows:
        cost = _fit(folder, n_rows, workers)
        lines.append(
            [
                f"{n_rows:,}",
                f"{cost.seconds:.0f}",
                f"{cost.processor:.0f}",
                f"{1e6 * cost.processor / n_rows:.0f}",
                f"{cost.peak_mb:.0f} MB",
            ]
        )
    header = ["rows", "seconds", "of processor", "a row, millionths", "peak of any process"]
    print_table(header, lines)


def _predictions(folder: Path, n_rows: int) -> None:
    csv, parquet = map(importlib.import_module, ("pyarrow.csv", "pyarrow.parquet"))

    parts = _first_parts(folder, n_rows)
    whole = parquet.read_table(parts, columns=[f"x{j}" for j in range(FEATURES)])
    lines = []
    for ending in ("csv", "parquet"):
        write = csv.write_csv if ending == "csv" else parquet.write_table
        write(whole, folder / f"new.{ending}")
        write(whole.slice(0, 1), folder / f"one.{ending}")
        start = _predict(folder, f"one.{ending}")
        cost = _predict(folder, f"new.{ending}")
        size = (folder / f"new.{ending}").stat().st_size / 1e6
        speed = n_rows / (cost.processor - start.processor)
        times = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{start.processor:.1f}"]
        peak = f"{cost.peak_mb:.0f} MB"
        lines.append([ending, f"{n_rows:,}", f"{size:.0f} MB", *times, f"{speed:,.0f}", peak])
    header = ["from and to", "rows", "file", "seconds", "of processor", "of these to start"]
    print_table([*header, "rows in a second of processor", "peak memory"], lines)


def _predict(folder: Path, name: str) -> Cost:
    table = folder / name
    out = folder / f"answers-{name}"
    model = folder / "model.colabel"
    command: list[str | Path] = [sys.executable, "-c", _COLABEL, "predict", model, table]
    return _measured([*command, "-o", out, "-q"])


# ------------------------------------------------------------------------- what others do


def _peers(folder: Path, n_rows: int, workers: int) -> None:
    cost = _fit(folder, n_rows, workers)
    lines = [_line("colabel CTBN, rows in files", n_rows, cost, *_own_losses(folder))]
    for name in _PEERS:
        if importlib.util.find_spec(name.replace("scikit-learn", "sklearn")) is None:
            print(f"{name} is not installed: left out.")
            continue
        command = [sys.executable, "-m", "benchmarks.rows", "--peer", name]
        cost = _measured([*command, "--folder", folder, "--peers", str(n_rows)])
        found = json.loads(cost.output.splitlines()[-1])
        # labels that are learned apart are independent: their log-losses add up
        lines.append(_line(found["title"], n_rows, cost, found["loss"], found["loss"]))
    print_table(
        ["learner", "rows", "seconds", "of processor", "peak of any process", *_LOSSES], lines
    )


def _line(title: str, n_rows: int, cost: Cost, *losses: float) -> list[str]:
    times = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{cost.peak_mb:.0f} MB"]
    return [title, f"{n_rows:,}", *times, *(f"{loss:.4f}" for loss in losses)]


def _own_losses(folder: Path) -> tuple[float, float]:
    import colabel
    from colabel.tables import read_frame

    frame = read_frame(folder / "test.parquet")
    Y: Any = frame.block([f"y{i}" for i in range(LABELS)])
    joint = colabel.load(folder / "model.colabel").joint(frame)
    return _log_loss(Y, joint.marginals()), float(-joint.log_prob(Y.astype(int)).mean())


def _log_loss(Y: Any, p: Any) -> float:
    """Mean over rows of the summed log-loss of the labels."""
    return float(-np.log(np.where(Y == 1, p, 1.0 - p)).sum(axis=1).mean())


def _in_memory(parts: Sequence[Path]) -> tuple[Any, Any]:
    parquet = importlib.import_module("pyarrow.parquet")

    table = parquet.read_table(parts)
    X = np.column_stack([table[f"x{j}"].to_numpy() for j in range(FEATURES)])
    return X, np.column_stack([table[f"y{i}"].to_numpy() for i in range(LABELS)])


def _run_peer(name: str, folder: Path, n_rows: int) -> None:
    """Fit one of the others in this process; print what it is and its log-loss."""
    parts = _first_parts(folder, n_rows)
    held_out = _in_memory([folder / "test.parquet"])
    learn = _scikit_learn if name == "scikit-learn" else _xgboost
    title, loss = learn(parts, *held_out)
    print(json.dumps({"title": title, "loss": loss}))


def _scikit_learn(parts: Sequence[Path], X: Any, Y: Any) -> tuple[str, float]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regressions = OneVsRestClassifier(LogisticRegression(C=C), n_jobs=2)
    model = make_pipeline(StandardScaler(), regressions).fit(*_in_memory(parts))
    return "scikit-learn, one regression a label, in memory", _log_loss(Y, model.predict_proba(X))


def _xgboost(parts: Sequence[Path], X: Any, Y: Any) -> tuple[str, float]:
    """Boost each label on its own, 100 rounds of depth 6, the rows in Dask's chunks."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster
    from xgboost import dask as boosting

    rows = dd.read_parquet([str(part) for part in parts])
    features = [f"x{j}" for j in range(FEATURES)]
    found = np.empty(Y.shape)
    with LocalCluster(2, threads_per_worker=1) as cluster, Client(cluster) as client:
        for i in range(LABELS):
            own = boosting.DaskDMatrix(client, rows[features], rows[f"y{i}"])
            how = {"objective": "binary:logistic", "tree_method": "hist"}
            booster = boosting.train(client, how, own, num_boost_round=100)["booster"]
            found[:, i] = booster.inplace_predict(X)
    return "XGBoost by Dask, one a label, 100 rounds", _log_loss(Y, found)


if __name__ == "__main__":
    main()
