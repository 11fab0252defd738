"""What types declare is checked when a file is loaded: ranges, shapes, parts in their places."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import colabel
from colabel.saving import ModelFileError
from tests.saving.files import (
    arrays_of,
    changed,
    members,
    models,
    objects_of,
    refused,
    with_array,
    with_field,
    written,
)


def first_is(value):
    """What puts a value in the place of the first number of an array."""

    def change(array):
        array[(0,) * array.ndim] = value
        return array

    return change


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_none(file, value):
    with_field(file, "linear-tasks", "coef", first_is(value))
    refused(file, "in a FittedTasks, coef holds numbers that are not between")


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
        ("br-nb", "sklearn.GaussianNB", "var_", 0.0),
        ("br-nb", "sklearn.GaussianNB", "class_prior_", 0.0),
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
    file = with_field(written(tmp_path, model), tag, field, first_is(value))
    refused(
        file,
        f"{field.rstrip('_')}|its own|vector|alpha|phi|theta|order|graph|edge|cells|start|no table"
        "|trees|leaf|node",
    )


def test_a_regression_that_leaves_no_class_a_score(tmp_path):
    file = tmp_path / "three.colabel"
    X = np.arange(30.0)[:, None]
    colabel.save(colabel.BinaryRelevance(C=1.0).fit(X, np.digitize(X, [10, 20])), file)
    with_field(file, "linear-tasks", "floor", lambda floor: np.full_like(floor, 0.1))
    refused(file, "floor leaves no class a score")


@pytest.mark.parametrize(
    ("model", "tag", "field", "value", "match"),
    [
        ("lds", "label-sets", "parents", {"tuple": [{"tuple": [1]}, {"tuple": [0]}]}, "ancestor"),
        ("lds", "label-sets", "parents", {"tuple": [{"tuple": [9]}, {"tuple": []}]}, "parents"),
        ("ctbn", "ctbn", "_slots", [[0], [99, 99, 99]], "_slots"),
        ("mot", "tree", "slots", [[0], [99, 99, 99]], "slots"),
        ("mot", "mixture-of-trees", "n_trees_", 3, "trees_"),
        ("cdn", "cdn", "n_sweeps", 10**12, "n_sweeps, times n_chains, is 1000000000005"),
        ("cdn", "cdn", "n_jobs", 10**9, "n_jobs"),
        ("br", "binary-relevance", "predict", 5, "has no predict"),
        ("br", "binary-relevance", "n_features_in_", 4, "models_"),
        ("br", "binary-relevance", "decision", "no such", "decision"),
        ("br", "label-space", "kind", "cloud", "kind"),
        ("br", "label-space", "names", {"tuple": ["a", "b", "\ud800"]}, "names"),
        ("iblr", "neighbours", "metric", "precomputed", "metric"),
        ("br-forest", "sklearn.RandomForestClassifier", "criterion", [], "not a plain value"),
        ("br-logistic", "sklearn.LogisticRegression", "solver", {"tuple": [[]]}, "a plain value"),
        ("pipeline-columns", "sklearn.SimpleImputer", "strategy", [], "not a plain value"),
        ("pipeline-columns", "sklearn.SimpleImputer", "_fit_dtype", "f", "not a type of numbers"),
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


@pytest.mark.parametrize(("n_features", "n_classes"), [(2, 2), (None, 3)])
def test_a_classifier_behind_hard_decisions_fits_them(n_features, n_classes, tmp_path):
    model = models()["cdn-svc"]()
    hard = next(own.estimator for own in model.models_.models if own.estimator is not None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, n_features or hard.estimator_.n_features_in_))
    hard.estimator_ = LinearSVC(random_state=0).fit(X, np.arange(30) % n_classes)
    with pytest.raises(ModelFileError, match=r"classes_|q of models"):
        colabel.save(model, tmp_path / "model.colabel")


def test_a_linear_classifier_has_two_classes(tmp_path):
    model = models()["cdn-svc"]()
    hard = next(own.estimator for own in model.models_.models if own.estimator is not None)
    hard.estimator_.classes_ = np.array([1])
    with pytest.raises(ModelFileError, match="fewer than two"):
        colabel.save(model, tmp_path / "model.colabel")


@pytest.mark.parametrize(
    ("model", "tag", "place", "other", "match"),
    [
        ("stack", "joint-stack", ("members_", 0), "kernel-features", "has no joint"),
        ("stack", "joint-stack", ("members_", 0), "ctbn", "members_.0."),  # of other features
        ("stack", "joint-stack", ("members_", 0), "label-space", "not an estimator"),
        ("stack-forest", "joint-stack", ("members_", 0), "mixture-of-trees", "members say"),
        ("stack-forest", "joint-stack", ("members_", 1), "joint-forest", "members say"),
        ("stack", "sklearn.Pipeline", ("steps", 1, "tuple", 1), "label-prior", "not an estimator"),
        ("stack", "sklearn.Pipeline", ("steps", 1, "tuple", 1), "linear-models", "not an estimat"),
        ("conformal-folds", "conformal-sets", ("members_", 1), "sklearn.StandardScaler", "joint"),
        ("thresholds", "thresholded-classifier", ("estimator_",), "label-space", "estimator"),
        ("br-logistic", "estimator-model", ("estimator",), "sklearn.StandardScaler", "proba"),
        ("pipeline-pca", "sklearn.Pipeline", ("steps", 0, "tuple", 1), "sklearn.PCA", "features"),
        (
            "pipeline-pca",
            "sklearn.Pipeline",
            ("steps", 1, "tuple", 1),
            "sklearn.MaxAbsScaler",
            "other features than the next one takes",
        ),
        ("table", "table-model", ("model",), "preprocessor", "model has no predict"),
    ],
)
def test_parts_in_the_place_of_others(model, tag, place, other, match, tmp_path):
    """They loaded, and the first prediction was an AttributeError or a TypeError."""
    file = written(tmp_path, model)

    def swap(tree):
        found = [i for i, entry in enumerate(tree["objects"]) if entry["type"] == other]
        number = max(found, key=lambda i: len(tree["objects"][i]["fields"]))  # a fitted one
        fields = [e for e in tree["objects"] if e["type"] == tag and len(e["fields"]) > 1][-1]
        # what an object names stands before it
        tree["objects"].append({"type": tag, "fields": json.loads(json.dumps(fields["fields"]))})
        at = tree["objects"][-1]["fields"]
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = {"object": number}

    changed(file, "model.json", swap)
    refused(file, match)


def without_sign(array):
    """Positions which, beside numbers with a sign, become doubles, which index nothing."""
    return np.maximum(array, 0).astype(np.uint64)


@pytest.mark.parametrize(
    ("model", "tag", "field", "change", "match"),
    [
        ("ctbn", "ctbn", "tree_", lambda a: np.array([1, 0]), "its own ancestor"),
        ("kernel", "kernel-features", "components_", lambda a: a[:, :-1], "next one takes"),
        # label columns that a classifier does not have: an IndexError, or one of scikit-learn's
        *(
            (model, "estimator-model", "allowed", change, "allowed|extra of|q of|models_|coeffic")
            for model in ("cdn-nb", "pcc-nb")
            for change in (lambda a: a.astype(float), lambda a: ~a, lambda a: a[:-1])
        ),
        ("lds", "lds-network", "vectors", without_sign, "vectors is .*, not an array of int64"),
        ("stack", "label-prior", "vectors", without_sign, "vectors is .*, not an array of int64"),
        ("forest", "vector-forest", "vectors", without_sign, "vectors is .*not an array of int64"),
        ("ctbn", "ctbn", "tree_", without_sign, "tree_ is .*, not an array of int64"),
        ("cml", "field-layout", "edges", without_sign, "edges is .*, not an array of int64"),
    ],
)
def test_arrays_that_do_not_fit(model, tag, field, change, match, tmp_path):
    refused(with_field(written(tmp_path, model), tag, field, change), match)


def test_tables_that_are_no_distributions(tmp_path):
    """Probabilities summed to 2.1."""
    file = written(tmp_path, "ebn")
    tree = json.loads(members(file)["model.json"])
    place = objects_of(tree, "feature-factor")[0]["log_tables"]["tuple"][0]["array"]
    name = f"arrays/{place}.npy"
    with_array(file, name, arrays_of(file)[name] * 1e16)
    refused(file, "log_tables.* do not sum to one|log_tables.*not between")
