"""Shapley values of the terms of a row, by random orders of replacing them in other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Indices

# Numbers in the rows that are asked about at once.
_NUMBERS_AT_ONCE = 1 << 22


class Attribution(NamedTuple):
    """What terms add to some answers.

    Attributes
    ----------
    base : (m,)
        Mean of the answers for the rows that it was compared with.
    values : (m, G)
        Shapley values: ``base + values.sum(axis=1)`` are the answers for the row.
    errors : (m, G)
        Their standard errors.
    """

    base: Array
    values: Array
    errors: Array


def shapley_values(
    answer: Callable[[Array], Array],
    x: Array,
    background: Array,
    owner: Indices,
    n_orders: int,
    rng: Generator,
) -> Attribution:
    r"""Estimate what each term of a row adds to answers about it.

    With z another row and S a set of terms, let :math:`v_z(S)` be the answer for z with the terms
    in S taken from x. The Shapley value of a term is the mean of
    :math:`v_z(S \cup \{g\}) - v_z(S)` over rows z of the background and over random orders of the
    terms, S being those that come before g. Each order is also used backwards, which cancels
    interactions of two terms; along an order the differences sum to v(x) - v(z), so their means
    sum exactly too.

    Parameters
    ----------
    answer : function from rows (n, p) to answers (n, m)
    x : (p,)
    background : (b, p)
    owner : (p,)
        Term of each feature.
    n_orders : int
        Orders, forwards and backwards together.
    rng : Generator
    """
    features = [np.flatnonzero(owner == term) for term in range(int(owner.max()) + 1)]
    n_pairs = max(1, n_orders // 2)
    pairs = []
    for z in background[np.resize(rng.permutation(len(background)), n_pairs)]:
        # a term that is the same in both rows adds nothing, whatever the order
        different = [g for g, own in enumerate(features) if (x[own] != z[own]).any()]
        pairs.append((z, rng.permutation(np.array(different, dtype=np.intp))))
    longest = 2 * (len(features) + 1) * len(x)
    at_once = max(1, _NUMBERS_AT_ONCE // longest)
    base, values = [], []
    for start in range(0, n_pairs, at_once):
        part = pairs[start : start + at_once]
        paths = [_path(x, z, way, features) for z, order in part for way in (order, order[::-1])]
        found = np.split(answer(np.concatenate(paths)), np.cumsum([len(p) for p in paths])[:-1])
        for (_, order), there, back in zip(part, found[::2], found[1::2], strict=True):
            steps = np.zeros((there.shape[1], len(features)))
            steps[:, order] = np.diff(there, axis=0).T / 2.0
            steps[:, order[::-1]] += np.diff(back, axis=0).T / 2.0
            base.append(there[0])
            values.append(steps)
    spread = np.std(values, axis=0, ddof=1) if n_pairs > 1 else np.full_like(values[0], np.nan)
    return Attribution(np.mean(base, axis=0), np.mean(values, axis=0), spread / np.sqrt(n_pairs))


def _path(x: Array, z: Array, order: Indices, features: list[Indices]) -> Array:
    """Return z, and z with ever more terms of x, in their order; the last is as x."""
    rows = np.tile(z, (len(order) + 1, 1))
    for step, term in enumerate(order, start=1):
        rows[step:, features[term]] = x[features[term]]
    return rows
