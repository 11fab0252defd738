"""One pass over the chunks: a function of each, reduced in a tree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, TypeVar

from colabel.core.journal import Journal
from colabel.core.optional import require

Result = TypeVar("Result")
PassCounter = Callable[[int], None]

_FAN_IN = 8  # results of a tree's node that are in memory together
_counters: ContextVar[tuple[PassCounter, ...]] = ContextVar("pass counters", default=())
_journal: ContextVar[Journal | None] = ContextVar("journal of passes", default=None)


@contextmanager
def counting_passes(count: PassCounter) -> Iterator[None]:
    """Have a function called before every pass over the rows, with the number of its rows.

    Examples
    --------
    >>> passes = []
    >>> with counting_passes(passes.append):
    ...     pass  # model.fit(X, y) of dask arrays
    """
    token = _counters.set((*_counters.get(), count))
    try:
        yield
    finally:
        _counters.reset(token)


@contextmanager
def journaled(journal: Journal) -> Iterator[None]:
    """Have the results of passes written down, and those that are there not computed again.

    A fit is a deterministic function of them: it goes on where it was stopped.
    """
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)


def announce(n_rows: int) -> None:
    """Say that a pass begins."""
    for count in _counters.get():
        count(n_rows)


def added(one: Any, other: Any) -> Any:
    """Add numbers, arrays, and tuples of them."""
    if isinstance(one, tuple):
        parts = [added(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    return one + other


def reduced(leaves: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine delayed results in a tree; those that are None have nothing to add."""
    from dask import delayed

    together = delayed(combined, pure=False)
    nodes = list(leaves)
    while len(nodes) > 1:
        starts = range(0, len(nodes), _FAN_IN)
        nodes = [together(nodes[start : start + _FAN_IN], combine) for start in starts]
    return nodes[0]


def combined(results: Iterable[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine results in their order; those that are None have nothing to add."""
    found = [result for result in results if result is not None]
    return reduce(combine, found) if found else None


def active_client() -> Any:
    """Return the Dask client that is in use, or None: Dask works in this process then."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    from dask import config

    if config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None  # told to work here nevertheless
    try:
        return distributed.default_client()
    except ValueError:
        return None


def computed(*nodes: Any, client: Any = None) -> tuple[Any, ...]:
    """Return the results of delayed nodes, by a client or as Dask is told to work here.

    Inside `journaled` those that an earlier fit has left are returned instead.
    """
    import dask

    journal = _journal.get()
    recorded = None if journal is None else journal.next()
    if recorded is not None:
        return recorded
    with _one_sentence(client):
        results = tuple(dask.compute(*nodes, scheduler=client))
    if journal is not None:
        journal.add(results)
    return results


def kept(nodes: Sequence[Any], client: Any = None) -> tuple[Any, ...]:
    """Compute delayed nodes and leave the results where they are: here, or with the workers."""
    import dask

    with _one_sentence(client):
        return tuple(dask.persist(*nodes, scheduler=client))


@contextmanager
def _one_sentence(client: Any) -> Iterator[None]:
    """Say in one sentence that the scheduler of a client is gone, where it is."""
    if client is None:
        yield
        return
    if client.status != "running":
        raise _lost()
    from distributed import CancelledError

    try:
        yield
    except (CancelledError, OSError) as error:
        if client.status == "running" and "scheduler" not in str(error):
            raise  # of reading a chunk, or of chunks that nobody can compute again
        raise _lost() from error


def _lost() -> RuntimeError:
    return RuntimeError(
        "The Dask scheduler is gone: the connection to it was lost during the fit. Connect to a"
        " running one (distributed.Client) and fit again."
    )


def require_dask() -> None:
    """Raise an ImportError that says what to install, unless Dask is there."""
    require("dask", "A fit on chunks of rows")


def is_dask(collection: Any) -> bool:
    """Whether something is a Dask collection, without importing Dask.

    Examples
    --------
    >>> is_dask([1, 2, 3])
    False
    """
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    return bool(is_dask_collection(collection))
