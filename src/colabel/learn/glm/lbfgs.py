"""L-BFGS for many regressions at once.

Losses of many regressions: what a solver may ask of the rows, sums per task.

Wherever the rows live, in memory, on a device or on a cluster, an objective keeps them and all that
is as long as they are (targets, scores, residuals) to itself. A solver sees coefficients (T, K, q)
and numbers per task (T,).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from colabel.core.arrays import Array, Flags, Indices, cast, host, like, positions, xp_of, zeros
from colabel.core.progress import check_deadline
from colabel.learn.glm import device
from colabel.learn.glm.losses import Loss, Sums, quasi_newton_direction

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
    score_weight : (n,), (c, n) or None
        Weights of the rows.
    """

    feature: Any
    score_weight: Any
    n_coordinates: int = 2

    @property
    def n_rows(self) -> int:
        return int(self.feature.shape[1])

    def scores(self, coef: Any) -> Any:
        coef = cast(coef, self.feature.dtype)
        return coef[:, :1] * self.feature + coef[:, 1:]

    def rmatvec(self, residual: Any) -> Any:
        xp = xp_of(residual)
        sums = xp.einsum("cn,cn->c", residual, self.feature), residual.sum(1)
        return cast(xp.stack(sums, 1), xp.float64)

    def scale(self) -> Array:
        xp = xp_of(self.feature)
        weight = xp.ones_like(self.feature[0]) if self.score_weight is None else self.score_weight
        squares = (weight * self.feature**2).sum(1)
        scales: Array = xp.stack([squares, (weight + 0.0 * self.feature).sum(1)], 1)
        return scales

    def of_tasks(self, scores: Flags) -> OwnScores:
        """Return what is left when only some scores (c,) remain."""
        weight = self.score_weight
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
    design : Design or OwnScores
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
        self._length = zeros((len(scores),), scores)
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

    @cached_property
    def _weight(self) -> Any:
        """Weights (n,), or (T, n) where tasks have rows of their own."""
        weight = self._design.score_weight
        return weight if weight is None or weight.ndim == 1 else weight[:: self._scores.shape[1]]

    def _evaluate(self, steps: Array) -> None:
        self.sums = self._loss.move(
            self._scores, self._change, steps, self._targets, self._weight, self._residual
        )

    def gradient(self) -> Array:
        """Gradients (T, K, q) at the present point."""
        flat = self._residual.reshape(-1, self._design.n_rows)
        gradient: Array = self._design.rmatvec(flat).reshape(self.shape)
        return gradient

    def diagonal(self) -> Array:
        """About the diagonal of the Hessians, (T, K, q)."""
        if self._scale is None:
            self._scale = self._design.scale()
        weight, n_rows = self._weight, self._design.n_rows
        total = float(n_rows) if weight is None else weight.sum(-1)[..., None].clip(1e-300)
        mean = self.mean_curvature(n_rows, total)
        shaped = self._scale if self._scale.ndim == 1 else self._scale.reshape(self.shape)
        diagonals: Array = mean[:, :, None] * shaped
        return diagonals

    @property
    def hessian_cost(self) -> float:
        """Iterations that take about as long as the Hessians; infinite where there are none."""
        design, soft = self._design, getattr(self._loss, "soft", False)
        # sparse rows have columns, groups lanes, and the scores' own features neither
        dense = getattr(design, "columns", design) is None and design.lanes is None
        if soft or not dense or design.n_rows < 2:
            return np.inf
        return hessian_cost(*self.shape, design.n_rows, _MOST_IN_HESSIANS)

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
        hessians = zeros((len(tasks), n_scores, q, n_scores, q), self._scores)
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
                hessians[place] = -(wide.T @ wide).reshape(n_scores, q, n_scores, q)
            for k in range(n_scores):
                own = cast(curvature[k, kept] ** 0.5, scaled.dtype)[:, None] * z
                hessians[place, k, :, k] = own.T @ own
        hessians *= length[:, None, None] * length
        shaped: Array = hessians.reshape(len(tasks), n_scores * q, n_scores * q)
        return shaped

    def curvature_along(self, direction: Array) -> tuple[Any, Any]:
        flat = self._design.scores(direction.reshape(-1, direction.shape[2]))
        self._change = flat.reshape(self._scores.shape)
        self._length = zeros((len(direction),), direction)
        known = (self._residual, self._change, self._targets, self._weight)
        curvature: tuple[Any, Any] = self._loss.along(*known)
        return curvature

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
        self.__dict__.pop("_weight", None)
        if self._scale is not None and self._scale.ndim > 1:
            self._scale = self._scale[scores]
        self._targets, self._scores = self._targets[tasks], self._scores[tasks]
        self._residual = self._residual[tasks]
        self._change = self._scores[:0]
        self.sums = type(self.sums)(*(part[tasks] for part in self.sums))


