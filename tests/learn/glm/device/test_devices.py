"""Which device is used, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from colabel import CTBN, BinaryRelevance
from colabel.datasets import load_digit_traits
from colabel.learn.glm.device import torch_device


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture(scope="module")
def data():
    return load_digit_traits()


@pytest.mark.parametrize("model", [BinaryRelevance, CTBN])
@pytest.mark.parametrize("device", ["gpu", "cuda:x", 1])
def test_a_device_that_is_none_is_refused(model, device, data):
    with pytest.raises(ValueError, match=r"device=.* must be None, \"cpu\", \"cuda\""):
        model(device=device).fit(data.X[:50], data.Y[:50])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_without_torch_a_sentence_says_what_to_install(no_torch, device, data):
    with pytest.raises(ModuleNotFoundError, match=r"needs torch.*pip install 'colabel\[gpu\]'"):
        BinaryRelevance(device=device).fit(data.X[:50], data.Y[:50])


def test_auto_goes_on_without_torch(no_torch, data):
    assert torch_device("auto") is None
    BinaryRelevance(C=1.0, device="auto").fit(data.X[:50], data.Y[:50])


def test_without_a_gpu_a_sentence_says_so(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="sees 0 CUDA devices here"):
        torch_device("cuda")
    assert torch_device("auto") is None
    assert torch_device("cpu") == "cpu"


def test_torch_is_not_imported_unless_a_device_is_asked_for():
    code = (
        "import sys, numpy as np, colabel\n"
        "X, Y = np.eye(20), np.arange(40).reshape(20, 2) // 3 % 2\n"
        "colabel.CTBN(C=1.0).fit(X, Y).predict(X)\n"
        "assert not {'torch', 'triton'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
