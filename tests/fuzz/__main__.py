"""Fuzzing for as long as one likes: ``python -m tests.fuzz --seconds 600``.

Cases run in child processes with limits on memory and time (`tests.fuzz.limits`). A crash, a hang,
a case over the limits or an error that is no sentence is printed with the command that repeats it,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz.cases import CASES, model_files
from tests.fuzz.limits import outcomes, repeat_command

CASES_PER_CHILD = 500


def main() -> int:
    """Run the cases; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("kinds", nargs="*", help=", ".join(CASES))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=None, help="as many of each kind, no clock")
    asked = parser.parse_args()
    kinds = asked.kinds or list(CASES)
    model_files()  # made once, and inherited by the children
    for kind in kinds:  # so are compiled functions
        with tempfile.TemporaryDirectory() as folder:
            for case in range(200):
                _quietly(CASES[kind], np.random.default_rng(case), Path(folder))
    end, first, seen, failures = time.monotonic() + asked.seconds, asked.first, Counter[str](), 0
    while True:
        count = asked.cases or CASES_PER_CHILD
        for kind in kinds:
            for case, outcome in outcomes(kind, asked.seed, first, count):
                if outcome in ("answered", "refused"):
                    seen[f"{kind} {outcome}"] += 1
                    continue
                failures += 1
                print(f"{repeat_command(kind, asked.seed, case)}\n{outcome}", flush=True)  # noqa: T201
        first += count
        if asked.cases or time.monotonic() > end:
            break
    told = ", ".join(f"{number} {what}" for what, number in sorted(seen.items()))
    print(f"seed {asked.seed}: {told}; {failures} failures")  # noqa: T201
    return 1 if failures else 0


def _quietly(case: Callable[..., object], *arguments: object) -> None:
    try:
        case(*arguments)
    except Exception:  # it will be told when it is its turn
        return


if __name__ == "__main__":
    sys.exit(main())
