"""Seconds to the first answer: with an empty cache of compiled functions, and with a full one.

Every model is fitted to 200 rows of the bundled data and predicts 50 others in a fresh process,
once with an empty cache and once again with what the first left there. `--demo` times `colabel demo
--quick` in the same two ways. `--against` sets another version beside it, in the same run; it names
the folder `src` of a clone.

    python -m benchmarks.cold
    python -m benchmarks.cold --only CDN LDSMixture --demo --against ../before/src
"""

from __future__ import annotations

import argparse
import inspect
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import colabel
from benchmarks._common import machine, print_table

_FIT = """
import sys, time
import colabel
from colabel.datasets import load_digit_traits
data = load_digit_traits()
model_class = getattr(colabel, sys.argv[1])
around = sys.argv[1] in ("ThresholdedClassifier", "ConformalSets")
model = model_class(*[colabel.BinaryRelevance(C=0.01)] * around)
wall, cpu = time.perf_counter(), time.process_time()
model.fit(data.X[:200], data.Y[:200]).predict(data.X[200:250])
print(time.process_time() - cpu, time.perf_counter() - wall)
"""
_DEMO = "from colabel.cli import main; main()"


def models() -> list[str]:
    """Names of the estimators, but for those that cost what the model inside them does."""
    return [
        name
        for name in colabel.__all__
        if name not in ("TableModel", "RuledClassifier")
        and inspect.isclass(getattr(colabel, name))
        and hasattr(getattr(colabel, name), "predict")
    ]


def timed(name: str, source: Path, cache: str) -> tuple[float, float]:
    """CPU and wall seconds to fit and to predict, in a process of its own."""
    done = _run(["-c", _FIT, name], source, cache)
    cpu, wall = (float(word) for word in done.split())
    return cpu, wall


def demo(_: str, source: Path, cache: str) -> tuple[float, float]:
    """CPU and wall seconds of the quick demonstration, its start included."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _run(["-c", _DEMO, "demo", "--quick"], source, cache)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _run(arguments: list[str], source: Path, cache: str) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = str(source.absolute())
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=models())
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    sources = [asked.against] if asked.against else []
    sources.append(Path(colabel.__file__).parents[1])
    print(machine() + "\n")
    lines = []
    for name in [*asked.only, *(["colabel demo --quick"] if asked.demo else [])]:
        measure = demo if " " in name else timed
        cells = []
        for source in sources:
            with tempfile.TemporaryDirectory() as cache:
                cold, again = measure(name, source, cache), measure(name, source, cache)
            cells += [f"{cold[0]:.1f} ({cold[1]:.1f})", f"{again[0]:.1f} ({again[1]:.1f})"]
        lines.append([name, *cells])
    columns = ["empty cache, CPU s (wall)", "again, CPU s (wall)"]
    titles = [f"before: {title}" for title in columns] if asked.against else []
    print_table(["first use", *titles, *columns], lines)


if __name__ == "__main__":
    main()
