"""Stacks of joint models: what is learned, what is asked, and what goes wrong."""

from __future__ import annotations

import time
from operator import itemgetter

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import colabel
from colabel import (
    CTBN,
    BinaryRelevance,
    CollectiveCRF,
    ForestFeatures,
    JointForest,
    JointStack,
    KernelFeatures,
    ProbabilisticClassifierChain,
    SplineFeatures,
)
from colabel.core.progress import check_deadline
from colabel.joint import Mixture
from colabel.labels import EncodedLabels, LabelSpace
from colabel.learn.conditional import TrainingData, random_folds
from colabel.models.cross_fitting import Member
from colabel.models.stack import joint_stack
from colabel.models.stack.joint_stack import measure_costs, rows_within
from colabel.models.stack.members import checked_members, default_members

PCC = ProbabilisticClassifierChain
FAST = [("alone", BinaryRelevance(C=0.1, random_state=0)), ("tree", CTBN(C=0.1, random_state=0))]


def rows(n=120, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    first = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    Y = np.column_stack([first, first ^ (rng.random(n) < 0.15), X[:, 1] > 0.3])[:, :d]
    return X, Y.astype(int)


def columns(*kept):
    """A transformer that keeps some columns."""
    return FunctionTransformer(itemgetter((slice(None), list(kept))))


def test_weights_and_losses_are_those_of_rows_held_out():
    X, Y = rows()
    model = JointStack(FAST, random_state=0).fit(X, Y)
    assert model.member_names_ == ["alone", "tree"]
    assert sum(model.weights_.values()) == pytest.approx(1)
    assert set(model.weights_) == {"alone", "tree", "frequencies"}
    assert model.weights_["tree"] > 0.5 > model.weights_["frequencies"]
    losses = model.held_out_log_loss_
    assert losses["stack"] <= min(losses["alone"], losses["tree"]) + 1e-9
    assert losses["frequencies"] > losses["tree"]


def test_held_out_losses_against_a_loop():
    X, Y = rows(60)
    folds = [(np.arange(20, 60), np.arange(20)), (np.arange(40), np.arange(40, 60))]
    model = JointStack([FAST[0]], cv=folds).fit(X, Y)
    loss = 0.0
    for train, test in folds:
        loss -= (
            BinaryRelevance(C=0.1).fit(X[train], Y[train]).joint(X[test]).log_prob(Y[test]).sum()
        )
    assert model.held_out_log_loss_["alone"] == pytest.approx(loss / 40, rel=1e-6)


def test_the_joint_joins_the_members_fitted_to_all_rows():
    X, Y = rows()
    model = JointStack(FAST, random_state=0).fit(X, Y)
    joints = [clone(member).fit(X, Y).joint(X[:5]) for _, member in FAST]
    joint = model.joint(X[:5])
    base = joint if isinstance(joint, Mixture) else joint.base
    *weights, rest = model.weights_.values()  # the last of the frequencies
    expected = sum(w * np.exp(m.log_prob(Y[:5])) for w, m in zip(weights, joints, strict=True))
    found = np.exp(base.log_prob(Y[:5]))
    assert (found >= expected - 1e-9).all()
    assert (found <= expected + rest + 1e-9).all()
    np.testing.assert_array_equal(model.predict(X[:5]), joint.mode())


class Counting(FunctionTransformer):
    """A transformer that counts its fits."""

    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        return super().fit(X, y)


def test_pipelines_that_begin_alike_share_their_transformers():
    X, Y = rows()
    Counting.fits = 0
    members = [make_pipeline(Counting(), member) for _, member in FAST]
    model = JointStack(members, cv=2, random_state=0).fit(X, Y)
    assert Counting.fits == 3  # two folds and all rows, not twice that
    assert model.members_[0][0] is model.members_[1][0]
    plain = JointStack(FAST, cv=2, random_state=0).fit(X, Y)
    found, expected = (each.joint(X[:9]).log_prob(Y[:9]) for each in (model, plain))
    np.testing.assert_allclose(found, expected)


class Stubborn(BinaryRelevance):
    """A model that learns from nothing."""

    def fit(self, X, y, **options):
        raise ValueError("nothing will do")


def test_a_member_that_cannot_learn_is_left_out_with_a_warning():
    X, Y = rows()
    Y = Y.astype(float)
    Y[:30, 0] = np.nan  # which chains learn from, too
    members = [("stubborn", Stubborn(C=0.1)), ("chain", PCC(C=0.1)), *FAST]
    with pytest.warns(UserWarning, match="'stubborn' is left out of the stack: nothing will do"):
        model = JointStack(members, random_state=0).fit(X, Y)
    assert "tree" in model.member_names_
    assert "stubborn" not in model.member_names_
    with pytest.raises(ValueError, match="No member of the stack could be fitted: stubborn"):
        JointStack(members[:1], random_state=0).fit(X, Y)


def test_a_value_that_a_fold_lacks_keeps_its_place():
    X, _ = rows(30)
    y = np.array(["a", "b"] * 14 + ["c", "a"])
    model = JointStack([("alone", BinaryRelevance(C=0.1))], random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert 0 < model.predict_proba(X)[:, 2].max() < 0.4


def test_rows_of_weight_zero_are_not_there(rng):
    """The rows, and others that no model may see: far away, and with labels of their own."""
    X, Y = rows(80)
    order = np.argsort(np.r_[np.arange(80), rng.uniform(0, 80, 40)])  # in between
    more_X = np.r_[X, 50 + 20 * rng.normal(size=(40, 4))][order]
    more_Y, weight = np.r_[Y, 1 - Y[:40]][order], (order < 80).astype(float)
    members = [make_pipeline(KernelFeatures(1.0, 20, random_state=0), CTBN(C=0.1)), FAST[0]]
    model = JointStack(members, cv=2, random_state=0)
    plain = clone(model).fit(X, Y)
    model.fit(more_X, more_Y, sample_weight=weight)
    assert model.weights_ == pytest.approx(plain.weights_, abs=1e-4)
    found, expected = (each.joint(X).log_prob(Y) for each in (model, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_a_fold_without_weight_is_no_fold():
    X, Y = rows(40)
    weight = np.r_[np.ones(20), np.zeros(20)]
    cv = [(np.arange(20, 40), np.arange(20)), (np.arange(20), np.arange(20, 40))]
    model = JointStack(FAST, cv=cv, random_state=0).fit(X, Y, sample_weight=weight)
    assert model.weights_["frequencies"] == 0.0  # nobody could be held out


@pytest.mark.parametrize("cv", [0.5, [(np.arange(150), np.arange(150, 300))]])
def test_a_single_split_can_pool(cv):
    """Two members that each see one of two labels: a product of them is far better."""
    X, Y = rows(300, d=3)
    members = [make_pipeline(columns(k), FAST[0][1]) for k in (0, 1)]
    model = JointStack(members, cv=cv, random_state=0).fit(X, Y[:, [0, 2]])
    assert model.exponents_ is not None
    assert model.held_out_log_loss_["stack"] < min(
        loss for name, loss in model.held_out_log_loss_.items() if name != "stack"
    )


def test_too_few_rows_to_hold_out():
    X, Y = rows(1)
    model = JointStack(FAST, random_state=0).fit(X, Y)
    assert model.weights_ == {"alone": 0.5, "tree": 0.5, "frequencies": 0.0}
    assert model.predict(X).tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ("all", "members='all' must be 'auto' or a list"),
        ([], "must be 'auto' or a list"),
        ([("a", 3)], "Member 0 is 3: give a model"),
        ([("a", CTBN()), ("a", CTBN())], "Two members are called 'a'"),
    ],
)
def test_wrong_members(members, match):
    with pytest.raises(ValueError, match=match):
        JointStack(members).fit(*rows())
    names = [name for name, _ in checked_members([CTBN(), CTBN(), BinaryRelevance()])]
    assert names == ["CTBN 1", "CTBN 2", "br"]


def data_of(X, sizes, missing=False):
    codes = np.zeros((X.shape[0], len(sizes)), dtype=np.int32)
    codes[0, 0] = -1 if missing else 0
    return TrainingData(X, codes, sizes)


@pytest.mark.parametrize(
    ("data", "names", "chain"),
    [
        (data_of(np.zeros((5, 4)), (2,) * 6), ["lines", "curves", "kernel", "boosting"], PCC),
        (data_of(np.zeros((5, 4)), (3, 2)), ["lines", "curves", "kernel", "boosting"], PCC),
        (data_of(sparse.csr_array((5, 4)), (2,) * 50), ["lines", "boosting"], PCC),
        (data_of(np.zeros((5, 4)), (2,) * 6, True), ["lines", "curves", "kernel", "boosting"], PCC),
        (data_of(np.full((5, 4), np.nan), (2,) * 6), ["boosting"], PCC),
        (data_of(sparse.csr_array((20_000, 90_000)), (2,) * 2000), ["lines"], BinaryRelevance),
    ],
    ids=["labels", "variables", "sparse", "missing labels", "missing features", "large"],
)
def test_default_members_suit_the_data(data, names, chain):
    members = dict(default_members(data))
    assert list(members) == ["forest", "extra trees", *names]
    last = [m[-1] if isinstance(m, Pipeline) else m for m in list(members.values())[2:]]
    assert all(isinstance(model, chain | CollectiveCRF) for model in last)
    for model in members.values():  # they take the seed of their stack
        seeds = {k: v for k, v in model.get_params().items() if k.endswith("random_state")}
        assert set(seeds.values()) == {None}


def test_missing_features_are_seen_by_forests(rng):
    X = rng.normal(size=(80, 3))
    Y = (X[:, :2] > 0).astype(int)
    X[rng.random(X.shape) < 0.2] = np.nan
    members = [make_pipeline(ForestFeatures(20), CTBN(C=1.0)), JointForest(20)]
    model = JointStack(members, random_state=0, cv=2).fit(X, Y)
    assert model.score(X, Y) > 0.7
    assert model.joint(X).log_prob(Y).mean() > -0.7
    whole = JointStack([CTBN(C=1.0), JointForest(10)], random_state=0, cv=2)
    with pytest.raises(ValueError, match="contains NaN"):
        whole.fit(X, Y)


class Counted(BinaryRelevance):
    """Counts its fits."""

    fits = 0

    def fit(self, *args, **kwargs):
        type(self).fits += 1
        return super().fit(*args, **kwargs)


def test_what_the_first_fold_shows_to_be_useless_is_not_fitted_again():
    X, Y = rows(300)
    nothing = make_pipeline(FunctionTransformer(np.zeros_like), Counted(C=0.1))
    Counted.fits = 0
    model = JointStack([*FAST, ("nothing", nothing)], cv=4, random_state=0).fit(X, Y)
    assert Counted.fits == 1
    assert "nothing" not in {*model.member_names_, *model.held_out_log_loss_}
    Counted.fits = 0
    JointStack([("alone", Counted(C=0.1)), nothing], cv=4, random_state=0).fit(X, Y)
    assert Counted.fits == 6  # four folds and all rows, and once the other


def test_a_time_limit_leaves_out_members_and_rows_and_says_so():
    X, Y = rows(200)
    with pytest.warns(UserWarning, match="left out|rows") as warned:
        model = JointStack(random_state=0, time_limit=1e-6).fit(X, Y)
    said = " ".join(str(warning.message) for warning in warned)
    assert "To keep to time_limit=1e-06 s the stack learns from 50 of 200 rows." in said
    assert "'boosting' is left out of the stack: time_limit=1e-06 s leaves it no time." in said
    assert len(model.member_names_) == 1
    assert model.score(X, Y) > 0.5
    slow = [("alone", BinaryRelevance(C=0.1, random_state=0)), FAST[1]]
    assert JointStack(slow, random_state=0, time_limit=1e4).fit(X, Y).member_names_
    with pytest.raises(ValueError, match="time_limit=0 must be a positive number"):
        JointStack(FAST, time_limit=0).fit(X, Y)


def test_rows_for_which_there_is_time():
    def members(*costs):
        found = [Member(str(i), CTBN()) for i in range(len(costs))]
        for member, (constant, of_row) in zip(found, costs, strict=True):
            member.cost = np.array([[constant, of_row / 2], [0.0, of_row / 2]])
        return found

    both = members((1.0, 1e-4), (1.0, 3e-4))
    assert rows_within(100.0, both, 200_000) == 200_000
    assert rows_within(42.0, both, 200_000) == 100_000  # (42 - 2) / 4e-4
    assert rows_within(8.0, both, 200_000) == 70_000  # both would see 15,000 rows
    assert rows_within(0.9, both, 200_000) == 50
    assert rows_within(5.0, members((1.0, 1e-4), (1e9, 0.0)), 200_000) == 40_000


class Late(PCC):
    """Does not end on more than 100 rows."""

    def fit(self, X, y, **options):
        time.sleep(0.1)  # it is the dearest
        while len(X) > 100:
            check_deadline()
        return super().fit(X, y, **options)


def test_a_member_that_overstays_is_stopped(monkeypatch):
    def costs(members, *_):
        for member in members:
            of_all = 0.2 if member.name == "late" else 0.0
            member.cost = np.array([[of_all, 0.0], [0.1, 0.0]])

    monkeypatch.setattr(joint_stack, "measure_costs", costs)
    X, Y = rows(200)
    members = [("late", Late(C=0.1)), *FAST]
    with pytest.warns(UserWarning, match="'late' is left out of the stack"):
        model = JointStack(members, cv=2, random_state=0, time_limit=2.0).fit(X, Y)
    assert set(model.member_names_) <= {"alone", "tree"}
    assert model.score(X, Y) > 0.5


def test_costs_are_measured_on_some_rows():
    X, Y = rows(4000)
    members = [Member("alone", Counted(C=0.1)), Member("late", Late(C=0.1))]
    data = TrainingData(X, Y.astype(np.int32), (2, 2, 2))
    folds = random_folds(data, 3, 0)
    Counted.fits = 0
    space, _ = LabelSpace.infer(Y)
    measure_costs(members, data, folds, space, 12, 0.5, 0)
    for member in members:  # also of one that would never end
        assert 0 < member.seconds(200) <= member.seconds(4000) < np.inf
    assert Counted.fits <= 2 * 2 * 5 + 1  # a fold and all rows of 200, 400, ... 3,200 at most


def test_verbose_says_what_it_will_cost(capsys):
    X, Y = rows(60)
    JointStack(FAST, random_state=0, verbose=1).fit(X, Y)
    said = capsys.readouterr().err
    assert "JointStack: 2 members (alone, tree), 3 folds, about" in said
    assert "predict will minimise the Subset() loss" in said
    model = JointStack(random_state=0, verbose=1)
    assert model._allows_nan()
    model.fit(X, Y)  # a pilot of few rows would cost a fit
    assert "3 folds, some seconds;" in capsys.readouterr().err
    assert not model._allows_nan()  # it was fitted without gaps
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict(np.full((1, 4), np.nan))


def test_a_decision_that_does_not_suit_class_variables_is_refused_before_anything_is_fitted():
    X, Y = rows(60)
    Counted.fits = 0
    with pytest.raises(ValueError, match="The decision 'jaccard' counts the ones of 0/1 labels"):
        JointStack([Counted(C=0.1)], decision="jaccard").fit(X, Y + Y[:, ::-1])
    assert Counted.fits == 0
    for loss in ("subset", "hamming", "f1", "micro_f1", "macro_f1"):
        model = JointStack([Counted(C=0.1)], decision=loss, random_state=0).fit(X, Y + Y[:, ::-1])
        np.testing.assert_array_equal(model.predict(X), colabel.decide(model.joint(X), loss))


def test_of_many_labels_some_rows_are_asked(rng):
    X = rng.normal(size=(900, 2))
    Y = (X[:, :1] + rng.normal(size=(900, 600)) > 1).astype(int)
    model = JointStack([("alone", BinaryRelevance(C=0.1))], cv=2, random_state=0).fit(X, Y)
    joint = model.joint(X[:3])
    assert "mode" not in joint.exact
    assert (joint.log_prob(joint.mode()) >= joint.log_prob(Y[:3])).all()


def test_choices_are_made_once():
    X, Y = rows(90)
    chain = PCC(C=(0.01, 1.0), random_state=0)
    pipe = make_pipeline(SplineFeatures(), chain)
    model = JointStack([("curves", pipe), FAST[0]], cv=2, random_state=0).fit(X, Y)
    curves = SplineFeatures().fit_transform(X)
    fitted, free = (clone(chain).fit(curves[:n], Y[:n]) for n in (90, 45))
    np.testing.assert_array_equal(model.members_[0][-1].C_, fitted.C_)
    part = chain.reusing(fitted).fit(curves[:45], Y[:45])
    np.testing.assert_array_equal(part.C_, fitted.C_)
    np.testing.assert_array_equal(part.label_scale_, fitted.label_scale_)
    np.testing.assert_array_equal(chain.reusing(free).fit(curves, Y).C_, free.C_)


def test_the_default_on_a_curved_boundary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    inside = ((X**2).sum(axis=1) < 1.4).astype(int)
    Y = np.column_stack([inside, inside ^ (rng.random(240) < 0.1)])
    stack = JointStack(random_state=0).fit(X[:160], Y[:160])
    straight = BinaryRelevance().fit(X[:160], Y[:160])
    better = stack.joint(X[160:]).log_prob(Y[160:]) - straight.joint(X[160:]).log_prob(Y[160:])
    assert better.mean() > 0.3


def test_encoded_labels_are_labels():
    _, Y = rows(10)
    space, codes = LabelSpace.infer(Y)
    encoded = EncodedLabels(space, codes)
    assert LabelSpace.infer(encoded)[0] is space
    assert encoded.shape == (10, 3)
    assert len(encoded[:4]) == 4
    np.testing.assert_array_equal(np.asarray(encoded), codes)
    np.testing.assert_array_equal(space.encode(encoded), codes)
    other, _ = LabelSpace.infer(Y)
    with pytest.raises(ValueError, match="encoded by another label space"):
        other.encode(encoded)
