"""Sets of label vectors with guaranteed coverage, from joints and rows held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.lazy import require
from colabel.core.numeric import as_bytes, first_occurrences, log_sum_exp
from colabel.core.schema import SORTED, Between, Dims, Fields, check_that, stored
from colabel.joint import Joint
from colabel.joint.base import label_set_text
from colabel.joint.user_terms import codes_of_labels
from colabel.labels import MISSING, LabelSpace

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class LabelSets:
    """A set of label vectors for each of n rows, m vectors in all.

    ``len(sets)`` is n, and ``sets[i]`` the label values (k, d) of row i's vectors, the most
    plausible first.

    Attributes
    ----------
    space : LabelSpace
    coverage : float
        Probability with which a set was to hold the true vector.
    rows : (m,) array of int
        Row that each vector belongs to, ascending.
    codes : (m, d) array of int
    p_values : (m,) array
        Share of the held-out rows whose own vector was at least as strange as this one.
    cut : (n,) array of bool
        Rows whose set has more vectors than could be listed. The promise is about the whole set:
        that the true vector is *listed* is not promised in such a row.
    max_listed : int
        Length of the longest list that a joint was asked for.
    """

    space: LabelSpace
    coverage: float
    rows: Indices
    codes: Codes
    p_values: Array
    cut: Flags
    max_listed: int

    @classmethod
    def joined(cls, *parts: LabelSets) -> LabelSets:
        """Concatenate the sets of several batches of rows."""
        starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
        return replace(
            parts[0],
            rows=np.concatenate([p.rows + start for p, start in zip(parts, starts, strict=True)]),
            codes=np.concatenate([part.codes for part in parts]),
            p_values=np.concatenate([part.p_values for part in parts]),
            cut=np.concatenate([part.cut for part in parts]),
        )

    @property
    def sizes(self) -> Indices:
        """Number of vectors listed in each row, (n,)."""
        return np.bincount(self.rows, minlength=len(self.cut))

    def contains(self, Y: ArrayLike) -> Flags:
        """Whether the list of each row contains its vector of Y (n, d), (n,)."""
        codes = codes_of_labels(self.space, Y, len(self))
        if (codes == MISSING).any():
            raise ValueError("Y has missing labels: give the rows whose labels are all known.")
        return self.contains_codes(codes)

    def contains_codes(self, codes: Codes) -> Flags:
        """Whether the list of each row contains its vector of codes (n, d), (n,)."""
        found = np.zeros(len(self), dtype=bool)
        found[self.rows[(self.codes == codes[self.rows]).all(axis=1)]] = True
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one line per vector: row, rank, p-value, label values."""
        require("pandas", "A data frame")
        import pandas as pd

        rank = np.arange(len(self.rows)) - np.searchsorted(self.rows, self.rows) + 1
        index = pd.MultiIndex.from_arrays([self.rows, rank], names=["row", "rank"])
        values = self.space.values(self.codes)
        frame = pd.DataFrame(values, columns=list(self.space.names), index=index)
        frame.insert(0, "p_value", self.p_values)
        return frame

    def __len__(self) -> int:
        return len(self.cut)

    def __getitem__(self, row: int) -> NDArray[Any]:
        if not -len(self) <= row < len(self):
            raise IndexError(f"Row {row} does not exist: there are sets for {len(self)} rows.")
        first, last = np.searchsorted(self.rows, [row % len(self), row % len(self) + 1])
        return self.space.values(self.codes[first:last])

    def __repr__(self) -> str:
        cut = int(self.cut.sum())
        ending = f", {cut} not listed within {self.max_listed}" if cut else ""
        mean = self.sizes.mean() if len(self) else 0.0
        return (
            f"<LabelSets: {len(self)} rows, {mean:.1f} label vectors per row for a coverage of "
            f"{self.coverage:g}{ending}>"
        )

    def __str__(self) -> str:
        lines = [repr(self)]
        for row in range(min(_SHOWN, len(self))):
            first, last = np.searchsorted(self.rows, [row, row + 1])
            shown = self.codes[first : min(last, first + _SHOWN)].tolist()
            more = [f"{last - first - _SHOWN} more"] if last - first > _SHOWN else []
            more += [f"not listed within {self.max_listed}"] if self.cut[row] else []
            texts = [label_set_text(codes, self.space) for codes in shown]
            lines.append(f"  row {row}: {' | '.join([*texts, *more])}")
        if len(self) > _SHOWN:
            lines.append(f"  and {len(self) - _SHOWN} more rows")
        return "\n".join(lines)


