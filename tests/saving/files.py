"""Model files to attack: one of every type, and ways to change them."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
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


# of these, labels of three and two values are learned
OF_VARIABLES = {
    *("br-variables", "br-logistic", "br-forest", "forest-features", "pcc", "ctbn", "mot", "cml"),
    *("cdn-variables", "lds", "ebn", "forest", "stack", "conformal-folds", "pipeline-bins"),
    *("calibrated", "pcc-nb", "stacked-nb"),
}


def models() -> dict[str, Callable[[], Any]]:
    """Fitted models by name: every estimator, and every kind of part it can have."""
    quick: Any = {"C": 1.0, "random_state": 0}
    br, ctbn, nb = colabel.BinaryRelevance(C=1.0), colabel.CTBN(**quick), GaussianNB()
    cdn = colabel.CDN(**quick, n_sweeps=20, burn_in=5)
    few: Any = {"n_sweeps": 5, "burn_in": 2, "n_best": 2, "random_state": 0}
    mlknn = colabel.MLkNN(5, random_state=0)
    kernel = colabel.KernelFeatures(1.0, 5, random_state=0)
    mixture = colabel.MixtureOfTrees(2, **quick)
    regression = make_pipeline(StandardScaler(), LogisticRegression())
    columns = ColumnTransformer(
        [
            ("filled", make_pipeline(SimpleImputer(), RobustScaler()), [0, 1]),
            ("values", OneHotEncoder(handle_unknown="ignore"), slice(1, 2)),
            ("ranks", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=99), [2]),
            ("curves", SplineTransformer(3, degree=2), [2]),
        ],
        remainder="passthrough",
        sparse_threshold=0.0,
    )
    of = colabel.BinaryRelevance  # a classifier for each label
    estimators: dict[str, Any] = {
        "br": br,
        "br-variables": br,
        "br-nb": of(estimator=nb),
        "br-logistic": of(estimator=regression),
        "br-forest": of(estimator=RandomForestClassifier(3, random_state=0)),
        "forest-features": make_pipeline(colabel.ForestFeatures(3, random_state=0), br),
        "cc": colabel.ClassifierChain(**quick),
        "pcc": colabel.ProbabilisticClassifierChain(**quick),
        "ecc": colabel.EnsembleOfChains(3, **quick),
        "ctbn": ctbn,
        "mot": clone(mixture).set_params(gate_C=0.1),
        "mot-chains": clone(mixture).set_params(base="chains"),
        "cdn": cdn,
        "cdn-variables": cdn,
        "crf": colabel.PairwiseCRF(**quick, ridge=1.0, group=0.01),
        "cml": colabel.CollectiveCRF(**quick, ridge=1.0),
        "cml-supported": colabel.CollectiveCRF(**quick, ridge=1.0, training="supported"),
        "lds": colabel.LDSMixture(smoothing=1.0, random_state=0),
        "ebn": colabel.BayesNetEnsemble(smoothing=1.0, random_state=0),
        "stacked": colabel.StackedBinaryRelevance(**quick),
        "mlknn": mlknn,
        "mlknn-sparse": mlknn,
        "forest": colabel.JointForest(9, random_state=0),
        "stack": colabel.JointStack([br, make_pipeline(kernel, ctbn)], cv=2, random_state=0),
        "stack-forest": colabel.JointStack(
            [colabel.JointForest(3, random_state=0), mixture], cv=2, random_state=0
        ),
        "iblr": colabel.IBLR(5, **quick),
        "thresholds": colabel.ThresholdedClassifier(br, random_state=0),
        "ruled": colabel.RuledClassifier(br, "0.. of *", random_state=0),
        "conformal": colabel.ConformalSets(ctbn, cv=0.5, random_state=0),
        "conformal-folds": colabel.ConformalSets(
            make_pipeline(StandardScaler(), br), cv=2, random_state=0
        ),
        "pipeline": make_pipeline(StandardScaler(), br),
        "pipeline-bins": make_pipeline(colabel.preprocess.FeatureBins(3), of(estimator=nb)),
        "pipeline-pca": make_pipeline(MinMaxScaler(), PCA(2), MaxAbsScaler(), ctbn),
        "pipeline-columns": make_pipeline(columns, br),
        "pipeline-svd": make_pipeline(Normalizer(), TruncatedSVD(2), of(estimator=BernoulliNB())),
        "kernel": make_pipeline(kernel, br),
        "kernel-sparse": make_pipeline(kernel, br),
        "calibrated": of(C=1.0, calibrate=True, decision="seen", random_state=0),
        "cdn-svc": colabel.CDN(estimator=LinearSVC(random_state=0), random_state=0),
        "cdn-nb": colabel.CDN(estimator=nb, stack=False, **few),
        "pcc-nb": colabel.ProbabilisticClassifierChain(estimator=nb, stack=False, random_state=0),
        "stacked-nb": colabel.StackedBinaryRelevance(estimator=nb, random_state=0),
        "table": ctbn,
        "table-conformal": colabel.ConformalSets(br, cv=0.5, random_state=0),
        "table-thresholds": colabel.ThresholdedClassifier(br, random_state=0),
        "table-kernel": make_pipeline(kernel, ctbn),
        "table-mlknn": mlknn,
    }
    return {name: partial(_fitted, name, model) for name, model in estimators.items()}


def _fitted(name: str, model: Any) -> Any:
    if name.startswith("table"):
        return table_model(clone(model))
    X = rows("sparse" if name.endswith("-sparse") else "dense")
    return clone(model).fit(X, labels("variables" if name in OF_VARIABLES else "binary"))


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


def changed(
    file: Path, name: str, change: Callable[[Any], Any], more: dict[str, bytes] | None = None
) -> Path:
    """Change a JSON member, and add others."""
    content = members(file)
    value = json.loads(content[name])
    content[name] = json.dumps(change(value) or value).encode()
    return rewritten(file, content | (more or {}))


def npy(array: Any) -> bytes:
    """Content of a member that is an array."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def objects_of(tree: Any, tag: str) -> list[Any]:
    """Fields of the objects of a type, the fitted ones first."""
    every = [entry["fields"] for entry in tree["objects"] if entry["type"] == tag]
    return sorted(every, key=len, reverse=True)


def arrays_of(file: Path) -> dict[str, Any]:
    """Every array, by the name of its member."""
    return {k: np.load(io.BytesIO(v)) for k, v in members(file).items() if k.endswith(".npy")}


def with_array(file: Path, name: str, array: Any) -> Path:
    """Write a file anew with another array."""
    return rewritten(file, {**members(file), name: npy(array)})


def with_field(file: Path, tag: str, field: str, change: Callable[[Any], Any]) -> Path:
    """Change the array that is a field of the first object of a type."""
    tree = json.loads(members(file)["model.json"])
    name = f"arrays/{objects_of(tree, tag)[0][field]['array']}.npy"
    return with_array(file, name, change(arrays_of(file)[name].copy()))


def refused(file: Path, match: str) -> None:
    """Require that a file does not load, and why."""
    with pytest.raises(ModelFileError, match=match):
        colabel.load(file)
