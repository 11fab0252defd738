"""Rebuilding changes no answer: every model against what it said before, also after a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import colabel
from tests.golden.cases import CASES, LOOSE, answers

FILE = Path(__file__).with_name("golden.json")
GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_case_is_recorded():
    assert set(GOLDEN) == set(CASES)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.filterwarnings("ignore")
def test_answers_are_as_before(name, tmp_path):
    case, before = CASES[name], GOLDEN[name]
    data, model = case.data(), case.fitted()
    now = answers(model, data)
    assert now["graph"] == before["graph"]
    base = name.removesuffix(", variables").removesuffix(", missing labels")
    tolerance = 0.03 if base in LOOSE else 1e-6
    assert np.mean(np.not_equal(now["mode"], before["mode"])) <= tolerance
    np.testing.assert_allclose(
        np.mean(now["log_prob"]), np.mean(before["log_prob"]), rtol=tolerance, atol=tolerance
    )
    for table, expected in zip(now["marginals"], before["marginals"], strict=True):
        np.testing.assert_allclose(table, expected, rtol=0, atol=tolerance)
    if "boosting" in name:  # scikit-learn's own trees of this kind are not saved without trust
        return
    colabel.save(model, tmp_path / "model.colabel")
    loaded = answers(colabel.load(tmp_path / "model.colabel"), data)
    np.testing.assert_allclose(loaded["log_prob"], now["log_prob"], rtol=1e-12)
