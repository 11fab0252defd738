"""All label vectors written out: what features with more than two parents need.

The potential of such a feature is a table over three labels or more, so that the pooled
distribution is no pairwise field. Where the labels have few vectors in all, each gets its score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.models.bayes_nets.tables import EnsembleTables, FeatureFactor

__all__ = ["MOST_VECTORS", "needs_vectors", "vector_scores"]

MOST_VECTORS = 2**14
# Factors are added up over so many states of their labels before they meet all vectors.
_MOST_STATES = 2**7


def needs_vectors(factors: tuple[FeatureFactor, ...]) -> bool:
    """Whether a feature has more than two parents."""
    return any(len(factor.parents) > 2 for factor in factors)


def vector_scores(
    tables: EnsembleTables, codes: Codes, sizes: tuple[int, ...], root: int | None = None
) -> Array:
    r"""Return log P(y, x) of a member, or the mean over the members, for all label vectors.

    .. math:: \log P(y, x) = \frac1{|R|} \sum_{r \in R} \Big(\log P(y_r)
              + \sum_{i \ne r} \log P(y_i \mid y_r)\Big) + \sum_j \log P(x_j \mid y_{Pa(j)})

    where R has the one root, or all.

    Parameters
    ----------
    tables : EnsembleTables
    codes : (n, p) array
        Codes of the features.
    sizes : tuple of d int
        Numbers of values of the labels.
    root : int or None
        Root of the member; None for all.

    Returns
    -------
    (n, N) array
        One column for each label vector, the last label changing fastest.
    """
    scores = np.zeros((len(codes), *sizes))
    for labels, table in _gathered(tables.factors, codes, sizes):
        scores += _spread(table, labels, sizes)
    scores += _log_prior(tables, range(len(sizes)) if root is None else [root], sizes)
    return scores.reshape(len(codes), math.prod(sizes))


def _log_prior(tables: EnsembleTables, roots: range | list[int], sizes: tuple[int, ...]) -> Array:
    """Mean over the roots of log P(y), (1, K_1, ..., K_d)."""
    found = np.zeros((1, *sizes))
    for r in roots:
        found += _spread(tables.labels[r][None], (r,), sizes) / len(roots)
        for i in range(len(sizes)):
            if i != r:
                arc = tables.arcs[r, i] if r < i else tables.arcs[r, i].T
                found += _spread(arc[None], (min(r, i), max(r, i)), sizes) / len(roots)
    return found


def _gathered(
    factors: tuple[FeatureFactor, ...], codes: Codes, sizes: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Labels and log-potentials (n, K_a, K_b, ...) of the features, several factors in one."""
    labels: tuple[int, ...] = ()
    total = np.zeros((len(codes), 1))
    for factor in sorted(factors, key=lambda each: each.parents):
        union = tuple(sorted({*labels, *factor.parents}))
        if math.prod(sizes[i] for i in union) > max(_MOST_STATES, len(factor.log_tables[0])):
            yield labels, total
            union, labels, total = factor.parents, (), np.zeros((len(codes), 1))
        kept = [sizes[i] for i in union]
        own = factor.scores(codes).reshape(len(codes), *(sizes[i] for i in factor.parents))
        total = _within(total.reshape(len(codes), *(sizes[i] for i in labels)), labels, union)
        total = np.broadcast_to(total, (len(codes), *kept)) + _within(own, factor.parents, union)
        labels = union
    yield labels, total.reshape(len(codes), *(sizes[i] for i in labels))


def _within(table: Array, labels: tuple[int, ...], union: tuple[int, ...]) -> Array:
    """Table (n, K_a, ...) with an axis of length one for each label of the union it lacks."""
    own = iter(table.shape[1:])
    shape = [next(own) if i in labels else 1 for i in union]
    found: Array = table.reshape(len(table), *shape)
    return found


def _spread(table: Array, labels: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Table (n, K_a, ...) over some labels, ascending, as one that broadcasts over all."""
    return _within(table, labels, tuple(range(len(sizes))))
