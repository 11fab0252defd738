"""How long colabel takes to start, as ratios to ``import sklearn.base`` in one run.

Usage: python -m benchmarks.startup [--repeats 5]

Seconds of processor, user and system, of a new process; the smallest of the repeats, since whatever
else the machine does can only add to it. What starting the interpreter takes is in every figure.
Sources are compiled before, as those of an installed package are, whatever PYTHONDONTWRITEBYTECODE
says.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from benchmarks._common import machine, print_table

YARDSTICK = "import sklearn.base"
COMMAND = "import sys; sys.argv = {}; from colabel.cli import main; main()"
STARTS = {
    YARDSTICK: YARDSTICK,
    "import colabel": "import colabel",
    "from colabel import CTBN": "from colabel import CTBN",
    "colabel --help": COMMAND.format(["colabel", "--help"]),
    "colabel compare --mistyped": COMMAND.format(["colabel", "compare", "--mistyped"]),
    "colabel compare --help": COMMAND.format(["colabel", "compare", "--help"]),
    "colabel fit --help": COMMAND.format(["colabel", "fit", "--help"]),
    "colabel models": COMMAND.format(["colabel", "models"]),
}


def processor_seconds(code: str) -> float:
    """Seconds of processor that a new interpreter takes to run some code."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def main() -> None:
    """Start everything once to fill the caches, then measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    for code in STARTS.values():
        processor_seconds(code)
    taken = {
        name: min(processor_seconds(code) for _ in range(repeats)) for name, code in STARTS.items()
    }
    print(machine())
    print_table(
        ("start", "seconds of processor", "ratio"),
        [(name, f"{s:.2f}", f"{s / taken[YARDSTICK]:.2f}") for name, s in taken.items()],
    )


if __name__ == "__main__":
    main()
