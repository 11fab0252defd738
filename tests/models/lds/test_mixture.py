"""LDSMixture: what it learns, what it can be asked, what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from colabel import LDSMixture
from colabel.joint import LDSPosterior
from colabel.joint.base import APPROXIMATE
from colabel.models.lds.learning import EMOptions, learn_network
from colabel.preprocess import FeatureBins
from tests.joint.lds.oracle import draw_rows, random_network

PARENTS, SIZES, N_VALUES = ((), (0,), (0, 1), (2,)), (2, 2, 2, 2), (3, 4, 2, 3, 4, 3)


@pytest.fixture
def drawn(rng):
    """A known network and 400 rows of it: features, labels."""
    network = random_network(rng, PARENTS, SIZES, N_VALUES, 16, sharpness=0.4)
    labels, features = draw_rows(network, 400, rng)
    return network, features, labels


# ----------------------------------------------------------------------------- learning


def test_rows_of_a_known_model_are_predicted_almost_as_well_as_by_the_model_itself(rng):
    network = random_network(rng, PARENTS, SIZES, N_VALUES, 16, sharpness=0.3)
    labels, features = draw_rows(network, 6000, rng)
    model = LDSMixture(None, smoothing=1.0, random_state=0).fit(features[:3000], labels[:3000])
    truth = LDSPosterior(model.label_space_, network, features[3000:])
    loss, best = (
        -joint.log_prob(labels[3000:]).mean() for joint in (model.joint(features[3000:]), truth)
    )
    assert best - 0.01 < loss < best + 0.1
    right = (truth.mode() == labels[3000:]).all(axis=1).mean()
    assert model.score(features[3000:], labels[3000:]) > right - 0.03


@pytest.mark.parametrize("m_step", ["em", "printed"])
def test_parameters_are_those_of_the_learning_rooms(drawn, m_step):
    _, features, labels = drawn
    model = LDSMixture(None, smoothing=0.5, tol=0.01, m_step=m_step, random_state=0)
    model.fit(features, labels)
    expected, traces, _ = learn_network(
        model._rows(model_data(features, labels), model_data(features[:0], labels[:0])),
        lambda codes, weight: model.network_ if len(codes) else (),
        EMOptions(smoothing=0.5, tol=0.01, max_iter=1000, printed=m_step == "printed"),
        max_rounds=0,
    )
    np.testing.assert_allclose(model.parameters_.phi, expected.phi)
    np.testing.assert_allclose(model.mixture_weights_, expected.theta.transpose(0, 2, 1))
    assert model.mixture_weights_.shape == (len(model.label_vectors_), 6, 4)
    np.testing.assert_allclose(model.mixture_weights_.sum(axis=2), 1.0)
    assert model.n_iter_ == max(map(len, traces)) - 1


def model_data(features, labels):
    from colabel.learn.conditional import TrainingData

    return TrainingData(features.astype(float), labels, SIZES)


def test_continuous_features_are_cut_into_bins(rng, drawn):
    _, features, labels = drawn
    X = features + rng.uniform(0, 0.9, size=features.shape)
    fixed = {"smoothing": 1e-6, "max_rounds": 0, "random_state": 0}
    inside = LDSMixture(bins=3, **fixed).fit(X, labels)
    bins = FeatureBins(3).fit(X)
    outside = LDSMixture(None, **fixed).fit(bins.transform(X), labels)
    np.testing.assert_array_equal(inside.features_.codes(X), bins.transform(X))
    # outside, a category that was never seen is one more value
    assert inside.parameters_.columns.n_columns + 6 == outside.parameters_.columns.n_columns
    np.testing.assert_allclose(
        inside.predict_proba(X), outside.predict_proba(bins.transform(X)), atol=1e-4
    )


def test_the_smoothing_is_chosen_on_rows_held_out(drawn):
    _, features, labels = drawn
    model = LDSMixture(None, random_state=0).fit(features, labels)
    assert model.smoothing_ in (0.01, 0.1, 1.0)
    fixed = LDSMixture(None, smoothing=model.smoothing_, random_state=0).fit(features, labels)
    np.testing.assert_array_equal(fixed.parameters_.phi, model.parameters_.phi)
    # labels that are sure to follow from features want little smoothing
    sure = np.repeat(np.eye(12, dtype=int), 6, axis=0)
    assert LDSMixture(None, random_state=0).fit(sure, sure).smoothing_ == 0.01


def test_rows_without_labels_help_where_the_model_is_right(rng):
    network = random_network(rng, PARENTS, SIZES, N_VALUES * 2, 16, sharpness=0.4)
    labels, features = draw_rows(network, 1700, rng)
    some = labels.astype(float)
    some[60:1200] = np.nan
    new = slice(1200, None)
    alone = LDSMixture(None, random_state=0).fit(features[:60], labels[:60])
    with pytest.warns(UserWarning, match="1140 of 1200 rows have no .* unlabelled_weight_ says"):
        model = LDSMixture(None, random_state=0).fit(features[:1200], some[:1200])
    with pytest.warns(UserWarning, match="1140 of 1200 rows"):
        third = LDSMixture(None, unlabelled_weight=0.3, random_state=0).fit(
            features[:1200], some[:1200]
        )
    loss = [
        -each.joint(features[new]).log_prob(labels[new]).mean() for each in (alone, model, third)
    ]
    assert loss[2] < loss[0] - 0.05
    assert loss[1] < loss[0] - 0.02 or (model.unlabelled_weight_ == 0 and loss[1] == loss[0])
    # those of weight zero are not there
    weight = np.repeat([1.0, 0.0], [60, 1140])
    with pytest.warns(UserWarning, match="1140 of 1200 rows"):
        without = LDSMixture(None, random_state=0).fit(features[:1200], some[:1200], weight)
    np.testing.assert_array_equal(without.parameters_.phi, alone.parameters_.phi)


def test_rows_without_labels_are_left_out_where_the_model_is_wrong(rng):
    """One label and many copies of a feature that says little: the copies shout it down."""
    Y = (rng.random((500, 1)) < 0.5).astype(float)
    told = np.where(rng.random((500, 4)) < 0.8, Y, 1 - Y)
    other = rng.random((500, 1)) < 0.5 + 0.1 * (2 * Y - 1)
    X = np.hstack([told, np.repeat(other, 15, axis=1)])
    some = Y.copy()
    some[150:400] = np.nan
    fixed = {"smoothing": 1.0, "random_state": 0}
    with pytest.warns(UserWarning, match="250 of 400 rows"):
        model = LDSMixture(None, **fixed).fit(X[:400], some[:400])
    assert model.unlabelled_weight_ == 0.0
    alone = LDSMixture(None, **fixed).fit(X[:150], Y[:150])
    np.testing.assert_array_equal(model.parameters_.theta, alone.parameters_.theta)
    with pytest.warns(UserWarning, match="250 of 400 rows"):
        told_to = LDSMixture(None, unlabelled_weight=1.0, **fixed).fit(X[:400], some[:400])
    loss = [-each.joint(X[400:]).log_prob(Y[400:]).mean() for each in (model, told_to)]
    assert loss[0] < loss[1]


# ----------------------------------------------------------------------------- answering


def test_values_never_seen_get_the_probability_that_smoothing_leaves():
    X = np.array([[0], [0], [1], [1]] * 5)
    Y = (X == 1).astype(int)
    model = LDSMixture(None, smoothing=1.0).fit(X, Y)
    network = model.parameters_
    # ten rows with each label, three values with the one never seen: (0 + 1) / (10 + 3)
    np.testing.assert_allclose(network.phi[0, :, 2], 1 / 13)
    joint = model.joint([[7], [-1]])
    np.testing.assert_allclose(joint.marginals(), 0.5)
    # as in the paper there are two values, and what is new counts as the nearest of them
    printed = LDSMixture(None, unseen=False, smoothing=1.0).fit(X, Y)
    np.testing.assert_allclose(printed.parameters_.phi[0], [[11 / 12, 1 / 12], [1 / 12, 11 / 12]])
    near = printed.joint([[1], [0]]).marginals()
    np.testing.assert_array_equal(printed.joint([[7], [-1]]).marginals(), near)


def test_the_published_heuristic_can_be_compared_with_the_exact_mode(drawn):
    _, features, labels = drawn
    exact = LDSMixture(None, smoothing=1.0, random_state=0).fit(features, labels)
    published = LDSMixture(None, smoothing=1.0, inference="coordinate ascent", random_state=0)
    published.fit(features, labels)
    one, two = exact.joint(features), published.joint(features)
    assert one.exact.all
    assert two.exact == APPROXIMATE
    assert "all 16 label vectors" in one.how
    assert "coordinate ascent" in two.how
    scores = [exact.parameters_.log_joint(features, joint.mode_codes()) for joint in (one, two)]
    assert (scores[0] >= scores[1] - 1e-9).all()


def test_many_labels_are_searched(rng):
    Y = (rng.random((120, 18)) < 0.2).astype(int)
    X = 2 * Y[:, :9] + rng.integers(0, 2, size=(120, 9))
    model = LDSMixture(None, smoothing=0.1, random_state=0).fit(X, Y)
    joint = model.joint(X[:30])
    assert joint.exact == APPROXIMATE
    assert joint.inference == "search"
    assert (joint.mode()[:, :9] == Y[:30, :9]).mean() > 0.9
    assert (joint.given({17: 1}).mode()[:, 17] == 1).all()


def test_class_variables_and_names(rng):
    first = rng.choice(["low", "mid", "high"], size=200)
    second = np.where(first == "high", "yes", rng.choice(["yes", "no"], size=200))
    X = np.column_stack([first == "low", first == "mid", second == "yes"]) * 1.0
    Y = pd.DataFrame({"level": first, "flag": second})
    model = LDSMixture(None, random_state=0).fit(X, Y)
    assert model.label_names_ == ("level", "flag")
    assert (model.predict(X) == Y.to_numpy()).all()
    assert model.network_ in ((((1,), ())), (((), (0,))))


# ----------------------------------------------------------------------------- asking


@pytest.fixture
def tone(rng):
    """Songs whose tone says whether sadness and surprise go together, but nothing about one."""
    Y = rng.integers(0, 2, size=(3000, 3))
    Y[:, 1] = np.where(rng.random(3000) < 0.5, Y[:, 0], Y[:, 1])
    high = np.where(Y[:, 0] == Y[:, 1], 0.9, 0.1)
    X = pd.DataFrame(
        {"tone": (rng.random(3000) < high) * 1.0, "rhythm": rng.integers(0, 3, 3000) * 1.0}
    )
    names = ["sad", "surprised", "loud"]
    # later rounds would learn the network from inferred labels, here only of two kinds
    return LDSMixture(None, max_rounds=0, random_state=0).fit(X, Y, label_names=names)


def test_which_labels_drive_a_feature(tone):
    drivers = tone.drivers("tone")
    assert drivers.feature == "tone"
    strongest = int(drivers.strength.argmax())
    assert set(drivers.sets[strongest]) == {"sad", "surprised"}
    assert drivers.weights.sum() == pytest.approx(1.0)
    assert drivers.values == ("0", "1", "other")
    assert len(drivers.states[strongest]) == 4
    for place, row in enumerate(drivers.tables[strongest]):
        state = drivers.state_name(strongest, place)
        # other sets take part in the mixture, so that this one need not say .9 and .1 exactly
        assert (row[1] > 0.8) == (("surprised=1" in state) == ("sad=1" in state))
        assert not 0.2 < row[1] < 0.8
    assert sum(drivers.state_prob[strongest]) == pytest.approx(1.0)
    np.testing.assert_array_equal(tone.drivers(0).weights, drivers.weights)
    silent = tone.drivers("rhythm")
    assert silent.strength.max() < 0.01 < drivers.strength.max()
    assert "surprised" in drivers.to_text(1)


def test_drivers_for_one_label_vector(tone):
    network = tone.parameters_
    one = tone.drivers("tone", labels=[0, 1, 0]).weights
    position = [tuple(y) for y in network.vectors.tolist()].index((0, 1, 0))
    np.testing.assert_array_equal(one, network.theta[position, :, 0])


def test_drivers_of_what_does_not_exist(tone, drawn):
    with pytest.raises(ValueError, match="no feature 'pitch'"):
        tone.drivers("pitch")
    with pytest.raises(ValueError, match="no feature 2: there are 2"):
        tone.drivers(2)
    with pytest.raises(ValueError, match="missing entries"):
        tone.drivers(0, labels=[0, None, 1])
    _, features, labels = drawn
    unnamed = LDSMixture(None, smoothing=1.0).fit(features, labels)
    with pytest.raises(ValueError, match="X had no column names"):
        unnamed.drivers("tone")


def test_information_is_mutual_information(rng, drawn):
    _, features, labels = drawn
    model = LDSMixture(None, smoothing=1.0).fit(features, labels)
    drivers, network = model.drivers(1), model.parameters_
    for k in range(4):
        total = 0.0
        prob, table = drivers.state_prob[k], drivers.tables[k]
        mean = [sum(p * row[v] for p, row in zip(prob, table, strict=True)) for v in range(5)]
        for (s, p), v in itertools.product(enumerate(prob), range(5)):
            total += p * table[s][v] * np.log(table[s][v] / mean[v])
        assert drivers.information[k] == pytest.approx(total)
        shares = network.vector_weights / network.vector_weights.sum()
        assert drivers.weights[k] == pytest.approx(shares @ network.theta[:, k, 1])


# ----------------------------------------------------------------------------- refusing


def test_exact_answers_for_many_labels_are_refused_before_learning(rng):
    Y = rng.integers(0, 2, size=(10, 30))
    with pytest.raises(ValueError, match="30 labels have 1073741824"):
        LDSMixture(inference="exact").fit(rng.normal(size=(10, 2)), Y)


def test_too_many_mixture_weights_are_refused_before_they_are_made(drawn, monkeypatch):
    _, features, labels = drawn
    n_vectors = len(np.unique(labels, axis=0))
    monkeypatch.setattr("colabel.models.lds.mixture._MOST_WEIGHTS", n_vectors * 24 - 1)
    with pytest.raises(ValueError, match=f"{n_vectors} label vectors, 6 features and 4"):
        LDSMixture(None).fit(features, labels)
