"""What a solver may ask of the rows: sums per task, never anything as long as the rows.

Wherever the rows live, in memory, on a device or on a cluster, an objective keeps them and all that
is as long as they are (targets, scores, residuals) to itself. A solver sees coefficients (T, K, q)
and numbers per task (T,).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.learn.glm.losses import Loss, Sums, pulled_slopes, sloped

# Where all rows are saturated the curvature says nothing; this share of the residual bounds it.
_CURVATURE_PER_RESIDUAL = 0.1
_LEAST_CURVED = 0.02
# A quadratic model of the loss holds for changes of the scores of a few units.
_LARGEST_CHANGE = 20.0
_MOST_IN_HESSIANS = 1 << 25  # numbers in the Hessians of all tasks
# Rows that add less than this share of the mean are left out of a Hessian, unless rows are few.
_LEAST = 1e-2
_FEW_ROWS = 1024


class Line(NamedTuple):
    """The losses along a direction.

    Attributes
    ----------
    curvature : (T,)
        Second derivative at the present point.
    farthest : (T,)
        Longest step for which a quadratic model can be trusted.
    """

    curvature: Array
    farthest: Array

    @classmethod
    def of(cls, curvature: Array, sup_norm: Array) -> Line:
        """From the curvature and the sup-norm of the change of scores, (T,) each."""
        return cls(curvature, _LARGEST_CHANGE / np.maximum(sup_norm, 1e-300))


def mean_curvature(sums: Sums, n_rows: Any, weight: Any) -> Array:
    """Curvature (T, K) of a row by its scores, given the number of rows and their weight."""
    floor: Array = sums.absolute * (_CURVATURE_PER_RESIDUAL / np.maximum(1, n_rows))
    mean: Array = sums.curvature / np.maximum(weight, np.finfo(float).tiny)
    return np.maximum(mean, floor)


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


def well_curved(sums: Sums) -> Flags:
    """Tasks (T,) with more curvature than rows that are wrong and saturated leave.

    Near the optimum the curvature is about half of the absolute residuals.
    """
    return np.asarray((sums.curvature >= _LEAST_CURVED * sums.absolute).all(axis=1))


class Objective(Protocol):
    r"""Losses of T tasks at their present points.

    .. math:: f_t(W) = \sum_i \omega_i \, \ell(W x_i + o_{ti}, y_{ti})

    with W of shape (K, q) in the coordinates of the rows. Penalties are the solver's business.
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of tasks T, scores K and coordinates q."""
        ...

    def value(self) -> Array:
        """Losses (T,) at the present point."""
        ...

    def gradient(self) -> Array:
        """Gradients (T, K, q) at the present point."""
        ...

    def diagonal(self) -> Array:
        """About the diagonal of the Hessians, (T, K, q)."""
        ...

    def curved(self) -> Flags:
        """Tasks (T,) whose Hessian tells how far the minimum is; see `well_curved`."""
        ...

    @property
    def hessian_cost(self) -> float:
        """Iterations that cost as much as `hessian`; infinite where there are no Hessians."""
        ...

    def hessian(self, tasks: Indices) -> Array:
        """Hessians (t, K q, K q) of some tasks at the present point."""
        ...

    def along(self, direction: Array) -> Line:
        """Look along a direction (T, K, q) from the present point."""
        ...

    def move(self, length: Array) -> Array:
        """Go to the point where `along` looked from plus lengths (T,) times the direction.

        It may be called again with other lengths. Returns the losses (T,) there.
        """
        ...

    def keep(self, tasks: Flags) -> None:
        """Drop all tasks but some (T,); only between `move` and `along`."""
        ...


class Products(Protocol):
    """Rows of a design, as far as an objective needs them; one row of (c, ...) is one score."""

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        ...

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates q."""
        ...

    @property
    def weight(self) -> Array | None:
        """Weights (n,) of the rows."""
        ...

    def scores(self, coef: Array) -> Array:
        """(c, q) -> (c, n)."""
        ...

    def pulled(self, residual: Array) -> Array:
        """(c, n) -> (c, q), the transposed product."""
        ...

    def scale(self) -> Array:
        """Curvature (q,) or (c, q) of every coordinate if each row had curvature one, roughly."""
        ...

    def in_single(self) -> Products:
        """Return the same rows, whose products may read their argument in single precision."""
        ...

    def of_tasks(self, scores: Flags) -> Products:
        """Return what is left when only some scores (c,) remain."""
        ...


@dataclass(frozen=True)
class OwnScores:
    """A design in which each score has one feature of its own, and a constant.

    Attributes
    ----------
    feature : (c, n)
    weight : (n,) or None
    """

    feature: Array
    weight: Array | None
    n_coordinates: int = 2

    @property
    def n_rows(self) -> int:
        return int(self.feature.shape[1])

    def scores(self, coef: Array) -> Array:
        return sloped(self.feature, coef)

    def pulled(self, residual: Array) -> Array:
        return pulled_slopes(self.feature, residual)

    def scale(self) -> Array:
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        energy = np.einsum("cn,n,cn->c", self.feature, weight, self.feature)
        return np.stack([energy, np.full(len(energy), weight.sum())], axis=1)

    def in_single(self) -> OwnScores:
        return self

    def of_tasks(self, scores: Flags) -> OwnScores:
        return OwnScores(self.feature[scores], self.weight)


