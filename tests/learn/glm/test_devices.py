"""Which device is used, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from colabel import CTBN, BinaryRelevance
from colabel.cli import app
from colabel.datasets import load_digit_traits
from colabel.learn.glm.device import device_for_rows, torch_device


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
    with pytest.raises(ModuleNotFoundError, match=r"needs torch.*pip install torch"):
        BinaryRelevance(device=device).fit(data.X[:50], data.Y[:50])


def test_auto_goes_on_without_torch(no_torch, data):
    assert torch_device("auto") is None
    BinaryRelevance(C=1.0, device="auto").fit(data.X[:50], data.Y[:50])


def test_without_a_gpu_a_sentence_says_so(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="sees 0 CUDA devices here"):
        torch_device("cuda")
    assert torch_device("auto") is None
    assert torch_device("cpu") == "cpu"


def test_rows_that_do_not_fit_are_refused_or_left_to_the_processor(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    found = "colabel.learn.glm.device.{}".format
    monkeypatch.setattr(found("torch_device"), lambda device: "cuda")
    monkeypatch.setattr(found("free_memory"), lambda device: 10**9)
    assert device_for_rows("cuda", 1000, 1000) == ("cuda", True)
    with pytest.raises(ValueError, match=r"has 1\.0 GB free, and 100,000 rows .* need 24\.0 GB"):
        device_for_rows("cuda", 100_000, 10_000)
    assert device_for_rows("auto", 100_000, 10_000)[0] is None
    # sparse ones may fit as they are
    assert device_for_rows("cuda", 100_000, 10_000, 10**7) == ("cuda", False)
    with pytest.raises(ValueError, match=r"need 7\.2 GB"):
        device_for_rows("cuda", 100_000, 10_000, 10**8)


def test_the_command_line_takes_a_device(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("x,a,b\n" + "".join(f"{i % 7},{i % 2},{i // 3 % 2}\n" for i in range(40)))
    run = [str(table), "--labels", "a,b", "--model", "br", "-o", str(tmp_path / "model")]
    found = CliRunner().invoke(app, ["fit", *run, "--device", "gpu"])
    assert found.exit_code == 2
    assert "device='gpu' must be None" in " ".join(found.output.split())
    assert CliRunner().invoke(app, ["fit", *run, "--device", "auto"]).exit_code == 0


def test_torch_is_not_imported_unless_a_device_is_asked_for():
    code = (
        "import sys, numpy as np, colabel\n"
        "X, Y = np.eye(20), np.arange(40).reshape(20, 2) // 3 % 2\n"
        "colabel.CTBN(C=1.0).fit(X, Y).predict(X)\n"
        "assert not {'torch', 'triton'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
