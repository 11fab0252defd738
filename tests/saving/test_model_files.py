"""Model files: every estimator comes back as it was, and nothing else comes with it."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import colabel
from colabel.core.schema import declared_for
from colabel.decide import F1
from colabel.saving import ModelFileError, describe_model
from tests.saving.files import changed, frame, objects_of, refused, table_model

ESTIMATORS = [
    value
    for value in (getattr(colabel, name) for name in sorted(colabel.__all__))
    if inspect.isclass(value)
    and issubclass(value, BaseEstimator)
    and hasattr(value, "predict")
    and not inspect.isabstract(value)
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
    if any(p.name == "members" for p in needed):
        cheap = [colabel.BinaryRelevance(C=1.0), colabel.CTBN(C=1.0, random_state=0)]
        params = {"members": cheap, "cv": 2, **params}
    model = estimator_class(**params)
    small = {"n_estimators": 2, "n_trees": 2, "gate_C": 0.1}
    model.set_params(**{key: small[key] for key in small if key in model.get_params()})
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(40, 3))
    return X, (X @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3)) > 0).astype(int)


def saved_and_loaded(model, tmp_path):
    file = tmp_path / "model.colabel"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a type that load would not make: declare it by stored
        colabel.save(model, file)
    assert [path.name for path in tmp_path.iterdir()] == ["model.colabel"]
    return colabel.load(file)


def assert_same_answers(model, again, X):
    assert type(again) is type(model)
    assert list(again.label_names_) == list(model.label_names_)
    if np.random.RandomState not in map(type, vars(model).values()):
        assert repr(again) == repr(model)
    assert np.array_equal(model.predict(X), again.predict(X))
    if hasattr(getattr(model, "model", model), "predict_proba"):
        for one, two in zip(model.predict_proba(X), again.predict_proba(X), strict=True):
            np.testing.assert_array_equal(one, two)


GaussianNBPerLabel = colabel.BinaryRelevance(estimator=GaussianNB())
TWO_VALUED = (colabel.ThresholdedClassifier,)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("estimator_class", "labels"),
    [
        pytest.param(estimator, labels, id=f"{estimator.__name__}-{labels}")
        for estimator in ESTIMATORS
        for labels in LABELS
        if not (estimator in TWO_VALUED and labels == "variables")
    ],
)
def test_every_estimator_comes_back(estimator_class, labels, storage, rows, tmp_path):
    X, Y = rows
    X = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0)) if storage == "sparse" else X
    model = make(estimator_class).fit(X, LABELS[labels](Y))
    assert_same_answers(model, saved_and_loaded(model, tmp_path), X)


@pytest.mark.parametrize("estimator_class", ESTIMATORS, ids=lambda e: e.__name__)
def test_every_model_of_a_table_comes_back(estimator_class, tmp_path):
    """The texts and categories of a table make its features sparse."""
    model = table_model(make(estimator_class))
    features = frame().without(["tags"])
    assert_same_answers(model, saved_and_loaded(model, tmp_path), features)


def test_every_fitted_attribute_is_declared(rows, tmp_path):
    """A new model's attributes stand in its `stored` line; this names the ones that do not."""
    X, Y = rows
    for estimator_class in ESTIMATORS:
        declared = declared_for(make(estimator_class))
        assert declared, f"{estimator_class.__name__} has no line @stored(...)"
        model = make(estimator_class).fit(X, Y)
        assert set(vars(model)) <= set(declared.fields), estimator_class.__name__


@pytest.mark.parametrize(
    "model",
    [
        colabel.CTBN(estimator=GaussianNB(), random_state=0),
        colabel.CTBN(estimator=GaussianNB(), stack=False, random_state=0),
        colabel.CTBN(C=1.0, max_parents=1, random_state=0),
        colabel.CDN(estimator=GaussianNB(), n_sweeps=5, burn_in=1, n_chains=1, random_state=0),
        colabel.CDN(estimator=LinearSVC(random_state=0), random_state=0),
        colabel.ClassifierChain(estimator=GaussianNB(), random_state=0),
        colabel.ClassifierChain(estimator=GaussianNB(), stack=False, random_state=0),
        colabel.StackedBinaryRelevance(estimator=LinearSVC(random_state=0), random_state=0),
        colabel.BinaryRelevance(decision=F1(), random_state=0),
        colabel.BinaryRelevance(estimator=LogisticRegression()),
        colabel.BinaryRelevance(estimator=make_pipeline(StandardScaler(), GaussianNB())),
        colabel.CDN(estimator=GaussianNB(), n_sweeps=5, burn_in=1, random_state=0),
        colabel.EnsembleOfChains(2, estimator=GaussianNB(), random_state=0),
        colabel.IBLR(5, features=True, C=1.0, random_state=0),
        colabel.IBLR(5, estimator=GaussianNB(), random_state=0),
        colabel.MLkNN(5, metric="manhattan", algorithm="ball_tree", random_state=0),
        colabel.ThresholdedClassifier(GaussianNBPerLabel, random_state=0),
        colabel.ConformalSets(colabel.BinaryRelevance(C=1.0), cv=2, random_state=0),
        colabel.CollectiveCRF(C=1.0, ridge=1.0, training="supported", random_state=0),
        colabel.ProbabilisticClassifierChain(C=1.0, inference="beam", random_state=0),
        colabel.BinaryRelevance(C=1.0, random_state=np.random.RandomState(3)),
    ],
    ids=lambda model: " ".join(str(model).split()).split(" at 0x")[0],
)
def test_models_around_others_come_back(model, rows, tmp_path):
    X, Y = rows
    model = clone(model).fit(X, Y)
    assert_same_answers(model, saved_and_loaded(model, tmp_path), X)


