"""Storages and weights, for all tests of learning."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.glm import device

STORAGES = {"dense": np.asarray, "csr": sp.csr_array}


@pytest.fixture(params=STORAGES)
def store(request):
    return STORAGES[request.param]


@pytest.fixture(params=[*STORAGES, "sparse on the device too"])
def device_store(request, monkeypatch):
    """Storages, and sparse rows that would not fit a device as a dense matrix."""
    stays = request.param not in STORAGES
    if stays:
        monkeypatch.setattr(device, "free_memory", lambda _: 0)
    return sp.csr_array if stays else STORAGES[request.param]


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weighted(request) -> bool:
    return request.param
