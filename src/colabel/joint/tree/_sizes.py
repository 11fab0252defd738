"""How many labels a row has, exactly on a forest: P(y_i = 1, |y| = s).

A polynomial in z stands for a distribution over sizes: the coefficient of z^s is the probability
of s ones. Independent parts multiply, values of a label add, and a label that is 1 multiplies by
z. Nothing is ever subtracted or divided, so probabilities are accurate to rounding errors.

Shapes: n rows, d labels of two values; a polynomial is an array (n, degree + 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array
from colabel.joint.sizes import SizeMarginals
from colabel.joint.tree.wiring import ROOT, Wiring

Polynomials = list[Array]  # one for each value of a label


def forest_sizes(wiring: Wiring, log_tables: Sequence[Array]) -> SizeMarginals:
    """Exact size marginals of a forest of tables (n, P_i, 2), by one pass up and one down.

    Upward, B_i(v) is the size of the subtree of i given y_i = v, and M_i(u) the same given the
    parent's value u:  B_i(v) = z^v prod_c M_c(v),  M_i(u) = sum_v P(v | u) B_i(v).
    Downward, D_i(v) is the size of all the rest together with y_i = v, so that
    sum_s P(y_i = 1, |y| = s) z^s = D_i(1) B_i(1).
    """
    tables = [np.exp(table) for table in log_tables]
    n_rows = len(tables[0])
    below: dict[int, Polynomials] = {}
    messages: dict[int, Polynomials] = {}
    for i in reversed(wiring.order):
        children = [messages[c] for c in wiring.children[i]]
        below[i] = [_shift(_product([m[v] for m in children], n_rows), v) for v in (0, 1)]
        messages[i] = [_mix(tables[i][:, u], below[i]) for u in range(tables[i].shape[1])]
    size = _product([messages[r][0] for r in wiring.children[ROOT]], n_rows)
    outside = _outside_of_children(wiring, ROOT, [np.ones((n_rows, 1))], messages)
    with_label = np.zeros((n_rows, len(tables), len(tables) + 1))
    for i in wiring.order:
        above = outside.pop(i)
        # every state of the parent has the same part outside, so the degrees agree
        rest = [_mix(tables[i][:, :, v], above) for v in (0, 1)]
        found = _times(rest[1], below[i][1])
        with_label[:, i, : found.shape[1]] = found
        from_here = [_shift(polynomial, v) for v, polynomial in enumerate(rest)]
        outside.update(_outside_of_children(wiring, i, from_here, messages))
    return SizeMarginals(size, with_label)


def _outside_of_children(
    wiring: Wiring, i: int, above: Polynomials, messages: dict[int, Polynomials]
) -> dict[int, Polynomials]:
    """For each child of i and value of i: what lies above, times the other children."""
    children = wiring.children[i]
    by_value = [
        _all_but_one(polynomial, [messages[c][v] for c in children])
        for v, polynomial in enumerate(above)
    ]
    return dict(zip(children, map(list, zip(*by_value, strict=True)), strict=True))


def _all_but_one(outer: Array, factors: Polynomials) -> Polynomials:
    """`outer` times all factors but one, for each of them, by halving: O(d^2 log d)."""
    if len(factors) <= 1:
        return [outer] * len(factors)
    middle = len(factors) // 2
    left, right = factors[:middle], factors[middle:]
    n_rows = len(outer)
    return [
        *_all_but_one(_times(outer, _product(right, n_rows)), left),
        *_all_but_one(_times(outer, _product(left, n_rows)), right),
    ]


def _product(factors: Polynomials, n_rows: int) -> Array:
    """Multiply polynomials, pairs of neighbours first so that both sides stay short."""
    if not factors:
        return np.ones((n_rows, 1))
    while len(factors) > 1:
        pairs = itertools.zip_longest(factors[::2], factors[1::2])
        factors = [a if b is None else _times(a, b) for a, b in pairs]
    return factors[0]


def _times(one: Array, two: Array) -> Array:
    """Product of two polynomials."""
    long, short = (one, two) if one.shape[1] >= two.shape[1] else (two, one)
    width = long.shape[1]
    found = np.zeros((len(long), width + short.shape[1] - 1))
    for power in range(short.shape[1]):
        found[:, power : power + width] += short[:, power, None] * long
    return found


def _mix(weights: Array, polynomials: Polynomials) -> Array:
    """Sum of polynomials of the same degree, weighted (n, K) row by row."""
    degree = max(p.shape[1] for p in polynomials)
    found = np.zeros((len(weights), degree))
    for v, polynomial in enumerate(polynomials):
        found[:, : polynomial.shape[1]] += weights[:, v, None] * polynomial
    return found


def _shift(polynomial: Array, power: int) -> Array:
    """Multiply by z^power."""
    return np.pad(polynomial, ((0, 0), (power, 0))) if power else polynomial
