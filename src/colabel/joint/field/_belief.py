"""Loopy belief propagation on a pairwise field."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.joint.exactness import Exactness
from colabel.joint.field._approximate import Approximate
from colabel.joint.field._engine import Convergence, FieldSums, pair_by_conditioning
from colabel.joint.field._tables import FieldTables

_GUESS_SWEEPS = 10  # of sum-product, for a vector that a local search improves
_KEPT = 2**23  # beliefs of edges (64 MB) that are kept without being asked for


class BeliefPropagation(Approximate):
    """Marginals by damped sum-product; log Z by Bethe's estimate. Both are exact on trees.

    Messages are sent one after the other, towards the first label and back, until none changes
    by more than `tol` nats: residuals count the change before damping.
    """

    name: ClassVar[str] = "belief_propagation"

    # one sweep is enough, whatever `tol` and `max_iter` say
    exact_on_trees: ClassVar[Exactness] = Exactness(["sums", "log_prob"])

    def sums(self) -> FieldSums:
        """Return Bethe's estimate of the partition function and the beliefs, computed once."""
        single, _, ended = self._sums
        return FieldSums(ended[:, 0] + self._offset, self._by_label(single))

    def edge_tables(self) -> list[Array]:
        """Return the beliefs of every edge as arrays (n, K_i, K_j)."""
        return self._by_edge(self._sums_of_pairs[1])

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j), (n, K_i, K_j): a belief on an edge, else P(y_i) P(y_j | y_i)."""
        edge = (min(i, j), max(i, j))
        if edge in self._field.edges:
            table = self.edge_tables()[self._field.edges.index(edge)]
            return table if i < j else table.transpose(0, 2, 1)
        return pair_by_conditioning(self._field, i, j, self.sums().marginals[i], self._sums_of)

    def convergence(self) -> Convergence | None:
        """Return how sum-product ended in each row."""
        _, _, ended = self._sums
        return Convergence(
            ended[:, 2] <= self._options.tol, ended[:, 1].astype(np.intp), ended[:, 2]
        )

    def note(self) -> str:
        """Say what is exact all the same."""
        if self._is_tree:
            return "a tree, so marginals and log Z are exact, " + self._mode_note()
        return "log Z is Bethe's estimate, " + self._mode_note()

    def _first_guess(self) -> Codes:
        # Which value of a label is likelier shows long before the beliefs have converged.
        most = min(self._options.max_iter, _GUESS_SWEEPS)
        return self._largest(self._propagated(most, maximise=False, with_pairs=False)[0])

    def _sums_of(self, field: FieldTables) -> FieldSums:
        return BeliefPropagation(field, self._options, self._row_keys, self._start).sums()

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        if "_sums_of_pairs" in self.__dict__ or self._n_pair_beliefs <= _KEPT:
            return self._sums_of_pairs
        return self._propagated(self._options.max_iter, maximise=False, with_pairs=False)

    @cached_property
    def _sums_of_pairs(self) -> tuple[Array, Array, Array]:
        return self._propagated(self._options.max_iter, maximise=False, with_pairs=True)

    @property
    def _n_pair_beliefs(self) -> int:
        return self._field.n_rows * sum(int(table[0].size) for table in self._field.tables)
