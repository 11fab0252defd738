"""Independent: each label has its own distribution, and that is all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Rows
from colabel.joint._checks import checked_tables
from colabel.joint.base import Joint
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.sizes import SizeMarginals
from colabel.joint.tree._sizes import forest_sizes
from colabel.joint.tree.passes import draw, entropy_of, k_best
from colabel.joint.tree.wiring import ROOT, Wiring
from colabel.joint.user_terms import impossible_evidence
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules


class Independent(Joint):
    """Labels that are independent given x: P(y | x) = prod_i P(y_i | x).

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    log_tables : sequence of d arrays of shape (n, K_i)
        log P(y_i = v | x) for each row and value; -inf is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.3, 0.7]]), np.log([[0.9, 0.1]])])
    >>> joint
    <Independent: 1 row, 2 labels, exact>
    >>> labels, log_prob = joint.top_k(2)
    >>> labels[0].tolist(), np.exp(log_prob[0]).round(2).tolist()
    ([[1, 0], [0, 0]], [0.63, 0.27])
    """

    exact: Exactness = EXACT
    how: str = "Exact: the labels are independent, so each answer is a closed form."

    def __init__(self, space: LabelSpace, log_tables: Sequence[ArrayLike]) -> None:
        tables = checked_tables(space, log_tables, [(k,) for k in space.cardinalities])
        self._set(space, tables)

    def _set(self, space: LabelSpace, log_tables: Sequence[Array]) -> None:
        super().__init__(space, len(log_tables[0]))
        self.log_tables = tuple(log_tables)

    def _with(self, log_tables: Sequence[Array]) -> Independent:
        """Return the same family with tables that need no check."""
        joint = Independent.__new__(Independent)
        joint._set(self.space, log_tables)
        return joint

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors; the first value wins a tie."""
        best = [table.argmax(axis=1) for table in self.log_tables]
        return np.stack(best, axis=1).astype(np.int32)

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return [np.exp(table) for table in self.log_tables]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        first, second = np.exp(self.log_tables[i]), np.exp(self.log_tables[j])
        if i == j:
            return first[:, :, None] * np.eye(first.shape[1])
        return first[:, :, None] * second[:, None, :]

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        found: Array = self._log_prob_each(codes).sum(axis=1)
        return found

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        roots = Wiring.from_parents([ROOT] * self.space.n_labels)
        tables = [table[:, None, :] for table in self.log_tables]
        return k_best(roots, tables, self._at_most_all(k))

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        uniform = (rng.random((size, self.n_rows)) for _ in self.log_tables)
        drawn = [draw(table, u) for table, u in zip(self.log_tables, uniform, strict=True)]
        return np.stack(drawn, axis=-1).astype(np.int32)

    def given_codes(self, evidence: Codes) -> Independent:
        """Return the joint given the known entries of evidence (n, d)."""
        impossible = np.isneginf(self._log_prob_each(evidence))
        if impossible.any():
            # independence tells exactly which of the labels are at fault
            blamed = np.where(impossible, evidence, MISSING).astype(np.int32)
            raise impossible_evidence(self.space, blamed, np.flatnonzero(impossible.any(axis=1)))
        tables = []
        for i, table in enumerate(self.log_tables):
            known = evidence[:, i, None]
            certain = np.where(known == np.arange(table.shape[1]), 0.0, -np.inf)
            tables.append(np.where(known == MISSING, table, certain))
        return self._with(tables)

    def rows(self, index: Rows) -> Independent:
        """Return the joint of some of the rows."""
        return self._with([table[index] for table in self.log_tables])

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import as_field

        return as_field(self.space, self.log_tables)._obeying(rules)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        found: Array = np.sum([entropy_of(table) for table in self.log_tables], axis=0)
        return found

    def _size_marginals(self) -> SizeMarginals:
        """Return ``P(|y| = s)`` and ``P(y_i = 1, |y| = s)``, exactly."""
        roots = Wiring.from_parents([ROOT] * self.space.n_labels)
        return forest_sizes(roots, [table[:, None, :] for table in self.log_tables])

    def _log_prob_each(self, codes: Codes) -> Array:
        """Return log P(y_i) of the observed entries of codes, 0 elsewhere, shape (n, d)."""
        rows = np.arange(self.n_rows)
        found = np.empty(codes.shape)
        for i, table in enumerate(self.log_tables):
            found[:, i] = table[rows, codes[:, i]]  # -1 reads the last value, then is masked
        return np.where(codes == MISSING, 0.0, found)
