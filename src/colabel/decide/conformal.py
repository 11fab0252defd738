"""Sets of label vectors with guaranteed coverage, from joints and rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import as_bytes, first_occurrences, log_sum_exp
from colabel.core.schema import Ascending, Between, stored
from colabel.decide.label_sets import LabelSets
from colabel.decide.nonconformity import SLACK, Lists, Nonconformity
from colabel.joint import Joint
from colabel.joint.user_terms import codes_of_labels
from colabel.labels import MISSING


@stored("held-out-scores")
@dataclass(frozen=True, eq=False)
class CalibrationScores:
    """How strange the true vectors of rows held out were to a model that had not seen them.

    Attributes
    ----------
    scores : (n,) array
        Ascending.
    weights : (n,) array
        How often each row counts.
    """

    scores: Annotated[Array, "n", Between(high=np.inf), Ascending(strictly=False)]
    weights: Annotated[Array, "n", Between(0.0)]

    @classmethod
    def of(cls, scores: Array, weights: Array) -> CalibrationScores:
        """Sort scores (n,) with their weights (n,)."""
        order = np.argsort(scores, kind="stable")
        return cls(scores[order], weights[order])

    def at_least(self, scores: Array) -> Array:
        """Return the weight of the rows that are at least as strange as some scores (any shape)."""
        tail = np.append(self.weights[::-1].cumsum()[::-1], 0.0)
        return tail[np.searchsorted(self.scores, scores - SLACK, side="left")]


def p_value(held_out: Sequence[CalibrationScores], scores: Sequence[Array]) -> Array:
    """Share of rows, a new one among them, at least as strange as scores of the same shape."""
    total = 1.0 + sum(part.weights.sum() for part in held_out)
    stranger = sum(part.at_least(own) for part, own in zip(held_out, scores, strict=True))
    return np.asarray((1.0 + stranger) / total)


def conformal_sets(
    joints: Sequence[Joint],
    held_out: Sequence[CalibrationScores],
    coverage: float,
    rule: Nonconformity,
    chance: Array | None = None,
    *,
    allow_empty: bool = False,
) -> LabelSets:
    r"""Return the vectors of each row that rows held out do not make implausible.

    Joint k comes from a model that was fitted without the rows behind ``held_out[k]``. With n
    of these rows in all, a vector y is in the set if

    .. math:: \frac{1 + \sum_i 1[s_i \ge s_{k(i)}(y)]}{n + 1} > 1 - \mathrm{coverage}.

    One joint: split conformal. Several: CV+.
    """
    space, n_rows = joints[0].space, joints[0].n_rows
    alpha = 1.0 - coverage + 1e-12
    cut = np.zeros(n_rows, dtype=bool)
    none = np.empty(0, dtype=np.intp)
    found = [_Found(none, np.empty((0, space.n_labels), dtype=np.int32), np.empty(0))]

    def visit(rows: Indices, lists: list[Lists]) -> Flags:
        own = None if chance is None else chance[rows]
        codes, log_prob = _candidates([joint.rows(rows) for joint in joints], lists)
        pairs = list(zip(lists, log_prob, strict=True))
        values = p_value(held_out, [rule.scores(*pair, own) for pair in pairs])
        wanted = values > alpha
        beyond = p_value(held_out, [rule.beyond(part) for part in lists])
        ended = lists[0].has_all | (beyond <= alpha)
        longest = lists[0].longest
        # the score of a vector that one joint lists, and another not yet, is not final
        final = (
            longest or rule.kind == "probability" or np.all([part.has(p) for part, p in pairs], 0)
        )
        exact = all(part.exact for part in lists)
        done = longest | (exact & ended & (final | ~wanted).all(axis=1))
        cut[rows[done]] = ~ended[done]
        mean = log_sum_exp(np.stack(log_prob, axis=2))
        order = np.lexsort((-mean, -values), axis=1)
        # vectors that cannot be fill short lists up
        wanted &= lists[0].has_all | (mean > -np.inf)
        if not allow_empty:
            np.put_along_axis(wanted, order[:, :1], True, axis=1)
        wanted &= done[:, None]
        found.append(_Found.of(rows, codes, values, wanted, order))
        return ~done

    rule.grow(joints, visit)
    rows, codes, values = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(rows, kind="stable")
    return LabelSets(
        space, coverage, rows[order], codes[order], values[order], cut, rule.max_listed
    )


class _Found(NamedTuple):
    """Vectors of some rows, with their p-values: (m,), (m, d), (m,)."""

    rows: Indices
    codes: Codes
    p_values: Array

    @classmethod
    def of(
        cls, rows: Indices, codes: Codes, values: Array, wanted: Flags, order: Indices
    ) -> _Found:
        """Of vectors (n, m, d) with p-values (n, m) those that are wanted, in order, each once."""
        place, rank = np.nonzero(np.take_along_axis(wanted, order, axis=1))
        which = order[place, rank]
        kept, flat = rows[place], codes[place, which]
        first = first_occurrences(kept, flat)
        return cls(kept[first], flat[first], values[place, which][first])


def _candidates(joints: Sequence[Joint], lists: Sequence[Lists]) -> tuple[Codes, list[Array]]:
    """All vectors that are listed (n, m, d), and what each joint says of them, (n, m) each."""
    if len(joints) == 1:
        return lists[0].codes, [lists[0].log_prob]
    codes = np.concatenate([part.codes for part in lists], axis=1)
    return codes, [_log_prob_of(*pair, codes) for pair in zip(joints, lists, strict=True)]


def _log_prob_of(joint: Joint, lists: Lists, codes: Codes) -> Array:
    """Log-probabilities (n, m) of vectors (n, m, d); -inf for what approximate lists lack."""
    n_rows, n_vectors, n_labels = codes.shape
    rows, flat = np.repeat(np.arange(n_rows), n_vectors), codes.reshape(-1, n_labels)
    found = joint.log_prob_at(rows, flat)
    if not lists.exact:
        own = np.repeat(np.arange(n_rows), lists.codes.shape[1])
        listed = np.column_stack([own, lists.codes.reshape(-1, n_labels)]).astype(np.int32)
        asked = np.column_stack([rows, flat]).astype(np.int32)
        found = np.where(np.isin(as_bytes(asked), as_bytes(listed)), found, -np.inf)
    return found.reshape(n_rows, n_vectors)


class CoverageCheck(NamedTuple):
    """What the sets of rows held out turned out to be; see `measured_coverage`.

    Attributes
    ----------
    covered : (n,) array of bool
        Whether the list has the true vector.
    size : (n,) array of int
        How many vectors it has.
    cut : (n,) array of bool
        Whether there would be more.
    """

    covered: Flags
    size: Indices
    cut: Flags


def measured_coverage(
    joint: Joint,
    Y: ArrayLike,
    coverage: float = 0.9,
    nonconformity: Nonconformity | None = None,
    seed: int = 0,
) -> CoverageCheck:
    """Measure sets on rows that a joint's model has not seen.

    Each half of the rows, drawn by the seed, has sets that the other half calibrates.

    Parameters
    ----------
    joint : Joint
        Of the rows held out.
    Y : array-like of shape (n, d)
        Their true label values; at least two rows complete, the others are left out.
    coverage : float
    nonconformity : Nonconformity, optional

    Returns
    -------
    CoverageCheck
        Of the rows with all labels: whether the list has the true vector, how many vectors it
        has, and whether it is cut. The mean of `covered` has a standard error of about
        ``sqrt(coverage * (1 - coverage) * 2 / n)``: calibration, too, is a measurement.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> table = np.tile(np.log([0.3, 0.7]), (1000, 1))
    >>> joint = Independent(space, [table, table])
    >>> found = measured_coverage(joint, joint.sample(1, 0)[0])
    >>> bool(found.covered.mean() >= 0.88), set(found.size.tolist()) <= {3, 4}
    (True, True)
    """
    rule = nonconformity or Nonconformity()
    codes = codes_of_labels(joint.space, Y, joint.n_rows)
    rows = np.flatnonzero((codes != MISSING).all(axis=1))
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} rows have all their labels: coverage is measured on at least two."
        )
    joint, codes = joint.rows(rows), codes[rows]
    order = np.random.default_rng(seed).permutation(len(rows))
    chance = np.random.default_rng(seed + 1).random(len(rows))
    found = CoverageCheck(*(np.empty(len(rows), dtype=t) for t in (bool, np.intp, bool)))
    halves = order[: len(rows) // 2], order[len(rows) // 2 :]
    for known, new in (halves, halves[::-1]):
        scores = rule.of_codes(joint.rows(known), codes[known], chance[known])
        held_out = CalibrationScores.of(scores, np.ones(len(known)))
        sets = conformal_sets([joint.rows(new)], [held_out], coverage, rule, chance[new])
        found.covered[new] = sets.contains_codes(codes[new])
        found.size[new], found.cut[new] = sets.sizes, sets.cut
    return found
