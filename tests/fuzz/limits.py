"""Cases in a child process with limits: 5 CPU seconds a case, 1 GiB more memory than at its start.

CPU seconds, so that a busy machine changes nothing; a case that only waits is ended by the clock.
"""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import CASES

MEMORY = 1 << 30
CAN_LIMIT = sys.platform == "linux"


def outcomes(
    kind: str, seed: int, first: int, count: int, *, seconds: float = 5, patience: float = 120
) -> Iterator[tuple[int, str]]:
    """Run cases in a child; after a crash or a hang go on behind it in another.

    A case has so many CPU seconds, and so many by the clock, on a machine that may be busy.

    Yields
    ------
    case : int
    outcome : str
        "answered", "refused", or what went wrong.
    """
    end = first + count
    while first < end:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(kind, seed, first, end, seconds, theirs)
        )
        child.start()
        theirs.close()
        alive = True
        while first < end and alive:
            try:
                outcome = ours.recv() if ours.poll(patience) else "hang"
            except EOFError:
                child.join(patience)
                outcome = f"crash, exit code {child.exitcode}"
            yield first, outcome
            first += 1
            alive = not outcome.startswith(("crash", "hang"))
        child.kill()
        child.join()
        ours.close()


def repeat_command(kind: str, seed: int, case: int) -> str:
    """What to type to see a case again."""
    return f"python -m tests.fuzz {kind} --seed {seed} --first {case} --cases 1"


def _child(kind: str, seed: int, first: int, end: int, seconds: float, answers: Connection) -> None:
    resource: Any = importlib.import_module("resource")
    faulthandler.enable()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

    def too_long(*_: object) -> None:
        raise TimeoutError(f"a case took longer than {seconds} CPU seconds")

    signal.signal(signal.SIGPROF, too_long)
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, end):
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                outcome = CASES[kind](np.random.default_rng([seed, case]), Path(folder))
            except BaseException:
                outcome = traceback.format_exc()
            signal.setitimer(signal.ITIMER_PROF, 0)
            answers.send(outcome)
