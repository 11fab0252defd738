"""The one loop of cross-validation, for the demo, comparisons and studies of a user's own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import joblib

from colabel.comparing.held_out import Ask, HeldOut, Method, Task, answer, learn
from colabel.core.arrays import Indices

Folds = Iterable[tuple[Indices, Indices]]
"""Training and test rows of every fold."""

_EVERYTHING = Ask()


class Part(NamedTuple):
    """One method on one fold.

    Attributes
    ----------
    name : str
        Of the method.
    fold : int
    """

    name: str
    fold: int


class Answered(NamedTuple):
    """A part of the work that is done: the answers, or what stopped the method, and the seconds."""

    part: Part
    found: HeldOut | Exception
    seconds: float


def parts_of(names: Iterable[str], n_folds: int) -> list[Part]:
    """Return the parts of the work in their order.

    Every method is asked about the first fold before any is asked about the others, so that it is
    soon known how long each takes, and work that is stopped says something of all.

    Examples
    --------
    >>> [f"{part.name}{part.fold}" for part in parts_of(["a", "b"], 3)]
    ['a0', 'b0', 'a1', 'a2', 'b1', 'b2']
    """
    names = list(names)
    later = [Part(name, fold) for name in names for fold in range(1, n_folds)]
    return [Part(name, 0) for name in names] + later


def answers_by_part(
    methods: Mapping[str, Method],
    task: Task,
    folds: Sequence[tuple[Indices, Indices]],
    parts: Iterable[Part],
    ask: Ask = _EVERYTHING,
    n_jobs: int = 1,
) -> Iterator[Answered]:
    """Work out parts in their order; a method that failed is not asked again.

    Parameters
    ----------
    methods : {name: Method}
    task : Task
    folds : sequence of (training rows, test rows)
    parts : iterable of Part
    ask : Ask
    n_jobs : int
        Processes; with one, the work is done in this one. -1 for all cores.

    Yields
    ------
    Answered
    """
    failed: set[str] = set()
    jobs: Any = (
        joblib.delayed(_answered)(part, methods[part.name], task, folds[part.fold], ask)
        for part in parts
        if part.name not in failed
    )
    if int(joblib.effective_n_jobs(n_jobs)) == 1:
        found = (work(*arguments, **options) for work, arguments, options in jobs)
    else:
        pool: Any = joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="n_jobs")
        found = pool(jobs)
    for answered in found:
        if answered.part.name in failed:
            continue
        if isinstance(answered.found, Exception):
            failed.add(answered.part.name)
        yield answered


def _answered(
    part: Part, method: Method, task: Task, fold: tuple[Indices, Indices], ask: Ask
) -> Answered:
    started = time.perf_counter()
    train, test = fold
    found: HeldOut | Exception
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early shows in the scores
        try:
            found = answer(learn(method, task, train), task, test, ask)
        except (ValueError, NotImplementedError, MemoryError) as error:
            found = error
    return Answered(part, found, time.perf_counter() - started)


def cross_validate(
    methods: Mapping[str, Method],
    task: Task,
    folds: Folds,
    ask: Ask = _EVERYTHING,
    advance: Callable[[str], None] = lambda name: None,
    n_jobs: int = 1,
) -> dict[str, tuple[HeldOut, ...] | Exception]:
    """Fit every method to every fold's training rows, and ask it about the others.

    Parameters
    ----------
    methods : {name: Method}
    task : Task
    folds : sequence of (training rows, test rows)
    ask : Ask
    advance : callable, optional
        Called with the name of the method after each fold.
    n_jobs : int
        Processes, see `answers_by_part`.

    Returns
    -------
    {name: answers}
        In the order of the methods: n_folds `HeldOut`, or what stopped the method.
    """
    folds = list(folds)
    answers: dict[str, list[HeldOut]] = {name: [] for name in methods}
    stopped: dict[str, Exception] = {}
    for part, found, _ in answers_by_part(
        methods, task, folds, parts_of(methods, len(folds)), ask, n_jobs
    ):
        if isinstance(found, Exception):
            stopped[part.name] = found
        else:
            answers[part.name].append(found)
            advance(part.name)
    return {name: stopped.get(name) or tuple(own) for name, own in answers.items()}