SMALL_FOREST = RandomForestClassifier(4, min_samples_leaf=3, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        colabel.BinaryRelevance(estimator=SMALL_FOREST),
        colabel.BinaryRelevance(estimator=ExtraTreesClassifier(4, random_state=0)),
        colabel.BinaryRelevance(estimator=DecisionTreeClassifier(random_state=0)),
        colabel.BinaryRelevance(estimator=ExtraTreeClassifier(class_weight="balanced")),
        colabel.BinaryRelevance(estimator=make_pipeline(StandardScaler(), SMALL_FOREST)),
        colabel.CTBN(estimator=SMALL_FOREST, random_state=0),
        colabel.CDN(estimator=SMALL_FOREST, n_sweeps=5, burn_in=1, n_chains=1, random_state=0),
        colabel.EnsembleOfChains(2, estimator=SMALL_FOREST, random_state=0),
        colabel.ProbabilisticClassifierChain(estimator=SMALL_FOREST, random_state=0),
        colabel.StackedBinaryRelevance(estimator=SMALL_FOREST, random_state=0),
        colabel.ThresholdedClassifier(colabel.BinaryRelevance(estimator=SMALL_FOREST)),
    ],
    ids=lambda model: " ".join(str(model).split()),
)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_forests_come_back_as_plain_arrays(model, rows, storage, tmp_path):
    X, Y = rows
    if storage == "sparse" and "StandardScaler" not in repr(model):  # which centres no sparse rows
        X = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    model = clone(model).fit(X, Y)
    again = saved_and_loaded(model, tmp_path)
    assert repr(again) == repr(model)  # estimator= is a forest that can be grown again
    assert clone(again).fit(X, Y).predict(X).shape == Y.shape
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-15)
    (tmp_path / "again").mkdir()
    twice = saved_and_loaded(again, tmp_path / "again")
    np.testing.assert_array_equal(twice.predict_proba(X), again.predict_proba(X))


def test_a_forest_from_a_file_only_answers(rows, tmp_path):
    X, Y = rows
    model = colabel.BinaryRelevance(estimator=SMALL_FOREST).fit(X, Y)
    both = model, saved_and_loaded(model, tmp_path)
    forests = [each.models_.models[0].estimator for each in both]
    names = [type(forest).__name__ for forest in forests]
    assert names == ["RandomForestClassifier", "PlainForest"]
    np.testing.assert_array_equal(forests[1].predict(X), forests[0].predict(X))
    with pytest.raises(TypeError, match="came from a file and only answers"):
        forests[1].fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="2 features"):
        forests[1].predict_proba(X[:, :2])


def test_pipelines_come_back(rows, tmp_path):
    X, Y = rows
    model = make_pipeline(StandardScaler(), colabel.CTBN(C=1.0, random_state=0)).fit(X, Y)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize(
    "features",
    [
        colabel.KernelFeatures(2.0, 5, random_state=0),
        colabel.ForestFeatures(3, passthrough=True, random_state=0),
    ],
    ids=lambda features: type(features).__name__,
)
def test_pipelines_of_tables_come_back(features, tmp_path):
    model = table_model(make_pipeline(features, colabel.CTBN(C=1.0, random_state=0)))
    assert repr(model).startswith(
        f"TableModel({type(features).__name__} + CTBN: 4 columns, 3 labels"
    )
    again = saved_and_loaded(model, tmp_path)
    rows = frame().without(["tags"])
    assert_same_answers(model, again, rows)
    np.testing.assert_array_equal(again.joint(rows).mode(), model.predict(rows))
    assert again.label_names_ == ("a", "b", "c")
    np.testing.assert_array_equal(again.label_graph().ends, model.label_graph().ends)
    assert describe_model(tmp_path / "model.colabel")["model"].endswith("Features + CTBN")


def people():
    """A data frame of numbers, categories and texts, some of them missing."""
    rng = np.random.default_rng(3)
    age = np.where(rng.random(60) < 0.1, np.nan, rng.normal(40, 10, 60))
    city = np.array(rng.choice(["Rome", "Oslo", "Lima"], 60), dtype=object)
    note = np.array([f"likes {w}" for w in rng.choice(["tea", "ink", "rain"], 60)], dtype=object)
    frame = pd.DataFrame({"age": age, "pay": rng.normal(size=60), "city": city, "note": note})
    return frame, (rng.random((60, 2)) < 0.5).astype(int)


