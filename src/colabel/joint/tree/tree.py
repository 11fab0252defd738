"""Tree: labels that depend on each other along a tree, or a forest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.numeric import short_sum
from colabel.joint.base import Joint
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.sizes import SizeMarginals
from colabel.joint.tree import passes as passes
from colabel.joint.tree.passes import ROOT, Wiring, draw, entropy_of, forest_sizes, k_best
from colabel.joint.user_terms import impossible_evidence
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

_TOLERANCE = 1e-6  # how far the probabilities of a table may sum from one


def checked_tables(
    space: LabelSpace, log_tables: Sequence[ArrayLike], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Return the tables as float64 arrays (n, *shapes[i]) whose last axis sums to one in exp.

    The tables themselves are not changed: within the tolerance they are taken as they are.
    """
    if len(log_tables) != space.n_labels:
        raise ValueError(
            f"There are {len(log_tables)} tables but {space.n_labels} labels: give one table of "
            "log-probabilities per label."
        )
    tables = [np.asarray(table, dtype=np.float64) for table in log_tables]
    for name, table, shape in zip(space.names, tables, shapes, strict=True):
        wanted = (len(tables[0]) if tables[0].ndim else 0, *shape)
        if table.shape != wanted:
            raise ValueError(
                f"The table of label {name!r} has shape {table.shape} but must have {wanted}: "
                "rows, then the states of the parent if there may be one (1 above a root), then "
                "the values of the label."
            )
        _check_normalised(name, table)
    return tables


def _check_normalised(name: str, table: Array) -> None:
    """Raise ValueError unless exp(table) sums to one over the last axis."""
    with np.errstate(over="ignore"):
        total = short_sum(np.exp(table))
    wrong = np.argwhere(~(np.abs(total - 1.0) <= _TOLERANCE))  # also true of NaN
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise ValueError(
            f"The table of label {name!r} must hold log-probabilities, but their exponentials sum "
            f"to {total[first]:.6g} at {first} (row first) instead of 1. Subtract the log of the "
            "sum, for example with scipy.special.log_softmax."
        )


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


class Tree(Joint):
    """Labels with at most one parent each: P(y | x) = prod_i P(y_i | y_parent(i), x).

    This is the joint of the conditional tree-structured Bayesian network (CTBN). Every answer is
    exact and linear in the number of labels; `given` returns a `Tree` again.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    parents : array-like of int of shape (d,)
        Parent of each label, -1 for a root; several roots make a forest.
    log_tables : sequence of d arrays of shape (n, P_i, K_i)
        log P(y_i = v | y_parent = u, x), where P_i is the number of values of the parent, or 1
        for a root; -inf is allowed.

    Attributes
    ----------
    parents : ndarray of shape (d,)
        As given.
    log_tables : tuple of d arrays
        As given, or renormalised after `given`. Where a parent's value cannot occur, the row for
        that value carries no meaning.

    Examples
    --------
    The most probable vector need not consist of the most probable values.

    >>> import numpy as np
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> a = np.log([[[0.6, 0.4]]])
    >>> b = np.log([[[0.5, 0.5], [0.9, 0.1]]])
    >>> joint = Tree(space, [-1, 0], [a, b])
    >>> joint
    <Tree: 1 row, 2 labels, exact>
    >>> joint.mode(), (joint.marginals() > 0.5).astype(int)
    (array([[1, 0]]), array([[0, 0]]))
    """

    exact: Exactness = EXACT
    how: str = (
        "Exact: max-sum and sum-product passes over the tree, linear in the number of labels."
    )

    def __init__(
        self, space: LabelSpace, parents: ArrayLike, log_tables: Sequence[ArrayLike]
    ) -> None:
        wiring = Wiring.from_parents(parents)
        if len(wiring.parents) != space.n_labels:
            raise ValueError(
                f"parents has {len(wiring.parents)} entries but there are {space.n_labels} "
                "labels: give one parent per label, -1 for a root."
            )
        n_values = space.cardinalities
        above = [1 if parent == ROOT else n_values[parent] for parent in wiring.parents]
        shapes = list(zip(above, n_values, strict=True))
        self._set(space, wiring, checked_tables(space, log_tables, shapes))

    def _set(self, space: LabelSpace, wiring: Wiring, log_tables: Sequence[Array]) -> None:
        super().__init__(space, len(log_tables[0]))
        self._wiring = wiring
        self.log_tables = tuple(log_tables)

    def _with(self, log_tables: Sequence[Array]) -> Tree:
        """Return the same tree with tables that need no check."""
        joint = Tree.__new__(Tree)
        joint._set(self.space, self._wiring, log_tables)
        return joint

    @property
    def parents(self) -> Indices:
        """Parent of each label, -1 for a root, shape (d,)."""
        return np.array(self._wiring.parents, dtype=np.intp)

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors.

        In a tie the smaller code wins at the label nearest the root where the vectors differ.
        """
        return self.top_k_codes(1)[0][:, 0]

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return passes.marginals(self._wiring, self.log_tables)

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return passes.pair_marginal(self._wiring, self.log_tables, i, j)

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return passes.log_evidence(self._wiring, self.log_tables, codes)

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        return passes.k_best(self._wiring, self.log_tables, self._at_most_all(k))

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        return passes.ancestral_samples(self._wiring, self.log_tables, size, rng)

    def given_codes(self, evidence: Codes) -> Tree:
        """Return the joint given the known entries of evidence (n, d)."""
        tables, log_evidence = passes.condition(self._wiring, self.log_tables, evidence)
        impossible = np.flatnonzero(np.isneginf(log_evidence))
        if impossible.size:
            raise impossible_evidence(self.space, evidence, impossible)
        return self._with(tables)

    def rows(self, index: Rows) -> Tree:
        """Return the joint of some of the rows."""
        return self._with([table[index] for table in self.log_tables])

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import as_field

        single = [np.zeros((self.n_rows, k)) for k in self.space.cardinalities]
        edges, tables = [], []
        for i, (parent, table) in enumerate(
            zip(self._wiring.parents, self.log_tables, strict=True)
        ):
            if parent == ROOT:
                single[i] = table[:, 0]
            else:
                edges.append((parent, i))
                tables.append(table)
        return as_field(self.space, single, edges, tables)._obeying(rules)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        return passes.entropy(self._wiring, self.log_tables)

    def _size_marginals(self) -> SizeMarginals:
        """Return ``P(|y| = s)`` and ``P(y_i = 1, |y| = s)``, exactly."""
        return forest_sizes(self._wiring, self.log_tables)