NonconformityName = Literal["mass", "random mass", "probability"]
NONCONFORMITIES: tuple[NonconformityName, ...] = get_args(NonconformityName)

SLACK = 1e-9  # probabilities that differ by less are equal but for rounding
_FIRST_LENGTH, _GROWTH = 16, 4
_CODES_AT_ONCE = 1 << 22


class Lists(NamedTuple):
    """The most probable vectors of each row by one joint: (n, k, d) and (n, k)."""

    codes: Codes
    log_prob: Array
    longest: bool  # no longer list will be requested
    has_all: bool  # there are no other vectors
    exact: bool  # whether the search proved that no other vector is more probable

    def has(self, log_prob: Array) -> Flags:
        """Which of vectors (n, m), given by their log-probabilities, the list must contain."""
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
        Length of the longest list that a joint is asked for, per row.
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
            of_rows = None if chance is None else chance[rows]
            scores[rows] = self.scores(own, known[:, None], of_rows)[:, 0]
            # a vector among the list's least probable ones may have equals beyond it
            open_rows = (self.kind != "probability") & (known <= own.log_prob[:, -1] + SLACK)
            return np.asarray(open_rows | (not own.exact))

        self.grow([joint], visit)
        return scores

    def grow(self, joints: Sequence[Joint], visit: Callable[..., Flags]) -> None:
        """Pass ever longer lists of all joints to `visit`, for the rows where it returns true.

        ``visit(rows, lists)`` gets the positions (m,) of some rows, and their lists.
        """
        first = joints[0]
        n_vectors = math.prod(first.space.cardinalities)
        longest = min(self.max_listed, n_vectors)
        exact = all("mode" in joint.exact for joint in joints)
        # approximate lists of different lengths need not begin alike, so only the longest counts; a
        # search may also turn out to be approximate on the way
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
        """Scores (n, m) of m vectors per row whose log-probabilities (n, m) are known.

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
        # vectors as probable as the last one have less mass above them
        before = np.exp(lists.log_prob) * (lists.log_prob > last + SLACK)
        return np.asarray(np.minimum(before.sum(axis=1), 1.0))


RiskName = Literal["row", "label"]
RISKS: tuple[RiskName, ...] = get_args(RiskName)


def confident_codes(joint: Joint) -> tuple[Codes, Array]:
    """Return the most probable value of each label, codes (n, d), and its probability (n, d)."""
    tables = joint.marginal_tables()
    codes = np.stack([table.argmax(axis=1) for table in tables], axis=1).astype(np.int32)
    return codes, np.stack([table.max(axis=1) for table in tables], axis=1)


@stored("held-out-errors")
@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    r"""How confident a model was in its errors, in rows that it had not seen.

    A label is stated if its probability exceeds a threshold t. The loss of a row, between 0 and 1,
    falls as t rises: whether any stated label is wrong, or the share of its labels that are stated
    and wrong. *Conformal risk control* takes the least t with

    .. math:: \frac{1 + \sum_i L_i(t)}{n + 1} \le 1 - \mathrm{coverage};

    the expected loss of a new row is then at most 1 - coverage.

    Attributes
    ----------
    confidence : (m,) array
        Probabilities of values that were wrong, ascending: a row's largest, or those of its labels.
    weight : (m,) array
        What each adds to the loss.
    total : float
        Number of rows held out.
    """

    confidence: Annotated[Array, "n", Between(0.0, 1.0 + 1e-6), SORTED]
    weight: Annotated[Array, "n", Between(0.0)]
    total: Annotated[float, Between(0.0)]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        enough = fields["weight"].sum() <= fields["total"] * (1 + 1e-9)
        check_that(enough, "weight says that more is wrong than there is")

    @classmethod
    def of_codes(cls, joint: Joint, codes: Codes, weights: Array, per: RiskName) -> HeldOutErrors:
        """Compare the joint of rows held out with their true vectors (n, d), weights (n,)."""
        values, confidence = confident_codes(joint)
        wrong = values != codes
        if per == "row":
            largest = np.where(wrong, confidence, 0.0).max(axis=1)
            found, weight = largest[wrong.any(axis=1)], weights[wrong.any(axis=1)]
        else:
            found = confidence[wrong]
            weight = np.broadcast_to(weights[:, None] / codes.shape[1], codes.shape)[wrong]
        order = np.argsort(found, kind="stable")
        return cls(found[order], weight[order], float(weights.sum()))

    @classmethod
    def joined(cls, *parts: HeldOutErrors) -> HeldOutErrors:
        """Gather the errors of several folds."""
        confidence = np.concatenate([part.confidence for part in parts])
        weight = np.concatenate([part.weight for part in parts])
        order = np.argsort(confidence, kind="stable")
        return cls(confidence[order], weight[order], sum(part.total for part in parts))

    def threshold(self, coverage: float) -> float:
        """Return the least t for which the risk is controlled; infinite if there is none."""
        allowed = (1.0 - coverage) * (self.total + 1.0) - 1.0
        if allowed < 0:
            return np.inf
        # loss[j]: what is lost if the confidence must exceed that of the j-th error
        loss = self.weight[::-1].cumsum()[::-1] - self.weight
        enough = loss <= allowed + 1e-9
        if self.weight.sum() <= allowed + 1e-9:
            return 0.0
        return float(self.confidence[enough.argmax()])

    def stated_codes(self, joint: Joint, coverage: float) -> Codes:
        """Return the codes (n, d) of the labels that are sure enough, MISSING for the others."""
        codes, confidence = confident_codes(joint)
        return np.where(confidence > self.threshold(coverage), codes, MISSING).astype(np.int32)


def stated_words(codes: Codes, space: LabelSpace) -> NDArray[Any]:
    """Write codes (n, d) as yes, no (or a value) and unsure, (n, d)."""
    columns = []
    for of_label, classes in zip(codes.T, space.classes, strict=True):
        values = ["no", "yes"] if space.is_indicator else list(map(str, classes.tolist()))
        columns.append(np.array([*values, "unsure"], dtype=object)[of_label])
    return np.stack(columns, axis=1).astype(str)


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

    scores: Annotated[Array, "n", Between(high=np.inf), SORTED]
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
    found = [(none, np.empty((0, space.n_labels), dtype=np.int32), np.empty(0))]

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
        # short lists are filled with impossible vectors
        wanted &= lists[0].has_all | (mean > -np.inf)
        if not allow_empty:
            np.put_along_axis(wanted, order[:, :1], True, axis=1)
        wanted &= done[:, None]
        # of several lists, the first of equal vectors
        place, rank = np.nonzero(np.take_along_axis(wanted, order, axis=1))
        which = order[place, rank]
        kept, flat = rows[place], codes[place, which]
        first = first_occurrences(kept, flat)
        found.append((kept[first], flat[first], values[place, which][first]))
        return ~done

    rule.grow(joints, visit)
    rows, codes, values = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(rows, kind="stable")
    return LabelSets(
        space, coverage, rows[order], codes[order], values[order], cut, rule.max_listed
    )


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
