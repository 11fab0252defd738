"""Missing labels, in every model: each learns from the labels that its rows have."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import MetaEstimatorMixin

import colabel
from colabel import CTBN, BinaryRelevance, ClassifierChain, JointForest, JointStack, MLkNN
from colabel.core.numeric import log_sum_exp
from colabel.labels import LabelSpace
from colabel.learn.conditional import RowGroup, TrainingData, random_folds
from colabel.learn.linear import LinearLearning, LinearModels
from colabel.models import JointClassifier
from colabel.models.chain.learning import (
    SHARES,
    LearnedChain,
    chosen_share,
    completed,
    posterior_draws,
    proposals,
    share_of_labels,
    with_expected_labels,
)
from colabel.models.forest.joint_forest import _smallest_leaf
from colabel.models.learning import layered, linear_learner, make_folds
from colabel.models.neighbours import Neighbours, counted

MODELS = [
    cls
    for cls in (getattr(colabel, name) for name in sorted(colabel.__all__))
    if inspect.isclass(cls)
    and issubclass(cls, JointClassifier)
    and not inspect.isabstract(cls)
    and not issubclass(cls, MetaEstimatorMixin | JointStack)
]
SMALL = {"C": 0.1, "random_state": 0, "n_jobs": 1, "n_chains": 3, "n_estimators": 20, "n_trees": 2}
SMALL |= {"burn_in": 20, "n_sweeps": 50, "gate_C": 0.1, "ridge": 1.0, "group": 0.1}


def small(cls):
    model = cls()
    known = model.get_params(deep=False)
    own = {name: value for name, value in SMALL.items() if name in known}
    return model.set_params(**(own | ({"n_chains": 1} if cls is colabel.CDN else {})))


def drawn(rng, n_rows=300):
    """Two labels by x; a third that is their exclusive or, but for noise."""
    X = rng.normal(size=(n_rows, 3))
    Y = (X[:, :2] + 0.5 * rng.normal(size=(n_rows, 2)) > 0).astype(float)
    third = (Y[:, :1] != Y[:, 1:]) ^ (rng.random((n_rows, 1)) < 0.1)
    return X, np.hstack([Y, third])


def with_holes(rng, Y, share):
    return np.where(rng.random(Y.shape) < share, np.nan, Y)


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_what_is_known_is_learned_from(rng, model_class):
    """A third of the labels is missing: better than the few complete rows, and than zeros."""
    X, Y = drawn(rng)
    holes = with_holes(rng, Y, 1 / 3)
    X_new, Y_new = drawn(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(model_class).fit(X, holes)
        as_zero = small(model_class).fit(X, np.nan_to_num(holes))
    joint = model.joint(X_new)
    assert joint.log_prob(Y_new).mean() > as_zero.joint(X_new).log_prob(Y_new).mean() + 0.1
    assert model.label_space_.n_labels == 3


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_next_to_nothing_is_no_error(rng, model_class):
    """Of 60 rows 95 % of the labels are missing: about as good as labels one by one."""
    X, Y = drawn(rng, 60)
    holes = with_holes(rng, Y, 0.95)
    holes[[0, 1], [0, 1]] = 1.0, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(model_class).fit(X, holes)
        alone = BinaryRelevance(C=0.1).fit(X, holes)
    log_prob = model.joint(X).log_prob(Y)
    assert np.isfinite(log_prob).all()
    if model_class is not JointForest:  # whose leaves hold what three rows have
        assert log_prob.mean() > alone.joint(X).log_prob(Y).mean() - 1.5
    np.testing.assert_array_equal(model.predict(X).shape, Y.shape)


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_rows_without_labels_beside_complete_ones(rng, model_class):
    X, Y = drawn(rng, 90)
    Y[60:] = np.nan
    use = "unlabelled_weight_ says" if model_class is colabel.LDSMixture else "nothing is learned"
    with pytest.warns(UserWarning, match=f"30 of 90 rows have no known label: {use}"):
        model = small(model_class).fit(X, Y)
    log_prob = model.joint(X[:60]).log_prob(Y[:60])
    if model_class is colabel.LDSMixture:
        assert np.isfinite(log_prob).all()
        return
    alone = small(model_class).fit(X[:60], Y[:60])
    np.testing.assert_allclose(log_prob, alone.joint(X[:60]).log_prob(Y[:60]), atol=1e-9)


@pytest.mark.parametrize("model_class", [colabel.CollectiveCRF, colabel.PairwiseCRF])
def test_nodes_of_fields_learn_nothing_from_drawn_labels(rng, model_class):
    """Without edges a field is regressions of the known labels, however many others are drawn."""
    X, Y = drawn(rng)
    holes = with_holes(rng, Y, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field = model_class(C=0.3, ridge=1e7, random_state=0, tol=1e-6, max_iter=5000)
        alone = BinaryRelevance(C=0.3, random_state=0, tol=1e-6, max_iter=5000).fit(X, holes)
        found = field.fit(X, holes).predict_proba(X)
    np.testing.assert_allclose(found, alone.predict_proba(X), atol=1e-4)


def exclusive(rng, n_rows):
    """Eight labels, one of which a row has; twelve features say which."""
    X = rng.normal(size=(n_rows, 12))
    weights = 0.8 * np.random.default_rng(8).normal(size=(12, 8))
    return X, np.eye(8)[(X @ weights + rng.gumbel(size=(n_rows, 8))).argmax(axis=1)]


@pytest.mark.parametrize(("share", "training"), [(0.5, "enumeration"), (0.8, "pseudo")])
def test_fields_do_not_bend_dependences_to_fit_labels_alone(rng, share, training):
    """Where most labels are summed out, a likelihood has optima that say nothing of pairs."""
    X, Y = exclusive(rng, 500)
    X_new, Y_new = exclusive(rng, 500)
    holes = with_holes(rng, Y, share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field = colabel.CollectiveCRF(random_state=0).fit(X, holes)
        alone = BinaryRelevance(random_state=0).fit(X, holes)
    assert field.training_ == training
    lead = field.joint(X_new).log_prob(Y_new) - alone.joint(X_new).log_prob(Y_new)
    assert lead.mean() > 0.1


def test_draws_follow_the_posterior_of_a_chain(rng):
    X, Y = drawn(rng)
    model = ClassifierChain(1.0, random_state=0).fit(X, Y)
    codes = Y[:6].astype(np.int32)
    codes[:3, 0] = codes[2:5, 1] = codes[5] = -1
    joint = model.joint(X[:6]).given_codes(codes)
    n_draws = 4000
    vectors = posterior_draws(model._chain, X[:6], codes, n_draws, 0, n_proposals=3000)
    assert (vectors == codes)[:, codes != -1].all()
    every = LabelSpace.infer(Y, None)[0]
    for vector in np.ndindex(*every.cardinalities):
        expected = np.exp(joint.log_prob(np.tile(vector, (6, 1))))
        found = (vectors == vector).all(axis=2).mean(axis=0)
        # proposals and draws: five standard errors of each
        assert (np.abs(found - expected) < 5 * np.sqrt(0.25 / 3000 + 0.25 / n_draws)).all()


def test_known_labels_against_enumeration(rng):
    """log P(known labels | x), where the others are summed out."""
    X, Y = drawn(rng)
    model = ClassifierChain(1.0, order=[2, 0, 1], random_state=0).fit(X, Y)
    codes = Y[:8].astype(np.int32)
    codes[rng.random(codes.shape) < 0.4] = -1
    _, log_weight = proposals(model._chain, X[:8], codes, rng, 20_000)
    found = log_sum_exp(log_weight) - np.log(20_000)
    np.testing.assert_allclose(found, model.joint(X[:8]).log_prob_codes(codes), atol=0.05)


def test_the_share_of_labels_is_that_of_the_best_on_rows_held_out(rng):
    """Against regressions fitted one fold after the other."""
    X, Y = drawn(rng, 120)
    codes = np.where(np.isnan(with_holes(rng, Y, 0.3)), -1, Y).astype(np.int32)
    data = TrainingData(X, codes, (2, 2, 2))
    folds = make_folds(data, 2, 0)
    learner = linear_learner(1.0, 1e-8, 1000, 1, 0)
    none, every = np.zeros(3, dtype=np.intp), np.arange(3)
    of_x = learner.on(data)
    inputs, _ = with_expected_labels(of_x, none)
    space, _ = LabelSpace.infer(Y)
    group = RowGroup(None, every, np.tril(np.ones((3, 3), dtype=bool), -1))

    def log_prob(models, rows, seed):
        chain = LearnedChain(every, models, none, np.ones(3), (2, 2, 2))
        return chain.joint(space, X[rows], "exact", 10, 0).log_prob_codes(codes[rows])

    scores = np.zeros((5, data.n_rows))
    for fold in range(2):
        rows, part = folds.rows_inside(fold), learner.on(inputs.take(folds.rows_outside(fold)))
        linked = part.fit([group], [none]).coef
        single = part.fit([replace(group, allowed=np.zeros((3, 3), dtype=bool))], [none])
        for s, share in enumerate([0.0, *SHARES]):
            pairs = zip(linked, single.coef, strict=True)
            coef = np.stack([(1 - share) * one + share * other for other, one in pairs])
            parts = [(places, n, replace(own, coef=coef)) for places, n, own in single.parts]
            scores[s, rows] = log_prob(LinearModels(tuple(parts), 3), rows, 0)
    found = share_of_labels(learner.on(inputs), group, none, of_x, none, folds, log_prob)
    assert found == chosen_share(scores, np.ones(data.n_rows)) > 0


def test_a_share_must_gain_more_than_chance_would():
    gains = np.array([[0.0] * 4, [0.1] * 4, [-1.0, -1.0, 1.5, 1.5], [9.0, -9.0] * 2, [-1.0] * 4])
    assert chosen_share(gains, np.ones(4)) == SHARES[0]  # the sure gain, not the largest
    assert chosen_share(-abs(gains), np.ones(4)) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_chain_takes_over_the_share_of_another(rng, share):
    X, Y = drawn(rng, 120)
    holes = with_holes(rng, Y, 0.3)
    model = colabel.ProbabilisticClassifierChain(1.0, random_state=0).fit(X, holes)
    model._chain = replace(model._chain, share=share, scale=np.ones(3) if share else np.zeros(3))
    again = model.reusing(model).fit(X, holes)
    assert again._chain.share == share
    assert np.isfinite(again.joint(X).log_prob(Y)).all()
    used = [np.abs(coef[:, 3:-1]).max() for coef in again.models_.coef[1:]]
    assert all(used) == bool(share)


@pytest.mark.parametrize("model_class", [colabel.ProbabilisticClassifierChain, colabel.CDN, CTBN])
@pytest.mark.filterwarnings("ignore")
def test_what_labels_seldom_show_of_each_other_is_not_believed(model_class):
    """Ten variables of four values that depend on x alone, three of four labels unknown."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, 10))
    X = rng.normal(size=(700, 6))
    Y = np.digitize(X @ weights + 2.0 * rng.normal(size=(700, 10)), [-2.0, 0.0, 2.0]).astype(float)
    holes = with_holes(rng, Y[:400], 0.75)
    model = model_class(random_state=0).fit(X[:400], holes)
    alone = BinaryRelevance(random_state=0).fit(X[:400], holes)
    lost = (alone.joint(X[400:]).log_prob(Y[400:]) - model.joint(X[400:]).log_prob(Y[400:])).mean()
    assert lost < 0.05


