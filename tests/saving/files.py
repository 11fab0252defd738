"""Model files to attack: one of every type, and ways to change them."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

import colabel
from colabel.saving import ModelFileError
from colabel.tables import Frame, TableModel, choose_columns, read_labels

N_ROWS, N_FEATURES = 40, 3


def rows(kind: str = "dense") -> Any:
    """Features (40, 3)."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
    return sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0)) if kind == "sparse" else X


def labels(kind: str = "binary") -> Any:
    """Labels (40, 3) of two values, or of three and two."""
    rng = np.random.default_rng(1)
    Y = (rows() @ rng.normal(size=(3, 3)) + rng.normal(size=(N_ROWS, 3)) > 0).astype(int)
    return Y if kind == "binary" else np.column_stack([Y[:, 0] + Y[:, 1], Y[:, 2]])


def frame() -> Frame:
    """A table with numbers, categories, texts and tags."""
    rng = np.random.default_rng(2)
    size = np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60))
    return Frame.of(
        {
            "size": size,
            "weight": rng.normal(size=60),
            "colour": rng.choice(["red", "green", "blue"], 60),
            "note": [f"a note about {rng.choice(['wood', 'iron'])} no {i}" for i in range(60)],
            "tags": rng.choice(["a", "a;b", "b;c"], 60),
        }
    )


def table_model(model: Any) -> TableModel:
    """A model of the table."""
    features = frame().without(["tags"])
    return TableModel.fit(model, features, choose_columns(features), read_labels(frame(), ["tags"]))


def models() -> dict[str, Callable[[], Any]]:
    """Fitted models by name: every estimator, and every kind of part it can have."""
    quick = {"C": 1.0, "random_state": 0}
    X, Y, V = rows(), labels(), labels("variables")
    made: dict[str, Callable[[], Any]] = {
        "br": lambda: colabel.BinaryRelevance(C=1.0).fit(X, Y),
        "br-variables": lambda: colabel.BinaryRelevance(C=1.0).fit(X, V),
        "br-nb": lambda: colabel.BinaryRelevance(estimator=GaussianNB()).fit(X, Y),
        "br-logistic": lambda: colabel.BinaryRelevance(
            estimator=make_pipeline(StandardScaler(), LogisticRegression())
        ).fit(X, V),
        "br-forest": lambda: colabel.BinaryRelevance(
            estimator=RandomForestClassifier(3, random_state=0)
        ).fit(X, V),
        "forest-features": lambda: make_pipeline(
            colabel.ForestFeatures(3, random_state=0), colabel.BinaryRelevance(C=1.0)
        ).fit(X, V),
        "cc": lambda: colabel.ClassifierChain(**quick).fit(X, Y),
        "pcc": lambda: colabel.ProbabilisticClassifierChain(**quick).fit(X, V),
        "ecc": lambda: colabel.EnsembleOfChains(3, **quick).fit(X, Y),
        "ctbn": lambda: colabel.CTBN(**quick).fit(X, V),
        "mot": lambda: colabel.MixtureOfTrees(2, **quick, gate_C=0.1).fit(X, V),
        "mot-chains": lambda: colabel.MixtureOfTrees(2, base="chains", **quick).fit(X, Y),
        "cdn": lambda: colabel.CDN(**quick, n_sweeps=20, burn_in=5).fit(X, Y),
        "cdn-variables": lambda: colabel.CDN(**quick, n_sweeps=20, burn_in=5).fit(X, V),
        "crf": lambda: colabel.PairwiseCRF(**quick, ridge=1.0, group=0.01).fit(X, Y),
        "cml": lambda: colabel.CollectiveCRF(**quick, ridge=1.0).fit(X, V),
        "cml-supported": lambda: colabel.CollectiveCRF(
            **quick, ridge=1.0, training="supported"
        ).fit(X, Y),
        "lds": lambda: colabel.LDSMixture(smoothing=1.0, random_state=0).fit(X, V),
        "ebn": lambda: colabel.BayesNetEnsemble(smoothing=1.0, random_state=0).fit(X, V),
        "stacked": lambda: colabel.StackedBinaryRelevance(**quick).fit(X, Y),
        "mlknn": lambda: colabel.MLkNN(5, random_state=0).fit(X, Y),
        "mlknn-sparse": lambda: colabel.MLkNN(5, random_state=0).fit(rows("sparse"), Y),
        "forest": lambda: colabel.JointForest(9, random_state=0).fit(X, V),
        "stack": lambda: colabel.JointStack(
            [
                colabel.BinaryRelevance(C=1.0),
                make_pipeline(
                    colabel.KernelFeatures(1.0, 5, random_state=0), colabel.CTBN(**quick)
                ),
            ],
            cv=2,
            random_state=0,
        ).fit(X, V),
        "stack-forest": lambda: colabel.JointStack(
            [colabel.JointForest(3, random_state=0), colabel.MixtureOfTrees(2, **quick)],
            cv=2,
            random_state=0,
        ).fit(X, Y),
        "iblr": lambda: colabel.IBLR(5, **quick).fit(X, Y),
        "thresholds": lambda: colabel.ThresholdedClassifier(
            colabel.BinaryRelevance(C=1.0), random_state=0
        ).fit(X, Y),
        "ruled": lambda: colabel.RuledClassifier(
            colabel.BinaryRelevance(C=1.0), "0.. of *", random_state=0
        ).fit(X, Y),
        "conformal": lambda: colabel.ConformalSets(
            colabel.CTBN(**quick), cv=0.5, random_state=0
        ).fit(X, Y),
        "conformal-folds": lambda: colabel.ConformalSets(
            make_pipeline(StandardScaler(), colabel.BinaryRelevance(C=1.0)), cv=2, random_state=0
        ).fit(X, V),
        "pipeline": lambda: make_pipeline(StandardScaler(), colabel.BinaryRelevance(C=1.0)).fit(
            X, Y
        ),
        "pipeline-bins": lambda: make_pipeline(
            colabel.preprocess.FeatureBins(3),
            colabel.BinaryRelevance(estimator=GaussianNB()),
        ).fit(X, V),
        "pipeline-pca": lambda: make_pipeline(
            MinMaxScaler(), PCA(2), MaxAbsScaler(), colabel.CTBN(**quick)
        ).fit(X, Y),
        "pipeline-columns": lambda: make_pipeline(
            ColumnTransformer(
                [
                    ("filled", make_pipeline(SimpleImputer(), RobustScaler()), [0, 1]),
                    ("values", OneHotEncoder(handle_unknown="ignore"), slice(1, 2)),
                    (
                        "ranks",
                        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=9),
                        [2],
                    ),
                    ("curves", SplineTransformer(3, degree=2), [2]),
                ],
                remainder="passthrough",
                sparse_threshold=0.0,
            ),
            colabel.BinaryRelevance(C=1.0),
        ).fit(X, Y),
        "pipeline-svd": lambda: make_pipeline(
            Normalizer(), TruncatedSVD(2), colabel.BinaryRelevance(estimator=BernoulliNB())
        ).fit(X, Y),
        "kernel": lambda: make_pipeline(
            colabel.KernelFeatures(1.0, 5, random_state=0), colabel.BinaryRelevance(C=1.0)
        ).fit(X, Y),
        "kernel-sparse": lambda: make_pipeline(
            colabel.KernelFeatures(1.0, 5, random_state=0), colabel.BinaryRelevance(C=1.0)
        ).fit(rows("sparse"), Y),
        "calibrated": lambda: colabel.BinaryRelevance(
            C=1.0, calibrate=True, decision="seen", random_state=0
        ).fit(X, V),
        "cdn-svc": lambda: colabel.CDN(estimator=LinearSVC(random_state=0), random_state=0).fit(
            X, Y
        ),
        "cdn-nb": lambda: colabel.CDN(
            estimator=GaussianNB(), stack=False, n_sweeps=5, burn_in=2, n_best=2, random_state=0
        ).fit(X, Y),
        "pcc-nb": lambda: colabel.ProbabilisticClassifierChain(
            estimator=GaussianNB(), stack=False, random_state=0
        ).fit(X, V),
        "stacked-nb": lambda: colabel.StackedBinaryRelevance(
            estimator=GaussianNB(), random_state=0
        ).fit(X, V),
        "table": lambda: table_model(colabel.CTBN(**quick)),
        "table-conformal": lambda: table_model(
            colabel.ConformalSets(colabel.BinaryRelevance(C=1.0), cv=0.5, random_state=0)
        ),
        "table-thresholds": lambda: table_model(
            colabel.ThresholdedClassifier(colabel.BinaryRelevance(C=1.0), random_state=0)
        ),
        "table-kernel": lambda: table_model(
            make_pipeline(colabel.KernelFeatures(1.0, 5, random_state=0), colabel.CTBN(**quick))
        ),
        "table-mlknn": lambda: table_model(colabel.MLkNN(5, random_state=0)),
    }
    return made


