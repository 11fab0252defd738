"""What one would take instead of colabel for many rows, each in a process of its own.

Run by `benchmarks.rows`: python -m benchmarks._row_peers LEARNER FOLDER ROWS TARGET ROUNDS
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._measuring import Cost, measured
from benchmarks._row_parts import (
    FEATURES,
    LABELS,
    first_parts,
    in_memory,
    log_loss,
)

LEARNERS = ("scikit-learn", "xgboost")
PACKAGES = {"scikit-learn": "sklearn", "xgboost": "xgboost"}
_STAGES = (10, 25, 50, 100, 200, 400, 800)  # rounds that are shown


def run(
    name: str, folder: Path, n_rows: int, target: float, n_rounds: int
) -> tuple[Cost, dict[str, Any]]:
    """Have a learner learn from rows; return its cost, and its title and log-loss."""
    command: list[str | Path] = [sys.executable, "-m", "benchmarks._row_peers", name, folder]
    cost = measured([*command, str(n_rows), str(target), str(n_rounds)])
    found: dict[str, Any] = json.loads(cost.output.splitlines()[-1])
    return cost, found


def main() -> None:
    """Learn in this process; print what it was, and its log-loss on the rows held out."""
    name, folder, n_rows, target, n_rounds = sys.argv[1:]
    parts = first_parts(Path(folder), int(n_rows))
    if name == "scikit-learn":
        found = _scikit_learn(parts, Path(folder))
    else:
        found = _xgboost(parts, Path(folder), float(target), int(n_rounds))
    print(json.dumps(found))


def _scikit_learn(parts: Sequence[Path], folder: Path) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regressions = OneVsRestClassifier(LogisticRegression(C=1.0), n_jobs=2)
    model = make_pipeline(StandardScaler(), regressions).fit(*in_memory(parts))
    X, Y = in_memory([folder / "test.parquet"])
    title = "scikit-learn, one regression a label, in memory"
    return {"title": title, "loss": log_loss(Y, model.predict_proba(X))}


def _xgboost(parts: Sequence[Path], folder: Path, target: float, n_rounds: int) -> dict[str, Any]:
    """Boost trees of depth 6 for every label, the rows in Dask's chunks.

    After each round the held-out log-loss is measured, until it is `target` or lower.
    """
    from distributed import Client, LocalCluster
    from xgboost import dask as boosting

    started = time.time()
    rounds = folder / "xgboost-rounds.jsonl"
    with LocalCluster(2, threads_per_worker=1) as cluster, Client(cluster) as client:
        files = (parts, [folder / "test.parquet"])
        own, held_out = (boosting.DaskDMatrix(client, *_in_chunks(some)) for some in files)
        how = {"objective": "binary:logistic", "tree_method": "hist", "eval_metric": "logloss"}
        how["base_score"] = "0.5"  # it cannot estimate one for each of several labels
        boosting.train(
            client,
            how,
            own,
            num_boost_round=n_rounds,
            evals=[(held_out, "test")],
            callbacks=[_stopwatch(rounds, target)],
        )
    stages = _stages(rounds, started)
    last = stages.pop()
    reached = "colabel's log-loss" if last["loss"] <= target else "not colabel's log-loss"
    return {"title": f"{last['title']}: {reached}", "loss": last["loss"], "stages": stages}


def _in_chunks(parts: Sequence[Path]) -> tuple[Any, Any]:
    """Features and labels as Dask arrays, a chunk for each part."""
    import dask.array as da
    from dask import delayed

    parquet = importlib.import_module("pyarrow.parquet")
    X, Y = [], []
    for part in parts:
        both, n_rows = delayed(in_memory, nout=2)([part]), parquet.read_metadata(part).num_rows
        X.append(da.from_delayed(both[0], (n_rows, FEATURES), dtype="float32"))
        Y.append(da.from_delayed(both[1], (n_rows, LABELS), dtype="int8"))
    return da.concatenate(X), da.concatenate(Y)


def _stopwatch(file: Path, target: float) -> Any:
    """Return a callback that writes down each round's time, and ends where the target is met."""
    from xgboost.callback import TrainingCallback

    class Stopwatch(TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            loss = LABELS * evals_log["test"]["logloss"][-1]  # a mean over labels
            known = {"worker": os.getpid(), "rounds": epoch + 1, "loss": loss}
            times = {"at": time.time(), "processor": time.process_time()}
            with file.open("a") as lines:
                lines.write(json.dumps({**known, **times}) + "\n")
            return bool(loss <= target)

    return Stopwatch()


def _stages(file: Path, started: float) -> list[dict[str, Any]]:
    """Cost and log-loss after some of the rounds, and after the last."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    last = max(line["rounds"] for line in lines)
    found = []
    for n_rounds in sorted({*(stage for stage in _STAGES if stage < last), last}):
        own = [line for line in lines if line["rounds"] == n_rounds]
        found.append(
            {
                "title": f"XGBoost by Dask, {n_rounds} rounds",
                "seconds": max(line["at"] for line in own) - started,
                "processor": sum(line["processor"] for line in own),  # of the workers
                "loss": own[0]["loss"],
            }
        )
    return found


if __name__ == "__main__":
    main()
