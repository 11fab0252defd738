"""What is known of rows, and what is known once more is."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Codes, Flags
from colabel.joint.user_terms import impossible_evidence
from colabel.labels import MISSING, LabelSpace

__all__ = ["contradictions", "merged_evidence"]


def contradictions(old: Codes, new: Codes) -> Flags:
    """Rows (n,) in which new codes (n, d) contradict the old ones where both are known."""
    clash: Flags = ((old != MISSING) & (new != MISSING) & (old != new)).any(axis=1)
    return clash


def merged_evidence(space: LabelSpace, old: Codes, new: Codes) -> Codes:
    """Return what is known after new evidence (n, d); an error where it contradicts the old."""
    clash = np.flatnonzero(contradictions(old, new))
    if clash.size:
        raise impossible_evidence(space, new, clash)
    return np.where(new == MISSING, old, new).astype(np.int32)
