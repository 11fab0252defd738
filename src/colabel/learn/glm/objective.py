"""Losses of many regressions: what a solver may ask of the rows, sums per task.

Wherever the rows live, in memory, on a device or on a cluster, an objective keeps them and all that
is as long as they are (targets, scores, residuals) to itself. A solver sees coefficients (T, K, q)
and numbers per task (T,).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, cast, like, positions, xp_of
from colabel.learn.glm.losses import Sums

# Where all rows are saturated the curvature says nothing; this share of the residual bounds it.
_CURVATURE_PER_RESIDUAL = 0.1
_LEAST_CURVED = 0.02
# A quadratic model of the loss holds for changes of the scores of a few units.
_LARGEST_CHANGE = 20.0
_MOST_IN_HESSIANS = 1 << 25  # numbers in the Hessians of all tasks
# Rows that add less than this share of the mean are left out of a Hessian, unless rows are few.
_LEAST = 1e-2
_FEW_ROWS = 1024
# Relative rounding error of a sum of losses, by the size of a score in bytes.
_VALUE_NOISE = {4: 1e-7, 8: 1e-13}


def hessian_cost(n_tasks: int, n_scores: int, q: int, n_rows: int, most: int) -> float:
    """Iterations that take as long as Hessians of dense rows; infinite beyond `most` numbers.

    It is the same wherever the rows live, so that solvers take the same steps.
    """
    size = n_scores * q
    if n_tasks * size**2 > most:
        return np.inf
    # nanoseconds a row, measured: products in single precision and a factor against two products
    # and two passes
    hessian = (size**2 + size * q) / 80 + size**3 / (10 * n_rows)
    return hessian / (n_scores * (4 * q / 40 + 10))


class Objective:
    """What is the same wherever the rows are: losses of T tasks from what the rows add up to."""

    sums: Sums  # what the rows add up to at the present point

    def value(self) -> Any:
        """Losses (T,) at the present point."""
        return self.sums.value

    def curved(self) -> Any:
        """Tasks (T,) whose Hessian tells how far the minimum is.

        They have more curvature than rows that are wrong and saturated leave; near the optimum the
        curvature is about half of the absolute residuals.
        """
        return (self.sums.curvature >= _LEAST_CURVED * self.sums.absolute).all(axis=1)

    def mean_curvature(self, n_rows: Any, weight: Any) -> Any:
        """Curvature (T, K) of a row by its scores, given the number of rows and their weight."""
        floor = self.sums.absolute * (_CURVATURE_PER_RESIDUAL / np.maximum(1, n_rows))
        return xp_of(floor).maximum(self.sums.curvature / weight, floor)

    def along(self, direction: Array) -> tuple[Any, Any]:
        """Look along a direction (T, K, q) from the present point.

        Returns the second derivative (T,) of the losses, and the longest step (T,) for which a
        quadratic model can be trusted.
        """
        curvature, sup_norm = self.curvature_along(direction)
        return curvature, _LARGEST_CHANGE / sup_norm.clip(1e-300)

    def curvature_along(self, direction: Array) -> tuple[Any, Any]:
        """Curvature (T,) along a direction (T, K, q), and sup-norm (T,) of the change of scores."""
        raise NotImplementedError


@dataclass(frozen=True)
class OwnScores:
    """A design in which each score has one feature of its own, and a constant.

    Attributes
    ----------
    feature : (c, n)
    weight : (n,), (c, n) or None
    """

    feature: Any
    weight: Any
    n_coordinates: int = 2

    @property
    def n_rows(self) -> int:
        return int(self.feature.shape[1])

    def scores(self, coef: Any) -> Any:
        coef = cast(coef, self.feature.dtype)
        return coef[:, :1] * self.feature + coef[:, 1:]

    def pulled(self, residual: Any) -> Any:
        xp = xp_of(residual)
        sums = xp.einsum("cn,cn->c", residual, self.feature), residual.sum(1)
        return cast(xp.stack(sums, 1), xp.float64)

    def scale(self) -> Array:
        xp = xp_of(self.feature)
        weight = xp.ones_like(self.feature[0]) if self.weight is None else self.weight
        energy = (weight * self.feature**2).sum(1)
        found: Array = xp.stack([energy, (weight + 0.0 * self.feature).sum(1)], 1)
        return found

    def of_tasks(self, scores: Flags) -> OwnScores:
        """Return what is left when only some scores (c,) remain."""
        weight = self.weight
        if weight is not None and weight.ndim > 1:
            weight = weight[scores]
        return OwnScores(self.feature[scores], weight)


class RowsObjective(Objective):
    r"""Losses of T tasks at their present points.

    .. math:: f_t(W) = \sum_i \omega_i \, \ell(W x_i + o_{ti}, y_{ti})

    with W of shape (K, q) in the coordinates of the rows, which are in memory or on a device.
    Penalties are the solver's business.

    Parameters
    ----------
    design : Design, GroupedRows or OwnScores
    loss : Loss
    targets : (T, n)
        Classes, negative where a row does not belong to the task.
    scores : (T, K, n)
        Scores to begin with, a fixed part of them included; they are overwritten.
    """

    def __init__(self, design: Any, loss: Any, targets: Any, scores: Any) -> None:
        self._design = design
        self._loss = loss
        self._xp = xp_of(scores)
        if self._xp is np:
            targets, scores = np.ascontiguousarray(targets), np.ascontiguousarray(scores)
        self._targets, self._scores = targets, scores
        self._residual = self._xp.empty_like(self._scores)
        self._change = self._scores  # not moved along
        self._length = like(np.zeros(len(scores)), scores)
        self._scale: Any = None  # (q,), or (T K, q)
        self._evaluate(self._length)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of tasks T, scores K and coordinates q."""
        n_tasks, n_scores, _ = self._scores.shape
        return n_tasks, n_scores, self._design.n_coordinates

    @property
    def noise(self) -> float:
        """Relative rounding error of the losses: decreases below it cannot be told from none."""
        return _VALUE_NOISE[self._scores.itemsize]

    def _weight(self) -> Any:
        """Weights (n,), or (T, n) where tasks have rows of their own."""
        weight = self._design.weight
        return weight if weight is None or weight.ndim == 1 else weight[:: self._scores.shape[1]]

    def _evaluate(self, steps: Array) -> None:
        self.sums = self._loss.move(
            self._scores, self._change, steps, self._targets, self._weight(), self._residual
        )

    def gradient(self) -> Array:
        """Gradients (T, K, q) at the present point."""
        flat = self._residual.reshape(-1, self._design.n_rows)
        found: Array = self._design.pulled(flat).reshape(self.shape)
        return found

    def diagonal(self) -> Array:
        """About the diagonal of the Hessians, (T, K, q)."""
        if self._scale is None:
            self._scale = self._design.scale()
        weight, n_rows = self._weight(), self._design.n_rows
        total = float(n_rows) if weight is None else weight.sum(-1)[..., None].clip(1e-300)
        mean = self.mean_curvature(n_rows, total)
        shaped = self._scale if self._scale.ndim == 1 else self._scale.reshape(self.shape)
        found: Array = mean[:, :, None] * shaped
        return found

    @property
    def hessian_cost(self) -> float:
        """Iterations that take about as long as the Hessians; infinite where there are none."""
        dense = getattr(self._design, "columns", self) is None  # sparse rows have theirs
        n_rows, soft = self._design.n_rows, getattr(self._loss, "soft", False)
        if soft or not dense or n_rows < 2:
            return np.inf
        return hessian_cost(*self.shape, n_rows, _MOST_IN_HESSIANS)

    @cached_property
    def _scaled_rows(self) -> tuple[Any, Any, Any]:
        """Rows of unit mean square columns, these columns' lengths, and the rows' leverages."""
        rows, xp = self._design.rows, self._xp
        length = (xp.einsum("nq,nq->q", rows, rows) / len(rows)).clip(1e-300) ** 0.5
        scaled = cast(rows / length, xp.float32 if len(rows) > _FEW_ROWS else xp.float64)
        return scaled, cast(length, xp.float64), xp.einsum("nq,nq->n", scaled, scaled)

    def hessian(self, tasks: Indices) -> Array:
        """Hessians (t, K q, K q) of the losses of some tasks at the present point.

        Rows that hardly add to them are left out and products are in single precision where rows
        are many: they shape the metric only.
        """
        _, n_scores, q = self.shape
        xp, n_rows = self._xp, self._design.n_rows
        weight = self._design.weight
        weight = like(np.ones(n_rows), self._scores) if weight is None else weight
        scaled, length, leverage = self._scaled_rows
        found = like(np.empty((len(tasks), n_scores, q, n_scores, q)), self._scores)
        for place, task in enumerate(tasks):
            prob = xp.where(weight > 0, self._residual[task] / weight.clip(1e-300), 0.0)
            if n_scores == 1:
                prob = abs(prob)  # of the other class, which is all the same
            else:
                member = positions(self._targets[task] >= 0)
                prob[cast(self._targets[task][member], xp.int64), member] += 1.0
            curvature = weight * prob * (1.0 - prob)  # (K, n)
            share = curvature.sum(0) * leverage
            least = _LEAST * share.mean() if n_rows > _FEW_ROWS else 0.0
            kept = positions(share > least)
            z = scaled[kept]
            if n_scores > 1:
                root = cast((prob[:, kept] * weight[kept] ** 0.5).T, scaled.dtype)
                wide = (root[:, :, None] * z[:, None, :]).reshape(len(z), -1)
                found[place] = -(wide.T @ wide).reshape(n_scores, q, n_scores, q)
            for k in range(n_scores):
                own = cast(curvature[k, kept] ** 0.5, scaled.dtype)[:, None] * z
                found[place, k, :, k] = own.T @ own
        found *= length[:, None, None] * length
        shaped: Array = found.reshape(len(tasks), n_scores * q, n_scores * q)
        return shaped

    def curvature_along(self, direction: Array) -> tuple[Any, Any]:
        flat = self._design.scores(direction.reshape(-1, direction.shape[2]))
        self._change = flat.reshape(self._scores.shape)
        self._length = like(np.zeros(len(direction)), direction)
        known = (self._residual, self._change, self._targets, self._weight())
        found: tuple[Any, Any] = self._loss.along(*known)
        return found

    def move(self, length: Array) -> Any:
        """Go to the point where `along` looked from plus lengths (T,) times the direction.

        It may be called again with other lengths. Returns the losses (T,) there.
        """
        self._evaluate(length - self._length)
        self._length = length
        return self.sums.value

    def keep(self, tasks: Flags) -> None:
        """Drop all tasks but some (T,); only between `move` and `along`."""
        each = like(np.ones(self._scores.shape[1], dtype=bool), tasks)
        scores = (tasks[:, None] & each).reshape(-1)
        self._design = self._design.of_tasks(scores)
        if self._scale is not None and self._scale.ndim > 1:
            self._scale = self._scale[scores]
        self._targets, self._scores = self._targets[tasks], self._scores[tasks]
        self._residual = self._residual[tasks]
        self._change = self._scores[:0]
        self.sums = type(self.sums)(*(part[tasks] for part in self.sums))