class RowsObjective:
    """An objective over rows in memory, dense or sparse.

    Parameters
    ----------
    design : Design or OwnScores
    loss : Loss
    targets : (T, n)
        Classes, negative where a row does not belong to the task.
    scores : (T, K, n)
        Scores to begin with, a fixed part of them included; they are overwritten.
    """

    def __init__(self, design: Products, loss: Loss, targets: Targets, scores: Array) -> None:
        self._design = design
        self._loss = loss
        self._targets = np.ascontiguousarray(targets)
        self._scores = np.ascontiguousarray(scores)
        self._residual = np.empty_like(self._scores)
        self._change = self._scores  # not moved along
        self._length = np.zeros(len(scores))
        self._scale: Array | None = None  # (q,), or (T K, q)
        weight = np.ones(design.n_rows) if design.weight is None else design.weight
        self._total_weight = float(weight.sum())
        self._evaluate(self._length)

    @property
    def shape(self) -> tuple[int, int, int]:
        n_tasks, n_scores, _ = self._scores.shape
        return n_tasks, n_scores, self._design.n_coordinates

    def _times(self, coef: Array) -> Array:
        flat = self._design.scores(coef.reshape(-1, coef.shape[2]))
        return flat.reshape(*coef.shape[:2], self._design.n_rows)

    def _evaluate(self, steps: Array) -> None:
        self._sums = self._loss.move(
            self._scores, self._change, steps, self._targets, self._design.weight, self._residual
        )

    @property
    def sums(self) -> Sums:
        """What the rows add up to at the present point."""
        return self._sums

    def value(self) -> Array:
        return self._sums.value

    def gradient(self) -> Array:
        flat = self._residual.reshape(-1, self._design.n_rows)
        return self._design.pulled(flat).reshape(self.shape)

    def diagonal(self) -> Array:
        if self._scale is None:
            self._scale = self._design.scale()
        mean = mean_curvature(self._sums, self._design.n_rows, self._total_weight)
        shaped = self._scale if self._scale.ndim == 1 else self._scale.reshape(self.shape)
        return np.asarray(mean[:, :, None] * shaped)

    def curved(self) -> Flags:
        return well_curved(self._sums)

    @property
    def hessian_cost(self) -> float:
        """Iterations that take about as long as the Hessians; infinite where there are none."""
        rows = getattr(self._design, "rows", None)
        soft = getattr(self._loss, "soft", False)
        if soft or not isinstance(rows, np.ndarray) or len(rows) < 2:
            return np.inf
        return hessian_cost(*self.shape, len(rows), _MOST_IN_HESSIANS)

    @cached_property
    def _scaled_rows(self) -> tuple[Any, Array, Array]:
        """Rows of unit mean square columns, these columns' lengths, and the rows' leverages."""
        rows = self._design.rows  # type: ignore[attr-defined]
        length = np.sqrt(np.maximum(np.einsum("nq,nq->q", rows, rows) / len(rows), 1e-300))
        scaled = (rows / length).astype(np.float32 if len(rows) > _FEW_ROWS else np.float64)
        return scaled, length, np.einsum("nq,nq->n", scaled, scaled)

    def hessian(self, tasks: Indices) -> Array:
        """Hessians (t, K q, K q) of the losses of some tasks at the present point.

        Rows that hardly add to them are left out and products are in single precision where rows
        are many: they shape the metric only.
        """
        _, n_scores, q = self.shape
        n_rows = self._design.n_rows
        weight = np.ones(n_rows) if self._design.weight is None else self._design.weight
        scaled, length, leverage = self._scaled_rows
        found = np.empty((len(tasks), n_scores, q, n_scores, q))
        for place, task in enumerate(tasks):
            with np.errstate(invalid="ignore", divide="ignore"):
                prob = np.where(weight > 0, self._residual[task] / weight, 0.0)
            if n_scores == 1:
                prob = np.abs(prob)  # of the other class, which is all the same
            else:
                member = np.flatnonzero(self._targets[task] >= 0)
                prob[self._targets[task, member], member] += 1.0
            curvature = weight * prob * (1.0 - prob)  # (K, n)
            share = curvature.sum(axis=0) * leverage
            least = _LEAST * share.mean() if n_rows > _FEW_ROWS else 0.0
            kept = np.flatnonzero(share > least)
            z = scaled[kept]
            if n_scores > 1:
                root = prob[:, kept] * np.sqrt(weight[kept])
                wide = (root.T.astype(scaled.dtype)[:, :, None] * z[:, None, :]).reshape(len(z), -1)
                found[place] = -(wide.T @ wide).reshape(n_scores, q, n_scores, q)
            for k in range(n_scores):
                own = np.sqrt(curvature[k, kept]).astype(scaled.dtype)[:, None] * z
                found[place, k, :, k] = own.T @ own
        found *= length[:, None, None] * length
        return found.reshape(len(tasks), n_scores * q, n_scores * q)

    def along(self, direction: Array) -> Line:
        return Line.of(*self.curvature_along(direction))

    def curvature_along(self, direction: Array) -> tuple[Array, Array]:
        """Curvature (T,) along a direction (T, K, q), and sup-norm (T,) of the change of scores."""
        self._change = self._times(direction)
        self._length = np.zeros(len(direction))
        return self._loss.along(self._residual, self._change, self._targets, self._design.weight)

    def move(self, length: Array) -> Array:
        self._evaluate(length - self._length)
        self._length = length
        return self._sums.value

    def keep(self, tasks: Flags) -> None:
        scores = np.repeat(tasks, self._scores.shape[1])
        self._design = self._design.of_tasks(scores)
        if self._scale is not None and self._scale.ndim > 1:
            self._scale = self._scale[scores]
        self._targets, self._scores = self._targets[tasks], self._scores[tasks]
        self._residual = self._residual[tasks]
        self._change = np.zeros((0, *self._scores.shape[1:]))
        self._sums = type(self._sums)(*(part[tasks] for part in self._sums))
