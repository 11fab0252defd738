"""What all tests share: one seed, so that a nightly job can sweep it, and the real data sets."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from colabel.core import arrays, compiling

REPOSITORY = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out checks of scikit-learn that an estimator cannot be asked: they would be skipped."""
    items[:] = [item for item in items if not _of_something_absent(item)]


def _of_something_absent(item: pytest.Item) -> bool:
    given = getattr(item, "callspec", None)
    check = getattr(given.params.get("check"), "func", None) if given is not None else None
    name = getattr(check, "__name__", "")
    if name.endswith("decision_function"):
        return not hasattr(given.params["estimator"], "decision_function")
    return name.startswith("check_array_api") and not os.environ.get("SCIPY_ARRAY_API")


@pytest.fixture(scope="session", autouse=True)
def untold() -> None:
    """Nothing is said of compiling: the first test that needs a kernel is any one."""
    compiling._WATCH.noticed = math.inf


@pytest.fixture
def seed() -> int:
    """Seed of the test data: COLABEL_TEST_SEED, or 0."""
    return int(os.environ.get("COLABEL_TEST_SEED", "0"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A fresh generator for every test."""
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Return the folder with the real data sets, or skip."""
    home = Path(os.environ.get("COLABEL_DATA", REPOSITORY / ".." / "shared" / "data"))
    if not (home / "emotions" / "emotions.arff").is_file():
        pytest.skip(f"No real data sets in {home}: set COLABEL_DATA to their folder.")
    return home


@pytest.fixture
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows at a time where rows are taken in parts, so that the seams are seen."""
    monkeypatch.setattr(arrays, "MOST_ROWS", 7)
