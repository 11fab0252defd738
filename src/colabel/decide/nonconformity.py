"""How strange a label vector is to a joint, from lists of its most probable vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.joint import Joint

NonconformityName = Literal["mass", "random mass", "probability"]
NONCONFORMITIES: tuple[NonconformityName, ...] = get_args(NonconformityName)

SLACK = 1e-9  # so that rounding does not part what is equal
_FIRST_LENGTH, _GROWTH = 16, 4
_CODES_AT_ONCE = 1 << 22


class Lists(NamedTuple):
    """The most probable vectors of each row, as one joint names them: (n, k, d) and (n, k)."""

    codes: Codes
    log_prob: Array
    longest: bool  # no longer list will be asked for
    has_all: bool  # there are no other vectors
    exact: bool  # the search that has found them says that there are none more probable

    def has(self, log_prob: Array) -> Flags:
        """Which of vectors (n, m), told by their log-probabilities, the list must have."""
        return self.has_all | (log_prob > self.log_prob[:, -1:] + SLACK)


@dataclass(frozen=True)
class Nonconformity:
    r"""How strange a label vector is to a joint: the nonconformity score of a conformal method.

    - ``"mass"``: the probability of all vectors that are more probable than y,
      :math:`\sum_{z : P(z) > P(y)} P(z)`, as in adaptive prediction sets: rows that are harder to
      tell have larger sets.
    - ``"random mass"``: the same, and a share of P(y) itself drawn for each row.
    - ``"probability"``: :math:`-\log P(y)`. The sets are the smallest on average, but rows that
      are hard to tell are covered less often than easy ones.

    For the first two, a vector beyond the `max_listed` most probable is as strange as can be, 1.
    That is a score like any other, so lists that end there keep the promise, unless so many of the
    rows held out have their own vector beyond that the list would have to go on. Likewise for all
    three where a joint only approximates which vectors are the most probable: those that it does
    not list are as strange as can be.

    Attributes
    ----------
    kind : {"mass", "random mass", "probability"}
    max_listed : int
        How many vectors a joint is asked for at most, a row.
    """

    kind: NonconformityName = "mass"
    max_listed: int = 1000

    def of_codes(self, joint: Joint, codes: Codes, chance: Array | None = None) -> Array:
        """Return the scores (n,) of complete vectors, codes (n, d), of a joint's rows.

        `chance` (n,) are the rows' own numbers between 0 and 1, for ``"random mass"``.
        """
        log_prob = joint.log_prob_codes(codes)
        scores = np.empty(joint.n_rows)

        def visit(rows: Indices, lists: list[Lists]) -> Flags:
            own = lists[0]
            known = log_prob[rows]
            if not own.exact:
                listed = (own.codes == codes[rows, None]).all(axis=2).any(axis=1)
                known = np.where(listed, known, -np.inf)
            scores[rows] = self.scores(own, known[:, None], _rows_of(chance, rows))[:, 0]
            # a vector among the list's least probable ones may have equals beyond it
            open_rows = (self.kind != "probability") & (known <= own.log_prob[:, -1] + SLACK)
            return np.asarray(open_rows | (not own.exact))

        self.grow([joint], visit)
        return scores

    def grow(self, joints: Sequence[Joint], visit: Callable[..., Flags]) -> None:
        """Show ever longer lists of all joints to `visit`, for the rows it says to go on with.

        ``visit(rows, lists)`` is told the positions (m,) of some rows and their lists.
        """
        first = joints[0]
        n_vectors = math.prod(first.space.cardinalities)
        longest = min(self.max_listed, n_vectors)
        exact = all("mode" in joint.exact for joint in joints)
        # lists that are approximate need not begin alike: only the longest counts, also where that
        # they are turns out on the way
        length = min(_FIRST_LENGTH, longest) if exact else longest
        rows = np.arange(first.n_rows)
        while rows.size:
            step = max(1, _CODES_AT_ONCE // (length * first.space.n_labels * len(joints)))
            going_on = np.zeros(rows.size, dtype=bool)
            for start in range(0, rows.size, step):
                part = rows[start : start + step]
                some = [joint.rows(part) for joint in joints]
                best = [joint.top_k_codes(length) for joint in some]
                lists = [
                    Lists(
                        *named,
                        longest=length == longest,
                        has_all=length == n_vectors,
                        exact="mode" in joint.exact,
                    )
                    for joint, named in zip(some, best, strict=True)
                ]
                going_on[start : start + step] = visit(part, lists)
            if length == longest:
                return
            rows, length = rows[going_on], min(_GROWTH * length, longest)

    def scores(self, lists: Lists, log_prob: Array, chance: Array | None) -> Array:
        """Scores (n, m) of m vectors a row whose log-probabilities (n, m) are known.

        For the masses, vectors that are not more probable than the last listed one get the least
        score that a vector beyond the list can have.
        """
        if self.kind == "probability":
            return -log_prob
        mass = np.zeros((len(log_prob), lists.log_prob.shape[1] + 1))
        np.cumsum(np.exp(lists.log_prob), axis=1, out=mass[:, 1:])
        # list and vectors are compared by probability; the list descends
        above = np.stack(
            [
                np.searchsorted(-listed, -vectors - SLACK, side="left")
                for listed, vectors in zip(lists.log_prob, log_prob, strict=True)
            ]
        )
        found = np.take_along_axis(mass, above, axis=1)
        if chance is not None and self.kind == "random mass":
            found += chance[:, None] * np.exp(log_prob)
        found = np.where(lists.has(log_prob), found, self.beyond(lists)[:, None])
        return np.asarray(np.minimum(found, 1.0))

    def beyond(self, lists: Lists) -> Array:
        """Return the least score (n,) that a vector beyond the lists can have."""
        last = lists.log_prob[:, -1:]
        if lists.has_all:
            return np.full(len(last), np.inf)
        if self.kind == "probability":
            return np.asarray(-last[:, 0])
        if lists.longest:
            return np.ones(len(last))
        # those that are as probable as the last one have less before them
        before = np.exp(lists.log_prob) * (lists.log_prob > last + SLACK)
        return np.asarray(np.minimum(before.sum(axis=1), 1.0))


def _rows_of(chance: Array | None, rows: Indices) -> Array | None:
    return None if chance is None else chance[rows]
