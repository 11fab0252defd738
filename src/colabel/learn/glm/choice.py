"""Choosing a penalty for every task by its held-out curve."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.glm.degenerate import ClassSupport
from colabel.learn.glm.tasks import Tasks


def best_points(total: Array, grid: Array, informed: Flags | None = None) -> Indices:
    """Position (T,) in the grid (G,) of every task's best held-out score (G, T).

    Of equal scores that of the smallest C counts, and so it does for tasks that are not `informed`
    (T,): where held-out rows show a single class, the surest model looks best.

    Examples
    --------
    >>> best_points(np.array([[-3.0, -1.0], [-2.0, -1.0]]), np.array([10.0, 0.1]))
    array([1, 1])
    """
    order = np.argsort(grid, kind="stable")
    best = total[order].argmax(axis=0)
    return np.asarray(order[best if informed is None else np.where(informed, best, 0)])


def informed_tasks(
    tasks: Tasks, without: ClassSupport, held_out: tuple[Indices, ...], weight: Array
) -> Flags:
    """Tasks (T,) of which rows of two classes were scored by models that know their class.

    Of one, where there is but one. A label's only positive row, for example, is scored by a model
    that knows of none, and all others are negative.

    Parameters
    ----------
    without : ClassSupport
        That of the tasks without each fold's rows, those of a fold together.
    held_out : F arrays
        Rows of each fold.
    weight : (n,)
    """
    counted = np.where(weight > 0, tasks.targets, -1)
    every = np.stack([counted == value for value in range(tasks.n_classes)], axis=1)  # (T, c, n)
    seen = [every[:, :, rows].any(axis=2) for rows in held_out]
    anywhere: Flags = np.asarray(every.any(axis=2))
    return informed_by(np.array(seen).reshape(-1, *anywhere.shape), anywhere, without)


def informed_by(held_out: Flags, anywhere: Flags, without: ClassSupport) -> Flags:
    """See `informed_tasks`, by which classes occur in each fold (F, T, c) and anywhere (T, c)."""
    known = ~without.absent.reshape(held_out.shape)
    scored = (held_out & known).any(axis=0)
    return np.asarray(scored.sum(axis=1) >= np.minimum(anywhere.sum(axis=1), 2))
