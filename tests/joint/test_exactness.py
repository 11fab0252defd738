"""Exactness: a set of questions that is neither true nor false."""

from __future__ import annotations

import pickle

import pytest

from colabel.joint.base import APPROXIMATE, EXACT, Exactness, common


def test_it_is_a_set_of_questions():
    chain = EXACT.without("mode")
    assert chain == {"sums", "log_prob"}
    assert "mode" not in chain
    assert EXACT.all
    assert not chain.all
    assert common([EXACT, chain, Exactness(["mode", "sums"])]) == {"sums"}
    assert pickle.loads(pickle.dumps(chain)) == chain


def test_it_has_no_truth_value_and_reads_as_a_phrase():
    phrases = ["exact", "approximate", "exact sums and log_prob"]
    for exactness, phrase in zip((EXACT, APPROXIMATE, EXACT.without("mode")), phrases, strict=True):
        assert str(exactness) == phrase
        with pytest.raises(TypeError, match="ask for one, as in"):
            assert exactness


def test_unknown_questions_are_refused():
    with pytest.raises(ValueError, match="no question 'marginals'"):
        Exactness(["marginals"])
