"""Compiling for the first time is told, once; kernels avoid what takes long to compile."""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

import colabel
from colabel.core.compiling import MESSAGE, njit, told_when_compiling
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


def compiled(module: str = "colabel.somewhere") -> object:
    """Compile a new function that says to be of a module."""

    def one_more(x: int) -> int:
        return x + 1

    one_more.__module__ = module
    kernel = njit(nogil=True)(one_more)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(kernel, [1] * 8)) == {2}
    return kernel


def test_kernels_are_made_once():
    assert len(compiled().signatures) == 1
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


SOURCE = Path(colabel.__file__).parent


def test_it_is_told_once():
    told: list[str] = []
    with told_when_compiling(told.append, 0.0):
        compiled()
        compiled()
    assert told == [MESSAGE]


@pytest.mark.parametrize(
    ("module", "noticed"), [("somewhere.else", 0.0), ("colabel.somewhere", 60.0)]
)
def test_functions_of_others_and_short_work_are_not_told(module, noticed):
    told: list[str] = []
    with told_when_compiling(told.append, noticed):
        compiled(module)
    assert not told


def test_of_several_processes_of_a_command_one_tells():
    told: list[str] = []
    with told_when_compiling(told.append, 0.0):
        Path(os.environ["COLABEL_TOLD_OF_COMPILING"]).touch()  # as another process does
        compiled()
    assert not told


SCRIPT = """
import sys
if sys.argv[1] == "kernel":
    import logging
    from colabel.core.compiling import told_when_compiling
    from colabel.core.exponential import exp_of_negative
    with told_when_compiling(logging.getLogger("colabel").warning, 0.0):
        exp_of_negative(-1.0)
elif sys.argv[1] == "log":
    import logging, time
    from colabel.core.compiling import njit
    logging.basicConfig()
    def slow(x): return x.argsort()
    slow.__module__ = "colabel.somewhere"
    import numpy as np
    for _ in range(9): njit()(slow)(np.ones(3))
elif sys.argv[1] == "python":
    import numpy as np
    import colabel
    X = np.arange(40.0).reshape(20, 2) % 7
    colabel.BinaryRelevance(C=1.0).fit(X, X > 3)
else:
    sys.argv[1:] = sys.argv[2:]
    from colabel.cli import main
    main()
"""


def said(folder: Path, *words: str) -> str:
    """What a process that begins with the compiled functions of `folder` writes on its stderr."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", SCRIPT, *words]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return " ".join(done.stderr.split())


def test_a_cold_start_says_so_and_a_warm_one_does_not(tmp_path):
    assert MESSAGE in said(tmp_path, "kernel")
    assert MESSAGE not in said(tmp_path, "kernel")


def test_otherwise_it_is_in_the_log(tmp_path):
    assert f"WARNING:colabel:{MESSAGE}" in said(tmp_path, "log")


def test_the_command_line_says_so_and_a_program_that_needs_the_same_does_not(tmp_path):
    lines = [f"{i % 5},{i % 7},{int(i % 5 > 2)}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,tag_c", *lines]))
    words = "fit", "t.csv", "--labels", "tag_c", "--model", "br", "--set", "C=1.0"
    assert MESSAGE in said(tmp_path, "cli", *words)
    assert MESSAGE not in said(tmp_path, "python")


@pytest.mark.parametrize("ending", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05no pickle", None])
def test_a_damaged_cache_is_told_in_one_line_and_mended(ending, content, tmp_path):
    """Every command stopped until somebody deleted it."""
    said(tmp_path, "kernel")
    for file in (tmp_path / "cache").rglob(ending):
        before = file.read_bytes()
        file.write_bytes(before[: len(before) // 2] if content is None else content)
    words = said(tmp_path, "kernel")
    assert words.count("The cache of compiled kernels cannot be used") == 1
    assert "Traceback" not in words
    assert "cannot be used" not in said(tmp_path, "kernel")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there")
def test_a_full_disk_is_told_in_one_line():
    """Saving fails at the last moment: what was compiled is used all the same."""

    def full(path):
        return Path("/dev/full").open("wb", buffering=0)

    kernel = njit(cache=True)(ours_to_keep)
    kernel._cache._cache_file._open_for_write = full
    told = []
    with told_when_compiling(told.append, 60.0):
        assert kernel(2.0) == 4.0
    assert len([line for line in told if "No space left" in line]) == 1


def ours_to_keep(x: float) -> float:
    """Two of it, kept."""
    return 2.0 * x


# Seconds that each of these adds to the first use of a kernel: see the module.
SLOW_CALLS = {
    "argsort",
    "sort",
    "searchsorted",
    "argmin",
    "argmax",
    "flatnonzero",
    "unique",
    "clip",
}
SLOW_METHODS = {"max", "min", "sum", "mean", "any", "all"}


def kernels() -> list[tuple[str, ast.FunctionDef]]:
    """All compiled functions of the library."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        if "njit" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                compiled = any("njit" in ast.unparse(each) for each in node.decorator_list)
                if compiled:
                    found.append((file.relative_to(SOURCE).as_posix(), node))
    return found


def slow_places(function: ast.FunctionDef) -> list[str]:
    """What takes long to compile in a kernel."""
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            slices = any(
                isinstance(target, ast.Subscript)
                and any(isinstance(part, ast.Slice) for part in ast.walk(target.slice))
                for target in targets
            )
            number = isinstance(node.value, ast.Constant | ast.UnaryOp | ast.Attribute)
            if slices and (isinstance(node, ast.AugAssign) or not (number or _numbers(node.value))):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_math = isinstance(node.func.value, ast.Name) and node.func.value.id == "math"
            if node.func.attr in SLOW_CALLS | SLOW_METHODS and not of_math:
                found.append(ast.unparse(node))
    return found


def _numbers(value: ast.expr) -> bool:
    return isinstance(value, ast.Tuple) and all(isinstance(e, ast.Constant) for e in value.elts)


def test_kernels_loop():
    assert len(kernels()) > 50
    found = {f"{file}:{function.name}": slow_places(function) for file, function in kernels()}
    assert not {name: places for name, places in found.items() if places}


def test_what_is_slow_is_found():
    lines = ["a[:] = b", "a[1:] /= 2", "a[:] = 0.0", "np.argsort(a)", "a.max()"]
    text = "\n    ".join(["def f(a, b):", *lines])
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert slow_places(function) == ["a[:] = b", "a[1:] /= 2", "np.argsort(a)", "a.max()"]
