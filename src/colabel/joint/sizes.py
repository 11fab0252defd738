"""How many labels a row has: P(y_i = 1, |y| = s), from label vectors or from draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.labels import LabelSpace
from colabel.labels.columns import says_presence

if TYPE_CHECKING:
    from colabel.joint.base import Joint

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
