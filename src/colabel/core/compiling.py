"""Saying so when compiled functions are made for the first time, which takes seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Less than this nobody wonders about.
_NOTICED_SECONDS = 1.0
MESSAGE = (
    "Compiling numeric kernels, once on this machine: the first fit takes some seconds more. They "
    "are kept, and later runs start at once."
)


@contextmanager
def told_when_compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell once, as soon as compiling has taken a second; functions from a cache do not count.

    Without numba, or before it is imported, nothing is told.
    """
    if "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    listener = _Listener(tell, event.Listener)
    event.register("numba:compile", listener.proxy)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener.proxy)  # type: ignore[no-untyped-call]


class _Listener:
    """Adds up how long compiling takes; compilations nest, so only the outermost count."""

    def __init__(self, tell: Callable[[str], None], base: Any) -> None:
        self._tell, self._told = tell, False
        self._depth, self._since, self._seconds = 0, 0.0, 0.0
        outer = self

        class Proxy(base):
            def on_start(self, event: Any) -> None:
                outer.start()

            def on_end(self, event: Any) -> None:
                outer.end()

        self.proxy = Proxy()

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
