"""A few thousand changed files, the same ones in every run; `make fuzz` tries others for longer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.cases import CASES

SEED = 20261115
N_CASES = {
    "models": 1500,
    "tables": 1500,
    "plans": 1000,
    "own-tables": 600,
    "parts": 300,
    "checkpoints": 1000,
    "pages": 100,
}
NEVER_REFUSED = {"pages"}


@pytest.mark.parametrize("kind", CASES)
def test_changed_files_are_answered_or_refused(kind, tmp_path):
    seen = {"answered": 0, "refused": 0}
    for case in range(N_CASES[kind]):
        try:
            seen[CASES[kind](np.random.default_rng([SEED, case]), tmp_path)] += 1
        except Exception as error:
            raise AssertionError(
                f"case {case}: python -m tests.fuzz {kind} --seed {SEED} --first {case} --cases 1"
            ) from error
    # changes that are all refused, or all without effect, test nothing
    judged = seen if kind not in NEVER_REFUSED else {"answered": seen["answered"]}
    assert min(judged.values()) > N_CASES[kind] // 50, seen
