"""What all tests share: one seed, so that a nightly job can sweep it."""

from __future__ import annotations

import os

import numpy as np
import pytest


@pytest.fixture
def seed() -> int:
    """Seed of the test data: COLABEL_TEST_SEED, or 0."""
    return int(os.environ.get("COLABEL_TEST_SEED", "0"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A fresh generator for every test."""
    return np.random.default_rng(seed)
