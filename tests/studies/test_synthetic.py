"""The synthetic problems of the MLCRF paper follow their rules."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.tables import TableError
from studies.datasets import SYNTHETIC_GRAPHS, make_synthetic


class TestSynthetic:
    def test_shapes_range_and_seed(self):
        for kind in SYNTHETIC_GRAPHS:
            a, b = (make_synthetic(kind, random_state=3) for _ in range(2))
            assert a.X.shape == (500, 6)
            assert a.Y.shape == (500, 3)
            assert np.abs(a.X).max() <= 1
            np.testing.assert_array_equal(a.Y, b.Y)
            assert set(a.Y.ravel()) == {0, 1}
            assert not np.array_equal(a.Y, make_synthetic(kind, random_state=4).Y)

    def test_sd1_labels_follow_their_own_features(self):
        data = make_synthetic("SD1", 20000, random_state=0)
        for label, (slope, first) in enumerate(((1, 0), (3, 2), (5, 4))):
            mean = 1 / (1 + np.exp(-slope * (data.X[:, first] + data.X[:, first + 1])))
            residual = data.Y[:, label] - mean
            assert abs(residual.mean()) < 0.02
            # No other feature explains what is left.
            assert np.abs(residual @ data.X / len(residual)).max() < 0.02

    def test_sd2_excludes_both_and_splits_evenly(self):
        Y = make_synthetic("SD2", 20000, random_state=0).Y
        assert not (Y[:, 0] & Y[:, 1]).any()
        assert Y[:, 0].mean() == pytest.approx(0.25, abs=0.02)
        assert Y[:, 1].mean() == pytest.approx(0.25, abs=0.02)

    def test_sd3_is_not_and(self):
        Y = make_synthetic("SD3", 2000, random_state=0).Y
        np.testing.assert_array_equal(Y[:, 2], 1 - (Y[:, 0] & Y[:, 1]))

    def test_sd4_has_at_most_one_label(self):
        data = make_synthetic("SD4", 20000, random_state=0)
        assert set(data.Y.sum(axis=1)) == {0, 1}
        # z = 1 (no label) has probability sigmoid(x1 + x2): more likely for large x1 + x2.
        none = data.Y.sum(axis=1) == 0
        assert data.X[none, :2].sum(axis=1).mean() > data.X[~none, :2].sum(axis=1).mean() + 0.3
        np.testing.assert_allclose(data.Y[~none].mean(axis=0), 1 / 3, atol=0.02)

    def test_refuses(self):
        with pytest.raises(TableError, match="SD5"):
            make_synthetic("SD5")
        with pytest.raises(TableError, match="at least one row"):
            make_synthetic("SD1", 0)
