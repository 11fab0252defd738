"""The kernels of a GPU against torch; run by `test_fused`.

Triton's interpreter, which needs no GPU, is chosen before Triton is imported: by the environment
variable TRITON_INTERPRET of a process of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from colabel.learn.glm import device, fused

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

T, N = 3, 1500  # rows of one program, and then some


def single(array):
    return torch.as_tensor(np.asarray(array, dtype=np.float32))


def close(ours, theirs):
    for own, other in zip(ours, theirs, strict=True):
        assert own.shape == other.shape
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("shape", [(N,), (T, N)], ids=["shared rows", "own rows"])
def test_passes_over_rows_are_those_of_torch(rng, shape):
    scores, change = (single(rng.normal(size=(T, 1, N)) * 3) for _ in range(2))
    weight = single(rng.random(shape) * (rng.random(shape) < 0.8))
    targets = torch.as_tensor(rng.integers(-1, 2, size=(T, N)).astype(np.int16))
    steps = torch.as_tensor(rng.random(T))
    both = [scores.clone(), scores.clone()]
    residual = [torch.empty_like(scores) for _ in both]
    sums = [
        place.move(own, change, steps, targets, weight, wrong)
        for place, own, wrong in zip((fused, device), both, residual, strict=True)
    ]
    close(sums[0], sums[1])
    close((both[0], residual[0]), (both[1], residual[1]))
    known = (residual[1], change, targets, weight)
    close(fused.along(*known), device.along(*known))


@pytest.mark.parametrize("newest", [0, 3])
def test_the_direction_is_that_of_torch(rng, newest):
    lanes, pairs, width = 5, 6, 37
    steps, changes = (single(rng.normal(size=(lanes, pairs, width))) for _ in range(2))
    inverse_products = rng.random((lanes, pairs))
    inverse_products[:, 2] = inverse_products[1, 4] = 0.0  # pairs that are not usable
    gradient, diagonal = (torch.as_tensor(rng.random((3, width)) + 0.5) for _ in range(2))
    known = (steps, changes, torch.as_tensor(inverse_products), torch.tensor([4, 0, 1]), newest)
    nothing = torch.zeros((lanes, 0, 0)), torch.zeros(lanes, dtype=torch.bool)
    ours = fused.quasi_newton_direction(gradient, *known, diagonal)
    theirs = device.quasi_newton_direction(gradient, *known, diagonal, *nothing)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
