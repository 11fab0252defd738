"""Seconds to the first answer: with an empty cache of compiled functions, and with a full one.

Every model is fitted to 200 rows of the bundled data and predicts 50 others in a fresh process,
once with an empty cache and once again with what the first left there. `--demo` times `colabel demo
--quick` in the same two ways.

    python -m benchmarks.cold
    python -m benchmarks.cold --only CDN LDSMixture
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import time

import colabel

_FIT = """
import sys, time
start = time.perf_counter()
import colabel
from colabel.datasets import load_digit_traits
imported = time.perf_counter()
data = load_digit_traits()
model_class = getattr(colabel, sys.argv[1])
around = sys.argv[1] == "ThresholdedClassifier"
model = model_class(*[colabel.BinaryRelevance(C=0.01)] * around).fit(data.X[:200], data.Y[:200])
fitted = time.perf_counter()
model.predict(data.X[200:250])
print(imported - start, fitted - imported, time.perf_counter() - fitted)
"""


def models() -> list[str]:
    """Names of the estimators."""
    return [
        name
        for name in colabel.__all__
        if inspect.isclass(getattr(colabel, name)) and hasattr(getattr(colabel, name), "predict")
    ]


def timed(name: str, cache: str) -> list[float]:
    """Seconds to import, to fit and to predict, in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", _FIT, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def demo(cache: str) -> float:
    """Seconds of the quick demonstration."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    start = time.perf_counter()
    command = [sys.executable, "-c", "from colabel.cli import main; main()", "demo", "--quick"]
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=models())
    parser.add_argument("--demo", action="store_true")
    asked = parser.parse_args()
    print(f"{'model':<30}{'cold: fit':>10}{'predict':>10}{'again: fit':>12}{'predict':>10}")
    for name in asked.only:
        with tempfile.TemporaryDirectory() as cache:
            (_, *cold), (_, *again) = timed(name, cache), timed(name, cache)
        print(
            f"{name:<30}{cold[0]:>10.1f}{cold[1]:>10.1f}{again[0]:>12.1f}{again[1]:>10.1f}",
            flush=True,
        )
    if asked.demo:
        with tempfile.TemporaryDirectory() as cache:
            cold_demo, again_demo = demo(cache), demo(cache)
        print(f"colabel demo --quick: {cold_demo:.1f} s cold, {again_demo:.1f} s again")


if __name__ == "__main__":
    main()
