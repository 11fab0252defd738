"""Every transformer, before a model, comes back from a file as it was."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import colabel
from colabel import BinaryRelevance, BoostedFeatures, ForestFeatures, KernelFeatures, SplineFeatures
from colabel.preprocess import FeatureBins

TRANSFORMERS = [
    FeatureBins(),
    SplineFeatures(),
    KernelFeatures(1.0, 10, random_state=0),
    KernelFeatures(random_state=0),
    ForestFeatures(20, random_state=0),
    ForestFeatures(20, cv=3, passthrough=True, random_state=0),
    BoostedFeatures(10, random_state=0),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_saved_and_loaded(transformer, rng, tmp_path):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    Y = (X[["a", "b"]].to_numpy() ** 2 > 0.5).astype(int)
    model = make_pipeline(transformer, BinaryRelevance(C=1.0)).set_output(transform="pandas")
    colabel.save(model.fit(X, Y), tmp_path / "model.colabel")
    again = colabel.load(tmp_path / "model.colabel")
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again[0].transform(X), model[0].transform(X))
    for own in (again, model):
        assert list(own[0].get_feature_names_out()) == list(model[0].transform(X).columns)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_process_that_knows_nothing_loads_a_pipeline(rng, tmp_path):
    X = rng.normal(size=(60, 2))
    model = make_pipeline(KernelFeatures(1.0, 10, random_state=0), BinaryRelevance(C=1.0))
    colabel.save(model.fit(X, (X > 0).astype(int)), tmp_path / "model.colabel")
    code = "import sys, colabel; print(type(colabel.load(sys.argv[1])[0]).__name__)"
    command = [sys.executable, "-c", code, str(tmp_path / "model.colabel")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "KernelFeatures"
