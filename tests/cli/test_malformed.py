"""Inputs that cannot work end in one clear sentence: no traceback, no hang, no memory eaten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("resource")  # as the child process does
malformed = pytest.importorskip("tests.cli.malformed")
CASES, good_model = malformed.CASES, malformed.good_model
ROOT = Path(__file__).resolve().parents[2]
MOST_MEMORY = 500_000_000


def run_cases(folder):
    """Run all cases in a process of their own."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.cli.malformed", str(folder)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What became of every case, all run in one child process.

    A model is fitted here before: where nothing is compiled yet this compiles, and the memory that
    the compiler takes (100 MB) is not what the inputs take.
    """
    folder = tmp_path_factory.mktemp("compiling") / "model"
    folder.mkdir()
    good_model(folder)
    return {line["name"]: line for line in run_cases(tmp_path_factory.mktemp("malformed"))}


def test_there_are_fifty():
    assert len(CASES) >= 50


@pytest.mark.parametrize("name", CASES)
def test_one_clear_sentence(results, name):
    result = results[name]
    assert result.get("crash") is None
    assert "Traceback" not in result["err"]
    said = [line for line in result["err"].splitlines() if line.strip()]
    if result["err"].startswith("Usage:"):  # typer's own way with options it can check itself
        assert result["code"] == 2
        return
    assert result["code"] in (2, 3), result
    assert said[-1].startswith("Error: ")
    assert said[-1].rstrip().endswith((".", "?", ")"))
    assert len(said[-1]) < 700
    assert sum(line.startswith("Error: ") for line in said) == 1


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_behind(results, name):
    assert results[name]["left"] == []  # temporary files
    assert not results[name]["written"]  # half an output


def test_models_are_refused_with_their_own_code(results):
    for name in CASES:
        expected = 3 if name.startswith("model_") and name != "model_into_no_folder" else None
        if expected:
            assert results[name]["code"] == expected, name


def test_memory_stays_small(results):
    assert max(result["peak"] for result in results.values()) < MOST_MEMORY
