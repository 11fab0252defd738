"""Functions that are compiled when they are first called; the user is told if that takes seconds.

Importing numba takes longer than importing everything else that a model needs, so it is imported
when there is something to compute.

Kernels are compiled at their first use and kept in a cache. The cost depends mainly on the number
of operations that numba has to type: an assignment of an array to a slice
(``target[:] = source``) brings 3 s of formatted error messages with it and .3 s in every further
function, ``argsort`` 1.7 s, ``max`` .6 s, ``searchsorted`` .4 s, ``sum`` and ``argmin`` .3 s,
``zeros`` .25 s; a loop costs next to nothing. So kernels copy, sum and search by loops, and arrays
are sorted before or after them (`tests/core/test_compiling.py`).
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

MESSAGE = (
    "Compiling numeric kernels, once on this machine: the first use takes some seconds more. They "
    "are kept, and later runs start at once."
)
_LOCK = threading.RLock()
_TOLD = "COLABEL_TOLD_OF_COMPILING"  # names a file that the first process to tell makes


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that applies ``numba.njit`` when the function is first called."""

    def kernel(function: Function) -> Function:
        lazy: Any = _Kernel(function, options)
        return lazy  # type: ignore[no-any-return]

    return kernel


class _Kernel:
    """A function that numba compiles once it is needed, by Python or by another such function."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._options = options
        self._compiled: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self._made())(*arguments)

    def _made(self) -> Any:
        with _LOCK:
            if self._compiled is None:
                import numba

                _watch_compiling()
                try:
                    made = numba.njit(**self._options)(self.__wrapped__)
                except RuntimeError as error:  # there is no folder that a cache could be in
                    _tell_of_cache(error)
                    made = numba.njit(**{**self._options, "cache": False})(self.__wrapped__)
                _survive_damage(made._cache)
                self._compiled = made
            return self._compiled

    def __getattr__(self, name: str) -> Any:
        """Return the attributes of the compiled function, which numba itself asks for."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._made(), name)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[no-any-return]


def _survive_damage(cache: Any) -> None:
    """Compile a kernel again if its cached copy is damaged or cannot be written."""
    load, save = cache.load_overload, cache.save_overload

    def load_overload(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception as error:  # damaged pickles raise whatever they like
            _tell_of_cache(error)
            with suppress(Exception):
                cache.flush()

    def save_overload(*arguments: Any) -> None:
        try:
            save(*arguments)
        except Exception as error:
            _tell_of_cache(error)
            cache.disable()

    cache.load_overload, cache.save_overload = load_overload, save_overload


def _tell_of_cache(error: Exception) -> None:
    """Report once that kernels are compiled without their cache."""
    if not _WATCH.cache_told:
        _WATCH.cache_told = True
        _WATCH.tell(
            f"The cache of compiled kernels cannot be used ({type(error).__name__}: {error}): they "
            "are compiled again. NUMBA_CACHE_DIR names another folder for it."
        )


class _Watch:
    """Adds up how long compiling takes; compilations nest, so only the outermost count."""

    def __init__(self, tell: Callable[[str], None], noticed: float) -> None:
        self.tell, self.noticed = tell, noticed  # seconds
        self._open: list[float] = []  # when the compilations under way began
        self._seconds, self._told, self.cache_told = 0.0, False, False

    def start(self, function: Any) -> None:
        """Note the beginning; functions of other packages count only inside our own."""
        if self._open or str(function.__module__).startswith("colabel."):
            self._open.append(time.monotonic())

    def end(self) -> None:
        """Report once, as soon as compiling has taken long enough to be noticed."""
        if not self._open:
            return
        seconds = self._seconds + time.monotonic() - self._open[0]
        self._open.pop()
        if not self._open:
            self._seconds = seconds
        if seconds >= self.noticed and not self._told:
            self._told = True
            with suppress(FileExistsError):  # then another process of the same command has told
                if _TOLD in os.environ:
                    os.close(os.open(os.environ[_TOLD], os.O_CREAT | os.O_EXCL))
                self.tell(MESSAGE)


_NOTICED = 1.0  # seconds: less nobody wonders about
_WATCH = _Watch(logging.getLogger("colabel").warning, _NOTICED)


@cache
def _watch_compiling() -> None:
    """Let numba report from now on when it compiles."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            _WATCH.start(event.data["dispatcher"].py_func)

        def on_end(self, event: Any) -> None:
            _WATCH.end()

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


@contextmanager
def told_when_compiling(tell: Callable[[str], None], noticed: float = _NOTICED) -> Iterator[None]:
    """Call `tell` once, instead of writing to the log, if compiling takes so many seconds."""
    global _WATCH
    before, _WATCH = _WATCH, _Watch(tell, noticed)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_TOLD] = os.path.join(folder, "told")  # for worker processes, too
        try:
            yield
        finally:
            _WATCH = before
            del os.environ[_TOLD]
