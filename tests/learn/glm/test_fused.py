"""The kernels of a GPU against torch, in a process that interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_kernels_of_a_gpu_are_those_of_torch():
    pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
    passes = Path(__file__).with_name("fused_passes.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(passes)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
