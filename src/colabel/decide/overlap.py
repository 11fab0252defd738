"""Decisions that overlap most with the true labels: the largest expected F1 or Jaccard index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.core.chunks import row_slices
from colabel.core.schema import stored
from colabel.joint import Joint
from colabel.joint.sizes import (
    MOST_ENUMERATED,
    N_DRAWS,
    SizeMarginals,
    binary_vectors,
    draws_of,
    require_zero_one,
    vector_probabilities,
)

_ENTRIES_AT_ONCE = 2**22
_N_BEST = 10  # most probable vectors among the candidates


class Decision(ABC):
    """A rule that turns a joint distribution into one label vector per row."""

    def __call__(self, joint: Joint) -> NDArray[Any]:
        """Return label values (n, d)."""
        return joint.space.values(self.codes(joint))

    @abstractmethod
    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); for library code."""


@dataclass(frozen=True)
class _Overlap(Decision):
    """Maximise an expected overlap of a row's labels with the predicted ones, at most one."""

    zero_division: float = 1.0
    name: ClassVar[str]

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the best vectors."""
        require_zero_one(joint.space, f"The decision {self.name!r}")

        def best(part: Joint) -> Codes:
            codes, value = self._valued(part)
            picked: Codes = codes[np.arange(len(codes)), value.argmax(axis=1)]
            return picked

        return _by_chunks(joint, best)

    def risk(self, joint: Joint) -> Array:
        """Return one minus the largest expected overlap of each row, (n,)."""
        require_zero_one(joint.space, f"The decision {self.name!r}")
        return _by_chunks(joint, lambda part: 1.0 - self._valued(part)[1].max(axis=1))

    @abstractmethod
    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        """Vectors (n, m, d) that may be best, and their expected overlaps (n, m)."""


@stored("f1")
@dataclass(frozen=True)
class F1(_Overlap):
    r"""Maximise the expected F1 of a row's labels, by the general F-measure maximiser.

    .. math::
        F(y, h) = \frac{2 \sum_i y_i h_i}{|y| + |h|}, \qquad
        E[F(y, h)] = \sum_{i : h_i = 1} \sum_s \frac{2 P(y_i = 1, |y| = s)}{s + |h|}

    For each size of h the best labels are those with the largest inner sums, so the best vector
    is found exactly from ``P(y_i = 1, |y| = s)``, in O(d^3) a row. `Joint.size_marginals` says
    which families know these exactly; for others the answer is the maximiser under draws.

    Only for 0/1 labels. In a tie the smaller set wins, then the labels that come first.

    Parameters
    ----------
    zero_division : float, default=1.0
        F of a row without labels for which none is predicted, 0/0. With 0.0 a label is always
        predicted, which is best for `sklearn.metrics.f1_score` as it is by default.

    References
    ----------
    K. Dembczynski, W. Waegeman, W. Cheng, E. Huellermeier: An exact algorithm for F-measure
    maximization. NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.3, 0.7]]), np.log([[0.6, 0.4]])])
    >>> joint.mode(), F1()(joint)
    (array([[1, 0]]), array([[1, 1]]))
    """

    name: ClassVar[str] = "f1"

    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        sizes = joint.size_marginals()
        codes, expected = best_of_each_size(sizes)
        expected[:, 0] = self.zero_division * sizes.size[:, 0]
        return codes, expected


def best_of_each_size(sizes: SizeMarginals) -> tuple[Codes, Array]:
    """For each number of labels 0..d the vector with the largest expected F1, and that F1.

    Returns
    -------
    codes : (n, d + 1, d)
    expected : (n, d + 1)
        Zero for the empty vector, which nothing overlaps with.
    """
    n_rows, n_labels, _ = sizes.with_label.shape
    counts = np.arange(1, n_labels + 1)
    # (n, label, size of h): what a label adds to the expected F1 of a vector of that size
    worth = sizes.with_label[:, :, 1:] @ (2.0 / (counts[:, None] + counts))
    order = np.argsort(-worth, axis=1, kind="stable")
    best_first = np.take_along_axis(worth, order, axis=1).cumsum(axis=1)
    expected = np.zeros((n_rows, n_labels + 1))
    expected[:, 1:] = np.diagonal(best_first, axis1=1, axis2=2)
    rank = np.argsort(order, axis=1)
    codes = np.zeros((n_rows, n_labels + 1, n_labels), dtype=np.int32)
    codes[:, 1:] = (rank < counts).transpose(0, 2, 1)
    return codes, expected


@stored("jaccard")
@dataclass(frozen=True)
class Jaccard(_Overlap):
    r"""Maximise the expected overlap of a row's labels with the predicted ones.

    .. math:: J(y, h) = \frac{|y \cap h|}{|y \cup h|}

    No efficient exact algorithm is known. Up to ten labels, the best of all label vectors is
    taken, exactly if `log_prob` is exact and by the frequencies of 1000 draws otherwise. With
    more labels, the best of these candidates is taken, by their mean overlap with 1000 draws of
    the row from a fixed seed:

    - the k labels of largest marginal probability, for each k = 0..d,
    - the k labels of largest expected F1, for each k = 1..d (see `F1`),
    - the mode, and the 10 most probable vectors.

    Only for 0/1 labels. In a tie the first candidate wins.

    Parameters
    ----------
    zero_division : float, default=1.0
        J of a row without labels for which none is predicted, 0/0; as in
        `colabel.metrics.multilabel_accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.55, 0.45]]), np.log([[0.55, 0.45]])])
    >>> joint.mode(), Jaccard()(joint)
    (array([[0, 0]]), array([[1, 1]]))
    """

    name: ClassVar[str] = "jaccard"

    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        n_labels = joint.space.n_labels
        if n_labels > MOST_ENUMERATED:
            codes = candidates(joint)
            return codes, mean_overlap(codes, draws_of(joint), self.zero_division)
        every = binary_vectors(n_labels)
        expected = vector_probabilities(joint) @ _overlaps(n_labels, self.zero_division)
        return np.broadcast_to(every, (joint.n_rows, *every.shape)), expected


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
    vectors = binary_vectors(n_labels).astype(np.float64)
    sizes = vectors.sum(axis=1)
    shared = vectors @ vectors.T
    return _ratio(shared, sizes[:, None] + sizes - shared, zero_division)


def _ratio(shared: NDArray[Any], union: NDArray[Any], zero_division: float) -> NDArray[Any]:
    return np.where(union > 0, shared / np.maximum(union, 1.0), zero_division)


def _by_chunks(joint: Joint, answer: Callable[[Joint], NDArray[Any]]) -> NDArray[Any]:
    """Return what `answer` finds, (n, ...), for rows in chunks of a few megabytes."""
    d = joint.space.n_labels
    # of each row and label there are d + 1 sizes, several times over, and perhaps draws
    chunks = row_slices(joint.n_rows, _ENTRIES_AT_ONCE, d * max(8 * (d + 1), N_DRAWS))
    if len(chunks) == 1:
        return answer(joint)
    return np.concatenate([answer(joint.rows(chunk)) for chunk in chunks])
