"""Compiled functions: made when they are first called, and saying so where that takes seconds.

Importing numba takes longer than importing all else that a model needs, so that it waits until
there is something to compute.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# Less than this nobody wonders about.
_NOTICED_SECONDS = 1.0
MESSAGE = (
    "Compiling numeric kernels, once on this machine: the first fit takes some seconds more. They "
    "are kept, and later runs start at once."
)
_LOCK = threading.RLock()


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that does what numba's of this name does, at the first call."""

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

                _listen()
                self._compiled = numba.njit(**self._options)(self.__wrapped__)
            return self._compiled

    def __getattr__(self, name: str) -> Any:
        """Be numba's object to whoever looks closer, such as numba itself."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._made(), name)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[no-any-return]


@contextmanager
def told_when_compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell once, as soon as compiling has taken a second; functions from a cache do not count."""
    listener = _Listener(tell)
    _WAITING.append(listener)
    if "numba" in sys.modules:
        _listen()
    try:
        yield
    finally:
        if listener in _WAITING:
            _WAITING.remove(listener)
        listener.stop()


class _Listener:
    """Adds up how long compiling takes; compilations nest, so only the outermost count."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._told = tell, False
        self._depth, self._since, self._seconds = 0, 0.0, 0.0
        self._proxy: Any = None

    def listen(self) -> None:
        """Have numba say when it compiles."""
        from numba.core import event

        outer = self

        class Proxy(event.Listener):
            def on_start(self, event: Any) -> None:
                outer.start()

            def on_end(self, event: Any) -> None:
                outer.end()

        self._proxy = Proxy()
        event.register("numba:compile", self._proxy)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Listen no more."""
        if self._proxy is not None:
            from numba.core import event

            event.unregister("numba:compile", self._proxy)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        if self._depth == 0:
            self._since = time.monotonic()
        self._depth += 1

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.monotonic() - self._since
        if self._seconds >= _NOTICED_SECONDS and not self._told:
            self._told = True
            self._tell(MESSAGE)


# Those who want to be told, until numba is there to tell them.
_WAITING: list[_Listener] = []


def _listen() -> None:
    while _WAITING:
        _WAITING.pop().listen()
