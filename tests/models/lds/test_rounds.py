"""The outer loop of learning (Figure 4) and inference on training rows (Figure 5)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from colabel.joint.lds.network import FeatureColumns
from colabel.models.lds.learning import (
    EMOptions,
    TrainingRows,
    infer_labels,
    learn_network,
    options_scorer,
    performance,
)
from tests.joint.lds.oracle import draw_rows, random_network

PARENTS = ((), (0,), (1,), (2,))
EMPTY = ((), (), (), ())
STAR = ((), (0,), (0,), (0,))


@pytest.fixture
def rows(rng):
    network = random_network(rng, PARENTS, (2,) * 4, (3, 4, 2), 10, sharpness=0.5)
    labels, features = draw_rows(network, 120, rng)
    return TrainingRows(labels, (2,) * 4, features, FeatureColumns((3, 4, 2)), np.ones(120))


class Structures:
    """Hands out networks one after the other and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, labels, weight):
        self.asked.append(labels.copy())
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def test_a_set_is_only_updated_if_the_training_labels_come_out_better(rows):
    network = learn_network(rows, Structures(PARENTS), EMOptions(), max_rounds=0)[0]
    start = np.zeros_like(rows.labels)
    found, score = infer_labels(network, rows, start, "hamming", None)
    # the same by hand, one set after the other
    codes, best, improved = start, (rows.labels == start).mean(), True
    while improved:
        improved = False
        for k in range(4):
            proposed = network.ascend(rows.features, codes, sets=[k], max_sweeps=1)
            if (rows.labels == proposed).mean() > best:
                codes, best, improved = proposed, (rows.labels == proposed).mean(), True
    np.testing.assert_array_equal(found, codes)
    assert score == pytest.approx(best)
    assert score > (rows.labels == start).mean()


def test_networks_come_from_training_labels_and_then_from_inferred_ones(rows):
    structures = Structures(EMPTY, PARENTS, STAR)
    _, _, scores = learn_network(rows, structures, EMOptions(), max_rounds=2)
    np.testing.assert_array_equal(structures.asked[0], rows.labels)
    first = learn_network(rows, Structures(EMPTY), EMOptions(), max_rounds=0)[0]
    inferred, score = infer_labels(first, rows, np.zeros_like(rows.labels), "hamming", None)
    np.testing.assert_array_equal(structures.asked[1], inferred)
    assert scores[0] == pytest.approx(score)


def test_a_round_that_does_not_improve_is_the_last_and_is_undone(rows):
    # inference on training rows never falls, so rounds end when nothing improves any more
    structures = Structures(PARENTS, EMPTY, STAR, PARENTS, EMPTY, STAR, PARENTS)
    network, _, scores = learn_network(rows, structures, EMOptions(), max_rounds=50)
    assert len(structures.asked) == len(scores)
    assert all(later > earlier for earlier, later in itertools.pairwise(scores[:-1]))
    assert scores[-1] <= scores[-2]
    kept = structures.answers[min(len(scores) - 1, 7) - 1]
    assert network.sets.parents == kept


def test_the_same_network_again_ends_the_rounds(rows):
    structures = Structures(PARENTS, PARENTS)
    _, _, scores = learn_network(rows, structures, EMOptions(), max_rounds=10)
    assert len(structures.asked) == 2
    assert len(scores) == 1


def test_rounds_can_be_limited(rows):
    _, _, scores = learn_network(rows, Structures(EMPTY, PARENTS, STAR), EMOptions(), max_rounds=1)
    assert 1 <= len(scores) <= 2
    none = learn_network(rows, Structures(EMPTY), EMOptions(), max_rounds=0)
    assert none[2] == ()


def test_performance_is_weighted(rows):
    inferred = rows.labels.copy()
    inferred[0] = 1 - inferred[0]
    assert performance(rows, inferred, "hamming") == pytest.approx(119 / 120)
    heavy = replace(rows, weight=np.where(np.arange(120) == 0, 120.0, 1.0))
    assert performance(heavy, inferred, "hamming") == pytest.approx(119 / 239)
    assert performance(rows, rows.labels, "f1") == pytest.approx(1.0)
    assert performance(rows, inferred, "f1") < 1.0


def test_weightless_rows_take_no_part(rows):
    weight = np.ones(120)
    weight[10:30] = 0.0
    structures = Structures(PARENTS, STAR)
    learn_network(replace(rows, weight=weight), structures, EMOptions())
    np.testing.assert_array_equal(structures.asked[0], rows.labels[weight > 0])


def test_the_f1_score_can_drive_the_rounds(rows):
    network, _, scores = learn_network(
        rows, Structures(EMPTY, PARENTS), EMOptions(), criterion="f1"
    )
    network = learn_network(rows, Structures(EMPTY), EMOptions(), max_rounds=0)[0]
    _, score = infer_labels(network, rows, np.zeros_like(rows.labels), "f1", None)
    assert scores[0] == pytest.approx(score)


def test_held_out_labels_are_scored_by_a_model_that_has_not_seen_them(rows):
    """Moving the labels of the row held out moves its own score and no parameter."""
    grid = [EMOptions(smoothing=0.1), EMOptions(smoothing=1.0)]
    scorer = options_scorer(rows, Structures(PARENTS), grid)
    left = np.ones(120)
    left[:3] = 0.0
    held_out = np.arange(3)
    scores = scorer(left, held_out)
    assert scores.shape == (2, 3)
    assert (scores <= 1e-12).all()
    other = rows.labels.copy()
    other[0] = 1 - other[0]
    moved = options_scorer(replace(rows, labels=other), Structures(PARENTS), grid)(left, held_out)
    np.testing.assert_array_equal(moved[:, 1:], scores[:, 1:])
    assert (moved[:, 0] != scores[:, 0]).all()
