"""Model files made to harm: each is refused with a sentence, and nothing in them is called."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import colabel
from colabel.core.schema import all_declared
from colabel.saving import ModelFileError, describe_model
from tests.saving.files import changed, labels, members, models, rewritten, rows, written


@pytest.fixture
def file(tmp_path):
    return written(tmp_path, "br")


def objects_of(tree, tag):
    every = [entry["fields"] for entry in tree["objects"] if entry["type"] == tag]
    return sorted(every, key=len, reverse=True)  # the fitted ones first


def refused(file, match):
    with pytest.raises(ModelFileError, match=match):
        colabel.load(file)


# ------------------------------------------------------------------------ foreign code


def test_declared_types_are_classes_of_known_packages():
    for declared in all_declared():
        assert isinstance(declared.type, type)
        package = declared.type.__module__.partition(".")[0]
        assert package in ("colabel", "sklearn", "scipy", "numpy", "tests", "builtins"), declared
    tags = [declared.tag for declared in all_declared()]
    assert len(tags) == len(set(tags))


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


# ------------------------------------------------------------------------ small files, large harm


def test_a_compressed_member_is_refused(file):
    rewritten(file, members(file), compression=zipfile.ZIP_DEFLATED)
    refused(file, "is compressed")


def test_an_array_that_says_it_is_larger_than_it_is(file):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    lie = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    rewritten(file, {**members(file), "arrays/0.npy": lie})
    refused(file, "not as large as it says")


def test_members_that_share_their_bytes(file):
    """The same bytes named by many entries of the table of contents."""
    content = bytearray(file.read_bytes())
    start = content.rindex(b"PK\x01\x02", 0, content.rindex(b"model.json"))
    # an entry that claims to begin at another member and to be as large as the whole file
    content[start + 20 : start + 28] = len(content).to_bytes(4, "little") * 2
    file.write_bytes(content)
    refused(file, "larger than the file|cut short|damaged")


def test_objects_that_multiply_are_refused(file):
    """Each object names the one before it twice: 2^40 objects if written out."""

    def multiply(tree):
        first = len(tree["objects"])
        inner = {"object": tree["root"]["object"]}
        for i in range(40):
            fields = {"estimator": inner, "estimator_": inner, "classes_": {"array": 0}}
            tree["objects"].append({"type": "hard-decisions", "fields": fields})
            inner = {"object": first + i}
        tree["root"] = inner

    changed(file, "model.json", multiply)
    refused(file, "named too often")


def test_deep_nesting_is_refused(file):
    content = members(file)
    tree = json.loads(content["model.json"])
    tree["root"] = "HERE"
    deep = "[" * 200_000 + "]" * 200_000
    content["model.json"] = json.dumps(tree).replace('"HERE"', deep).encode()
    rewritten(file, content)
    refused(file, "damaged")


def test_one_array_named_often_is_there_once(tmp_path):
    file = written(tmp_path, "ecc")

    def repeat(tree):
        chains = objects_of(tree, "ensemble-of-chains")[0]
        chains["chains_"] = chains["chains_"][:1] * 3

    changed(file, "model.json", repeat)
    again = colabel.load(file)
    assert again.chains_[0] is again.chains_[1]


def test_an_object_cannot_name_itself_or_a_later_one(file):
    changed(file, "model.json", lambda t: t["objects"][0]["fields"].update(names={"object": 0}))
    refused(file, "which is not before it")


# ------------------------------------------------------------------------ not a model file


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_file_cut_short(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    refused(file, "not a colabel model, or was cut short")


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        refused(path, "a device, a pipe or a socket")
        with pytest.raises(ModelFileError, match="a device, a pipe or a socket"):
            describe_model(path)
    refused(tmp_path, "folder")


@pytest.mark.parametrize("number", [3, 0, -1, 10**30])
def test_unknown_formats_are_refused(file, number):
    changed(file, "colabel.json", lambda m: m.update(format=number, colabel="9.1"))
    refused(file, r"made by colabel 9\.1.*cannot read: upgrade")


@pytest.mark.parametrize("number", [True, 2.0, "2", None])
def test_a_format_that_is_no_number(file, number):
    changed(file, "colabel.json", lambda m: m.update(format=number))
    refused(file, "is damaged")


def test_the_first_format_is_refused_with_the_reason(file):
    changed(file, "colabel.json", lambda m: m.update(format=1))
    refused(file, "in format 1, which held objects that cannot be checked.*save it anew")


def test_other_label_names_than_the_models(file):
    changed(file, "colabel.json", lambda m: m.update(labels=["x", "y", "z"]))
    refused(file, "label names disagree")


def test_something_else_in_the_file(file):
    def only_a_space(tree):
        position = [e["type"] for e in tree["objects"]].index("label-space")
        tree["root"] = {"object": position}

    changed(file, "model.json", only_a_space)
    refused(file, "holds a LabelSpace")


# ------------------------------------------------------------------------ what types declare


def spoiled(array, kind):
    """An array with one number changed."""
    array = array.copy()
    first = (0,) * array.ndim
    array[first] = {"nan": np.nan, "inf": np.inf, "large": 1e300, "low": -7}[kind]
    return array


def arrays_of(file):
    return {k: np.load(io.BytesIO(v)) for k, v in members(file).items() if k.endswith(".npy")}


def with_array(file, name, array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return rewritten(file, {**members(file), name: buffer.getvalue()})


@pytest.mark.parametrize("kind", ["nan", "inf", "large"])
def test_numbers_that_are_none(file, kind):
    name = next(n for n, a in arrays_of(file).items() if a.dtype == float and a.ndim == 3)
    with_array(file, name, spoiled(arrays_of(file)[name], kind))
    refused(file, "in a FittedTasks, coef holds numbers that are not between")


def field_array(file, tag, field):
    """Name of the member that holds a field of the first object of a type."""
    tree = json.loads(members(file)["model.json"])
    return f"arrays/{objects_of(tree, tag)[0][field]['array']}.npy"


@pytest.mark.parametrize(
    ("model", "tag", "field", "value"),
    [
        ("lds", "lds-network", "vectors", 10**6),  # an index without bounds checks behind it
        ("lds", "lds-network", "vectors", -(10**6)),
        ("lds", "lds-network", "alpha", 0.9),
        ("lds", "lds-network", "phi", 0.9),
        ("lds", "lds-network", "theta", 0.9),
        ("ctbn", "ctbn", "tree_", 10**6),
        ("mot", "tree", "parents", 10**6),
        ("mot", "mixture-of-trees", "weights_", 2.0),
        ("mot-chains", "chain", "order", 5),
        ("cdn", "cdn", "_usual", 9),
        ("cdn", "linear-network", "floor", 2.0),
        ("cml", "field-layout", "edges", 7),
        ("cml-supported", "collective-crf", "vectors_", 5),
        ("pcc", "chain", "order", 5),
        ("mlknn", "mlknn", "likelihoods_", 0.0),
        ("mlknn", "mlknn", "priors_", 1.0),
        ("mlknn", "neighbours", "rank", -5),
        ("mlknn-sparse", "csr", "indices", 10**6),
        ("mlknn-sparse", "csr", "indptr", 10**6),
        ("forest", "joint-forest", "tree_", 10**6),
        ("forest", "joint-forest", "weights_", 0.99),
        ("forest", "vector-forest", "vectors", 10**6),
        ("forest", "vector-forest", "counts", 0.0),
        ("forest", "vector-forest", "indices", 10**6),
        ("forest", "vector-forest", "indptr", 1),
        ("forest", "vector-forest", "weights", 0.0),
        ("forest", "forest", "children", 0),
        ("forest", "forest", "feature", 10**6),
        ("mmoc", "max-margin-output-coding", "precision_", -1e6),
        ("br-nb", "sklearn.GaussianNB", "var_", 0.0),
        ("br-forest", "forest", "children", 10**6),  # a walk without bounds checks
        ("br-forest", "forest", "children", 0),  # which would never end
        ("br-forest", "forest", "feature", 3),
        ("br-forest", "forest", "threshold", np.nan),
        ("br-forest", "forest", "roots", 1),
        ("br-forest", "sklearn.RandomForestClassifier", "probabilities_", 0.3),
        ("forest-features", "forest", "children", 10**6),
        ("forest-features", "forest", "children", 0),
        ("forest-features", "forest", "feature", 3),
        ("forest-features", "forest", "threshold", np.inf),
        ("forest-features", "label-forest", "frequencies", 0.999),
        ("br-discrete", "value-cells", "first", 10**6),
        ("table", "category-table", "features", 10**6),
        ("table", "number-table", "scale", 0.0),
        ("thresholds", "thresholded-classifier", "thresholds_", -1.0),
        ("conformal", "held-out-scores", "scores", 2.0),  # not in order
        ("conformal", "held-out-scores", "weights", -1.0),
        ("conformal", "held-out-errors", "confidence", 1.5),
        ("conformal", "held-out-errors", "weight", 1e6),
        ("kernel", "kernel-features", "scale_", 0.0),
        ("kernel", "kernel-features", "landmarks_", np.nan),
        ("kernel-sparse", "csr", "indices", 10**6),
    ],
)
def test_values_out_of_range(model, tag, field, value, tmp_path):
    file = written(tmp_path, model)
    name = field_array(file, tag, field)
    array = arrays_of(file)[name].copy()
    array[(0,) * array.ndim] = value
    with_array(file, name, array)
    refused(
        file,
        f"{field.rstrip('_')}|its own|vector|alpha|phi|theta|order|graph|edge|cells|start|no table"
        "|trees|leaf|node",
    )


@pytest.mark.parametrize(
    ("model", "tag", "field", "value", "match"),
    [
        ("lds", "label-sets", "parents", {"tuple": [{"tuple": [1]}, {"tuple": [0]}]}, "ancestor"),
        ("lds", "label-sets", "parents", {"tuple": [{"tuple": [9]}, {"tuple": []}]}, "parents"),
        ("ctbn", "ctbn", "_slots", [[0], [99, 99, 99]], "_slots"),
        ("mot", "tree", "slots", [[0], [99, 99, 99]], "slots"),
        ("mot", "mixture-of-trees", "n_trees_", 3, "trees_"),
        ("cdn", "cdn", "n_sweeps", 10**12, "n_sweeps is 1000000000000, not between"),
        ("cdn", "cdn", "n_jobs", 10**9, "n_jobs"),
        ("br", "binary-relevance", "predict", 5, "has no predict"),
        ("br", "binary-relevance", "n_features_in_", 4, "models_"),
        ("br", "binary-relevance", "decision", "no such", "decision"),
        ("br", "label-space", "kind", "cloud", "kind"),
        ("iblr", "neighbours", "metric", "precomputed", "metric"),
        ("kernel", "kernel-features", "width_", 0.0, "width_"),
        ("kernel", "kernel-features", "width_", None, "landmarks_ do not fit width_"),
        ("kernel", "kernel-features", "n_landmarks_", 6, "landmarks_"),
        ("kernel", "kernel-features", "linear", 1, "linear"),
        ("kernel", "kernel-features", "n_jobs", 10**9, "n_jobs"),
        ("conformal", "conformal-sets", "coverage", 2.0, "coverage"),
        ("conformal", "conformal-sets", "nonconformity", "odds", "nonconformity"),
        ("conformal", "conformal-sets", "max_listed", 0, "max_listed"),
        ("conformal", "conformal-sets", "members_", [], "held_out_"),
        ("conformal-folds", "conformal-sets", "n_features_in_", 4, "members_"),
        ("forest", "vector-forest", "cardinalities", {"tuple": [9, 9]}, "sizes of forest_"),
        ("forest", "joint-forest", "target_", "sets", "target_"),
        ("forest-features", "forest-features", "n_jobs", "two", "n_jobs"),
        ("forest", "joint-forest", "oob_log_loss_", -1.0, "oob_log_loss_"),
    ],
)
def test_values_that_make_no_sense(model, tag, field, value, match, tmp_path):
    file = written(tmp_path, model)
    changed(file, "model.json", lambda t: objects_of(t, tag)[0].update({field: value}))
    refused(file, match)


@pytest.mark.parametrize("model", ["cdn-nb", "pcc-nb"])
@pytest.mark.parametrize("flags", [lambda a: a.astype(float), lambda a: ~a, lambda a: a[:-1]])
def test_label_columns_that_a_classifier_does_not_have(model, flags, tmp_path):
    """They were handed to the classifier: an IndexError, or a ValueError of scikit-learn's."""
    file = written(tmp_path, model)
    name = field_array(file, "estimator-model", "allowed")
    with_array(file, name, flags(arrays_of(file)[name]))
    refused(file, "allowed|of a classifier|models_|coefficients")


