"""The vector with the largest expected overlap (Jaccard)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.core.schema import stored
from colabel.decide._chunks import by_chunks
from colabel.decide._f1 import best_of_each_size, pick
from colabel.joint import Joint
from colabel.joint.sizes import (
    MOST_ENUMERATED,
    all_vectors,
    draws_of,
    require_zero_one,
    vector_probabilities,
)

_N_BEST = 10  # most probable vectors among the candidates


@stored("jaccard")
@dataclass(frozen=True)
class Jaccard:
    r"""Maximise the expected overlap of a row's labels with the announced ones.

    .. math:: J(y, h) = \frac{|y \cap h|}{|y \cup h|}

    No efficient exact algorithm is known. Up to ten labels, the best of all label vectors is
    taken, exactly if the joint is exact and by the frequencies of 1000 draws otherwise. With
    more labels, the best of these candidates is taken, by their mean overlap with 1000 draws of
    the row from a fixed seed:

    - the k labels of largest marginal probability, for each k = 0..d,
    - the k labels of largest expected F1, for each k = 1..d (see `F1`),
    - the mode, and the 10 most probable vectors.

    Only for 0/1 labels. In a tie the first candidate wins.

    Parameters
    ----------
    zero_division : float, default=1.0
        J of a row without labels for which none is announced, 0/0; as in
        `colabel.metrics.multilabel_accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.55, 0.45]]), np.log([[0.55, 0.45]])])
    >>> joint.mode(), Jaccard()(joint)
    (array([[0, 0]]), array([[1, 1]], dtype=int32))
    """

    needs: ClassVar[frozenset[str]] = frozenset(
        {"marginals", "mode", "samples", "size_marginals", "top_k"}
    )
    zero_division: float = 1.0

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the best candidates."""
        require_zero_one(joint.space, "The decision 'jaccard'")
        enumerable = joint.space.n_labels <= MOST_ENUMERATED
        return by_chunks(joint, self._best_of_all if enumerable else self._best_candidate)

    def _best_of_all(self, joint: Joint) -> Codes:
        n_labels = joint.space.n_labels
        expected = vector_probabilities(joint) @ _overlaps(n_labels, self.zero_division)
        best: Codes = all_vectors(n_labels)[expected.argmax(axis=1)]
        return best

    def _best_candidate(self, joint: Joint) -> Codes:
        codes = candidates(joint)
        expected = mean_overlap(codes, draws_of(joint), self.zero_division)
        return pick(codes, expected)


def candidates(joint: Joint) -> Codes:
    """Vectors (n, m, d) that may have a large expected overlap, see `Jaccard`."""
    n_labels = joint.space.n_labels
    prob = np.stack([table[:, 1] for table in joint.marginal_tables()], axis=1)
    rank = np.argsort(np.argsort(-prob, axis=1, kind="stable"), axis=1)
    prefixes = (rank[:, None, :] < np.arange(n_labels + 1)[:, None]).astype(np.int32)
    by_f1, _ = best_of_each_size(joint.size_marginals())
    likely = joint.top_k_codes(min(_N_BEST, 2**n_labels))[0]
    # the mode of an approximate family need not be among its most probable vectors
    return np.concatenate([prefixes, by_f1[:, 1:], joint.mode_codes()[:, None], likely], axis=1)


def mean_overlap(codes: Codes, draws: Codes, zero_division: float) -> Array:
    """Mean overlap (n, m) of vectors (n, m, d) with draws (N, n, d) of the same rows."""
    # single precision counts labels exactly, and a row at a time stays in the processor's cache
    drawn = draws.transpose(1, 2, 0).astype(np.float32)
    found = np.empty(codes.shape[:2])
    for row, vectors in enumerate(codes.astype(np.float32)):
        shared = vectors @ drawn[row]
        union = vectors.sum(axis=1)[:, None] + drawn[row].sum(axis=0) - shared
        found[row] = _ratio(shared, union, zero_division).mean(axis=1, dtype=np.float64)
    return found


@lru_cache(maxsize=4)
def _overlaps(n_labels: int, zero_division: float) -> Array:
    """J(y, h) of all pairs of label vectors, (2^d, 2^d)."""
    vectors = all_vectors(n_labels).astype(np.float64)
    sizes = vectors.sum(axis=1)
    shared = vectors @ vectors.T
    return _ratio(shared, sizes[:, None] + sizes - shared, zero_division)


def _ratio(shared: NDArray[Any], union: NDArray[Any], zero_division: float) -> NDArray[Any]:
    return np.where(union > 0, shared / np.maximum(union, 1.0), zero_division)
