"""A penalty is not chosen by rows that say nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CTBN, BinaryRelevance, ClassifierChain
from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.path import best_points
from tests.learn.glm.oracle import Tasks, held_out_path

GRID = (0.001, 0.1, 10.0, 1000.0)
N = 100


@pytest.fixture(name="X")
def many_words(rng):
    return (rng.random((N, 80)) < 0.1).astype(float)


@pytest.mark.parametrize("cv", [5, 0.33])
@pytest.mark.parametrize("model", [BinaryRelevance, CTBN, ClassifierChain])
def test_a_single_positive_row_does_not_ask_for_the_weakest_penalty(X, model, cv):
    """Of the rows that are held out by models that know of it, none has it: the surest won."""
    Y = np.column_stack([np.arange(N) == 7, X[:, 0] > 0]).astype(int)
    prob = model(C=GRID, cv=cv, random_state=0).fit(X, Y).predict_proba(X)[:, 0]
    assert prob.max() < 0.1


def test_which_tasks_held_out_rows_tell_of(X):
    folds = np.arange(N) % 5
    targets = np.zeros((6, N), dtype=np.int16)
    targets[0, 7] = 1  # in a single fold: no model that knows of it scores it
    targets[1, [2, 7]] = 1  # both in the same fold
    targets[2, [7, 8]] = 1
    targets[3, 50:] = 1
    targets[5, ::2] = -1
    held_out = held_out_path(
        Design.of(X).block(), Tasks(targets, 2), np.array(GRID), folds, 5, LBFGS()
    )
    assert held_out.informed.tolist() == [False, False, True, True, True, True]
    best = best_points(held_out.total, np.array(GRID), held_out.informed)
    assert best[:2].tolist() == [0, 0]
    assert held_out.total[:, 0].argmax() > 0  # what it would have been


def test_two_of_three_classes_tell_enough(X):
    targets = (X[:, 0] > 0).astype(np.int16)[None]
    targets[0, 7] = 2
    held_out = held_out_path(
        Design.of(X).block(), Tasks(targets, 3), np.array(GRID), np.arange(N) % 5, 5, LBFGS()
    )
    assert held_out.informed.all()


def test_weights_of_zero_tell_nothing(X):
    targets = np.zeros((1, N), dtype=np.int16)
    targets[0, [7, 8]] = 1
    weight = np.where(np.arange(N) == 8, 0.0, 1.0)
    design = Design.of(X, weight).block()
    held_out = held_out_path(
        design, Tasks(targets, 2), np.array(GRID), np.arange(N) % 5, 5, LBFGS()
    )
    assert not held_out.informed.any()
