"""Storages and weights, for all tests of learning."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

STORAGES = {"dense": np.asarray, "csr": sp.csr_array}


@pytest.fixture(params=STORAGES)
def store(request):
    return STORAGES[request.param]


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weighted(request) -> bool:
    return request.param
