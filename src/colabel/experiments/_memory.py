"""Peak memory of a piece of work, in a process that did other work before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")
_INTERVAL = 0.05


class _Peak:
    peak_mb = 0.0

    def look(self) -> None:
        self.peak_mb = max(self.peak_mb, _resident_mb())


@contextmanager
def peak_memory() -> Iterator[_Peak]:
    """Watch the resident memory of this process, twenty times a second.

    Where the system does not tell the current size, the largest size the process ever had is
    given instead.
    """
    peak, stop = _Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(_INTERVAL):
            peak.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        peak.look()


def _resident_mb() -> float:
    try:
        import resource

        if _STATM.exists():
            pages = int(_STATM.read_text().split()[1])
            return pages * resource.getpagesize() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    except ImportError:  # Windows
        return float("nan")
