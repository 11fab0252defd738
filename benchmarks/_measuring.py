"""What a command costs, with all the processes that it starts; on Linux."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._common import ROOT


@dataclass(frozen=True)
class Cost:
    """What a command took, with all the processes it started."""

    seconds: float
    processor: float
    peak_mb: float  # of the largest process
    output: str


def measured(command: Sequence[str | Path]) -> Cost:
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
