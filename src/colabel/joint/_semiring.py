"""The two semirings of the tree pass: log-sums for probabilities, k-best lists for vectors.

An *element* describes, for each row and each state of one variable, the part of the tree below
it. The upward pass only multiplies elements (independent subtrees) and sums them over the states
of a variable; what "sum" means is the semiring's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.numeric import log_sum_exp
from colabel.joint._long_sums import long_log_sum_exp, long_sum

Element = TypeVar("Element")

_FEW = 8  # entries


class Semiring(Protocol[Element]):
    """The operations that an upward pass needs; n rows, K states, P parent states."""

    def product(self, log_weight: Array, parts: Sequence[Element]) -> Element:
        """Multiply the messages `parts`, all over the same K states, and a weight (n or 1, K)."""
        ...

    def total(self, log_table: Array, belief: Element) -> Element:
        """Sum table (n, P, K) times belief over the K states: the message to the P states."""
        ...


class LogSum:
    """Sum-product in logs: an element is an array (n or 1, K) of log-probabilities."""

    def product(self, log_weight: Array, parts: Sequence[Array]) -> Array:
        """Add the logs."""
        return sum(parts, start=log_weight)

    def total(self, log_table: Array, belief: Array) -> Array:
        """message[u] = log sum_v exp(table[u, v] + belief[v])."""
        return log_sum_exp(log_table + belief[:, None, :])


class LongLogSum:
    """Sum-product in logs that are far from zero: an element is a long number (3, n or 1, K)."""

    def product(self, log_weight: Array, parts: Sequence[Array]) -> Array:
        """Add the logs."""
        shape = np.broadcast_shapes(log_weight.shape, *(part.shape[1:] for part in parts))
        return long_sum([log_weight, *(term for part in parts for term in part)], shape)

    def total(self, log_table: Array, belief: Array) -> Array:
        """message[u] = log sum_v exp(table[u, v] + belief[v])."""
        terms = [log_table, *belief[:, :, None, :]]
        return long_log_sum_exp(np.moveaxis(long_sum(terms, log_table.shape), -1, 1))


class Merge(NamedTuple):
    """How two lists were merged: pair `chosen` of the candidate pairs (left rank, right rank)."""

    left: Indices  # (m,) rank in the left list of each candidate pair
    right: Indices  # (m,) rank in the right list
    chosen: Indices  # (n, K, L) the candidates that won, best first


class Best(NamedTuple):
    """The best partial label vectors below each state, and how to find them again.

    All the entries of a list are different vectors, so impossible ones (-inf) are listed too
    when there are not enough possible ones.
    """

    score: Array  # (n or 1, K, L) log-probabilities, descending along the last axis
    merges: list[Merge]  # of the messages of the children, from the first child on
    picked: Indices | None  # (n, P, L) state * L' + rank in the belief, for a message


class KBest:
    """Max-sum with lists: an element keeps the k best scores instead of the best one.

    Ties go to the candidate that comes first: the smaller state, then the smaller rank in the
    list of the first child, then of the second.
    """

    def __init__(self, k: int) -> None:
        self.k = k

    def product(self, log_weight: Array, parts: Sequence[Best]) -> Best:
        """Merge the lists of the children one after the other."""
        score = parts[0].score if parts else np.zeros((*log_weight.shape, 1))
        merges: list[Merge] = []
        for part in parts[1:]:
            left, right = _pairs(score.shape[-1], part.score.shape[-1], self.k)
            score, chosen = _leading(score[..., left] + part.score[..., right], self.k)
            merges.append(Merge(left, right, chosen))
        return Best(score + log_weight[..., None], merges, None)

    def total(self, log_table: Array, belief: Best) -> Best:
        """message[u] = the k best of table[u, v] + belief[v] over all v and ranks."""
        scores = log_table[..., None] + belief.score[:, None, :, :]
        flat = scores.reshape(*scores.shape[:2], scores.shape[2] * scores.shape[3])
        score, picked = _leading(flat, self.k)
        return Best(score, [], picked)


def _pairs(n_left: int, n_right: int, k: int) -> tuple[Indices, Indices]:
    """Rank pairs (a, b) that can be among the k best sums of two descending lists.

    The (a + 1)(b + 1) pairs with ranks up to (a, b) are no worse than (a, b) and come first in a
    tie, so only those with (a + 1)(b + 1) <= k remain: about k log k instead of k^2.
    """
    widths = [min(n_right, k // (a + 1)) for a in range(min(n_left, k))]
    left = np.repeat(np.arange(len(widths)), widths)
    right = np.concatenate([np.arange(width) for width in widths])
    return left, right


def _leading(scores: Array, k: int) -> tuple[Array, Indices]:
    """Return the k largest of the last axis in descending order, and their positions."""
    if k == 1 and scores.shape[-1] <= _FEW:
        # a reduction over so short an axis costs several times what comparing its slices does
        best, first = scores[..., 0].copy(), np.zeros(scores.shape[:-1], dtype=np.intp)
        for j in range(1, scores.shape[-1]):
            better = scores[..., j] > best
            np.copyto(best, scores[..., j], where=better)
            np.copyto(first, j, where=better)
        return best[..., None], first[..., None]
    if k == 1:
        position = scores.argmax(axis=-1)[..., None]
    else:
        position = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(scores, position, axis=-1), position
