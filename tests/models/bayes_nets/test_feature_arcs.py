"""Parents of features by score, against counting row by row."""

from __future__ import annotations

import itertools
from math import lgamma, log

import numpy as np
import pytest

from colabel import BayesNetEnsemble
from colabel.joint.lds.network import FeatureColumns
from colabel.learn.structure.bayes_network import label_state, parent_set_scores
from colabel.models.lds.learning import TrainingRows

SIZES, N_VALUES = (2, 3, 2, 2), (3, 2, 4)


def slow_score(labels, feature, parents, n_values, kind, weight):
    """BDeu or BIC of one feature, from a dictionary of counts."""
    states = list(itertools.product(*(range(SIZES[i]) for i in parents)))
    counts = {s: [0] * n_values for s in states}
    for y, v in zip(labels, feature, strict=True):
        counts[tuple(int(y[i]) for i in parents)][v] += 1
    total = 0.0
    for row in counts.values():
        if kind == "bdeu":
            a = weight / len(states)
            total += lgamma(a) - lgamma(a + sum(row))
            total += sum(lgamma(a / n_values + n) - lgamma(a / n_values) for n in row)
        else:
            total += sum(n * log(n / sum(row)) for n in row if n)
    if kind == "bic":
        total -= len(states) * (n_values - 1) / 2 * log(len(labels))
    return total


@pytest.mark.parametrize("kind", ["bdeu", "bic"])
@pytest.mark.parametrize("max_parents", [0, 1, 2, 3])
def test_scores_of_sets_of_labels(rng, kind, max_parents):
    labels = np.stack([rng.integers(0, k, 150) for k in SIZES], axis=1).astype(np.int32)
    features = np.stack(
        [
            (labels[:, 0] + labels[:, 1] + (rng.random(150) < 0.1)) % 3,
            (labels[:, 2] ^ (rng.random(150) < 0.2)).astype(int),
            rng.integers(0, 4, 150),
        ],
        axis=1,
    ).astype(np.int32)
    columns = FeatureColumns(N_VALUES)
    vectors, _, values = TrainingRows(labels, SIZES, features, columns, np.ones(150)).counts
    found = parent_set_scores(
        vectors,
        SIZES,
        values,
        columns,
        max_parents=max_parents,
        score=kind,
        equivalent_sample_size=2.0,
    )
    sets = []
    for parents, scores in found:
        sets.append(parents)
        for j in range(3):
            slow = slow_score(labels, features[:, j], parents, N_VALUES[j], kind, 2.0)
            assert scores[j] == pytest.approx(slow)
    assert sets == [
        each for size in range(max_parents + 1) for each in itertools.combinations(range(4), size)
    ]
    if max_parents >= 2:
        model = BayesNetEnsemble(None, arc_score=kind, smoothing=1.0, max_parents=max_parents)
        assert model.fit(features, labels).feature_parents_ == ((0, 1), (2,), ())


def test_states_number_the_values_of_some_labels():
    codes = np.array([[1, 2, 0, 1]])
    assert label_state(codes, (0, 1), SIZES)[0].tolist() == [5]
    assert label_state(codes, (0, 1), SIZES)[1] == 6
    assert label_state(codes, (), SIZES)[0].tolist() == [0]