_SUFFICIENT_DECREASE = 1e-4
_MOST_HALVINGS = 40
# Tasks that have converged leave once they are this share of the batch: leaving copies the rest.
_SHARE_TO_LEAVE = 0.1
# From this tolerance on, steps and residuals may be rounded to single precision in products.
_SINGLE = 1e-3
# Shares of its diagonal that are added to a Hessian, so that rounding does not make it singular:
# as little as possible, then as much as single precision may need.
_JITTER = (1e-9, 1e-5)
# A rate of convergence is known after so many iterations; a Newton step leaves about as many.
_SOME_ITERATIONS = 2


@dataclass(frozen=True)
class Ridge:
    r"""An L2 penalty :math:`\frac12 \sum_k \lambda_{tk} w_{tk}^2` of every task.

    Attributes
    ----------
    strength : (T, 1 or K, q)
        :math:`\lambda`; zero for coordinates that are not penalised.
    free : (T, 1 or K, q) of 0 and 1, or None
        Zero for coordinates that stay zero.
    """

    strength: Array
    free: Array | None = None

    def take(self, tasks: Flags | Indices) -> Ridge:
        """Return the penalty of some tasks."""
        return Ridge(self.strength[tasks], None if self.free is None else self.free[tasks])

    def value(self, coef: Array) -> Array:
        """Penalties (T,) of coefficients (T, K, q)."""
        return 0.5 * _dot(self.strength * coef, coef)

    def like(self, other: Any) -> Ridge:
        """Return the penalty where another array is."""
        return Ridge(like(self.strength, other), like(self.free, other))

    def add_hessian(self, hessian: Array) -> Array:
        """Add the penalty's Hessian to that of the losses, (T, K q, K q)."""
        n_tasks, size, _ = hessian.shape
        shape = (n_tasks, size // self.strength.shape[2], self.strength.shape[2])
        diagonal = np.einsum("tqq->tq", hessian)  # a view
        diagonal += np.broadcast_to(self.strength, shape).reshape(n_tasks, size)
        if self.free is not None:
            held = np.broadcast_to(self.free, shape).reshape(n_tasks, size) == 0.0
            hessian[held[:, :, None] | held[:, None, :]] = 0.0
            diagonal[held] = 1.0
        return hessian

    def add_gradient(self, coef: Array, gradient: Array) -> Array:
        """Add the penalty's gradient to that of the losses, (T, K, q)."""
        gradient += self.strength * coef
        if self.free is not None:
            gradient *= self.free
        return gradient


@dataclass
class CurvaturePairs:
    """The last m steps and gradient changes of every task, in a ring.

    A task keeps its lane for as long as the pairs live. Pairs are in single precision: they only
    shape the metric, and reading them takes the time.
    """

    steps: Any  # (lanes, m, K q)
    changes: Any  # (lanes, m, K q)
    inverse_products: Array  # (lanes, m), zero where there is no usable pair
    newest: int
    hessian: Array  # (lanes, K q, K q) of the losses near by, where `known`; (lanes, 0, 0) for none
    inverse: Array  # of the same with the penalty
    known: Flags  # (lanes,)

    @classmethod
    def empty(
        cls, n_tasks: int, size: int, n_coordinates: int, where: Any = None
    ) -> CurvaturePairs:
        """Room for `size` pairs of every task, in memory or where another array is."""
        where = np.zeros(0) if where is None else where
        shape = (n_tasks, size, n_coordinates)
        steps, changes = (zeros(shape, where, "float32") for _ in range(2))
        none, known = zeros((n_tasks, 0, 0), where), zeros((n_tasks,), where, "bool")
        return cls(steps, changes, zeros((n_tasks, size), where), -1, none, none, known)

    def take(self, lanes: Indices) -> CurvaturePairs:
        """Return a copy with the lanes asked for, in that order."""
        parts = (self.steps[lanes], self.changes[lanes], self.inverse_products[lanes])
        metric = (self.hessian[lanes], self.inverse[lanes], self.known[lanes])
        return CurvaturePairs(*parts, self.newest, *metric)

    def penalised(self, added: Array) -> CurvaturePairs:
        """Return what the pairs would be with `added` (T, 1 or K, q) on top of the penalty.

        A penalty's share of a gradient change is known: its strength times the step.
        """
        n_lanes, n_pairs, _ = self.steps.shape
        moved = self.changes.reshape(n_lanes, n_pairs, -1, added.shape[2])
        steps, added = self.steps.reshape(moved.shape), like(added, self.steps)
        xp = xp_of(self.steps)
        changes, inverse = xp.zeros_like(self.changes), xp.zeros_like(self.inverse_products)
        for slot in np.flatnonzero(host(self.inverse_products).any(axis=0)):
            changes[:, slot] = (moved[:, slot] + added * steps[:, slot]).reshape(n_lanes, -1)
            usable = self.inverse_products[:, slot] > 0
            inverse[:, slot] = _inverse(self.steps[:, slot], changes[:, slot]) * usable
        return replace(self, changes=changes, inverse_products=inverse)

    def start_from(self, lanes: Indices, hessian: Array, ridge: Ridge) -> None:
        """Begin anew in some lanes, from Hessians (t, K q, K q) of the losses there."""
        n_lanes, _, size = self.steps.shape
        if not self.hessian.shape[1]:
            self.hessian, self.inverse = zeros((2, n_lanes, size, size), self.known)
        self.hessian[lanes] = hessian
        self.inverse_products[lanes] = 0.0
        self.invert(lanes, ridge)

    def invert(self, lanes: Indices, ridge: Ridge) -> None:
        """Find the inverses of some lanes' Hessians with a penalty; they are small."""
        here = Ridge(host(ridge.strength), None if ridge.free is None else host(ridge.free))
        whole = here.add_hessian(host(self.hessian[lanes]))
        for lane, own in zip(lanes, whole, strict=True):
            inverse = _inverse_matrix(own)
            self.known[lane] = inverse is not None
            if inverse is not None:
                self.inverse[lane] = like(inverse, self.known)

    def remember(self, lanes: Indices, step: Array, change: Array) -> None:
        """Overwrite the oldest pair of `lanes` by step and change (T, K q)."""
        self.newest = (self.newest + 1) % self.steps.shape[1]
        self.steps[lanes, self.newest] = cast(step, self.steps.dtype)
        self.changes[lanes, self.newest] = cast(change, self.steps.dtype)
        self.inverse_products[:, self.newest] = 0.0
        self.inverse_products[lanes, self.newest] = _inverse(step, change)


def _inverse(step: Any, change: Any) -> Array:
    """One over the product of a step and a change (T, q) of each task; zero where unusable."""
    xp = xp_of(step)
    if xp is np:
        product = np.einsum("tq,tq->t", step, change, dtype=np.float64)
    else:
        product = (step.double() * change).sum(1)
    usable = product > np.finfo(np.float32).tiny
    inverse: Array = usable / xp.where(usable, product, 1.0)
    return inverse


def _inverse_matrix(hessian: Array) -> Array | None:
    """Inverse of a positive definite matrix; None where rounding leaves none."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian * scale[:, None] * scale
    for jitter in _JITTER:
        scaled.flat[:: len(scale) + 1] = 1.0 + jitter
        factor, failed = dpotrf(scaled)
        if not failed:
            upper = np.triu(dpotri(factor, overwrite_c=True)[0])
            whole: Array = (upper + np.triu(upper, 1).T) * scale[:, None] * scale
            return whole
    return None


@dataclass(frozen=True)
class Solution:
    """Where a solver ended.

    Attributes
    ----------
    coef : (T, K, q)
        Where the rows are.
    decrement : (T,)
        Newton decrement at the last look, see `LBFGS`.
    n_iter : (T,)
        Iterations of every task.
    pairs : CurvaturePairs
        What was learned of each task's curvature.
    converged : (T,) of bool
    """

    coef: Array
    decrement: Array
    n_iter: Indices
    pairs: CurvaturePairs
    converged: Any = None


@dataclass(frozen=True)
class LBFGS:
    r"""Limited-memory BFGS over all tasks of an objective in lockstep.

    Minimises :math:`F_t = f_t + \frac12 \|w\|^2_{\lambda_t}` for every task t, until its Newton
    decrement

    .. math:: \delta_t = \bigl(g^\top H^{-1} g\bigr)^{1/2} \le \mathrm{tol}

    with g the gradient of :math:`F_t` and H its Hessian as the quasi-Newton matrix knows it.
    About :math:`\delta^2 / 2` nats separate the objective from its minimum, and the estimate is
    :math:`\delta` of its own standard errors away: the same for a frequent label and a rare one,
    for few rows and many, in whatever units the features are. (A bound on the gradient of the mean
    loss, as scikit-learn has it, is loose for rare labels, whose gradient is small everywhere.)

    The initial Hessian is diagonal in the objective's coordinates, until the iterations that are
    left, at the rate of the last ones, would cost more than the true Hessian; a Newton step begins
    anew there. So narrow designs are solved by a few Newton steps with lagged Hessians, and wide
    ones by L-BFGS. One forward and one transposed
    product serve all tasks in an iteration: a trial step changes the scores linearly, so line
    searches need no product.

    Parameters
    ----------
    tol : float
        Bound on the Newton decrement.
    max_iter : int
        Bound on the number of iterations.
    n_pairs : int
        Number of steps remembered.
    """

    tol: float = 1e-2
    max_iter: int = 1000
    n_pairs: int = 15

    def objective(self, design: Any, loss: Loss, targets: Any, scores: Any) -> RowsObjective:
        """Return the losses of tasks, as exact as the tolerance needs; see `RowsObjective`."""
        design = design.in_single() if self.tol >= _SINGLE else design
        return RowsObjective(design, loss, targets, scores)

    def solve(
        self, objective: Any, ridge: Ridge, start: Array, pairs: CurvaturePairs | None = None
    ) -> Solution:
        """Fit every task from `start` (T, K, q), which the objective begins at too.

        `pairs`, if given, tell the curvature of these tasks near by; they are used up.
        """
        if isinstance(objective.value(), np.ndarray):
            return self._solve(objective, ridge, start, pairs)
        with device.products_for(self.tol):
            return self._solve(objective, ridge, start, pairs)

    def _solve(
        self, objective: Any, ridge: Ridge, start: Array, pairs: CurvaturePairs | None
    ) -> Solution:
        n_tasks, n_scores, n_coordinates = objective.shape
        losses = objective.value()
        xp, size = xp_of(losses), n_scores * n_coordinates
        pairs = pairs or CurvaturePairs.empty(n_tasks, self.n_pairs, size, losses)
        ridge, start = ridge.like(losses), like(start, losses)
        lanes = positions(pairs.known)
        if len(lanes):
            pairs.invert(lanes, ridge.take(lanes))
        task, coef = positions(xp.ones_like(losses)), start
        solution = Solution(
            xp.empty_like(start), np.empty(n_tasks), np.empty(n_tasks, dtype=np.intp), pairs
        )
        done = stalled = xp.zeros_like(losses) > 0
        cost = objective.hessian_cost + _SOME_ITERATIONS
        value = losses + ridge.value(coef)
        gradient = ridge.add_gradient(coef, objective.gradient())
        since, length = xp.zeros_like(losses), xp.ones_like(losses)
        first = since + np.inf
        for iteration in range(self.max_iter + 1):
            check_deadline()
            direction, slope, decrement = _direction(objective, task, ridge, gradient, pairs)
            slow = ~done & (self._iterations_left(decrement, first, since) > cost)
            if slow.any():
                slow &= objective.curved()
            if slow.any():
                at = positions(slow)
                pairs.start_from(task[at], objective.hessian(at), ridge.take(at))
                direction, slope, decrement = _direction(objective, task, ridge, gradient, pairs)
            begun = slow | (since == 0)
            first, since = xp.where(begun, decrement, first), xp.where(slow, 1.0, since + 1.0)
            # steps longer than one show that an old Hessian is too steep by as much
            steep = xp.where(pairs.known[task] & ~slow, length.clip(1.0), 1.0)
            ready = (decrement * steep**0.5 <= self.tol) | stalled | (iteration == self.max_iter)
            leaving = ready & ~done
            solution.coef[task[leaving]] = coef[leaving]
            at = host(task[leaving])
            solution.n_iter[at], solution.decrement[at] = iteration, host(decrement[leaving])
            done = done | ready
            if done.all():
                break
            if done.sum() >= _SHARE_TO_LEAVE * len(done):
                active = ~done
                objective.keep(active)
                task, coef, ridge = task[active], coef[active], ridge.take(active)
                value, gradient, direction = value[active], gradient[active], direction[active]
                slope, since, first = slope[active], since[active], first[active]
                done = done[active]
            known = pairs.known[task]
            point = (coef, direction, slope, value, done, known)
            length, value = _search_line(objective, ridge, *point)
            # where a Newton step leads nowhere, a smaller one along the gradient may lead on
            stalled = (length == 0.0) & ~known
            pairs.known[task[(length == 0.0) & known & ~done]] = False
            step = length[:, None, None] * direction
            coef, previous = coef + step, gradient
            gradient = ridge.add_gradient(coef, objective.gradient())
            pairs.remember(task, _flat(step), _flat(gradient - previous))
        return replace(solution, converged=solution.decrement <= self.tol)

    def _iterations_left(self, decrement: Array, first: Array, since: Array) -> Array:
        """Iterations (T,) to the tolerance, at the rate of those since a first decrement."""
        xp = xp_of(decrement)
        rate = xp.log(first.clip(1e-300) / decrement.clip(1e-300)) / since.clip(1.0)
        left = xp.log((decrement / self.tol).clip(1.0)) / rate.clip(1e-300)
        iterations: Array = xp.where(since >= _SOME_ITERATIONS, left, 0.0)
        return iterations


def _flat(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)


def _dot(left: Array, right: Array) -> Array:
    """Inner product of every task: (T, K, q), (T, K, q) -> (T,)."""
    products: Array = xp_of(left).einsum("tq,tq->t", _flat(left), _flat(right))
    return products


def _direction(
    objective: Any, task: Indices, ridge: Ridge, gradient: Array, pairs: CurvaturePairs
) -> tuple[Array, Array, Array]:
    """Where to go next (T, K, q), the slope there (T,), and the Newton decrement (T,)."""
    # No floor relative to the largest: it would still the coordinates of a narrow feature beside a
    # wide one, and call them converged.
    diagonal = (objective.diagonal() + ridge.strength).clip(1e-300)
    on_host = isinstance(gradient, np.ndarray)
    two_loops = quasi_newton_direction if on_host else device.quasi_newton_direction
    known = (pairs.steps, pairs.changes, pairs.inverse_products, task, pairs.newest)
    flat = two_loops(_flat(gradient), *known, _flat(diagonal), pairs.inverse, pairs.known)
    direction = flat.reshape(gradient.shape)
    slope = _dot(gradient, direction)
    return direction, slope, (-slope).clip(0.0) ** 0.5


def _search_line(
    objective: Any,
    ridge: Ridge,
    coef: Array,
    direction: Array,
    slope: Array,
    value: Array,
    done: Flags,
    known: Flags,
) -> tuple[Array, Array]:
    """Lengths (T,) and values (T,) where the objective has decreased.

    The length is zero for tasks that are done and for those that cannot move.
    """
    xp, (curvature, farthest) = xp_of(direction), objective.along(direction)
    curvature = curvature + _dot(ridge.strength * direction, direction)
    # Where the objective is nearly quadratic this is the exact minimum along the line. Rows far out
    # bound a step by a metric that does not know them, not a Newton step.
    length = -slope / curvature.clip(1e-300)
    length = xp.where(known, length, xp.minimum(length, farthest))
    length[done] = 0.0
    noise = objective.noise * abs(value)
    for _ in range(_MOST_HALVINGS):
        losses = objective.move(length)
        new = losses + ridge.value(coef + length[:, None, None] * direction)
        enough = done | (new <= value + _SUFFICIENT_DECREASE * length * slope + noise)
        if enough.all():
            return length, xp.where(done, value, new)
        length = xp.where(enough, length, 0.5 * length)
    length = xp.where(enough, length, 0.0)
    objective.move(length)
    return length, xp.where(enough & ~done, new, value)
