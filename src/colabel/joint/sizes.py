"""How many labels a row has: P(y_i = 1, |y| = s), from label vectors or from draws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.labels import LabelSpace
from colabel.labels.columns import says_presence

if TYPE_CHECKING:
    from colabel.joint.base import Joint
    from colabel.joint.elimination import Elimination

# Up to this many labels, all label vectors are written out where a family has no better way.
MOST_ENUMERATED = 10
# Draws per row where they are too many, or their probabilities unknown; and the seed of the draws.
N_DRAWS = 1000
_SEED = 0


class SizeMarginals(NamedTuple):
    """Distribution of the number of ones |y|, alone and together with each label.

    Attributes
    ----------
    size : ndarray of shape (n, d + 1)
        P(|y| = s).
    with_label : ndarray of shape (n, d, d + 1)
        P(y_i = 1, |y| = s).
    """

    size: Array
    with_label: Array


def require_zero_one(space: LabelSpace, what: str) -> None:
    """Raise ValueError unless every label has the values 0 and 1."""
    if space.is_indicator:
        return
    name, classes = next(
        (n, c) for n, c in zip(space.names, space.classes, strict=True) if not says_presence(c)
    )
    values = ", ".join(map(repr, classes.tolist()[:4])) + (", …" if len(classes) > 4 else "")
    raise ValueError(
        f"{what} counts the ones of 0/1 labels, but {name!r} has the values {values}. Use the "
        "decision 'subset' or 'hamming' for class variables, or write them as 0/1 labels."
    )


def draws_of(joint: Joint) -> Codes:
    """Draw vectors (N_DRAWS, n, d), the same ones every time."""
    return joint.sample_codes(N_DRAWS, np.random.default_rng(_SEED))


def binary_vectors(n_labels: int) -> Codes:
    """All the 2^d vectors of 0/1 labels, shape (2^d, d); label i is bit i of the position."""
    positions = np.arange(2**n_labels)[:, None]
    return ((positions >> np.arange(n_labels)) & 1).astype(np.int32)


def vector_probabilities(joint: Joint) -> Array:
    """P(y) of all the 0/1 vectors (n, 2^d), in the order of `binary_vectors`.

    Exact where `log_prob` is, otherwise the frequencies of draws.
    """
    n_labels = joint.space.n_labels
    if "log_prob" in joint.exact:
        each = (np.broadcast_to(y, (joint.n_rows, n_labels)) for y in binary_vectors(n_labels))
        return np.exp(np.stack([joint.log_prob_codes(y) for y in each], axis=1))
    positions = draws_of(joint) @ (1 << np.arange(n_labels))
    cells = positions + np.arange(joint.n_rows) * 2**n_labels
    counts = np.bincount(cells.ravel(), minlength=joint.n_rows * 2**n_labels)
    return counts.reshape(joint.n_rows, -1) / N_DRAWS


def sizes_by_counting(joint: Joint) -> SizeMarginals:
    """Size marginals of any joint, from all its label vectors or from draws."""
    if "log_prob" in joint.exact and joint.space.n_labels <= MOST_ENUMERATED:
        return sizes_of_vectors(binary_vectors(joint.space.n_labels), vector_probabilities(joint))
    return _sizes_of_draws(draws_of(joint))


def sizes_of_vectors(codes: Codes, prob: Array) -> SizeMarginals:
    """Sum the probabilities (n, m) of vectors (m, d) that all rows share."""
    n_labels = codes.shape[1]
    found = SizeMarginals(
        np.zeros((len(prob), n_labels + 1)), np.zeros((len(prob), n_labels, n_labels + 1))
    )
    size = codes.sum(axis=1)
    for s in range(n_labels + 1):
        own = np.flatnonzero(size == s)
        mass = prob[:, own]
        found.size[:, s] = mass.sum(axis=1)
        found.with_label[:, :, s] = mass @ codes[own].astype(np.float64)
    return found


def _sizes_of_draws(codes: Codes) -> SizeMarginals:
    """Frequencies in draws (N, n, d), each row its own."""
    n_draws, _, n_labels = codes.shape
    of_size = (codes.sum(axis=2)[:, :, None] == np.arange(n_labels + 1)).astype(np.float64)
    ones = codes.transpose(1, 2, 0).astype(np.float64)
    with_label: Array = np.matmul(ones, of_size.transpose(1, 0, 2)) / n_draws
    return SizeMarginals(of_size.mean(axis=0), with_label)


Polynomials = list[Array]  # one for each value of a label


def forest_sizes(forest: Elimination, log_tables: Sequence[Array]) -> SizeMarginals:
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
    for i in forest.order:
        children = [messages[c] for c in forest.children[i]]
        below[i] = [_shift(_product([m[v] for m in children], n_rows), v) for v in (0, 1)]
        messages[i] = [_mix(tables[i][:, u], below[i]) for u in range(tables[i].shape[1])]
    size = _product([messages[r][0] for r in forest.children[-1]], n_rows)
    outside = _outside_of_children(forest, -1, [np.ones((n_rows, 1))], messages)
    with_label = np.zeros((n_rows, len(tables), len(tables) + 1))
    for i in reversed(forest.order):
        above = outside.pop(i)
        # every state of the parent has the same part outside, so the degrees agree
        rest = [_mix(tables[i][:, :, v], above) for v in (0, 1)]
        found = _times(rest[1], below[i][1])
        with_label[:, i, : found.shape[1]] = found
        from_here = [_shift(polynomial, v) for v, polynomial in enumerate(rest)]
        outside.update(_outside_of_children(forest, i, from_here, messages))
    return SizeMarginals(size, with_label)


def _outside_of_children(
    forest: Elimination, i: int, above: Polynomials, messages: dict[int, Polynomials]
) -> dict[int, Polynomials]:
    """For each child of i and value of i: what lies above, times the other children."""
    children = forest.children[i]
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
