"""The objective and the solver on a device against those in memory, on torch's CPU device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.design import Design, linear_scores
from colabel.learn.glm import LBFGS, Ridge, RowsObjective, Tasks, fit_tasks, loss_for
from colabel.learn.glm.device import DeviceLBFGS, TorchObjective, kernels, objective, solver
from colabel.learn.glm.device.solver import matrix_of
from tests.learn.glm.oracle import softmax_targets
from tests.learn.glm.shapes import features, weights

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

N_ROWS, N_TASKS = 70, 3


@pytest.fixture(params=[2, 3], ids=["logistic", "softmax"])
def n_classes(request):
    return request.param


@pytest.fixture
def problem(rng, device_store, weighted, n_classes):
    """A design, its tasks' targets and scores to begin with."""
    X = features(rng, N_ROWS, 4)
    design = Design.of(device_store(X), weights(rng, N_ROWS, weighted))
    targets = softmax_targets(rng, X, N_TASKS, n_classes)
    targets[rng.random(targets.shape) < 0.2] = -1
    scores = rng.normal(size=(N_TASKS, loss_for(n_classes).n_scores, N_ROWS))
    return design, targets, scores


def on_device(design, targets, scores):
    """The same in double precision on torch's CPU device."""
    weight = np.ones(N_ROWS) if design.weight is None else design.weight
    matrix = matrix_of(design, "cpu")
    rows = matrix.one_block(None, torch.tensor(weight)).double()
    padded = rows.n_rows - N_ROWS
    targets = torch.nn.functional.pad(torch.tensor(targets), (0, padded), value=-1)
    scores = torch.nn.functional.pad(torch.tensor(scores), (0, padded))
    return TorchObjective(rows, targets[None], scores[None])


def test_all_that_an_objective_says_is_that_of_rows_in_memory(rng, problem, n_classes):
    design, targets, scores = problem
    ours = RowsObjective(design, loss_for(n_classes), targets, scores.copy())
    theirs = on_device(design, targets, scores)
    q = design.n_coordinates
    direction = rng.normal(size=ours.shape)
    length = rng.random(N_TASKS)

    def close(one, two):
        # the rows come to the device in single precision
        np.testing.assert_allclose(one, np.asarray(two)[0], rtol=2e-5, atol=2e-5)

    def compare():
        close(ours.value(), theirs.value())
        close(ours.gradient(), theirs.gradient()[..., :q])
        close(ours.diagonal(), theirs.diagonal()[..., :q])

    compare()
    wide = np.zeros((1, *direction.shape[:2], theirs.shape[3]))
    wide[0, ..., :q] = direction
    line = theirs.along(torch.tensor(wide))
    close(ours.along(direction).curvature, line.curvature)
    close(ours.move(length), theirs.move(torch.tensor(length)[None]))
    close(ours.move(0.5 * length), theirs.move(torch.tensor(0.5 * length)[None]))
    compare()
    left = np.array([True, False, True])
    ours.keep(left)
    theirs.keep(torch.tensor(np.flatnonzero(left)), 1)
    compare()


@pytest.mark.parametrize("tol", [1e-6, 1e-2])
def test_solutions_are_those_of_the_compiled_kernels(rng, problem, n_classes, tol, monkeypatch):
    monkeypatch.setattr(solver, "LEAST_WORK", 0)
    design, targets, scores = problem
    loss = loss_for(n_classes)
    shape = (N_TASKS, loss.n_scores, design.n_coordinates)
    strength = np.full((N_TASKS, 1, shape[2]), 0.3)
    strength[:, :, -1] = 0.0
    free = np.ones(strength.shape)
    free[0, :, 1] = 0.0  # one task must do without a coordinate

    def at(coef, ridge):
        there = scores + design.scores(coef.reshape(-1, shape[2])).reshape(scores.shape)
        return RowsObjective(design, loss, targets, there).value() + ridge.value(coef)

    for own in (None, free):
        ridge, start = Ridge(strength, own), np.zeros(shape)
        ours, theirs = (
            one.solve(one.objective(design, loss, targets, scores.copy()), ridge, start)
            for one in (LBFGS(tol=1e-9), DeviceLBFGS(tol=tol, device="cpu"))
        )
        assert theirs.converged.all()
        assert (theirs.n_iter > 0).all()
        # Half the square of the Newton decrement, which is an estimate at loose tolerances.
        excess = at(theirs.coef, ridge) - at(ours.coef, ridge)
        assert (excess < 10 * tol**2 + 1e-9).all()


def test_small_blocks_stay_on_the_processor(problem, n_classes):
    design, targets, scores = problem
    asked = DeviceLBFGS(device="cpu").objective(design, loss_for(n_classes), targets, scores)
    assert isinstance(asked, RowsObjective)


def test_offsets_and_absent_classes_are_kept(rng, monkeypatch):
    monkeypatch.setattr(solver, "LEAST_WORK", 0)
    X = features(rng, N_ROWS, 4)
    design = Design.of(sp.csr_array(X))
    targets = softmax_targets(rng, X, N_TASKS, 4)
    targets[0][targets[0] == 2] = 1  # a class no row of the first task has
    offset = rng.normal(size=(N_TASKS, 4, N_ROWS))
    base = np.zeros((N_TASKS, 4, 5))
    for tasks, of in (
        (Tasks(targets, 4), None),
        (Tasks(targets, 4, offset=offset, base=np.arange(N_TASKS)), base),
    ):
        ours, theirs = (
            fit_tasks(design, tasks, np.full(N_TASKS, 0.5), one, of)
            for one in (LBFGS(tol=1e-8), DeviceLBFGS(tol=1e-8, device="cpu"))
        )
        np.testing.assert_array_equal(ours.floor, theirs.floor)
        loss = loss_for(4)
        one, two = (model.log_prob(loss, linear_scores(X, model.coef)) for model in (ours, theirs))
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("shape", [(1, 7, 1500, 64), (3, 4, 64, 1056)])
def test_fused_passes_say_what_torch_says(shape):
    blocks, n_tasks, n_rows, width = shape
    torch.manual_seed(0)
    scores, change = torch.randn((2, blocks, n_tasks, 1, n_rows), device="cuda")
    steps = torch.rand((blocks, n_tasks), device="cuda")
    targets = torch.randint(-1, 2, (blocks, n_tasks, n_rows), device="cuda", dtype=torch.int8)
    weight = torch.rand((blocks, 1, n_rows), device="cuda")
    plain = objective.logistic_move(scores.clone(), change, steps, targets, weight)
    fused = kernels.logistic_move(scores.clone(), change, steps, targets, weight)
    plain += objective.logistic_along(plain[1], change, targets, weight)
    fused += kernels.logistic_along(fused[1], change, targets, weight)
    pairs = torch.randn((2, 5, blocks, n_tasks, 1, width), device="cuda")
    pairs[1] = 0.1 * pairs[1] + pairs[0]
    inverse = 1.0 / (pairs[0] * pairs[1]).sum(dim=(3, 4))
    gradient, diagonal = torch.rand((2, blocks, n_tasks, 1, width), device="cuda") + 0.5
    for newest, n_filled in ((1, 2), (3, 5), (-1, 0)):
        known = (gradient, diagonal, *pairs, inverse, newest, n_filled)
        plain, fused = (*plain, solver.direction(*known)), (*fused, kernels.direction(*known))
    for one, two in zip(plain, fused, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
