"""Explanations of a row, held to enumeration of all label vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel import CDN, CTBN
from colabel.report import explain_row


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(90, 2))
    Y = np.zeros((90, 4), dtype=int)
    for i in range(4):
        before = 2 * Y[:, i - 1] - 1 if i else 0
        Y[:, i] = X[:, i % 2] + before + rng.normal(size=90) > 0
    return X, Y


def table_of(joint, row):
    """P of every vector of a row."""
    vectors = list(itertools.product(*map(range, joint.space.cardinalities)))
    prob = [float(np.exp(joint[row].log_prob_codes(np.array([v], np.int32))[0])) for v in vectors]
    return dict(zip(vectors, prob, strict=True))


@pytest.mark.parametrize("row", [0, 7, 23])
def test_against_enumeration(rows, row):
    joint = CTBN(C=1.0, random_state=0).fit(*rows).joint(rows[0])
    why = explain_row(joint, row)
    every = table_of(joint, row)
    ordered = sorted(every, key=lambda v: -every[v])
    assert why.best.codes == ordered[0]
    assert why.best.prob == pytest.approx(every[ordered[0]])
    assert [s.codes for s in why.runners_up] == ordered[1:4]

    def share(**fixed):
        return sum(p for v, p in every.items() if all(v[int(i[1:])] == c for i, c in fixed.items()))

    best = why.best.codes
    alone = [share(**{f"_{i}": best[i]}) for i in range(4)]
    np.testing.assert_allclose(why.alone, alone)
    assert why.prob_if_independent == pytest.approx(np.prod(alone))
    for pair in why.lifts:
        i, j = pair.labels
        both = share(**{f"_{i}": best[i], f"_{j}": best[j]})
        assert pair.lift == pytest.approx(both / (alone[i] * alone[j]))
        assert pair.lift >= 1.05
    assert len(why.counterfactuals) == 4
    for one in why.counterfactuals:
        assert one.value == 1 - best[one.label]
        possible = {v: p for v, p in every.items() if v[one.label] == one.value}
        then = max(possible, key=possible.get)
        assert one.answer.codes == then
        assert one.prob == pytest.approx(sum(possible.values()))
        assert one.answer.prob == pytest.approx(possible[then] / sum(possible.values()))
        others = tuple(i for i in range(4) if i != one.label and then[i] != best[i])
        assert one.changed == others
    expected = [s.prob * len(s.changed) for s in why.counterfactuals]
    assert expected == sorted(expected, reverse=True)


def test_joints_without_closed_forms(rows):
    X, Y = rows
    joint = CDN(C=1.0, random_state=0).fit(X, Y).joint(X[:3])
    why = explain_row(joint, 1)
    assert not why.exact
    assert why.to_dict()["how"] == joint.how
    assert len(why.lifts)
    assert all(1.05 <= pair.lift < 10 for pair in why.lifts)


def test_class_variables(rows):
    X, Y = rows
    sizes = np.column_stack([np.where(Y[:, 0], "big", "small"), Y[:, 1:].sum(axis=1)])
    model = CTBN(C=1.0, random_state=0).fit(X, sizes, label_names=["size", "count"])
    why = explain_row(model.joint(X), 0)
    assert why.named(why.best.codes).startswith("size=")
    assert len(why.counterfactuals) >= 3  # one other size, and the other counts
