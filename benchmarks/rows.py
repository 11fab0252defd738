"""Tables that do not fit: `colabel fit` and `colabel predict` on Parquet parts.

Usage: python -m benchmarks.rows [--rows 500000 2500000 10000000] [--predict 2500000]
       [--peers 500000] [--rounds 200] [--model ctbn] [--workers 0] [--folder DIR]

Draws 64 features in single precision and 7 labels that follow each other, in parts of 250,000
rows. Fits a model with its default folds and one C to each number of rows, in a process of its own:
seconds of processor, and the largest resident memory of any process. Predicts the parts from CSV
and from Parquet: rows in a second of processor, in all and beyond what a table of one row takes
(the median of three such starts). Then what one would take instead learns from some of the same
rows: scikit-learn's logistic regressions, one for each label, by joblib; XGBoost through Dask,
until its log-loss is colabel's or after `--rounds` rounds. Log-losses are of rows held out: of the
labels alone, summed over them, and of the label vectors. Every line is printed when it is known.
All files are removed at the end: some 10 GB for ten million rows.

Needs ``pip install '.[data,distributed]'``, and ``pip install xgboost`` for the last table
(without it that line is left out). Zero rows leave a part out: ``--rows 0``, ``--predict 0``,
``--peers 0``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _row_peers as others
from benchmarks._common import machine
from benchmarks._measuring import Cost, measured
from benchmarks._row_parts import (
    FEATURE_NAMES,
    FEATURES,
    LABEL_NAMES,
    LABELS,
    draw,
    first_parts,
    log_loss,
)

C = 1.0
_PART_ROWS = 250_000
_FEWEST = 100_000  # rows for the model that predicts, where none was asked for
_STARTS = 3
_COLABEL = [sys.executable, "-c", "from colabel.cli import main; main()"]
_FITS = ["rows", "seconds", "of processor", "a row, millionths", "peak of any process"]
_SPEEDS = ["from and to", "rows", "files", "seconds", "of processor", "of these to start"]
_SPEEDS += ["rows in a second of processor", "beyond the start", "peak memory"]
_LOSSES = ["learner", "rows", "seconds", "of processor", "peak of any process"]
_LOSSES += ["log-loss of labels alone", "of label vectors"]


def main() -> None:
    """Draw, fit, predict, compare."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[500_000, 2_500_000, 10_000_000])
    options.add_argument("--predict", type=int, default=2_500_000, help="rows to predict")
    options.add_argument("--peers", type=int, default=500_000, help="rows for others")
    options.add_argument("--rounds", type=int, default=200, help="most rounds of XGBoost")
    options.add_argument("--model", default="ctbn", help="of colabel fit")
    options.add_argument("--workers", type=int, default=0, help="of colabel fit; 0: threads")
    options.add_argument("--folder", type=Path, help="where the files go for a while")
    given = options.parse_args()
    print(machine())
    rows = [n_rows for n_rows in given.rows if n_rows]
    how = ["--model", given.model, "--workers", str(given.workers)]
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        most = max([*rows, given.peers, given.predict])
        # two parts or more: one is small enough
        n_part = min(_PART_ROWS, min([*rows, given.peers or most]) // 2)
        draw(folder, most, n_part)
        print(
            f"{given.model}, {LABELS} labels, {FEATURES} features, C = {C}, parts of {n_part:,}\n"
        )
        if rows:
            _print_lines(_FITS, _fits(folder, rows, how))
        if given.predict:
            if not rows:
                _fit(folder, min(given.predict, _FEWEST), how)
            _print_lines(_SPEEDS, _predictions(folder, given.predict))
        if given.peers:
            _print_lines(_LOSSES, _peers(folder, given.peers, how, given.rounds))


def _print_lines(header: Sequence[str], lines: Iterator[Sequence[str]]) -> None:
    """Print a Markdown table, each line as soon as it is there."""
    print("| " + " | ".join(header) + " |")
    print("|" + "|".join("---" for _ in header) + "|", flush=True)
    for line in lines:
        print("| " + " | ".join(line) + " |", flush=True)
    print()


# ------------------------------------------------------------------------ fit and predict


def _fit(folder: Path, n_rows: int, how: Sequence[str]) -> Cost:
    parts = first_parts(folder, n_rows)
    command: list[str | Path] = [*_COLABEL, "fit", *parts, "-l", "y*", "-q"]
    command += ["--set", f"C={C}", "-o", folder / "model.colabel"]
    return measured([*command, *how])


def _fits(folder: Path, rows: Sequence[int], how: Sequence[str]) -> Iterator[list[str]]:
    for n_rows in rows:
        cost = _fit(folder, n_rows, how)
        times = [f"{cost.seconds:.0f}", f"{cost.processor:.0f}"]
        each = f"{1e6 * cost.processor / n_rows:.0f}"
        yield [f"{n_rows:,}", *times, each, f"{cost.peak_mb:.0f} MB"]


def _predictions(folder: Path, n_rows: int) -> Iterator[list[str]]:
    drawn = first_parts(folder, n_rows)
    for ending in ("csv", "parquet"):
        parts = [_features(part, folder / "new" / ending, None) for part in drawn]
        alone = _features(drawn[0], folder / "one" / ending, 1)
        starts = [_predict(folder, [alone], f"start{i}").processor for i in range(_STARTS)]
        cost, start = _predict(folder, parts, ending), statistics.median(starts)
        size = sum(part.stat().st_size for part in parts) / 1e6
        times = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{start:.1f}"]
        speeds = [n_rows / cost.processor, n_rows / (cost.processor - start)]
        peak = f"{cost.peak_mb:.0f} MB"
        sizes = [f"{n_rows:,}", f"{size:.0f} MB"]
        yield [ending, *sizes, *times, *(f"{speed:,.0f}" for speed in speeds), peak]
        for part in parts:
            part.unlink()


def _features(part: Path, folder: Path, n_rows: int | None) -> Path:
    """Write the features of a part, or of its first rows, to a file of the folder's format."""
    csv, parquet = map(importlib.import_module, ("pyarrow.csv", "pyarrow.parquet"))

    folder.mkdir(parents=True, exist_ok=True)
    table = parquet.read_table(part, columns=FEATURE_NAMES).slice(0, n_rows)
    file = folder / f"{part.stem}.{folder.name}"
    if folder.name == "csv":
        csv.write_csv(table, file)
    else:
        parquet.write_table(table, file, compression="none", use_dictionary=False)
    return file


def _predict(folder: Path, parts: Sequence[Path], name: str) -> Cost:
    command: list[str | Path] = [*_COLABEL, "predict", folder / "model.colabel", *parts]
    answers = folder / f"answers-{parts[0].suffix[1:]}-{name}"
    answers.mkdir()
    return measured([*command, "-o", f"{answers}/", "-q"])


# ------------------------------------------------------------------------- what others do


def _peers(folder: Path, n_rows: int, how: Sequence[str], n_rounds: int) -> Iterator[list[str]]:
    cost = _fit(folder, n_rows, how)
    alone, together = _own_losses(folder)
    yield _line(f"colabel {how[1]}, rows in files", n_rows, cost, alone, together)
    for name in others.LEARNERS:
        if importlib.util.find_spec(others.PACKAGES[name]) is None:
            print(f"{name} is not installed: left out.")
            continue
        cost, found = others.run(name, folder, n_rows, alone, n_rounds)
        for stage in found.get("stages", ()):  # on the way
            spent = Cost(stage["seconds"], stage["processor"], 0.0, "")
            yield _line(stage["title"], n_rows, spent, stage["loss"], stage["loss"])
        # labels that are learned apart are independent: their log-losses add up
        yield _line(found["title"], n_rows, cost, found["loss"], found["loss"])


def _line(title: str, n_rows: int, cost: Cost, *losses: float) -> list[str]:
    peak = f"{cost.peak_mb:.0f} MB" if cost.peak_mb else ""
    times = [f"{cost.seconds:.1f}", f"{cost.processor:.1f}", peak]
    return [title, f"{n_rows:,}", *times, *(f"{loss:.4f}" for loss in losses)]


def _own_losses(folder: Path) -> tuple[float, float]:
    import colabel
    from colabel.tables import read_frame

    frame = read_frame(folder / "test.parquet")
    Y: Any = frame.block(LABEL_NAMES)
    joint = colabel.load(folder / "model.colabel").joint(frame)
    return log_loss(Y, joint.marginals()), float(-joint.log_prob(Y.astype(int)).mean())


if __name__ == "__main__":
    main()
