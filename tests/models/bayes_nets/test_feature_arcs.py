"""Parents of features by score, against counting row by row."""

from __future__ import annotations

import itertools
from math import lgamma, log

import numpy as np
import pytest

from colabel.joint.lds import FeatureColumns
from colabel.models.bayes_nets import choose_label_parents, label_state
from colabel.models.lds.learning import LabelledCounts

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
def test_no_set_of_labels_scores_better(rng, kind, max_parents):
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
    counts = LabelledCounts.of(labels, features, columns, None)
    found = choose_label_parents(
        counts.vectors,
        counts.values,
        columns,
        SIZES,
        max_parents=max_parents,
        score=kind,
        equivalent_sample_size=2.0,
    )
    for j, parents in enumerate(found):
        scores = {
            each: slow_score(labels, features[:, j], each, N_VALUES[j], kind, 2.0)
            for size in range(max_parents + 1)
            for each in itertools.combinations(range(4), size)
        }
        assert scores[parents] == pytest.approx(max(scores.values()))
    if max_parents >= 2:
        assert found[0] == (0, 1)
        assert found[1] == (2,)
        assert found[2] == ()


def test_states_number_the_values_of_some_labels():
    codes = np.array([[1, 2, 0, 1]])
    assert label_state(codes, (0, 1), SIZES)[0].tolist() == [5]
    assert label_state(codes, (0, 1), SIZES)[1] == 6
    assert label_state(codes, (), SIZES)[0].tolist() == [0]
