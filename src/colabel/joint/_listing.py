"""Listing every label vector that is probable enough, for searches over several joints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.chunks import row_slices

if TYPE_CHECKING:
    from colabel.joint.base import Joint

# Lengths of the lists asked of a family that can only name its best: the first, and the last.
_FIRST, _LONGEST = 16, 4096
# A list that would be about so long is not begun: far beyond the longest, for it is a guess.
_HOPELESS = 1 << 16
_CODES_AT_ONCE = 1 << 23  # numbers of the vectors that are named at once


class Listed(NamedTuple):
    """Label vectors of several rows.

    Attributes
    ----------
    rows : (m,)
        Row of the batch each vector belongs to.
    codes : (m, d)
        The vectors.
    cut : (n,)
        Rows that may lack some vector that should be listed.
    """

    rows: Indices
    codes: Codes
    cut: Flags


def listed_by_top_k(joint: Joint, least: Array) -> Listed:
    """List the vectors of log-probability at least `least` (n,), by ever longer lists of the best.

    Rows whose best vectors are approximate are asked about once, and all that is named is listed.
    Nor is anybody asked again in rows where the list would be hopelessly long.
    """
    cut, d = least < np.inf, joint.space.n_labels
    open_rows, length = np.flatnonzero(cut), _FIRST
    rows: list[Indices] = [np.empty(0, dtype=np.intp)]
    codes: list[Codes] = [np.empty((0, d), dtype=np.int32)]
    while open_rows.size:
        going_on = [open_rows[:0]]
        for chunk in row_slices(open_rows.size, _CODES_AT_ONCE, length * d):
            part = open_rows[chunk]
            some = joint.rows(part)
            found, log_prob = some.top_k_codes(length)
            exact = "mode" in some.exact  # as the search says that has just been made
            complete = found.shape[1] == joint._at_most_all(length + 1)
            ended = complete | (log_prob[:, -1] < least[part])
            done = ended | (length >= _LONGEST) | (not exact)
            done |= _expected_length(log_prob, least[part]) > _HOPELESS
            wanted = (log_prob >= least[part, None]) | (not exact)
            place, rank = np.nonzero(wanted & (log_prob > -np.inf) & done[:, None])
            rows.append(part[place])
            codes.append(found[place, rank])
            if exact:
                cut[part[ended]] = False
            going_on.append(part[~done])
        open_rows, length = np.concatenate(going_on), 4 * length
    return Listed(np.concatenate(rows), np.concatenate(codes), cut)


def _expected_length(log_prob: Array, least: Array) -> Array:
    """About how many vectors (n,) there are down to `least`, going by the best ones (n, k).

    Each nat down multiplies their number by about the same: k within log P_1 - log P_k.
    """
    reach, gap = log_prob[:, 0] - log_prob[:, -1], log_prob[:, 0] - least
    # ties say nothing of what comes after them
    share = np.divide(gap, reach, out=np.zeros(len(gap)), where=reach > 1e-3)
    with np.errstate(over="ignore"):
        return np.power(float(log_prob.shape[1]), share)
