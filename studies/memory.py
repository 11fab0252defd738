"""Peak memory of a piece of work, in a process that did other work before."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    given instead; where it does not tell that either, NaN.
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
        if not peak.peak_mb:
            peak.peak_mb = float("nan")


def _resident_mb() -> float:
    """Resident memory now (Linux), or at most so far (other Unix, Windows); 0 if unknown."""
    try:
        if _STATM.exists():
            return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        if sys.platform == "win32":
            return _windows_mb()
        usage: Any = importlib.import_module("resource")
        largest = float(usage.getrusage(usage.RUSAGE_SELF).ru_maxrss)
        return largest / 2**20 if sys.platform == "darwin" else largest / 1024  # bytes there
    except (ImportError, OSError, ValueError, AttributeError):
        return 0.0


def _windows_mb() -> float:
    """The largest working set of this process, as Windows keeps it."""
    import ctypes

    class Counters(ctypes.Structure):
        _fields_ = (
            ("size", ctypes.c_ulong),
            ("n_faults", ctypes.c_ulong),
            ("peak", ctypes.c_size_t),
            ("others", ctypes.c_size_t * 7),
        )

    counters = Counters(size=ctypes.sizeof(Counters))
    kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(kernel.GetCurrentProcess())
    known = kernel.K32GetProcessMemoryInfo(handle, ctypes.byref(counters), counters.size)
    return counters.peak / 2**20 if known else 0.0
