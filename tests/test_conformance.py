"""Every estimator that colabel exports keeps scikit-learn's contract and the library's own.

Models are discovered: a new one is covered as soon as the package exports it.
"""

from __future__ import annotations

import inspect
import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.estimator_checks import (
    check_classifier_multioutput,
    check_classifiers_multilabel_output_format_decision_function,
    check_classifiers_multilabel_output_format_predict,
    check_classifiers_multilabel_output_format_predict_proba,
    check_classifiers_multilabel_representation_invariance,
    check_estimator_sparse_array,
    check_estimator_sparse_matrix,
    parametrize_with_checks,
)

import colabel
from colabel.models import JointClassifier

ESTIMATORS = [
    value
    for value in (getattr(colabel, name) for name in sorted(colabel.__all__))
    if inspect.isclass(value)
    and issubclass(value, ClassifierMixin)
    and not issubclass(value, MetaEstimatorMixin)  # tests/models/test_thresholds.py checks it
    and not inspect.isabstract(value)
]
MODELS = [estimator for estimator in ESTIMATORS if issubclass(estimator, JointClassifier)]


def make(estimator_class, **params):
    """Make an estimator with its defaults, around a simple model if it needs one.

    Ensembles are small and samples short: each member or sweep passes through the same code. The
    rows of some checks are in units in which a RankSVM would go on for thousands of sweeps.
    """
    known = inspect.signature(estimator_class).parameters
    if "estimator" in known and known["estimator"].default is inspect.Parameter.empty:
        params.setdefault("estimator", colabel.BinaryRelevance(C=1.0))
    if "n_chains" in known:
        params.setdefault("n_chains", 3)
    if "n_estimators" in known:
        params.setdefault("n_estimators", 30)
    if "members" in known:
        cheap = [colabel.BinaryRelevance(C=1.0), colabel.CTBN(C=1.0, random_state=0)]
        params = {"members": cheap, "cv": 2, **params}
    if "n_sweeps" in known:
        params = {"burn_in": 20, "n_sweeps": 100, **params}
    if "n_trees" in known:
        params = {"n_trees": 2, "gate_C": 0.1, **params}
    return estimator_class(**params)


def seeded(estimator_class, **params):
    model = make(estimator_class, **params)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


# The models that fail one check with their default decision. Strict: one that begins to pass, or
# another that begins to fail, is news.
FAILS = {"check_classifier_multioutput": "a joint mode need not be the vector of marginal modes"}
FAILING = {
    "CTBN",
    "ClassifierChain",
    "CollectiveCRF",
    "EnsembleOfChains",
    "JointForest",
    "LDSMixture",
    "MixtureOfTrees",
    "ProbabilisticClassifierChain",
}
# A neighbour of weight 2 takes one place among the k nearest, two equal rows take two.
OF_WEIGHTS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "a neighbour takes one place, whatever its weight",
)
EXPECTED = dict.fromkeys(FAILING, FAILS) | dict.fromkeys(("MLkNN", "IBLR"), OF_WEIGHTS)
# What depends on how labels are chosen; all other checks pass through the same code.
CHECKS_OF_DECISIONS = (
    check_classifier_multioutput,
    check_classifiers_multilabel_output_format_predict,
)


# What varies how rows and labels are written down: read before any penalty is chosen, so that
# each of their dozens of fits may have its penalties given.
CHECKS_OF_FORMATS = (
    check_classifiers_multilabel_output_format_decision_function,
    check_classifiers_multilabel_output_format_predict,
    check_classifiers_multilabel_output_format_predict_proba,
    check_classifiers_multilabel_representation_invariance,
    check_estimator_sparse_array,
    check_estimator_sparse_matrix,
)
GIVEN = {"C": 1.0, "ridge": 1.0, "group": 0.1, "alphas": 1.0, "logistic_C": 1.0, "smoothing": 1.0}


def with_given_penalties(estimator):
    known = estimator.get_params(deep=False)
    return clone(estimator).set_params(**{key: GIVEN[key] for key in GIVEN if key in known})


def test_models_are_found():
    assert {"BinaryRelevance", "CTBN"} <= {model.__name__ for model in MODELS}


# ---------------------------------------------------------------- scikit-learn's contract


