"""Medians by radix selection are exactly the medians, however the rows are cut."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.tables.medians import MedianSearch


def found(columns, cuts):
    blocks = np.split(columns, cuts)
    search = MedianSearch.over(columns.shape[1])
    n_passes = 0
    while not search.is_done:
        counts = search.count(blocks[0])
        for block in blocks[1:]:
            counts = counts + search.count(block)
        search = search.narrowed(counts)
        n_passes += 1
    return search.medians(), n_passes


@pytest.mark.parametrize("n_rows", [1, 2, 3, 1000, 1001])
def test_as_of_sorted_numbers(rng, n_rows):
    normal = rng.normal(size=n_rows)
    columns = np.column_stack(
        [
            normal,
            1000 + 1e-9 * normal,
            -np.exp(50 * normal),
            np.round(3 * normal),
            rng.integers(0, 2, size=n_rows),
            np.where(rng.random(n_rows) < 0.3, np.nan, normal),
            np.where(rng.random(n_rows) < 0.5, -0.0, 0.0),
            normal.astype(np.float32),
            np.where(np.arange(n_rows) % 2, -1e-300, 1e300),
        ]
    )
    columns[0, 5] = 0.25
    medians, _ = found(columns, [n_rows // 3, n_rows // 2])
    np.testing.assert_array_equal(medians, np.nanmedian(columns, axis=0))


def test_a_column_without_numbers():
    medians, _ = found(np.column_stack([np.full(5, np.nan), np.arange(5.0)]), [2])
    np.testing.assert_array_equal(medians, [0.0, 2.0])


def test_two_passes_for_single_precision(rng):
    numbers = rng.normal(size=(5000, 3)).astype(np.float32).astype(np.float64)
    assert found(numbers, [1000])[1] <= 2
    assert found(rng.normal(size=(5000, 1)), [1000])[1] <= 4
