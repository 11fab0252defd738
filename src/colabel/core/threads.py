"""Threads over compiled work: NumPy, BLAS and numba release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

from colabel.core.progress import Advance

Item = TypeVar("Item")
Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so it is done once.
    return ThreadpoolController()


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
    """Apply `work` to all items, results in order; each call runs on one thread alone.

    BLAS is held to one thread meanwhile, so a result does not depend on `n_jobs`.
    """

    def done(item: Item) -> Result:
        result = work(item)
        advance()
        return result

    threads = min(n_threads(n_jobs), len(items))
    with _thread_pools().limit(limits=1, user_api="blas"):
        if threads <= 1:
            return [done(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(done, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