@pytest.mark.parametrize("check", CHECKS_OF_DECISIONS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_scikit_learn_checks_with_the_hamming_decision(model, check):
    check(model.__name__, seeded(model, decision="hamming"))


@parametrize_with_checks(
    [seeded(estimator) for estimator in ESTIMATORS],
    expected_failed_checks=lambda estimator: EXPECTED.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks_with_the_default_decision(estimator, check):
    check(with_given_penalties(estimator) if check.func in CHECKS_OF_FORMATS else estimator)


# ------------------------------------------------------------------ the library's contract


@pytest.fixture(params=MODELS, ids=lambda model: model.__name__)
def model_class(request):
    return request.param


PROBLEMS = {"labels": (2, 2, 2), "class variables": (3, 2, 4), "one label": (2,)}


class Problem(NamedTuple):
    """Rows X (150, 3) and codes Y (150, d) of variables of some sizes, each following the last."""

    X: Any
    Y: Any
    sizes: tuple[int, ...]


@cache
def drawn(sizes, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3))
    Y = np.empty((150, len(sizes)), dtype=int)
    for i, size in enumerate(sizes):
        scores = X @ rng.normal(size=(3, size)) + rng.gumbel(size=(150, size))
        if i:
            scores += 1.5 * (Y[:, i - 1, None] % size == np.arange(size))
        Y[:, i] = scores.argmax(axis=1)
    return Problem(X, Y, sizes)


@cache
def fitted_once(model_class, sizes, seed, decision):
    """Fit a model for all the tests that only ask it."""
    problem = drawn(sizes, seed)
    options = {} if decision is None else {"decision": decision}
    return seeded(model_class, **options).fit(problem.X, problem.Y)


@pytest.fixture(params=PROBLEMS)
def problem(request, seed):
    return drawn(PROBLEMS[request.param], seed)


@pytest.fixture
def fitted(model_class, problem, seed):
    """Return a function from a decision to the model, fitted to the problem."""
    return lambda decision=None: fitted_once(model_class, problem.sizes, seed, decision)


def tables_of(marginals):
    """Marginals as one (n, K) table per label, whichever form they came in."""
    if isinstance(marginals, list):
        return marginals
    return [np.column_stack([1 - p, p]) for p in marginals.T]


def assert_same_tables(found, expected, **tolerance):
    for one, two in zip(tables_of(found), tables_of(expected), strict=True):
        np.testing.assert_allclose(one, two, **(tolerance or {"rtol": 0}))


def vectors(sizes):
    return [list(y) for y in itertools.product(*map(range, sizes))]


def test_probabilities_are_the_joints_marginals(fitted, problem):
    X, _, sizes = problem
    model = fitted()
    for table, other, size in zip(
        tables_of(model.predict_proba(X)), tables_of(model.joint(X).marginals()), sizes, strict=True
    ):
        assert table.shape == (150, size)
        np.testing.assert_allclose(table, other, atol=1e-9)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)
        assert (table >= 0).all()


def test_predictions_are_the_joints_mode_or_the_most_probable_values(fitted, problem):
    X, Y, _ = problem
    model = fitted("subset")
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    np.testing.assert_array_equal(predicted, model.joint(X).mode())
    model = fitted("hamming")
    best = [table.argmax(axis=1) for table in tables_of(model.predict_proba(X))]
    np.testing.assert_array_equal(model.predict(X), np.stack(best, axis=1))


def all_but(*names):
    """Ask every model but those that answer a question approximately."""
    known = [model for model in MODELS if model.__name__ not in names]
    return pytest.mark.parametrize("model_class", known, ids=lambda model: model.__name__)


@all_but("CDN")
def test_label_vectors_share_probability_one(model_class, fitted, problem):
    X, _, sizes = problem
    joint = fitted().joint(X[:20])
    assert {"sums", "log_prob"} <= set(joint.exact)
    prob = np.stack([np.exp(joint.log_prob(y)) for y in vectors(sizes)])
    np.testing.assert_allclose(prob.sum(axis=0), 1.0, atol=1e-9)
    for i, table in enumerate(tables_of(joint.marginals())):
        values = np.array([y[i] for y in vectors(sizes)])
        summed = np.stack([prob[values == v].sum(axis=0) for v in range(sizes[i])], axis=1)
        np.testing.assert_allclose(table, summed, atol=1e-9)