@pytest.mark.filterwarnings("ignore")
def test_rare_labels_that_never_meet_are_not_said_to_shun_each_other():
    """Independent labels, half unknown: in each group of rows the rarest are never seen."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2400, 4))
    frequency = np.where(np.arange(24) < 4, 0.4, 0.012)
    Y = (rng.random((2400, 24)) < frequency).astype(float)
    holes = with_holes(rng, Y[:400], 0.5)
    model = CTBN(random_state=0).fit(X[:400], holes)
    alone = BinaryRelevance(random_state=0).fit(X[:400], holes)
    lost = (alone.joint(X[400:]).log_prob(Y[400:]) - model.joint(X[400:]).log_prob(Y[400:])).mean()
    assert lost < 0.1


def test_a_row_counts_once_and_its_copies_share_a_fold(rng):
    X, Y = drawn(rng, 80)
    codes = np.where(rng.random(Y.shape) < 0.4, -1, Y).astype(np.int32)
    codes[0] = -1
    weight = rng.random(80) + 0.5
    data = TrainingData(X, codes, (2, 2, 2), weight)
    chain = ClassifierChain(1.0, random_state=0).fit(X, Y)._chain
    part = completed(data, chain, 0)
    assert (part.codes >= 0).all()
    known = data.codes[part.source] != -1
    np.testing.assert_array_equal(part.codes[known], data.codes[part.source][known])
    total = np.bincount(part.source, part.weight, minlength=80)
    np.testing.assert_allclose(total[1:], np.where((codes != -1).any(axis=1), weight, 0)[1:])
    assert total[0] == 0 or (codes[0] != -1).any()
    for folds in (random_folds(part, 4, 0), make_folds(part, 4, 0), make_folds(part, 0.3, 0)):
        of_origin = np.full(80, -9)
        of_origin[part.source] = folds.of_row
        np.testing.assert_array_equal(of_origin[part.source], folds.of_row)
    some = part.take(slice(5, 30))
    np.testing.assert_array_equal(some.X, X[some.source])


def test_weights_of_labels_are_those_of_rows_with_gaps(rng):
    X, Y = drawn(rng, 80)
    of_row = rng.random(80) + 0.5
    gone = rng.random(Y.shape) < 0.3
    by_label = np.where(gone, 0.0, of_row[:, None])
    model, holes = BinaryRelevance(1.0, tol=1e-9), np.where(gone, np.nan, Y)
    found = model.fit(X, Y, by_label).predict_proba(X)
    expected = model.fit(X, holes, of_row).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    weights = rng.integers(0, 4, size=Y.shape).astype(float)
    found = model.fit(X, Y, weights).predict_proba(X)
    for i in range(3):
        alone = BinaryRelevance(1.0, tol=1e-9).fit(X, Y[:, [i]], weights[:, i])
        np.testing.assert_allclose(found[:, [i]], alone.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="negative numbers or NaN"):
        BinaryRelevance(1.0).fit(X, Y, -weights)
    with pytest.raises(ValueError, match=r"has the shape \(80, 2\), but the labels have \(80, 3\)"):
        BinaryRelevance(1.0).fit(X, Y, by_label[:, :2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_class", [colabel.CDN, JointForest], ids=lambda cls: cls.__name__)
def test_the_weight_of_a_missing_label_says_nothing(rng, model_class):
    X, Y = drawn(rng, 80)
    holes, weight = with_holes(rng, Y, 0.3), rng.random(Y.shape)
    given = small(model_class).fit(X, holes, sample_weight=weight)
    zero = small(model_class).fit(X, holes, sample_weight=np.where(np.isnan(holes), 0.0, weight))
    np.testing.assert_array_equal(given.joint(X).log_prob(Y), zero.joint(X).log_prob(Y))


def test_a_label_without_weight_is_refused(rng):
    X, Y = drawn(rng, 40)
    with pytest.raises(ValueError, match="zero for all of 'y1'"):
        BinaryRelevance().fit(X, Y, sample_weight=np.ones(Y.shape) * [1, 0, 1])


def test_leaves_of_a_forest_hold_rows_not_their_copies(rng):
    """Weights of labels next to one: a row stands there three times."""
    X, Y = drawn(rng, 200)
    data = layered(TrainingData(X, Y.astype(np.int32), (2,) * 3), 1.0 - 1e-9 * rng.random(Y.shape))
    assert data.n_rows == 600
    share = _smallest_leaf(4, data)["min_weight_fraction_leaf"]
    assert share == pytest.approx(4 / 200)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_break_a_rule_are_named_as_given(rng):
    X, Y = drawn(rng, 60)
    Y[:10], Y[30, :2] = np.nan, [1, 1]
    model = colabel.RuledClassifier(BinaryRelevance(), "y0 -> not y1")
    broken = np.flatnonzero((Y[:, 0] == 1) & (Y[:, 1] == 1))
    assert broken[0] >= 10
    with pytest.warns(UserWarning, match=rf"\({broken[0]}\b"):
        model.fit(X, Y)


@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_labels_of_little_weight_hardly_count(rng, model_class):
    X, Y = drawn(rng, 200)
    wrong = rng.random(Y.shape) < 0.4
    spoilt = np.where(wrong, 1 - Y, Y)
    X_new, Y_new = drawn(rng, 200)
    weights = np.where(wrong, 0.001, 1.0)
    told, plain = (
        small(model_class).fit(X, spoilt, own).joint(X_new).log_prob(Y_new).mean()
        for own in (weights, None)
    )
    assert told > plain + 0.1


def test_blanks_that_are_unlabelled_are_drawn(rng):
    """Two of five rows with the label are marked; features tell some of them surely."""
    X = rng.normal(size=(3000, 4))
    truth = rng.random(3000) < expit(X @ [3.0, -2.0, 1.0, 0.0] - 1.0)
    other = truth ^ (rng.random(3000) < 0.1)
    marked = truth & (rng.random(3000) < 0.4)
    Y = np.column_stack([np.where(marked, 1.0, np.nan), other])
    rows, new = slice(2000), slice(2000, None)
    full = np.column_stack([truth, other])[new].astype(int)
    loss = {}
    for blank in ("absent", "unlabelled", "complete"):
        model = CTBN(1.0, random_state=0, blank="missing" if blank == "complete" else blank)
        given = np.column_stack([truth, other]) if blank == "complete" else Y
        loss[blank] = -model.fit(X[rows], given[rows]).joint(X[new]).log_prob(full).mean()
        if blank == "unlabelled":
            assert model.class_priors_[0] == pytest.approx(truth.mean(), abs=0.05)
            assert np.isnan(model.class_priors_[1])
            named = CTBN(1.0, random_state=0, blank={0: blank}).fit(X[rows], Y[rows])
            np.testing.assert_array_equal(named.predict_proba(X), model.predict_proba(X))
    assert loss["complete"] < loss["unlabelled"] < loss["absent"] - 0.1
    for blank in ("zero", None):
        sentence = f"blank of 'y0'={blank!r} must be one of 'missing', 'absent'"
        with pytest.raises(ValueError, match=sentence):
            CTBN(blank=blank).fit(X, Y)


@pytest.mark.parametrize("one", [1, 1.0, True])
def test_a_column_of_blanks_beside_other_variables(rng, one):
    X, Y = drawn(rng, 120)
    words = np.where(Y[:, 1] == 1, "yes", "no").astype(object)
    marked = np.array([one if y else None for y in Y[:, 0]], dtype=object)
    frame = pd.DataFrame({"word": words, "marked": marked})
    for blank in ("absent", {"marked": "absent"}):
        model = BinaryRelevance(C=1.0, blank=blank).fit(X, frame)
        expected = BinaryRelevance(C=1.0).fit(X, frame.assign(marked=Y[:, 0].astype(int)))
        for own, other in zip(model.models_.coef, expected.models_.coef, strict=True):
            np.testing.assert_array_equal(own, other)
        assert model.label_space_.classes[1].tolist() == [0, one]
    share = BinaryRelevance(1.0, blank="unlabelled").fit(X, frame).class_priors_
    assert np.isnan(share[0])
    assert 0 < share[1] <= 1


def test_shares_of_unlabelled_rows_count_marks_by_their_weight(rng):
    X, Y = drawn(rng, 200)
    marks = np.where(Y == 1, 1.0, np.nan)
    weight = np.where(np.arange(200)[:, None] < 100, 1.0, [0.0, 1.0, 1.0])
    other = marks.copy()
    other[100:, 0] = 1.0  # where they have no weight
    found = [
        BinaryRelevance(blank="unlabelled", random_state=0).fit(X, own, sample_weight=weight)
        for own in (marks, other)
    ]
    np.testing.assert_allclose(found[0].class_priors_, found[1].class_priors_, atol=0.01)  # folds
    unweighted = BinaryRelevance(blank="unlabelled", random_state=0).fit(X, other)
    assert unweighted.class_priors_[0] > found[1].class_priors_[0] + 0.1


@pytest.mark.parametrize("model_class", [colabel.CollectiveCRF, colabel.PairwiseCRF])
@pytest.mark.parametrize("blank", ["absent", "unlabelled"])
def test_fields_learn_from_what_blanks_mean(rng, model_class, blank):
    X, Y = drawn(rng, 200)
    Y[:, 0] = np.where((Y[:, 0] == 1) & (rng.random(200) < 0.7), 1.0, np.nan)
    alone = BinaryRelevance(C=0.3, random_state=0, blank=blank).fit(X, Y).predict_proba(X)
    for weight in (None, np.where(rng.random(Y.shape) < 0.1, 0.5, 1.0)):
        field = model_class(C=0.3, ridge=0.1, random_state=0, blank=blank).fit(X, Y, weight)
        np.testing.assert_allclose(
            field.predict_proba(X).mean(axis=0), alone.mean(axis=0), atol=0.1
        )


def test_weights_of_labels_are_those_of_what_blanks_mean(rng):
    """A blank is a 0 first; a label of weight zero is missing then, also if it was blank."""
    X, Y = drawn(rng, 120)
    Y[:, 0] = np.where(Y[:, 0] == 1, 1.0, np.nan)
    weights = (rng.random(Y.shape) < 0.7).astype(float)
    given = np.where(weights > 0, np.nan_to_num(Y), np.nan)
    found = BinaryRelevance(1.0, blank="absent").fit(X, Y, weights).predict_proba(X)
    np.testing.assert_allclose(found, BinaryRelevance(1.0).fit(X, given).predict_proba(X))


@pytest.mark.parametrize("blank", ["absent", "unlabelled", {"y0": "absent"}])
def test_blanks_beside_one_word_need_a_word_for_no(rng, blank):
    X = rng.normal(size=(40, 2))
    Y = np.where(X > -1, "yes", None).astype(object)
    Y[:, 1] = np.where(X[:, 1] > 0, "yes", "no")
    with pytest.warns(
        UserWarning, match=r"nothing to learn of .* .'y0' is 'yes'.*write the value as 1"
    ):
        BinaryRelevance(C=1.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"blank of 'y0' is .* its one value is 'yes'.*give 1"):
        BinaryRelevance(C=1.0, blank=blank).fit(X, Y)


def test_blanks_beside_zeros_are_missing_labels(rng):
    X, Y = drawn(rng, 80)
    Y[:9, 0] = np.nan
    sentence = "blank of 'y0' is 'absent', but its blanks are missing labels"
    with pytest.raises(ValueError, match=sentence):
        CTBN(blank={"y0": "absent"}).fit(X, Y)
    CTBN(blank={"y0": "missing"}, C=1.0).fit(X, Y)


def test_positive_and_unlabelled_columns_are_named(rng):
    X, Y = drawn(rng, 80)
    Y[Y[:, 1] == 0, 1] = np.nan
    with pytest.warns(UserWarning, match="1 label is 1 or missing, never 0 .'y1'.*blank='absent'"):
        BinaryRelevance(1.0).fit(X, Y)
    Y[:, 1], Y[:9] = 0.0, np.nan
    with pytest.warns(UserWarning, match="9 of 80 rows have no known label"):
        BinaryRelevance(1.0).fit(X, Y)


def test_neighbours_look_until_on_average_k_have_a_label(rng):
    X, Y = drawn(rng, 60)
    holes = with_holes(rng, Y, 0.5)
    known = ~np.isnan(holes).all(axis=1)
    X, holes = X[known], holes[known]
    model = colabel.IBLR(k=5, C=1.0, random_state=0).fit(X, holes)
    reach = int(np.ceil(5 / (~np.isnan(holes)).mean()))
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :reach]
    usual = np.broadcast_to(np.nanmean(holes, axis=0), holes.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        share = np.nanmean(holes[near], axis=1)
    expected = 5 * np.where(np.isnan(share), usual, share)
    np.testing.assert_allclose(model._neighbours.counts_in_training(), expected)


def test_score_of_neighbours_leaves_each_row_out(rng):
    X, Y = drawn(rng, 40)
    codes = np.where(rng.random(Y.shape) < 0.4, -1, Y).astype(np.int32)
    data = TrainingData(X, codes, (2, 2, 2))
    rows = Neighbours.of(data, 4, "euclidean", None, "auto", 1, 0)
    counts = np.rint(rows.counts_in_training()).astype(int)
    expected = 0.0
    for r, i in np.argwhere(codes >= 0):
        others = [o for o in range(40) if o != r and codes[o, i] >= 0]
        log_odds = 0.0
        for value, sign in ((1, 1), (0, -1)):
            same = [o for o in others if codes[o, i] == value]
            alike = sum(counts[o, i] == counts[r, i] for o in same)
            log_odds += sign * np.log((2.0 + len(same)) * (2.0 + alike) / (2.0 * 5 + len(same)))
        expected -= np.logaddexp(0.0, -log_odds if codes[r, i] else log_odds)
    assert counted(rows, counts, 2.0)[2] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_class", MODELS, ids=lambda cls: cls.__name__)
def test_everything_around_a_model_counts_what_is_known(rng, model_class):
    """Calibration, thresholds, label sets, evaluation and audit, with a fifth of labels gone."""
    X, Y = drawn(rng, 120)
    holes = with_holes(rng, Y, 0.2)
    holes[:30] = Y[:30]
    known = ~np.isnan(holes)
    calibrated = small(model_class).set_params(calibrate=True).fit(X, holes)
    found = calibrated.joint(X).log_prob(holes)
    assert np.isfinite(found).all()
    # what is missing is summed over
    assert (found >= calibrated.joint(X).log_prob(Y) - 0.7).all()
    cut = colabel.ThresholdedClassifier(small(model_class)).fit(X, holes)
    assert ((cut.thresholds_ >= 0) & (cut.thresholds_ <= 1)).all()
    sets = colabel.ConformalSets(small(model_class), cv=0.5).fit(X, holes)
    assert 0 < sets.n_held_out_ <= 60
    scores = colabel.evaluate(calibrated, X, holes)
    right = (calibrated.predict(X) == Y)[known].mean()
    assert scores.measures["hamming_accuracy"].value == pytest.approx(right, abs=0.03)
    if model_class in (BinaryRelevance, CTBN, MLkNN):  # all models answer alike, at folds' cost
        audited = colabel.audit(small(model_class), X, holes, cv=2, n_explained=0)
        assert (audited.log_odds[~known] == -np.inf).all()
        assert np.isfinite(audited.log_odds[known]).all()


@pytest.mark.parametrize("model_class", [colabel.CDN, CTBN, colabel.BayesNetEnsemble])
def test_half_of_the_labels_costs_few_regressions_more(rng, model_class, monkeypatch):
    """Of the regressions solved; rows with missing labels count twice, for their two draws."""
    X, Y = drawn(rng, 200)
    solved = []
    whole = LinearLearning.cross_validate

    def counted(self, groups, folds, *arguments, **options):
        n_rows = self.data.n_rows if folds.n_folds > 1 else 0
        targets = sum(len(group.targets) for group in groups)
        solved.append(n_rows * folds.n_folds * len(self.learner.grid) * targets)
        return whole(self, groups, folds, *arguments, **options)

    monkeypatch.setattr(LinearLearning, "cross_validate", counted)
    cost = []
    for labels in (Y, with_holes(rng, Y, 0.5)):
        solved.clear()
        model_class(random_state=0).fit(X, labels)
        cost.append(sum(solved))
    # the chain of a model without regressions of its own: three folds, and five penalties
    alone = 200 * 3 * 3 * 5
    assert cost[1] <= (3.5 * cost[0] or alone)
