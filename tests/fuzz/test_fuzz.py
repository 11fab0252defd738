"""A few thousand changed files, the same ones in every run; `make fuzz` tries others for longer."""

from __future__ import annotations

import os
import time
from collections import Counter

import numpy as np
import pytest

import colabel
from colabel.core.schema import DECLARED, NotAsDeclaredError, checked
from tests.fuzz import limits
from tests.fuzz.cases import CASES, asked, model_files

SEED = 20261115
N_CASES = {
    "models": 500,
    "tables": 1500,
    "plans": 1000,
    "own-tables": 600,
    "parts": 300,
    "checkpoints": 1000,
    "pages": 100,
}
NEVER_REFUSED = {"pages"}
N_BEFORE = 20  # cases that may compile, and read what all cases read


@pytest.mark.parametrize("kind", CASES)
def test_changed_files_are_answered_or_refused(kind, tmp_path):
    if kind == "models":  # whatever else they may be, files that nobody changed are answered
        for name, content in model_files().items():
            (tmp_path / name).write_bytes(content)
            assert asked(colabel.load(tmp_path / name)) == "answered", name
    for case in range(N_BEFORE):
        CASES[kind](np.random.default_rng([SEED, case]), tmp_path)
    seen: Counter[str] = Counter()
    for case, outcome in run(kind, tmp_path):
        seen[outcome] += 1
        said = limits.repeat_command(kind, SEED, case)
        assert outcome in ("answered", "refused"), f"{said}\n{outcome}"
    # changes that are all refused, or all without effect, test nothing
    least = seen["answered"] if kind in NEVER_REFUSED else min(seen["answered"], seen["refused"])
    assert least > N_CASES[kind] // 50, seen


def run(kind, folder):
    """Run the cases, in a child with limits where the system has them."""
    if limits.CAN_LIMIT:
        yield from limits.outcomes(kind, SEED, 0, N_CASES[kind])
        return
    for case in range(N_CASES[kind]):
        yield case, CASES[kind](np.random.default_rng([SEED, case]), folder)


def answer(rng, folder):
    return "answered"


def fail(rng, folder):
    raise KeyError("raw")


def crash(rng, folder):
    os.abort()


def wait(rng, folder):
    time.sleep(60)


def go_on(rng, folder):
    while True:
        pass


def hoard(rng, folder):
    return str(len(np.ones(1 << 28)))


@pytest.mark.skipif(not limits.CAN_LIMIT, reason="needs limits of Linux")
@pytest.mark.parametrize(
    ("what", "told"),
    [
        (answer, "answered"),
        (fail, "KeyError"),
        (crash, "crash, exit code -6"),
        (wait, "hang"),
        (go_on, "TimeoutError"),
        (hoard, "MemoryError"),
    ],
)
def test_what_goes_wrong_is_told(what, told, monkeypatch):
    monkeypatch.setitem(CASES, "what", what)
    patience = 2 if what is wait else 60
    found = list(limits.outcomes("what", 0, 0, 2, seconds=0.3, patience=patience))
    assert [case for case, _ in found] == [0, 1]
    assert all(told in outcome for _, outcome in found), found


def test_what_fuzzing_found_is_refused():
    space = {"names": ("a",), "kind": "vector", "members": ()}
    checked(DECLARED["label-space"], {**space, "classes": (np.array([0.0, 2.0]),)})
    with pytest.raises(NotAsDeclaredError, match="no classes"):
        checked(DECLARED["label-space"], {**space, "classes": (np.array([0.0, 0.5]),)})
