"""Model files made to harm: each is refused with a sentence, and nothing in them is called."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import colabel
from colabel.core.schema import DECLARED
from colabel.saving import ModelFileError, describe_model
from tests.platforms import with_pipes
from tests.saving.files import (
    changed,
    labels,
    members,
    models,
    objects_of,
    refused,
    rewritten,
    rows,
    written,
)

# ------------------------------------------------------------------------ foreign code


def test_declared_types_are_classes_of_known_packages():
    for declared in DECLARED.values():
        assert isinstance(declared.type, type)
        package = declared.type.__module__.partition(".")[0]
        assert package in ("colabel", "sklearn", "scipy", "numpy", "tests", "builtins"), declared


@pytest.mark.parametrize("tag", ["os.system", "subprocess.Popen", "colabel.cli.main", 7, None, []])
def test_other_types_are_refused(file, tag):
    changed(file, "model.json", lambda tree: tree["objects"][0].update(type=tag))
    refused(file, "it wants the type|malformed")


def test_no_object_is_made_before_all_are_checked(file, monkeypatch):
    made = []
    init = colabel.labels.LabelSpace.__init__
    monkeypatch.setattr(
        colabel.labels.LabelSpace, "__init__", lambda *a, **k: (made.append(1), init(*a, **k))[1]
    )
    colabel.load(file)
    assert made
    made.clear()

    def spoil(tree):
        tree["objects"][-1]["fields"]["n_features_in_"] = -1

    changed(file, "model.json", spoil)
    refused(file, "n_features_in_")
    assert not made


def test_a_pipeline_that_opens_files_is_not_loaded_unasked(tmp_path):
    """`CountVectorizer(input="filename")` reads whatever file a row names."""
    X = ["aa bb", "bb cc", "aa cc", "cc dd"] * 10
    vectorizer = CountVectorizer(input="content")
    model = make_pipeline(vectorizer, colabel.BinaryRelevance(C=1.0)).fit(X, labels())
    vectorizer.input = "filename"
    with pytest.warns(UserWarning, match="CountVectorizer"):
        colabel.save(model, tmp_path / "m")
    refused(tmp_path / "m", r"refused: it wants sklearn\.feature_extraction\.text\.CountVectorizer")


def test_a_table_models_vectorizer_cannot_be_changed(tmp_path):
    """A file holds words and frequencies only: no pattern, and no way to open a file."""
    file = written(tmp_path, "table")
    tree = json.loads(members(file)["model.json"])
    assert set(objects_of(tree, "word-table")[0]) == {"words", "idf"}
    for field, value in (("token_pattern", "(a+)+$"), ("input", "filename")):
        changed(
            file,
            "model.json",
            lambda t, f=field, v=value: objects_of(t, "word-table")[0].update({f: v}),
        )
        refused(file, f"WordTable has no {field}|WordTable has no")


def test_boosted_trees_load_only_if_named(tmp_path):
    X, Y = rows(), labels()
    boosted = GradientBoostingClassifier(n_estimators=2, random_state=0)
    model = colabel.BinaryRelevance(estimator=boosted).fit(X, Y)
    with pytest.warns(UserWarning, match=r"sklearn\.tree\._tree\.Tree") as told:
        colabel.save(model, tmp_path / "m")
    refused(tmp_path / "m", r"GradientBoostingClassifier.*sklearn\.tree\._tree\.Tree")
    names = ast.literal_eval(str(told[0].message).split("trusted=")[1].split(" to colabel")[0])
    with pytest.raises(ModelFileError, match=r"sklearn\.tree\._tree\.Tree"):
        colabel.load(tmp_path / "m", trusted=names[:1])
    again = colabel.load(tmp_path / "m", trusted=names)
    assert np.array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_loaded(tmp_path, protocol):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    (tmp_path / "m").write_bytes(pickle.dumps(Bomb(), protocol))
    refused(tmp_path / "m", "is a pickle")


def test_an_array_of_objects_is_never_unpickled(file):
    buffer = io.BytesIO()
    np.save(buffer, np.array([GaussianNB()], dtype=object), allow_pickle=True)
    rewritten(file, {**members(file), "arrays/0.npy": buffer.getvalue()})
    refused(file, "holds object")


# ------------------------------------------------------------------------ not a model file


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_file_cut_short(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    refused(file, "not a colabel model, or was cut short")


@with_pipes
def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        refused(path, "a device, a pipe or a socket")
        with pytest.raises(ModelFileError, match="a device, a pipe or a socket"):
            describe_model(path)
    refused(tmp_path, "folder")


@pytest.mark.parametrize(
    ("other", "match"),
    [
        *(
            ({"format": n, "colabel": "9.1"}, r"by colabel 9\.1.*cannot read: upgrade")
            for n in (1, 3)
        ),
        *(({"format": n}, "cannot read: upgrade") for n in (0, -1, 10**30)),
        *(({"format": n}, "is damaged") for n in (True, 2.0, "2", None)),
        ({"labels": ["x", "y", "z"]}, "label names disagree"),
    ],
)
def test_manifests_that_do_not_fit(file, other, match):
    refused(changed(file, "colabel.json", lambda manifest: manifest.update(other)), match)


@pytest.mark.parametrize("other", ["0.0.9", "9.1"])
def test_a_parameter_that_this_version_lacks(file, other):
    """Same format, other fields: it was called damaged."""
    changed(file, "colabel.json", lambda m: m.update(colabel=other))
    changed(file, "model.json", lambda t: objects_of(t, "binary-relevance")[0].update(temper=1.0))
    refused(file, rf"was made by colabel {other} and does not fit this version.*has no temper")


def test_parameters_that_an_older_version_did_not_have_are_their_defaults(tmp_path):
    for name in models():
        if not name.startswith("table"):
            _without_parameters(written(tmp_path, name))


def _without_parameters(file):
    """Remove what the constructors of all objects have a default for; the file still loads."""
    n_removed = 0

    def older(tree):
        nonlocal n_removed
        for entry in tree["objects"]:
            defaults = DECLARED[entry["type"]].defaults
            for name in entry["fields"].keys() & defaults.keys():
                value = defaults[name]
                plain = value is None or isinstance(value, bool | int | float | str)
                if plain and entry["fields"][name] == value:
                    del entry["fields"][name]
                    n_removed += 1

    before = colabel.load(file)
    changed(file, "model.json", older)
    assert n_removed
    after = colabel.load(file)
    X = rows()
    np.testing.assert_array_equal(before.predict(X), after.predict(X))


def test_something_else_in_the_file(file):
    def only_a_space(tree):
        position = [e["type"] for e in tree["objects"]].index("label-space")
        tree["root"] = {"object": position}

    changed(file, "model.json", only_a_space)
    refused(file, "holds a LabelSpace")


# ------------------------------------------------------------------------ saving


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ModelFileError, match="is not fitted"):
        colabel.save(colabel.CTBN(), tmp_path / "m")
    with pytest.raises(ModelFileError, match="models of colabel"):
        colabel.save(GaussianNB(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path):
    model = models()["br"]()
    with pytest.raises(ModelFileError, match="cannot be written"):
        colabel.save(model, tmp_path / "no" / "folder")
    with pytest.raises(ModelFileError, match=r"There is no file .*: check the path"):
        colabel.load(tmp_path / "nothing.colabel")
    colabel.save(model, tmp_path / "some.colabel")
    with pytest.raises(ModelFileError, match=r"There is no file .*: there is some\.colabel"):
        colabel.load(tmp_path / "Some.colabel")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda model: setattr(model, "C_", np.array([np.nan, 1.0, 1.0])),
        lambda model: setattr(model, "decision", lambda joint: joint.mode_codes()),
        lambda model: setattr(model, "note", "mine"),
        lambda model: setattr(model, "label_names_", ("a", "b", "\ud800")),  # half a character
    ],
)
def test_what_cannot_be_loaded_is_not_saved_and_the_old_file_stays(file, spoil):
    before = file.read_bytes()
    model = models()["br"]()
    spoil(model)
    with pytest.raises(ModelFileError, match="cannot be saved"):
        colabel.save(model, file)
    assert file.read_bytes() == before
    assert [f.name for f in file.parent.iterdir()] == [file.name]


@with_pipes
def test_saving_writes_through_links_and_refuses_devices(tmp_path):
    model = models()["br"]()
    (tmp_path / "link").symlink_to(tmp_path / "model.colabel")
    colabel.save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    colabel.load(tmp_path / "model.colabel")
    os.mkfifo(tmp_path / "pipe")  # of our own: a real device is not for trying out
    with pytest.raises(ModelFileError, match="a device, a pipe or a socket"):
        colabel.save(model, tmp_path / "pipe")
