"""Tree: labels that depend on each other along a tree, or a forest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Indices, Rows, row_slices
from colabel.core.numeric import short_sum
from colabel.joint import elimination as passes
from colabel.joint._long_sums import is_far, long_sum, rounded
from colabel.joint.base import EXACT, Exactness, Joint
from colabel.joint.elimination import ROOT, Elimination
from colabel.joint.sizes import SizeMarginals, forest_sizes
from colabel.joint.user_terms import require_possible
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

_ENTRIES_AT_ONCE = 2**20  # of lists: a few megabytes, friendly to caches
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
        forest = _forest(parents, space)
        shapes = [
            forest.shape(i)[::-1] if forest.scopes[i] else (1, k)
            for i, k in enumerate(space.cardinalities)
        ]
        self._set(space, forest, checked_tables(space, log_tables, shapes))

    def _set(self, space: LabelSpace, forest: Elimination, log_tables: Sequence[Array]) -> None:
        super().__init__(space, len(log_tables[0]))
        self._forest = forest
        self.log_tables = tuple(log_tables)

    def _with(self, log_tables: Sequence[Array]) -> Self:
        """Return the same tree with tables (n, P_i, K_i) that need no check."""
        return self._unchecked(self.space, self._forest, log_tables)

    @property
    def _tables(self) -> Sequence[Array]:
        """The tables as arrays (n, P_i, K_i)."""
        return self.log_tables

    @property
    def parents(self) -> Indices:
        """Parent of each label, -1 for a root, shape (d,)."""
        return np.array([scope[0] if scope else ROOT for scope in self._forest.scopes])

    def _rows_last(self, rows: slice = slice(None), codes: Codes | None = None) -> list[Array]:
        """The tables as `elimination` takes them; -inf where they contradict codes (n, d)."""
        tables = []
        for i, table in enumerate(self._tables):
            part = np.ascontiguousarray(table[rows].transpose(2, 1, 0))
            if codes is not None:
                known, value = codes[:, i], np.arange(len(part))[:, None]
                part = np.where(((known == MISSING) | (known == value))[:, None], part, -np.inf)
            tables.append(part if self._forest.scopes[i] else part[:, 0])
        return tables

    def _conditioned(self, codes: Codes) -> tuple[list[Array], Array]:
        """Tables, rows last, given the known entries of codes (n, d), and their log-probability."""
        tables = self._rows_last(codes=codes)
        if not is_far(self._tables):
            return passes.upward(self._forest, tables)
        tables = [long_sum([table], table.shape) for table in tables]
        conditionals, total = passes.upward(self._forest, tables, far=True)
        return conditionals, rounded(total)

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        each = dict(passes.downward(self._forest, self._rows_last()))
        return [(p.sum(axis=1) if p.ndim > 2 else p).T for _, p in sorted(each.items())]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j).

        With a the nearest common ancestor, sum_a P(a) P(y_i | a) P(y_j | a); labels of different
        trees meet above their roots.
        """
        paths = []
        for label in (i, j):
            path = [label]
            while path[-1] != ROOT:
                path.append(int(self.parents[path[-1]]))
            paths.append(path)
        meeting = next(a for a in paths[0] if a in paths[1])
        of_i, of_j = (self._descend(path[: path.index(meeting)], meeting) for path in paths)
        above = self._descend(paths[0][paths[0].index(meeting) : -1], ROOT)
        table: Array = np.matmul((above.transpose(0, 2, 1) * of_i).transpose(0, 2, 1), of_j)
        return table

    def _descend(self, path: Sequence[int], top: int) -> Array:
        """P(path[0] | top) as an array (n, P, K): the product of the tables along a path."""
        n_states = 1 if top == ROOT else self.space.cardinalities[top]
        tables: Array = np.broadcast_to(np.eye(n_states), (self.n_rows, n_states, n_states))
        for i in reversed(path):
            tables = np.matmul(tables, np.exp(self._tables[i]))
        return tables

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        if MISSING in codes:
            return self._conditioned(codes)[1]
        rows, log_prob = np.arange(self.n_rows), np.zeros(self.n_rows)
        tables = self._tables  # made anew each time, of independent labels
        for i, scope in enumerate(self._forest.scopes):
            log_prob += tables[i][rows, codes[:, scope[0]] if scope else 0, codes[:, i]]
        return log_prob

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first.

        In a tie the smaller code wins at the label nearest the root where the vectors differ.
        """
        k = self._at_most_all(k)
        chunks = row_slices(self.n_rows, _ENTRIES_AT_ONCE, 2 * k * self._forest.n_entries)
        parts = [passes.k_best(self._forest, self._rows_last(chunk), k) for chunk in chunks]
        return np.concatenate([c for c, _ in parts]), np.concatenate([p for _, p in parts])

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        return passes.sample(self._forest, self._rows_last(), size, rng)

    def given_codes(self, evidence: Codes) -> Self:
        """Return the joint given the known entries of evidence (n, d)."""
        tables, log_evidence = self._conditioned(evidence)
        require_possible(self.space, evidence, np.isneginf(log_evidence))
        return self._with([(t if t.ndim > 2 else t[:, None]).transpose(2, 1, 0) for t in tables])

    def rows(self, index: Rows) -> Self:
        """Return the joint of some of the rows."""
        return self._with([table[index] for table in self._tables])

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import as_field

        scopes, tables = self._forest.scopes, self._tables
        single = [
            np.zeros((self.n_rows, k)) if scopes[i] else tables[i][:, 0]
            for i, k in enumerate(self.space.cardinalities)
        ]
        edges = [(scope[0], i) for i, scope in enumerate(scopes) if scope]
        return as_field(self.space, single, edges, [tables[i] for _, i in edges])._obeying(rules)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        tables = self._rows_last()
        each = passes.downward(self._forest, tables)
        terms = [passes.expected_log(prob, tables[i]) for i, prob in each]
        return np.asarray(-np.sum(terms, axis=0))

    def _size_marginals(self) -> SizeMarginals:
        """Return ``P(|y| = s)`` and ``P(y_i = 1, |y| = s)``, exactly."""
        return forest_sizes(self._forest, self._tables)


class Independent(Tree):
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

    how: str = "Exact: the labels are independent, so each answer is a closed form."

    def __init__(self, space: LabelSpace, log_tables: Sequence[ArrayLike]) -> None:
        tables = checked_tables(space, log_tables, [(k,) for k in space.cardinalities])
        self._set(space, _forest([ROOT] * space.n_labels, space), tables)

    @property
    def _tables(self) -> Sequence[Array]:
        return [table[:, None] for table in self.log_tables]

    def _with(self, log_tables: Sequence[Array]) -> Self:
        return super()._with([table[:, 0] for table in log_tables])

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors; the first value wins a tie."""
        best = [table.argmax(axis=1) for table in self.log_tables]
        return np.stack(best, axis=1).astype(np.int32)

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return [np.exp(table) for table in self.log_tables]

    def given_codes(self, evidence: Codes) -> Self:
        """Return the joint given the known entries of evidence (n, d)."""
        rows = np.arange(self.n_rows)
        each = [table[rows, code] for table, code in zip(self.log_tables, evidence.T, strict=True)]
        impossible = (evidence != MISSING) & np.isneginf(each).T
        # independence tells exactly which of the labels are at fault
        blamed = np.where(impossible, evidence, MISSING).astype(np.int32)
        require_possible(self.space, blamed, impossible.any(axis=1))
        return super().given_codes(evidence)


