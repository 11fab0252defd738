"""Random numbers by key and position: the same whatever else is drawn, and by whom.

A stream is a key of 64 bits, its t-th number a hash of the key and of t (the SplitMix64 generator
of Steele, Lea & Flood, 2014, which is such a hash). Every row of a batch and every chain has its
own key, so a row's numbers depend neither on the other rows nor on which thread serves it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Indices, Keys
from colabel.core.hashing import mix

# An odd number close to 2^64 / golden ratio: its multiples spread evenly.
GAMMA = 0x9E3779B97F4A7C15
# Streams for other purposes than the sweeps start from keys of their own.
_FOR_ORDER = 0x6F72646572
_FOR_START = 0x7374617274
_WORD = 1 << 64


def uniforms(keys: Keys, position: int) -> Array:
    """Return number `position` of each stream, in the shape of `keys`, strictly within (0, 1)."""
    step = np.uint64((position + 1) * GAMMA % _WORD)
    return ((mix(keys + step) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def chain_keys(row_keys: Keys, n_chains: int, seed: int) -> Keys:
    """Return keys (chains, n) for the chains of rows whose own keys are (n,)."""
    start = mix(np.array([(seed + GAMMA) % _WORD], dtype=np.uint64))
    # Adding where the line above used exclusive or: no row and chain can cancel each other.
    chains = np.arange(1, n_chains + 1, dtype=np.uint64) * np.uint64(GAMMA)
    return mix(mix(row_keys ^ start) + chains[:, None])


def distinct_keys(row_keys: Keys) -> Keys:
    """Return keys (n,) that all differ: equal ones by how many rows before have the same.

    Examples
    --------
    >>> import numpy as np
    >>> len(set(distinct_keys(np.array([5, 7, 5, 5], dtype=np.uint64)).tolist()))
    4
    """
    order = np.argsort(row_keys, kind="stable")
    ordered = row_keys[order]
    earlier = np.empty(len(row_keys), dtype=np.uint64)
    earlier[order] = np.arange(len(row_keys)) - np.searchsorted(ordered, ordered)
    return mix(mix(row_keys) + earlier * np.uint64(GAMMA))


def random_orders(keys: Keys, n_labels: int) -> Indices:
    """Return a random permutation (..., d) of the labels for each stream."""
    own = mix(keys ^ np.uint64(_FOR_ORDER))
    draws = [uniforms(own, i) for i in range(n_labels)]
    order: Indices = np.argsort(np.stack(draws, axis=-1), axis=-1, kind="stable")
    return order


def random_labels(keys: Keys, cardinalities: tuple[int, ...]) -> NDArray[np.int32]:
    """Return codes (..., d) that are uniform over each variable's values."""
    own = mix(keys ^ np.uint64(_FOR_START))
    draws = [(uniforms(own, i) * size).astype(np.int32) for i, size in enumerate(cardinalities)]
    return np.stack(draws, axis=-1)
