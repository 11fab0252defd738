"""Vectors to list where fewer are possible than asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Codes, Indices


def fill_impossible(codes: Codes, count: Indices, cardinalities: Sequence[int]) -> None:
    """Fill codes (n, k, d) behind each row's first `count` (n,) with vectors not yet listed.

    In place; k is at most the number of vectors, so that the first 2 k by code hold enough.
    """
    k = codes.shape[1]
    short = np.flatnonzero(count < k)
    if not short.size:
        return
    every = np.zeros((2 * k, len(cardinalities)), dtype=np.int32)
    rest = np.arange(2 * k)
    for position in range(len(cardinalities) - 1, -1, -1):
        rest, every[:, position] = np.divmod(rest, cardinalities[position])
    candidates = every[rest == 0].tolist()
    for row in short:
        listed = {tuple(vector) for vector in codes[row, : count[row]].tolist()}
        new = [vector for vector in candidates if tuple(vector) not in listed]
        codes[row, count[row] :] = new[: k - count[row]]
