"""WrittenOut: all label vectors of few labels, their scores computed a few rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.chunks import row_slices
from colabel.joint.evidence import merged_evidence
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.user_terms import impossible_evidence
from colabel.joint.vectors.chunked_lists import Answer, ChunkedLists
from colabel.joint.vectors.vector_list import VectorList
from colabel.labels import MISSING, LabelSpace, all_vectors
from colabel.rules import CompiledRules

__all__ = ["Scores", "WrittenOut"]

Scores = Callable[[Indices], Array]

_SCORES_AT_ONCE = 2**21


class WrittenOut(ChunkedLists):
    r"""Any distribution over the label vectors of few labels, by the score of every vector.

    .. math:: P(y \mid x) = \frac{e^{s(x, y)}}{\sum_{y'} e^{s(x, y')}}

    A `VectorList` of all vectors that is made when a question is asked, some rows at a time: of n
    rows with N vectors each it would take 12 n N bytes.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    scores : callable
        From positions of rows (m,) to s, (m, N): one column for each label vector, the last label
        changing fastest.
    n_rows : int
        Number of rows n.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint.vectors import WrittenOut
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = WrittenOut(space, lambda rows: np.log([[0.1, 0.2, 0.3, 0.4]])[rows], 1)
    >>> joint.mode(), joint.marginals().round(2)
    (array([[1, 1]]), array([[0.7, 0.6]]))
    >>> joint.given({"b": 0}).marginals()
    array([[0.75, 0.  ]])
    """

    exact: Exactness = EXACT

    def __init__(self, space: LabelSpace, scores: Scores, n_rows: int) -> None:
        evidence = np.full((n_rows, space.n_labels), MISSING, dtype=np.int32)
        self._set(space, scores, np.arange(n_rows), evidence)

    def _set(self, space: LabelSpace, scores: Scores, positions: Indices, evidence: Codes) -> None:
        super().__init__(space, len(positions))
        self.how = f"Exact: all {math.prod(space.cardinalities)} label vectors are written out."
        self._scores, self._positions, self._evidence = scores, positions, evidence

    def _with(self, positions: Indices, evidence: Codes) -> WrittenOut:
        joint = WrittenOut.__new__(WrittenOut)
        joint._set(self.space, self._scores, positions, evidence)
        return joint

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return np.concatenate(
            self._by_chunks(lambda listed, chunk: listed.log_prob_codes(codes[chunk]))
        )

    def _obeying(self, rules: CompiledRules) -> tuple[WrittenOut, Array]:
        allowed = rules.may_hold(all_vectors(self.space.cardinalities))
        before = np.concatenate(self._by_chunks(lambda listed, _: listed.log_total))
        joint = WrittenOut.__new__(WrittenOut)
        scores, evidence = self._scores, self._evidence

        def obeying(rows: Indices) -> Array:
            return np.where(allowed, scores(rows), -np.inf)

        joint._set(self.space, obeying, self._positions, evidence)
        after = np.concatenate(joint._by_chunks(lambda listed, _: listed.log_total))
        mass = np.minimum(after - before, 0.0)
        zero = np.flatnonzero(np.isneginf(mass))
        if zero.size:  # they get some other distribution
            spared = np.isin(np.arange(self._positions.max() + 1), self._positions[zero])
            joint._scores = lambda rows: np.where(
                allowed | spared[rows][:, None], scores(rows), -np.inf
            )
        return joint, mass

    def given_codes(self, evidence: Codes) -> WrittenOut:
        """Return the joint given the known entries of evidence (n, d)."""
        found = self._with(self._positions, merged_evidence(self.space, self._evidence, evidence))
        totals = found._by_chunks(lambda listed, _: listed.log_total)
        impossible = np.flatnonzero(np.isneginf(np.concatenate(totals)))
        if impossible.size:
            raise impossible_evidence(self.space, evidence, impossible)
        return found

    def rows(self, index: Rows) -> WrittenOut:
        """Return the joint of some of the rows."""
        return self._with(self._positions[index], self._evidence[index])

    @cached_property
    def _vectors(self) -> Codes:
        return all_vectors(self.space.cardinalities)

    def _by_chunks(self, work: Callable[[VectorList, slice], Answer]) -> list[Answer]:
        found = []
        for chunk in row_slices(self.n_rows, _SCORES_AT_ONCE, len(self._vectors)):
            scores = self._scores(self._positions[chunk])
            own = np.empty((len(scores), 0, self.space.n_labels), dtype=np.int32)
            listed = VectorList.of_shared_and_own(self.space, self._vectors, own, scores)
            evidence = self._evidence[chunk]
            known = (evidence != MISSING).any()
            found.append(work(listed.agreeing(evidence) if known else listed, chunk))
        return found
