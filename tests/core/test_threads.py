"""Threads and the progress bar."""

from __future__ import annotations

import threading
import time

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from colabel.core.progress import deadline, progress_bar
from colabel.core.threads import map_threads, n_threads


def nothing() -> None:
    return None


def test_threads_asked_for():
    assert n_threads(3) == 3
    assert n_threads(-1) == joblib.cpu_count()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1", 1), ("0", 1), ("2", 2), ("999", 4), (None, 4), ("", 4), ("many", 4)],
)
def test_default_threads_obey_omp_num_threads(monkeypatch, limit, expected):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert n_threads(None) == expected


@pytest.mark.parametrize("n_jobs", [1, 2, 8])
def test_results_keep_their_order(n_jobs):
    def work(item: int) -> int:
        time.sleep(0.002 * (5 - item))
        return item**2

    assert map_threads(work, range(5), n_jobs, nothing) == [0, 1, 4, 9, 16]
    assert map_threads(work, [], n_jobs, nothing) == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_exceptions_reach_the_caller_and_stop_the_rest(n_jobs):
    started = []

    def work(item: int) -> int:
        started.append(item)
        if item == 1:
            raise KeyError("item 1")
        time.sleep(0.005)
        return item

    with pytest.raises(KeyError, match="item 1"):
        map_threads(work, range(200), n_jobs, nothing)
    assert len(started) < 100


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_item_advances_the_progress(n_jobs):
    steps = []
    map_threads(lambda item: item, range(7), n_jobs, lambda: steps.append(1))
    assert len(steps) == 7


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_runs_on_one_thread_meanwhile(n_jobs):
    np.ones((2, 2)) @ np.ones((2, 2))

    def threads(_: int) -> list[int]:
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = threads(0)
    for found in map_threads(threads, range(2), n_jobs, nothing):
        assert set(found) == {1}
    assert threads(0) == before


def test_work_is_spread_over_threads():
    barrier = threading.Barrier(2, timeout=10)
    names = map_threads(
        lambda _: (barrier.wait(), threading.current_thread().name)[1], range(2), 2, nothing
    )
    assert len(set(names)) == 2


@pytest.fixture
def terminal(monkeypatch):
    """Make rich believe that it writes to a terminal."""
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


def test_progress_is_shown_on_standard_error(capsys, terminal):
    with progress_bar("fitting things", 2, shown=True) as advance:
        advance()
        advance()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "fitting things" in printed.err


def test_no_progress_unless_asked_for(capsys, terminal):
    with progress_bar("fitting things", 2, shown=False) as advance:
        advance()
    assert capsys.readouterr() == ("", "")


def test_progress_ends_with_an_exception(capsys, terminal):
    with pytest.raises(RuntimeError), progress_bar("fitting", 2, shown=True):
        raise RuntimeError
    with progress_bar("fitting again", 1, shown=True) as advance:  # rich allows one live bar
        advance()
    assert "fitting again" in capsys.readouterr().err


def test_calls_that_overlap_leave_blas_as_it_was():
    """The first to come was the last to restore, or the other way round: BLAS stayed at one."""
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    second_is_in, first_is_out = threading.Event(), threading.Event()

    def first():
        map_threads(lambda _: second_is_in.wait(10), [0], 1, nothing)
        first_is_out.set()

    def second():
        def work(_):
            second_is_in.set()
            first_is_out.wait(10)

        map_threads(work, [0], 1, nothing)

    for _ in range(3):
        second_is_in.clear()
        first_is_out.clear()
        one, two = threading.Thread(target=first), threading.Thread(target=second)
        one.start()
        time.sleep(0.05)
        two.start()
        one.join()
        two.join()
    after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert after == before


def test_threads_end_at_the_deadline_of_their_caller():
    done = []
    with deadline(0.0), pytest.raises(TimeoutError, match="The time limit is over"):
        map_threads(done.append, [1, 2, 3, 4], 2, lambda: None)
    assert not done
    map_threads(done.append, [1, 2], 2, lambda: None)
    assert sorted(done) == [1, 2]
