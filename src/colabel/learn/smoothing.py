"""Choosing a pseudo-count by how probable it makes the labels of rows held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.progress import progress_bar

# From the weights (n,) that are left for training, and positions of m rows that are held out, to
# the log-probabilities of the latter, (G, m): one row for each pseudo-count of the grid.
SmoothingScorer = Callable[[Array, Indices], Array]


def choose_smoothing(
    grid: Sequence[float],
    weight: Array,
    n_folds: int,
    scorer: SmoothingScorer,
    *,
    verbose: bool = False,
) -> float:
    """Choose the pseudo-count with the largest log-probability of the labels held out.

    Parameters
    ----------
    grid : sequence of G float
        Pseudo-counts to choose from.
    weight : (n,) array
        Weights of the rows, in random order. A row of weight 2 stands for two rows, of which one
        may be held out: equal rows should be merged, so that the choice does not depend on how
        they are written.
    n_folds : int
        In how many parts rows are held out.
    scorer : callable
        Learns with every pseudo-count and scores what is held out.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    float
        In a tie the larger; the largest also where nothing can be held out.

    Examples
    --------
    >>> import numpy as np
    >>> def scorer(weight, held_out):  # likes a pseudo-count of one half
    ...     return -abs(np.array([[0.1], [0.5], [1.0]]) - 0.5) * np.ones(len(held_out))
    >>> choose_smoothing([0.1, 0.5, 1.0], np.ones(6), 3, scorer)
    0.5
    """
    totals = np.zeros(len(grid))
    held_out = held_out_weights(weight, n_folds)
    with progress_bar("choosing the smoothing", n_folds, shown=verbose) as advance:
        for part in held_out.T:
            left = np.maximum(weight - part, 0.0)
            rows = np.flatnonzero(part > 0)
            if len(rows) and left.any():
                totals += scorer(left, rows) @ part[rows]
            advance()
    best = np.flatnonzero(totals == totals.max())
    return max(float(grid[int(place)]) for place in best)


def held_out_weights(weight: Array, n_folds: int) -> Array:
    """Deal the weight of each row out to folds like cards, (n, F).

    Examples
    --------
    >>> import numpy as np
    >>> held_out_weights(np.array([1.0, 1.0, 2.5]), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.5, 1.0]]
    """
    whole = np.floor(weight)
    rounds, rest = np.divmod(whole, n_folds)
    # how many cards after the row's own starting fold a fold comes
    turn = (np.arange(n_folds) - np.arange(len(weight))[:, None]) % n_folds
    found: Array = rounds[:, None] + (turn < rest[:, None])
    found += np.where(turn == rest[:, None], (weight - whole)[:, None], 0.0)
    return found
