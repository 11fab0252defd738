"""Parameters of a field on a fixed graph: L-BFGS without the group term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from scipy.optimize import minimize

from colabel.core.arrays import Array
from colabel.learn.crf.curvature import round_coordinates
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.penalties import Penalty
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters

# Pairs that L-BFGS remembers; with very many parameters they cost more than the products.
_CORRECTIONS, _FEW_CORRECTIONS = 20, 5
_MANY_PARAMETERS = 1 << 17


class FieldObjective(Protocol):
    """A negative log-likelihood of a field, pseudo or not."""

    data: FieldData
    layout: FieldLayout

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        ...


class Tuned(NamedTuple):
    """Parameters, how many iterations they took, and whether the tolerance was reached."""

    theta: Parameters
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Tuner:
    """Minimise a field's objective plus both ridge terms.

    L-BFGS runs in coordinates in which the objective has about the same curvature everywhere, so
    that its first steps have the right length in every direction.

    Parameters
    ----------
    tol : float
        Bound on the entries of the gradient in these coordinates: how far, in standard errors, a
        coordinate may be from the optimum.
    max_iter : int
    """

    tol: float = 1e-2
    max_iter: int = 1000

    def solve(self, objective: FieldObjective, penalty: Penalty, start: Parameters) -> Tuned:
        """Start from `start`."""
        layout, total = objective.layout, objective.data.total_weight
        coordinates = round_coordinates(objective.data, layout, penalty, start)

        def mean_objective(flat: Array) -> tuple[float, Array]:
            theta = coordinates.leave(flat)
            value, slope = objective.value_and_gradient(theta)
            ridge, ridge_slope = penalty.smooth(theta, layout)
            whole = Parameters(slope.node + ridge_slope.node, slope.edge + ridge_slope.edge)
            return (value + ridge) / total, coordinates.gradient(whole) / total

        first = coordinates.enter(start)
        if not first.size:
            return Tuned(start, 0, True)  # every variable has a single value
        options: Any = {
            "maxiter": self.max_iter,
            "maxfun": 2 * self.max_iter,
            "gtol": self.tol / total,  # of the mean objective
            "ftol": 0.0,
            "maxcor": _CORRECTIONS if first.size < _MANY_PARAMETERS else _FEW_CORRECTIONS,
        }
        # The stubs of SciPy do not know functions that return value and gradient of any shape.
        function: Any = mean_objective
        found = minimize(function, first, jac=True, method="L-BFGS-B", options=options)
        # A line search that can no longer improve has reached rounding error, not failed.
        converged = found.status == 0 or "ABNORMAL" in str(found.message)
        return Tuned(coordinates.leave(found.x), int(found.nit), bool(converged))
