"""Measures that only papers have, by hand and against loops."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CTBN, ClassifierChain
from colabel.comparing import Ask, Task, answer, learn
from studies.datasets import load_digit_traits, make_synthetic
from studies.measures import MEASURES, true_graph

TRAIN, TEST = np.arange(200), np.arange(200, 300)
ASK = Ask(marginals=False, confidence=False, joint=True)


@pytest.fixture
def data():
    return load_digit_traits()


@pytest.fixture
def task(data):
    return Task.of(data.X[:300], data.Y[:300], data.label_names)


def test_a_greedy_chain_by_the_labels_it_predicts(task, data):
    """Against a loop over the links: each label given x and the labels predicted before it."""
    fitted, _ = learn(ClassifierChain(C=0.1, random_state=0), task, TRAIN)
    found = answer(fitted, task, TEST, ASK)
    links = fitted.joint(data.X[TEST]).links
    expected = np.zeros(len(TEST))
    for row, true in enumerate(data.Y[TEST]):
        predicted = []
        for label in range(data.Y.shape[1]):
            table = links.log_prob(np.array([row]), np.array([predicted], dtype=np.int32))[0]
            expected[row] += table[true[label]]
            predicted.append(int(table[1] > table[0]))
    loss = MEASURES["path_log_loss_sum_per_fold"].take(found)
    assert loss == pytest.approx(-expected.sum())
    assert loss > MEASURES["log_loss_sum_per_fold"].take(found)
    tree = answer(learn(CTBN(C=0.1, random_state=0), task, TRAIN)[0], task, TEST, ASK)
    same = [
        MEASURES[name].take(tree) for name in MEASURES if name.endswith("log_loss_sum_per_fold")
    ]
    assert same == [pytest.approx(-tree.log_prob.sum())] * 2  # others have but one


def test_a_graph_is_the_true_one_or_not(task):
    problem = make_synthetic("SD1", 500, 0)
    own = Task.of(problem.X, problem.Y, problem.label_names)
    rows = np.arange(500)
    found = answer(learn(CTBN(C=1.0, random_state=0), own, rows)[0], own, rows, ASK)
    assert true_graph(found, "SD1") in (0.0, 1.0)
    assert np.isnan(true_graph(found, "digit_traits"))