def preparing(**options):
    """What is usually put before a model of such a frame."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, ["age", "pay"]),
            ("city", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("note", TfidfVectorizer(ngram_range=(1, 2)), "note"),
        ],
        **options,
    )


def only(transformer, *columns):
    return ColumnTransformer([("one", transformer, list(columns))])


@pytest.mark.parametrize(
    "transformer",
    [
        preparing(),
        preparing(remainder="passthrough", sparse_threshold=0.0),
        only(SplineTransformer(n_knots=4, include_bias=False), "pay"),
        only(SplineTransformer(degree=2, extrapolation="periodic"), "pay"),
        only(make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder()), "city"),
        only(OneHotEncoder(drop="first", sparse_output=False), "city", "note"),
        only(make_pipeline(SimpleImputer(), RobustScaler(), SplineTransformer(3)), "age", "pay"),
        ColumnTransformer([("words", CountVectorizer(stop_words="english"), "note")]),
        ColumnTransformer(
            [("number", SimpleImputer(), make_column_selector(dtype_include=np.number))],
            remainder="drop",
        ),
    ],
    ids=lambda transformer: " ".join(str(transformer).split())[:60],
)
def test_common_transformers_come_back_without_trust(transformer, tmp_path):
    X, Y = people()
    model = make_pipeline(clone(transformer), colabel.BinaryRelevance(C=1.0)).fit(X, Y)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    new = X.iloc[:3].assign(city="Bern", note="hates rain")
    try:
        expected = model.predict_proba(new)
    except ValueError as error:  # an encoder that does not know the city
        with pytest.raises(ValueError, match=str(error)[:20]):
            again.predict_proba(new)
    else:
        np.testing.assert_array_equal(again.predict_proba(new), expected)
    assert clone(again).fit(X, Y).predict(X).shape == Y.shape


def test_attributes_that_a_file_lacks(rows, tmp_path):
    """Older versions of scikit-learn fill in with the type of the rows, and have no name for it."""

    def without(tag, name):
        def change(tree):
            objects_of(tree, tag)[0].pop(name, None)  # which older versions lack

        return change

    (X, Y), file = rows, tmp_path / "m"
    model = make_pipeline(SimpleImputer(), colabel.BinaryRelevance(C=1.0)).fit(X, Y)
    colabel.save(model, file)
    changed(file, "model.json", without("sklearn.SimpleImputer", "_fill_dtype"))
    np.testing.assert_array_equal(colabel.load(file).predict(X), model.predict(X))
    words = ["likes tea", "likes ink", "hates tea", "hates rain"] * 10
    colabel.save(
        make_pipeline(TfidfVectorizer(), colabel.BinaryRelevance(C=1.0)).fit(words, Y), file
    )
    refused(
        changed(file, "model.json", without("sklearn.TfidfVectorizer", "_tfidf")),
        "it has lost its _tfidf",
    )


def test_a_search_is_not_saved_but_its_best_model_is(tmp_path):
    X, Y = people()
    search = GridSearchCV(colabel.BinaryRelevance(), {"C": [0.1, 1.0]}, cv=2)
    model = make_pipeline(preparing(), search).fit(X, Y)
    with pytest.raises(ModelFileError, match="save its best_estimator_ instead, with the steps"):
        colabel.save(model, tmp_path / "m")
    best = make_pipeline(*[step for _, step in model.steps[:-1]], search.best_estimator_)
    assert (saved_and_loaded(best, tmp_path).predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    "vectorizer",
    [
        CountVectorizer(token_pattern=r"(a+)+$"),
        CountVectorizer(vocabulary=["aa", "bb"]),
        TfidfVectorizer(ngram_range=(1, 20)),
    ],
    ids=["pattern", "vocabulary", "long"],
)
def test_vectorizers_of_ones_own_need_trust(vectorizer, tmp_path):
    X, Y = ["aa bb", "bb aaaa", "aa cc", "cc aaa"] * 10, np.arange(40)[:, None] % 2
    model = make_pipeline(vectorizer, colabel.BinaryRelevance(C=1.0)).fit(X, Y)
    with pytest.warns(UserWarning, match="Vectorizer"):
        colabel.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="is refused: it wants"):
        colabel.load(tmp_path / "m")


def test_a_pipeline_for_other_columns_is_no_model_of_a_table(rows, tmp_path):
    X, Y = rows
    model = table_model(colabel.CTBN(C=1.0, random_state=0))
    model.model = make_pipeline(StandardScaler(), colabel.CTBN(C=1.0, random_state=0)).fit(X, Y)
    with pytest.raises(ModelFileError, match="p of model has 3"):
        colabel.save(model, tmp_path / "m")


def test_the_file_says_what_it_is(rows, tmp_path):
    X, Y = rows
    model = colabel.CTBN(C=1.0, random_state=0).fit(X, Y, label_names=["p", "q", "r"])
    colabel.save(model, tmp_path / "m")
    said = describe_model(tmp_path / "m")
    assert said["labels"] == ["p", "q", "r"]
    assert said["model"] == "CTBN"
    assert said["colabel"] == colabel.__version__
    assert "scikit-learn" in said["packages"]
