"""Fuzzing for as long as one likes: ``python -m tests.fuzz --seconds 600``.

Cases run in child processes with limits on memory (1 GiB more than at the start) and time (5 s a
case). A crash, a hang, a case over the limits or an error that is no sentence is printed with the
command that repeats it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from tests.fuzz.cases import CASES, model_files

SECONDS_PER_CASE = 5
MEMORY = 1 << 30
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
            failures += _batch(kind, asked.seed, first, count, seen)
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


def _batch(kind: str, seed: int, first: int, count: int, seen: Counter[str]) -> int:
    """Run cases in a child; after a crash go on behind it. Return the number of failures."""
    failures, end = 0, first + count
    while first < end:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(kind, seed, first, end, theirs)
        )
        child.start()
        theirs.close()
        while first < end:
            try:
                outcome = ours.recv() if ours.poll(4 * SECONDS_PER_CASE) else "hang"
            except EOFError:
                child.join(SECONDS_PER_CASE)
                outcome = f"crash, exit code {child.exitcode}"
            if outcome in ("answered", "refused"):
                seen[f"{kind} {outcome}"] += 1
            else:
                failures += 1
                again = f"python -m tests.fuzz {kind} --seed {seed} --first {first} --cases 1"
                print(f"{again}\n{outcome}", flush=True)  # noqa: T201
            first += 1
            if outcome.startswith(("crash", "hang")):
                break
        child.kill()
        child.join()
        ours.close()
    return failures


def _child(kind: str, seed: int, first: int, end: int, answers: Connection) -> None:
    faulthandler.enable()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, end):
            signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_CASE)
            try:
                outcome = CASES[kind](np.random.default_rng([seed, case]), Path(folder))
            except BaseException:
                outcome = traceback.format_exc()
            signal.setitimer(signal.ITIMER_REAL, 0)
            answers.send(outcome)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"a case took longer than {SECONDS_PER_CASE} s")


if __name__ == "__main__":
    sys.exit(main())