@cache
def _saved(name: str) -> bytes:
    """Fit the model of a name and save it, once."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        colabel.save(models()[name](), Path(folder, "model.colabel"))
        return Path(folder, "model.colabel").read_bytes()


def written(folder: Path, name: str) -> Path:
    """Write a file of the model of a name."""
    file = folder / f"{name}.colabel"
    file.write_bytes(_saved(name))
    return file


def members(file: Path) -> dict[str, bytes]:
    """Content of every member."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(file: Path, content: dict[str, bytes], **options: Any) -> Path:
    """Write members anew."""
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, each in content.items():
            archive.writestr(name, each)
    return file


def changed(file: Path, name: str, change: Callable[[Any], Any], **options: Any) -> Path:
    """Change a JSON member."""
    content = members(file)
    value = json.loads(content[name])
    content[name] = json.dumps(change(value) or value).encode()
    return rewritten(file, content, **options)


def objects_of(tree: Any, tag: str) -> list[Any]:
    """Fields of the objects of a type, the fitted ones first."""
    every = [entry["fields"] for entry in tree["objects"] if entry["type"] == tag]
    return sorted(every, key=len, reverse=True)


def arrays_of(file: Path) -> dict[str, Any]:
    """Every array, by the name of its member."""
    return {k: np.load(io.BytesIO(v)) for k, v in members(file).items() if k.endswith(".npy")}


def with_array(file: Path, name: str, array: Any) -> Path:
    """Write a file anew with another array."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return rewritten(file, {**members(file), name: buffer.getvalue()})


def with_field(file: Path, tag: str, field: str, change: Callable[[Any], Any]) -> Path:
    """Change the array that is a field of the first object of a type."""
    tree = json.loads(members(file)["model.json"])
    name = f"arrays/{objects_of(tree, tag)[0][field]['array']}.npy"
    return with_array(file, name, change(arrays_of(file)[name].copy()))


def refused(file: Path, match: str) -> None:
    """Require that a file does not load, and why."""
    with pytest.raises(ModelFileError, match=match):
        colabel.load(file)
