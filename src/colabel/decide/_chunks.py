"""Deciding some rows at a time: what a decision looks at may be d times larger than the joint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from colabel.core.arrays import Codes
from colabel.joint import Joint
from colabel.joint.sizes import N_DRAWS

_ENTRIES_AT_ONCE = 2**22


def by_chunks(joint: Joint, decide_chunk: Callable[[Joint], Codes]) -> Codes:
    """Return the codes (n, d) that `decide_chunk` finds, rows in chunks of a few megabytes."""
    d = joint.space.n_labels
    # of each row and label there are d + 1 sizes, several times over, and perhaps draws
    step = max(1, _ENTRIES_AT_ONCE // (d * max(8 * (d + 1), N_DRAWS)))
    if joint.n_rows <= step:
        return decide_chunk(joint)
    starts = range(0, joint.n_rows, step)
    return np.concatenate([decide_chunk(joint.rows(slice(s, s + step))) for s in starts])