def test_the_best_vectors_come_in_order(fitted, problem):
    X, _, sizes = problem
    joint = fitted().joint(X[:20])
    labels, log_prob = joint.top_k(4)
    assert labels.shape == (20, min(4, int(np.prod(sizes))), len(sizes))
    assert (np.diff(log_prob, axis=1) <= 1e-12).all()
    for place in range(labels.shape[1]):
        listed = np.isfinite(log_prob[:, place])
        found = joint.log_prob(labels[:, place])
        np.testing.assert_allclose(found[listed], log_prob[listed, place], atol=1e-9)


@all_but("CDN", "ClassifierChain")
def test_no_vector_is_more_probable_than_the_mode(model_class, fitted, problem):
    X, _, sizes = problem
    joint = fitted().joint(X[:20])
    assert "mode" in joint.exact
    of_mode = joint.log_prob(joint.mode())
    every = np.stack([joint.log_prob(y) for y in vectors(sizes)])
    np.testing.assert_allclose(of_mode, every.max(axis=0), atol=1e-9)
    np.testing.assert_allclose(of_mode, joint.top_k(1).log_prob[:, 0], atol=1e-9)


def test_known_labels_stay_as_they_are(fitted, problem):
    X, _, sizes = problem
    joint = fitted().joint(X[:20])
    last = len(sizes) - 1
    for value in range(sizes[last]):
        given = joint.given({last: value})
        assert (given.mode()[:, last] == value).all()
        assert (given.sample(3, 0)[..., last] == value).all()
        np.testing.assert_allclose(tables_of(given.marginals())[last][:, value], 1.0, atol=1e-9)
    if "sums" in joint.exact and last:
        both = joint.pair_marginals(0, last)
        expected = both[:, :, 0] / both[:, :, 0].sum(axis=1, keepdims=True)
        found = tables_of(joint.given({last: 0}).marginals())[0]
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_joint_has_the_models_label_space(fitted, problem):
    X, _, sizes = problem
    model = fitted()
    joint = model.joint(X[:7])
    assert len(joint) == 7
    assert joint.space is model.label_space_
    assert joint.space.cardinalities == sizes
    assert model.label_names_ == joint.space.names
    assert [len(values) for values in model.classes_] == list(sizes)
    assert model.n_features_in_ == 3


def test_sparse_rows_are_answered_like_dense_ones(fitted, problem):
    X, model = problem.X, fitted()
    assert_same_tables(model.predict_proba(X), model.predict_proba(sp.csr_array(X)), atol=1e-9)


