"""Threads over compiled work: NumPy, BLAS and numba release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

from colabel.core.progress import Advance, check_deadline

Item = TypeVar("Item")
Result = TypeVar("Result")


# Looking for the loaded libraries takes milliseconds, so it is done once.
_thread_pools = cache(ThreadpoolController)


class _OneBlasThread:
    """Limits BLAS to one thread while any caller is inside, and then restores its setting.

    The limit belongs to the whole process. If each of two overlapping callers restored what it
    found, the second would restore the limit of the first, and BLAS would stay on one thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _thread_pools().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


one_blas_thread = _OneBlasThread()


def n_threads(n_jobs: int | None) -> int:
    """Number of threads for compiled work.

    None means what numerical libraries mean by it: all cores this process may use, or fewer
    where OMP_NUM_THREADS says so (as joblib's worker processes are told).
    """
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    limit = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(joblib.cpu_count())
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


def map_threads(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None,
    advance: Advance,
) -> list[Result]:
    """Apply `work` to all items in threads, and return the results in the order of the items.

    Each call runs on one thread, BLAS included, so a result does not depend on `n_jobs`.
    """

    def done(item: Item) -> Result:
        check_deadline()
        result = work(item)
        advance()
        return result

    threads = min(n_threads(n_jobs), len(items))
    with one_blas_thread:
        if threads <= 1:
            return [done(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            # each thread knows the deadline of its caller
            futures = [pool.submit(copy_context().run, done, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
