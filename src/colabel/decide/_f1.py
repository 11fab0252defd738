"""The vector with the largest expected F1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.core.schema import stored
from colabel.decide._chunks import by_chunks
from colabel.joint import Joint
from colabel.joint.sizes import SizeMarginals, require_zero_one


@stored("f1")
@dataclass(frozen=True)
class F1:
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
        F of a row without labels for which none is announced, 0/0. With 0.0 a label is always
        announced, which is best for `sklearn.metrics.f1_score` as it is by default.

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
    (array([[1, 0]]), array([[1, 1]], dtype=int32))
    """

    needs: ClassVar[frozenset[str]] = frozenset({"size_marginals"})
    zero_division: float = 1.0

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the maximisers."""
        require_zero_one(joint.space, "The decision 'f1'")
        return by_chunks(joint, self._decide)

    def _decide(self, joint: Joint) -> Codes:
        sizes = joint.size_marginals()
        codes, expected = best_of_each_size(sizes)
        expected[:, 0] = self.zero_division * sizes.size[:, 0]
        return pick(codes, expected)


def pick(codes: Codes, expected: Array) -> Codes:
    """Of vectors (n, m, d) the one with the largest value (n, m) in each row, (n, d)."""
    picked: Codes = codes[np.arange(len(codes)), expected.argmax(axis=1)]
    return picked


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
