"""Folds for several labels: what they promise, over random labels, groups and times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, cross_val_score

from colabel import BinaryRelevance
from colabel.model_selection import LabelKFold, TimeFolds


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_each_row_is_tested_once_and_rare_labels_are_spread(seed, n_splits):
    rng = np.random.default_rng(seed)
    Y = (rng.random((60, 4)) < [0.1, 0.3, 0.5, 0.9]).astype(int)
    folds = list(LabelKFold(n_splits, random_state=seed).split(None, Y))
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(60))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(60))
    rarest = int(np.argmin(Y.sum(axis=0)))
    shares = [Y[test, rarest].sum() for _, test in folds]
    assert max(shares) - min(shares) <= 1


@given(st.integers(0, 10_000))
def test_groups_stay_together_and_labels_are_still_spread(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 40, size=200)
    Y = (rng.random((200, 3)) < 0.3).astype(int)
    folds = list(LabelKFold(4, random_state=0).split(None, Y, groups))
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 25
    ours = np.ptp([Y[test].sum(axis=0) for _, test in folds], axis=0).mean()
    by_chance = []
    for _ in range(20):
        fold_of = rng.permutation(np.arange(40) % 4)[groups]
        by_chance.append(np.ptp([Y[fold_of == k].sum(axis=0) for k in range(4)], axis=0).mean())
    assert ours < np.mean(by_chance)


@pytest.mark.parametrize(
    "y",
    [
        [{"a", "b"}, {"a"}, set(), {"b"}] * 5,
        np.array([["x", "p"], ["y", "q"], ["z", "p"], ["x", "q"]] * 5),
        np.array([[0, 1], [1, np.nan], [np.nan, 0], [1, 1]] * 5),
    ],
)
def test_any_form_of_labels(y):
    assert sum(len(test) for _, test in LabelKFold(4, random_state=0).split(y, y)) == 20


@given(st.lists(st.integers(0, 12), min_size=8, max_size=60), st.integers(1, 5))
def test_the_future_is_never_in_training(times, n_splits):
    times = np.array(times)
    if n_splits >= len(np.unique(times)):
        with pytest.raises(ValueError, match="different times"):
            list(TimeFolds(times, n_splits).split())
        return
    folds = list(TimeFolds(times, n_splits).split())
    assert len(folds) == n_splits
    for train, test in folds:
        assert len(train)
        assert len(test)
        assert times[train].max() < times[test].min()
    assert len(np.unique(np.concatenate([test for _, test in folds]))) == sum(
        len(test) for _, test in folds
    )


def test_they_go_where_scikit_learn_takes_cv(rng):
    X = rng.normal(size=(60, 3))
    Y = (X[:, :2] + rng.normal(size=(60, 2)) > 0).astype(int)
    groups = np.repeat(np.arange(20), 3)
    for cv, n_folds in ((LabelKFold(3, random_state=0), 3), (TimeFolds(X[:, 2], 2), 2)):
        expected = [
            BinaryRelevance(C=1.0).fit(X[train], Y[train]).score(X[test], Y[test])
            for train, test in cv.split(X, Y)
        ]
        assert len(expected) == n_folds
        np.testing.assert_allclose(cross_val_score(BinaryRelevance(C=1.0), X, Y, cv=cv), expected)
    search = GridSearchCV(BinaryRelevance(), {"C": [0.1, 1.0]}, cv=LabelKFold(3, random_state=0))
    search.fit(X, Y, groups=groups)
    scores = [
        [
            BinaryRelevance(C=C).fit(X[train], Y[train]).score(X[test], Y[test])
            for train, test in LabelKFold(3, random_state=0).split(X, Y, groups)
        ]
        for C in (0.1, 1.0)
    ]
    assert search.best_score_ == pytest.approx(np.mean(scores, axis=1).max())


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (lambda: LabelKFold(3).split(np.zeros((5, 1))), "needs y"),
        (lambda: LabelKFold(9).split(None, np.eye(5, dtype=int)), "5 rows into 9 folds"),
        (lambda: LabelKFold(3).split(None, np.eye(5, dtype=int), [1, 1, 2, 2, 1]), "2 groups"),
        (lambda: LabelKFold(2).split(None, np.eye(5, dtype=int), [1, 2]), "2 entries for 5 rows"),
    ],
)
def test_what_cannot_be_split_is_said(split, said):
    with pytest.raises(ValueError, match=said):
        list(split())
