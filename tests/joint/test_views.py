"""A joint as a data frame, as text and as HTML."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import BinaryRelevance, ClassifierChain
from colabel.joint import Independent, Tree
from colabel.labels import LabelSpace
from tests.joint.families import of_marginals

pytest.importorskip("pandas")

ZERO_ONE = np.array([0, 1])


@pytest.fixture
def joint():
    space = LabelSpace(("rain", "<wet>"), (ZERO_ONE, ZERO_ONE), "matrix")
    rain = np.log([[[0.6, 0.4]]] * 7)
    wet = np.log([[[0.8, 0.2], [0.1, 0.9]]] * 7)
    return Tree(space, [-1, 0], [rain, wet])


def test_frame_of_marginals(joint):
    frame = joint.to_frame()
    assert frame.columns.tolist() == ["rain", "<wet>"]
    np.testing.assert_allclose(frame.to_numpy(), joint.marginals())


def test_frame_of_label_sets(joint):
    frame = joint.to_frame(k=3)
    assert frame.index.names == ["row", "rank"]
    assert len(frame) == 21
    best = joint.top_k(3)
    np.testing.assert_allclose(frame["probability"], np.exp(best.log_prob).ravel())
    np.testing.assert_array_equal(frame.loc[(4, 2)][["rain", "<wet>"]], best.labels[4, 1])


def test_frame_of_class_variables():
    space = LabelSpace(("size",), (np.array(["big", "mid", "small"]),), "matrix")
    frame = Independent(space, [np.log([[0.5, 0.3, 0.2]])]).to_frame()
    assert frame.columns.tolist() == [("size", "big"), ("size", "mid"), ("size", "small")]
    np.testing.assert_allclose(frame.loc[0], [0.5, 0.3, 0.2])


def test_text_names_labels(joint):
    lines = str(joint).splitlines()
    assert lines[0] == repr(joint)
    assert lines[2] == "  row 0: 0.480 no label | 0.360 rain, <wet> | 0.120 <wet>"
    assert lines[-1] == "  and 2 more rows"


def test_html_escapes_names(joint):
    html = joint._repr_html_()
    assert "&lt;wet&gt;" in html
    assert "<wet>" not in html
    assert "0.480" in html


def test_impossible_vectors_are_not_listed():
    assert str(of_marginals([[0.0]])).splitlines()[2] == "  row 0: 1.000 no label"


def test_models_show_their_labels(rng):
    X, Y = rng.normal(size=(30, 2)), rng.integers(0, 2, size=(30, 2))
    model = BinaryRelevance(C=1.0)
    assert "labels learned" not in model._repr_html_()
    model.fit(X, Y, label_names=["<one>", "two"])
    assert "2 labels learned by BinaryRelevance" in model._repr_html_()
    assert "&lt;one&gt;" in model._repr_html_()
    assert "two" in model._repr_mimebundle_()["text/html"]
    chain = ClassifierChain(C=1.0, random_state=0).fit(X, Y)
    assert "(place 1 in the chain)" in chain._repr_html_()