def test_rows_are_answered_in_parts_of_any_size(fitted, problem, request):
    X, model = problem.X[:40], fitted()
    whole, labels = model.predict_proba(X), model.predict(X)
    request.getfixturevalue("few_rows_at_once")
    assert_same_tables(model.predict_proba(X), whole, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_seed_gives_the_same_answer_with_any_number_of_jobs(
    model_class, fitted, problem, n_jobs
):
    X, Y, _ = problem
    again = seeded(model_class, n_jobs=n_jobs).fit(X, Y)
    assert_same_tables(again.predict_proba(X), fitted().predict_proba(X))


def poor(n_rows):
    """Rows, with two labels that follow X; the others have no row, all rows and one row."""
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    constant = np.zeros(n_rows, dtype=int)
    lone = (np.arange(n_rows) == 3).astype(int)
    return X, np.column_stack([X[:, :2] > 0, constant, constant + 1, lone]).astype(int)


@pytest.mark.filterwarnings("ignore:.*neighbours are asked for")
@pytest.mark.parametrize("n_rows", [1, 2, 3, 40])
def test_few_rows_and_constant_and_lone_labels(model_class, n_rows):
    X, Y = poor(n_rows)
    model = seeded(model_class).fit(X, Y)
    joint = model.joint(X)
    assert np.isfinite(joint.log_prob(Y)).all()
    prob = model.predict_proba(X)
    assert ((prob > 0) & (prob < 1)).all()
    assert (prob[:, 2] < 0.5).all()
    assert (prob[:, 3] > 0.5).all()
    if n_rows == 1:
        np.testing.assert_array_equal(model.predict(X), Y)
    classes = seeded(model_class).fit(X, np.column_stack([Y[:, 0] + 2, np.full(n_rows, 7)]))
    assert (classes.predict(X)[:, 1] == 7).all()
    np.testing.assert_allclose(classes.joint(X).marginal_tables()[1], 1.0)


def as_sets(Y):
    return [{name for name, on in zip("abc", row, strict=True) if on} for row in Y]


WRITTEN = {"sets": as_sets, "sparse": sp.csr_array, "words": lambda Y: np.array(["no", "yes"])[Y]}


@pytest.mark.parametrize("form", WRITTEN)
def test_labels_come_back_as_they_were_given(model_class, form, seed):
    X, Y, _ = drawn((2, 2, 2), seed)
    model = with_given_penalties(seeded(model_class))
    expected = model.fit(X, Y).predict(X)
    found = clone(model).fit(X, WRITTEN[form](Y)).predict(X)
    written = WRITTEN[form](expected)
    if form == "sparse":
        assert sp.issparse(found)
        found, written = found.toarray(), written.toarray()
    np.testing.assert_array_equal(found, written)


# Models whose answers follow their regressions without a jump, as draws and trees do not.
SMOOTH = {"BinaryRelevance", "CTBN", "IBLR", "ProbabilisticClassifierChain"}
SMOOTH |= {"StackedBinaryRelevance", "CollectiveCRF"}


def test_sparse_rows_are_learned_from_like_dense_ones(model_class, seed):
    X, Y, _ = drawn((2, 2, 2), seed)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    model = with_given_penalties(seeded(model_class))
    smooth = model_class.__name__ in SMOOTH
    model.set_params(**{"tol": 1e-8, "max_iter": 5000} if smooth else {})
    dense, sparse = (clone(model).fit(rows, Y).predict_proba(X) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense, sparse, atol=1e-4 if smooth else 0.02)


def test_progress_is_shown_only_when_asked_for(model_class, capsys, monkeypatch):
    for name in ("TTY_INTERACTIVE", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm")
    model = seeded(model_class)
    model.fit(*poor(40))
    assert capsys.readouterr() == ("", "")
    if "verbose" in model.get_params():
        model.set_params(verbose=1).fit(*poor(40))
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err


# ----------------------------------------------------------------------- its documentation


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: estimator.__name__)
def estimator_class(request):
    return request.param


def test_docstrings_have_their_sections_and_every_parameter(estimator_class):
    lines = inspect.getdoc(estimator_class).splitlines()
    for section in ("Parameters", "Attributes", "Examples"):
        assert section in lines, f"{estimator_class.__name__} has no section {section}."
        assert lines[lines.index(section) + 1] == "-" * len(section)
    documented = {
        name.strip()
        for line in lines
        if " : " in line and not line.startswith(" ")
        for name in line.split(" : ")[0].split(",")
    }
    missing = set(make(estimator_class).get_params(deep=False)) - documented
    assert not missing, f"{estimator_class.__name__} does not document {sorted(missing)}."


def test_parameters_are_those_of_the_constructor(estimator_class):
    names = [n for n in inspect.signature(estimator_class.__init__).parameters if n != "self"]
    assert sorted(make(estimator_class).get_params(deep=False)) == sorted(names)
    for name in names:
        marker = object()  # stored as it is, unchecked until fit
        assert getattr(make(estimator_class, **{name: marker}), name) is marker


def test_fitted_attributes_are_documented_names(estimator_class, rng):
    X, Y = rng.normal(size=(40, 2)), rng.integers(0, 2, size=(40, 2))
    model = seeded(estimator_class).fit(X, Y)
    own = (kind for kind in estimator_class.__mro__ if kind.__module__.startswith("colabel"))
    documentation = "\n".join(inspect.getdoc(kind) or "" for kind in own)
    fitted = [n for n in vars(model) if n.endswith("_") and not n.startswith("_")]
    missing = [name for name in fitted if name not in documentation]
    assert not missing, f"{estimator_class.__name__} does not document {missing}."
