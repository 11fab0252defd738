"""Displays: numbers first, drawn second."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colabel import (
    CDN,
    CTBN,
    BayesNetEnsemble,
    BinaryRelevance,
    ClassifierChain,
    LDSMixture,
    PairwiseCRF,
)
from colabel.report import (
    CalibrationDisplay,
    JointProbabilityDisplay,
    LabelGraphDisplay,
    graph_text,
    label_graph,
    reliability,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib import pyplot as plt  # noqa: E402

NAMES = ["rain", "wet", "$lippery"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(80, 2))
    rain = X[:, 0] + rng.normal(size=80) > 0
    wet = rain ^ (rng.random(80) < 0.1)
    return X, np.stack([rain, wet, wet ^ (rng.random(80) < 0.2)], axis=1).astype(int)


@pytest.fixture
def tree(rows):
    return CTBN(C=1.0, random_state=0).fit(*rows, label_names=NAMES)


def test_a_tree(tree):
    graph = label_graph(tree)
    assert graph.directed
    for (parent, child), gain in zip(graph.ends.tolist(), graph.strengths, strict=True):
        assert tree.tree_[child] == parent
        assert gain == tree.edge_gains_[parent, child]
    assert len(graph.ends) == (tree.tree_ >= 0).sum() == 2
    display = LabelGraphDisplay.from_estimator(tree)
    drawn = {text.get_text() for text in display.ax_.texts}
    assert set(NAMES) <= drawn
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize(
    "model",
    [
        PairwiseCRF(random_state=0),
        CDN(C=1.0, random_state=0),
        ClassifierChain(C=1.0, random_state=0),
        LDSMixture(smoothing=1.0, random_state=0),
        BinaryRelevance(C=1.0),
        BayesNetEnsemble(smoothing=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_graphs(model, rows):
    graph = label_graph(model.fit(*rows, label_names=NAMES))
    assert graph.names == tuple(NAMES)
    assert graph.meaning.endswith(".")
    assert isinstance(graph_text(graph), str)
    assert graph.to_dict()["directed"] == graph.directed
    LabelGraphDisplay(graph).plot()
    if isinstance(model, LDSMixture):
        arcs = [(parent, child) for child, own in enumerate(model.network_) for parent in own]
        assert graph.directed
        assert list(map(tuple, graph.ends.tolist())) == arcs
    if isinstance(model, BinaryRelevance | BayesNetEnsemble):
        assert not len(graph.ends)
    else:
        assert len(graph.ends)
        first = graph.to_frame().iloc[0]
        assert first.iloc[0] in NAMES
        assert first.iloc[1] in NAMES


def test_pipelines_are_looked_into(rows):
    X, Y = rows
    model = make_pipeline(StandardScaler(), CTBN(C=1.0, random_state=0))
    model.fit(X, Y)
    assert label_graph(model).names == ("y0", "y1", "y2")
    display = JointProbabilityDisplay.from_estimator(model, X, row=3, k=2)
    joint = model[-1].joint(model[:-1].transform(X))
    np.testing.assert_allclose(display.probabilities, np.exp(joint[3].top_k(2).log_prob[0]))


def test_the_best_label_sets(tree, rows):
    joint = tree.joint(rows[0])
    _, ax = plt.subplots()
    display = JointProbabilityDisplay.from_joint(joint, 5, k=100, ax=ax)
    assert display.ax_ is ax
    assert len(display.label_sets) == 8
    assert display.probabilities.sum() == pytest.approx(1)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, display.probabilities)
    frame = display.to_frame()
    assert frame["label set"][0] == display.label_sets[0]
    display.figure_.canvas.draw()  # a dollar sign in a name is not mathematics
    with pytest.raises(ValueError, match="one for each"):
        JointProbabilityDisplay(["a"], np.array([0.5, 0.5]))


def test_reliability_by_hand():
    found = reliability([0.05, 0.15, 0.15, 1.0], [0, 1, np.nan, 1], n_bins=10)
    np.testing.assert_allclose(found.predicted, [0.05, 0.15, 1.0])
    np.testing.assert_allclose(found.observed, [0, 1, 1])
    assert found.counts.tolist() == [1, 1, 1]
    assert found.error == pytest.approx((0.05 + 0.85 + 0) / 3)
    for wrong in ({"prob": [1.2], "came_true": [1]}, {"prob": [0.2], "came_true": [1, 0]}):
        with pytest.raises(ValueError, match="robabilities"):
            reliability(**wrong)


def test_calibration_of_single_labels(tree, rows):
    X, Y = rows
    joint = tree.joint(X)
    display = CalibrationDisplay.from_estimator(tree, X, Y)
    expected = reliability(joint.marginals().ravel(), Y.ravel())
    np.testing.assert_allclose(display.reliability.observed, expected.observed)
    np.testing.assert_allclose(display.reliability.predicted, expected.predicted)


def test_calibration_of_label_sets(tree, rows):
    X, Y = rows
    joint = tree.joint(X)
    known = Y.astype(float)
    known[:10, 0] = np.nan
    display = CalibrationDisplay.from_joint(joint, known, of="joint")
    prob = np.exp(joint.log_prob(joint.mode()))[10:]
    expected = reliability(prob, (joint.mode() == Y).all(axis=1)[10:])
    np.testing.assert_allclose(display.reliability.observed, expected.observed)
    assert display.reliability.counts.sum() == 70
    with pytest.raises(ValueError, match="choose"):
        CalibrationDisplay.from_joint(joint, Y, of="sets")