def test_features_that_the_next_step_does_not_take(tmp_path):
    file = written(tmp_path, "kernel")
    name = field_array(file, "kernel-features", "components_")
    with_array(file, name, arrays_of(file)[name][:, :-1])
    refused(file, "other features than the next one takes")


def test_a_tree_with_a_cycle(tmp_path):
    file = written(tmp_path, "ctbn")
    name = field_array(file, "ctbn", "tree_")
    with_array(file, name, np.array([1, 0]))
    refused(file, "its own ancestor")


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
    with pytest.raises(ModelFileError, match="cannot be read"):
        colabel.load(tmp_path / "nothing.colabel")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda model: setattr(model, "C_", np.array([np.nan, 1.0, 1.0])),
        lambda model: setattr(model, "decision", lambda joint: joint.mode_codes()),
        lambda model: setattr(model, "note", "mine"),
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


def test_saving_writes_through_links_and_refuses_devices(tmp_path):
    model = models()["br"]()
    (tmp_path / "link").symlink_to(tmp_path / "model.colabel")
    colabel.save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    colabel.load(tmp_path / "model.colabel")
    os.mkfifo(tmp_path / "pipe")  # of our own: a real device is not for trying out
    with pytest.raises(ModelFileError, match="a device, a pipe or a socket"):
        colabel.save(model, tmp_path / "pipe")
