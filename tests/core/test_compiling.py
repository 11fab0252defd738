"""Compiling for the first time is told, once; what comes from a cache is not."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba

import colabel
from colabel.core import compiling
from colabel.core.compiling import njit, told_when_compiling
from colabel.core.exponential import exp_of_negative


@njit(nogil=True)
def twice(x: float) -> float:
    """Two of it."""
    return 2.0 * x


@njit(nogil=True, inline="always")
def thrice(x: float) -> float:
    return 3.0 * x


@njit(nogil=True)
def five_times(x: float) -> float:
    return twice(x) + thrice(x)


@numba.njit
def from_numba(x: float) -> float:
    return five_times(x)


def test_kernels_are_made_at_their_first_call():
    once = njit(nogil=True)(lambda x: x + 1)
    assert once._compiled is None
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(once, [1] * 8)) == {2}
    assert once._compiled is once._made()
    assert (twice.__name__, twice.__doc__) == ("twice", "Two of it.")


def test_kernels_call_each_other_and_are_called_by_numbas_own():
    assert five_times(1.0) == from_numba(1.0) == five_times.py_func(1.0) == 5.0
    assert len(five_times.signatures) == 1
    assert exp_of_negative(0.0) == 1.0


def test_kernels_travel_by_name():
    assert pickle.loads(pickle.dumps(twice)) is twice


def test_nobody_waits_for_numba_before_something_is_computed():
    code = "import sys; from colabel import CTBN; CTBN(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_module_imports_numba_when_it_is_imported():
    for file in Path(colabel.__file__).parent.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "numba" for name in names), (
                f"{file} imports numba: take njit from colabel.core.compiling"
            )


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
