"""How many labels a row has: P(y_i = 1, |y| = s), from label vectors or from draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.labels import LabelSpace
from colabel.labels.columns import says_presence

if TYPE_CHECKING:
    from colabel.joint.base import Joint
    from colabel.joint.elimination import Elimination

# Up to this many labels, families without a better algorithm sum over all label vectors.
MOST_ENUMERATED = 10
# Draws per row where there are more, or where their probabilities are unknown; their seed.
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
    from colabel.joint.vectors import VectorList

    d, n_rows = joint.space.n_labels, joint.n_rows
    if "log_prob" in joint.exact and d <= MOST_ENUMERATED:
        shared, own = binary_vectors(d), np.empty((n_rows, 0, d), dtype=np.int32)
        with np.errstate(divide="ignore"):
            weights = np.log(vector_probabilities(joint))
    else:
        own = draws_of(joint).transpose(1, 0, 2)
        shared, weights = own[:0, 0], np.zeros((n_rows, N_DRAWS))
    return VectorList.of_shared_and_own(joint.space, shared, own, weights)._size_marginals()


def forest_sizes(forest: Elimination, log_tables: Sequence[Array]) -> SizeMarginals:
    r"""Exact size marginals of a forest of tables (n, P_i, 2), by one pass up and one down.

    The polynomials :math:`\sum_s P(|y| = s) z^s` and :math:`\sum_s P(y_i = 1, |y| = s) z^s` are
    sums over label vectors in which a label that is 1 weighs z. They are taken at the d + 1 roots
    of unity, and read off by a Fourier transform.
    """
    tables = [np.exp(table) for table in log_tables]
    n_rows, d = len(tables[0]), len(tables)
    z = np.exp(-2j * np.pi * np.arange(d + 1) / (d + 1))
    weight = np.stack([np.ones(d + 1), z])
    below: dict[int, NDArray[np.complex128]] = {}  # (n, 2, d + 1), by the label's value
    messages: dict[int, NDArray[np.complex128]] = {}  # (n, P_i, d + 1), by the parent's value
    for i in forest.order:
        below[i] = math.prod([messages[c] for c in forest.children[i]], start=weight[None])
        messages[i] = np.matmul(tables[i], np.broadcast_to(below[i], (n_rows, 2, d + 1)))
    size = math.prod([messages[r][:, 0] for r in forest.children[-1]])
    with_label = np.empty((n_rows, d, d + 1))
    outside: dict[int, NDArray[np.complex128]] = {-1: np.ones((n_rows, 1, d + 1), complex)}
    for i in (-1, *reversed(forest.order)):
        above = outside.pop(i)
        if i >= 0:
            above = np.matmul(tables[i].transpose(0, 2, 1), above)
            with_label[:, i] = np.fft.ifft(above[:, 1] * below[i][:, 1], axis=1).real
            above = above * weight
        # all that is not below a child: what lies above, times its brothers before and after it
        after = [np.ones((1, 1, 1), complex)]
        for child in reversed(forest.children[i][1:]):
            after.append(after[-1] * messages[child])
        for child in forest.children[i]:
            outside[child] = above * after.pop()
            above = above * messages[child]
    return SizeMarginals(
        np.maximum(np.fft.ifft(size, axis=1).real, 0.0), np.maximum(with_label, 0.0)
    )
