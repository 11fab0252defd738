"""Warnings name the user's line."""

from __future__ import annotations

import numpy as np
import pytest

import colabel

ALONE = colabel.BinaryRelevance(C=1.0)
FOREST = colabel.JointForest(5, random_state=0)


@pytest.mark.parametrize(
    "model", [ALONE, FOREST, colabel.JointStack([ALONE, FOREST], cv=2), colabel.MLkNN(k=100)]
)
def test_fit_warns_where_it_was_called(rng, model):
    X, Y = rng.normal(size=(40, 2)), rng.integers(2, size=(40, 2)).astype(float)
    Y[:5] = np.nan
    with pytest.warns(UserWarning, match="no known label") as caught:
        model.fit(X, Y)
    assert {each.filename for each in caught} == {__file__}


def test_conformal_sets_warn_where_they_were_asked(rng):
    X, Y = rng.normal(size=(40, 2)), rng.integers(2, size=(40, 2)).astype(float)
    Y[::2, 0] = np.nan
    model = colabel.ConformalSets(ALONE, coverage=0.6)
    with pytest.warns(UserWarning, match="lack some label") as caught:
        model.fit(X, Y)
    with pytest.warns(UserWarning, match="held out: a coverage of") as also:
        model.predict_sets(X, coverage=0.999)
    assert {each.filename for each in (*caught, *also)} == {__file__}