def _forest(parents: ArrayLike, space: LabelSpace) -> Elimination:
    """Check that `parents` (d,) describes a forest, whose children are eliminated first."""
    array: NDArray[Any] = np.asarray(parents)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "parents must be a vector of integers, one per label, but it has shape "
            f"{array.shape} and type {array.dtype}."
        )
    if array.size == 0:
        raise ValueError("parents is empty: a tree needs at least one label.")
    outside = np.flatnonzero((array < ROOT) | (array >= array.size))
    if outside.size:
        i = int(outside[0])
        raise ValueError(
            f"parents[{i}] is {array[i]}, which is no variable: use -1 for a root or an index "
            f"from 0 to {array.size - 1}."
        )
    if array.size != space.n_labels:
        raise ValueError(
            f"parents has {array.size} entries but there are {space.n_labels} labels: give one "
            "parent per label, -1 for a root."
        )
    children: list[list[int]] = [[] for _ in range(array.size + 1)]
    for i, parent in enumerate(array.tolist()):
        children[parent].append(i)  # parent -1 lands in the last list, that of the roots
    order: list[int] = []
    stack = list(reversed(children[ROOT]))
    while stack:
        order.append(stack.pop())
        stack.extend(reversed(children[order[-1]]))
    if len(order) < array.size:
        # what no root reaches hangs below a cycle or lies on it
        lost = sorted(set(range(array.size)) - set(order))
        raise ValueError(
            f"parents must describe a forest, but following them from variables {lost} never "
            f"reaches a root (parents = {array.tolist()}). Give each tree one variable with "
            "parent -1."
        )
    scopes = tuple((p,) if p != ROOT else () for p in array.tolist())
    return Elimination(tuple(reversed(order)), scopes, space.cardinalities)
