"""Compiling for the first time is told, once; what comes from a cache is not."""

from __future__ import annotations

import numba

from colabel.core import compiling
from colabel.core.compiling import told_when_compiling


def compile_something() -> None:
    numba.njit(lambda x: x + 1)(1)


def test_it_is_told_once(monkeypatch):
    monkeypatch.setattr(compiling, "_NOTICED_SECONDS", 0.0)
    told: list[str] = []
    with told_when_compiling(told.append):
        compile_something()
        compile_something()
    assert told == [compiling.MESSAGE]
    compile_something()
    assert len(told) == 1


def test_short_work_is_not_told():
    told: list[str] = []
    with told_when_compiling(told.append):
        compiled = numba.njit(lambda x: x + 1)
        compiled(1)
    assert not told


def test_functions_that_are_compiled_already(monkeypatch):
    compiled = numba.njit(lambda x: x + 2)
    compiled(1)
    monkeypatch.setattr(compiling, "_NOTICED_SECONDS", 0.0)
    told: list[str] = []
    with told_when_compiling(told.append):
        compiled(1)
    assert not told
