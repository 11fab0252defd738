"""A small model file to change."""

from __future__ import annotations

import pytest

from tests.saving.files import written


@pytest.fixture
def file(tmp_path):
    """A file of a BinaryRelevance."""
    return written(tmp_path, "br")
