"""Exact search by integer programming with cluster cuts (Bartlett and Cussens, 2017).

A 0/1 column x says that a variable has a certain parent set:

    maximise  sum of score x
    such that every variable has one set, and no cluster of variables has a cycle in it

The last is said by inequalities (`_cluster_cuts`), added when the solution at hand violates them.
As long as there are any only the linear programme is solved; a column whose reduced cost is more
than what the bound exceeds the best network known by is in no better network and leaves. What is
left goes to branch and bound, repeated with the cycles of its solution forbidden until it has none.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse.csgraph import connected_components

from colabel.core.arrays import Array, Indices
from colabel.learn.structure._cluster_cuts import (
    Cut,
    Fraction,
    climbing_cuts,
    coefficients,
    cycle_cuts,
    worst_cut,
)
from colabel.learn.structure._order_search import improved_order
from colabel.learn.structure.parent_scores import Candidates

_TIE = 1e-9  # relative: by how much a network must be better to be looked for


class Proof(NamedTuple):
    """Sets chosen (d,), an upper bound on the score of any network, whether they are optimal."""

    chosen: Indices
    bound: float
    optimal: bool


class _Relaxation(NamedTuple):
    """Solution of a linear programme: values (m,) and reduced costs (m,), both of live columns."""

    values: Array
    reduced: Array
    bound: float


def best_by_integers(candidates: Candidates, incumbent: Indices, deadline: float) -> Proof:
    """Improve a network until it is optimal or the deadline, by `time.monotonic`, has passed.

    Parameters
    ----------
    candidates : Candidates
    incumbent : (d,)
        Place of the set that each variable has in a network without cycles.
    deadline : float
    """
    return _Search(candidates, incumbent, deadline).run()


class _Search:
    """Columns still in play, cuts so far, and the best network known."""

    def __init__(self, candidates: Candidates, incumbent: Indices, deadline: float) -> None:
        self.candidates = candidates
        self.deadline = deadline
        self.d = len(candidates.first) - 1
        self.child = np.repeat(np.arange(self.d), np.diff(candidates.first))
        self.live = np.arange(len(self.child))
        self.cuts: list[Cut] = []
        self.chosen = incumbent
        self.score = float(candidates.scores[incumbent].sum())
        self.bound = float(candidates.scores[candidates.first[:-1]].sum())

    def run(self) -> Proof:
        """Solve relaxations, then the integer programme where a gap is left."""
        if self._close_gap_by_relaxations():
            self._branch_and_bound()
        return Proof(self.chosen, max(self.bound, self.score), self._proven())

    def _proven(self) -> bool:
        return self.bound <= self.score + _TIE * (1.0 + abs(self.score))

    def _seconds_left(self) -> float:
        return max(self.deadline - time.monotonic(), 0.01)

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _close_gap_by_relaxations(self) -> bool:
        """Add violated cuts until there are none; whether a gap is left, and time as well."""
        while not self._late():
            found = self._relaxed()
            if found is None:
                return False
            self.bound = min(self.bound, found.bound)
            solution = self._fraction(found.values)
            self._round(solution)
            if self._proven():
                return False
            added = cycle_cuts(solution) or climbing_cuts(solution)
            added = added or worst_cut(solution, self._seconds_left())
            self._drop_columns(found)
            if not added:
                return True
            self.cuts.extend(added)
        return False

    def _relaxed(self) -> _Relaxation | None:
        """Solve the linear programme; None if time ran out."""
        result: Any = linprog(  # type: ignore[call-overload]  # sparse rows are documented
            -self.candidates.scores[self.live],
            A_ub=self._cut_rows() if self.cuts else None,
            b_ub=self._cut_limits() if self.cuts else None,
            A_eq=self._one_set_each(),
            b_eq=np.ones(self.d),
            bounds=(0, None),
            method="highs",
            options={"time_limit": self._seconds_left()},
        )
        if result.status != 0:
            return None
        return _Relaxation(result.x, result.lower.marginals, -float(result.fun))

    def _one_set_each(self) -> sp.csr_array:
        n = len(self.live)
        return sp.csr_array((np.ones(n), (self.child[self.live], np.arange(n))), (self.d, n))

    def _cut_rows(self) -> sp.csr_array:
        return coefficients(self.cuts, self.child[self.live], self.candidates.parents[self.live])

    def _cut_limits(self) -> Array:
        return np.array([float(cut.cluster.sum() - cut.k) for cut in self.cuts])

    def _fraction(self, values: Array) -> Fraction:
        used = np.flatnonzero(values > 1e-9)
        places = self.live[used]
        return Fraction(values[used], self.child[places], self.candidates.parents[places], self.d)

    def _drop_columns(self, found: _Relaxation) -> None:
        """Forget columns that no network better than the best known can have."""
        slack = found.bound - self.score + _TIE * (1.0 + abs(self.score))
        self.live = self.live[found.reduced <= slack]

    def _round(self, solution: Fraction) -> None:
        """Climb from an order that the fractional arcs suggest, for a better network."""
        arcs = solution.arcs()
        order: list[int] = []
        left = np.ones(self.d, dtype=bool)
        while left.any():  # next: the variable that wants least from those not yet placed
            wanted = np.where(left, arcs[left].sum(axis=0), np.inf)
            order.append(int(wanted.argmin()))
            left[order[-1]] = False
        self._adopt(improved_order(self.candidates, np.array(order, dtype=np.intp)))

    def _adopt(self, chosen: Indices) -> None:
        """Keep a network without cycles if it is better than the best known."""
        score = float(self.candidates.scores[chosen].sum())
        if score > self.score + _TIE * (1.0 + abs(self.score)):
            self.chosen, self.score = chosen, score

    def _branch_and_bound(self) -> None:
        """Solve the integer programme, forbid the cycles of its solution, until it has none."""
        while not self._late():
            constraints = [LinearConstraint(self._one_set_each(), 1.0, 1.0)]
            if self.cuts:
                constraints.append(LinearConstraint(self._cut_rows(), ub=self._cut_limits()))
            result = milp(
                -self.candidates.scores[self.live],
                integrality=np.ones(len(self.live), dtype=np.intp),
                bounds=Bounds(0, 1),
                constraints=constraints,
                options={"time_limit": self._seconds_left(), "mip_rel_gap": 0.0},
            )
            if result.status == 2:  # no column is left from which a better network could be made
                self.bound = self.score
                return
            if result.mip_dual_bound is not None:
                self.bound = max(min(self.bound, -float(result.mip_dual_bound)), self.score)
            if result.status != 0:
                return
            solution = self._fraction(np.round(result.x))
            self._round(solution)
            cycles = self._cycles(solution)
            if not cycles:
                self._take(result.x)
                return
            self.cuts.extend(cycles)

    def _cycles(self, solution: Fraction) -> list[Cut]:
        """Strongly connected parts of an integer solution, and the shortest cycles in them."""
        n_parts, part = connected_components(sp.csr_array(solution.arcs()), connection="strong")
        parts = [Cut(part == number, 1) for number in range(n_parts)]
        return [*(cut for cut in parts if cut.cluster.sum() > 1), *cycle_cuts(solution)]

    def _take(self, values: Array) -> None:
        """Adopt an integer solution without cycles, and the proof it brings."""
        used = self.live[values > 0.5]
        chosen = np.empty(self.d, dtype=np.intp)
        chosen[self.child[used]] = used
        self._adopt(chosen)
        self.bound = self.score
