"""Model files: every estimator comes back as it was, and nothing else comes with it."""

from __future__ import annotations

import inspect
import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import colabel
from colabel.decide import F1
from colabel.saving import ModelFileError, describe_model
from colabel.saving._trusted import TRUSTED_TYPES, trusted_names
from colabel.tables import Frame, TableModel, choose_columns, read_labels

ESTIMATORS = [
    value
    for value in (getattr(colabel, name) for name in sorted(colabel.__all__))
    if inspect.isclass(value) and hasattr(value, "fit") and not inspect.isabstract(value)
]
LABELS = {
    "matrix": lambda Y: Y,
    "sets": lambda Y: [{n for n, on in zip("abc", row, strict=True) if on} for row in Y],
    "variables": lambda Y: np.column_stack([Y.sum(axis=1), np.where(Y[:, 0], "yes", "no")]),
}


def make(estimator_class, **params):
    needed = inspect.signature(estimator_class).parameters.values()
    if any(p.name == "estimator" and p.default is p.empty for p in needed):
        params.setdefault("estimator", colabel.BinaryRelevance(C=1.0))
    model = estimator_class(**params)
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=2)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(40, 3))
    return X, (X @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3)) > 0).astype(int)


def saved_and_loaded(model, tmp_path):
    file = tmp_path / "model.colabel"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a type that is not trusted: add it to saving/_trusted.py
        colabel.save(model, file)
    assert [path.name for path in tmp_path.iterdir()] == ["model.colabel"]
    return colabel.load(file)


def assert_same_answers(model, again, X):
    assert type(again) is type(model)
    assert list(again.label_names_) == list(model.label_names_)
    assert repr(again) == repr(model)
    assert np.array_equal(model.predict(X), again.predict(X))
    if hasattr(model, "predict_proba"):
        for one, two in zip(model.predict_proba(X), again.predict_proba(X), strict=True):
            np.testing.assert_array_equal(one, two)


TWO_VALUED = (colabel.MaxMarginOutputCoding, colabel.RankSVM, colabel.ThresholdedClassifier)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("estimator_class", ESTIMATORS, ids=lambda e: e.__name__)
def test_every_estimator_comes_back(estimator_class, labels, rows, tmp_path):
    if estimator_class in TWO_VALUED and labels == "variables":
        pytest.skip(f"{estimator_class.__name__} takes labels of two values only.")
    X, Y = rows
    model = make(estimator_class).fit(X, LABELS[labels](Y))
    assert_same_answers(model, saved_and_loaded(model, tmp_path), X)


@pytest.mark.parametrize(
    "model",
    [
        colabel.CTBN(estimator=GaussianNB(), random_state=0),
        colabel.CDN(estimator=GaussianNB(), n_sweeps=5, burn_in=1, n_chains=1, random_state=0),
        colabel.CDN(estimator=LinearSVC(random_state=0), random_state=0),
        colabel.ClassifierChain(estimator=GaussianNB(), random_state=0),
        colabel.StackedBinaryRelevance(estimator=LinearSVC(random_state=0), random_state=0),
        colabel.BinaryRelevance(decision=F1(), random_state=0),
    ],
    ids=str,
)
def test_models_around_others_come_back(model, rows, tmp_path):
    X, Y = rows
    assert_same_answers(model.fit(X, Y), saved_and_loaded(model, tmp_path), X)


def test_pipelines_come_back(rows, tmp_path):
    X, Y = rows
    model = make_pipeline(StandardScaler(), colabel.CTBN(C=1.0, random_state=0)).fit(X, Y)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_table_models_come_back(rng, tmp_path):
    frame = Frame.of(
        {
            "size": np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60)),
            "colour": rng.choice(["red", "green", "blue"], 60),
            "note": [f"a note about {rng.choice(['wood', 'iron'])} no {i}" for i in range(60)],
            "tags": rng.choice(["a", "a;b", "b;c"], 60),
        }
    )
    features = frame.without(["tags"])
    choice = choose_columns(features)
    assert [column.kind for column in choice.used] == ["number", "category", "text"]
    labels = read_labels(frame, ["tags"])
    model = TableModel.fit(colabel.CTBN(C=1.0, random_state=0), features, choice, labels)
    assert_same_answers(model, saved_and_loaded(model, tmp_path), features)


def test_the_file_says_what_it_is(rows, tmp_path):
    X, Y = rows
    model = colabel.CTBN(C=1.0, random_state=0).fit(X, Y, label_names=["p", "q", "r"])
    colabel.save(model, tmp_path / "m")
    said = describe_model(tmp_path / "m")
    assert said["labels"] == ["p", "q", "r"]
    assert said["model"] == "CTBN"
    assert said["colabel"] == colabel.__version__
    assert "scikit-learn" in said["packages"]


