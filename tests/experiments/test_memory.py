"""Peak memory, also where the system tells little."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from colabel.experiments import _memory
from colabel.experiments._memory import peak_memory


def test_the_peak_is_seen():
    with peak_memory() as seen:
        block = np.ones(2**24)  # 128 MiB
        seen.look()
        del block
    assert seen.peak_mb > 128


def test_without_proc(monkeypatch):
    monkeypatch.setattr(_memory, "_STATM", Path("/nowhere/statm"))
    with peak_memory() as seen:
        pass
    assert seen.peak_mb > 10


def test_without_anything(monkeypatch):
    monkeypatch.setattr(_memory, "_STATM", Path("/nowhere/statm"))
    monkeypatch.setitem(sys.modules, "resource", None)
    with peak_memory() as seen:
        pass
    assert math.isnan(seen.peak_mb)