# ------------------------------------------------------------------------ what is refused


def test_only_types_of_colabel_are_trusted_and_no_function():
    assert len(set(trusted_names())) == len(TRUSTED_TYPES)
    for kind in TRUSTED_TYPES:
        assert isinstance(kind, type)
        assert kind is np.dtype or kind.__module__.startswith("colabel.")


@pytest.fixture
def file(rows, tmp_path):
    X, Y = rows
    colabel.save(colabel.BinaryRelevance(C=1.0).fit(X, Y), tmp_path / "model.colabel")
    return tmp_path / "model.colabel"


def rewritten(file, change=None, manifest=None, **options):
    """Write the members of a model file anew, with changes to its JSON."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, edit in (("schema.json", change), ("colabel.json", manifest)):
        if edit:
            content = json.loads(members[name])
            members[name] = json.dumps(edit(content) or content).encode()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, "__id__": 1, **more}


TUPLE_OF_NOTHING = node("builtins", "tuple", "TupleNode", content=[])


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda s: s.update(__module__="os", __class__="system"), r"os\.system"),
        (lambda s: s.update(node("builtins", "eval", "FunctionNode")), r"builtins\.eval"),
        (
            lambda s: s.update(
                node("subprocess", "Popen", "ConstructorFromReduceNode", content=TUPLE_OF_NOTHING)
            ),
            r"subprocess\.Popen",
        ),
        # a function of colabel itself is not a type that models are made of
        (
            lambda s: s.update(node("colabel.cli.demo", "demo", "FunctionNode")),
            r"colabel\.cli\.demo\.demo",
        ),
        (
            lambda s: s.update(
                node(
                    "colabel.datasets.loading",
                    "load",
                    "ConstructorFromReduceNode",
                    content=TUPLE_OF_NOTHING,
                )
            ),
            r"colabel\.datasets\.loading\.load",
        ),
        # nor is a name that only looks as if it were below the package
        (
            lambda s: s.update(__module__="colabel.models.ctbn.os", __class__="system"),
            r"colabel\.models\.ctbn\.os\.system",
        ),
        (lambda s: s.update(__module__="colabel.models.ctbn", __class__="np"), "ctbn.np"),
    ],
)
def test_other_code_is_refused_by_name(file, change, wanted):
    with pytest.raises(ModelFileError, match=rf"refused: it wants .*{wanted}"):
        colabel.load(rewritten(file, change))


def test_trees_load_only_if_named(rows, tmp_path):
    X, Y = rows
    model = colabel.BinaryRelevance(estimator=DecisionTreeClassifier(random_state=0)).fit(X, Y)
    with pytest.warns(UserWarning, match=r"sklearn\.tree\._tree\.Tree"):
        colabel.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"sklearn\.tree\._tree\.Tree"):
        colabel.load(tmp_path / "m")
    again = colabel.load(tmp_path / "m", trusted=["sklearn.tree._tree.Tree"])
    assert np.array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_loaded(tmp_path, protocol):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    (tmp_path / "m").write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(ModelFileError, match="is a pickle"):
        colabel.load(tmp_path / "m")


def test_a_later_format_asks_for_an_upgrade(file):
    rewritten(file, manifest=lambda m: m.update(format=2, colabel="9.1"))
    with pytest.raises(ModelFileError, match=r"made by colabel 9\.1.*upgrade"):
        colabel.load(file)


def test_other_label_names_than_the_models(file):
    rewritten(file, manifest=lambda m: m.update(labels=["x", "y", "z"]))
    with pytest.raises(ModelFileError, match="label names disagree"):
        colabel.load(file)


def test_a_compressed_file_is_refused(file):
    rewritten(file, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        colabel.load(file)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_file_cut_short(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="not a colabel model, or was cut short"):
        colabel.load(file)


def test_something_else_in_the_file(file):
    import skops.io

    buffer = io.BytesIO()
    skops.io.dump({"a": 1}, buffer)
    with zipfile.ZipFile(file) as archive:
        manifest = archive.read("colabel.json")
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("colabel.json", manifest)
    file.write_bytes(buffer.getvalue())
    with pytest.raises(ModelFileError, match="holds a dict"):
        colabel.load(file)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ModelFileError, match="is not fitted"):
        colabel.save(colabel.CTBN(), tmp_path / "m")
    with pytest.raises(ModelFileError, match="models of colabel"):
        colabel.save(GaussianNB(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(rows, tmp_path):
    X, Y = rows
    model = colabel.BinaryRelevance(C=1.0).fit(X, Y)
    with pytest.raises(ModelFileError, match="cannot be written"):
        colabel.save(model, tmp_path / "no" / "folder")
    with pytest.raises(ModelFileError, match="cannot be read"):
        colabel.load(tmp_path / "nothing.colabel")
