"""Audit of given labels: how probable each one is given the others, by a joint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from scipy.stats import beta

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.lazy import require
from colabel.joint import Joint
from colabel.labels import MISSING, LabelSpace

if TYPE_CHECKING:
    import pandas as pd

# Log-odds are clipped here: a correction beyond is as good as certain, and a given value that the
# model thinks impossible is no stronger evidence.
_MOST_LOG_ODDS = 30.0
# The noise is estimated from the cells that the other labels predict most confidently.
_CONFIDENT_SHARE = 0.3
_ALIKE = 4.0  # error rates that differ by less than this factor may be equal
_FLOOR = 10.0  # nats: log-probabilities of an expert are cut here before pooling
_PRIOR = 5.0  # penalty of an expert's weight, nats per squared distance from equal weights


def log_conditionals(joint: Joint, codes: Codes) -> list[Array]:
    r"""Return :math:`\log P(y_i = v \mid x, y_{-i})` for every label, as d arrays (n, K_i).

    Labels that are missing in `codes` (n, d) are summed over.
    """
    rows, as_given = np.arange(len(codes)), joint.log_prob_codes(codes)
    tables = []
    for i, n_values in enumerate(joint.space.cardinalities):
        table = np.empty((len(codes), n_values))
        known = codes[:, i] != MISSING
        for step in range(n_values):  # each row's own value first: that is known already
            changed = codes.copy()
            changed[:, i] = (np.maximum(codes[:, i], 0) + step) % n_values
            is_given = step == 0 and known.all()
            table[rows, changed[:, i]] = as_given if is_given else joint.log_prob_codes(changed)
        # if the model gives all values probability zero, it has no preference
        table[~np.isfinite(table).any(axis=1)] = 0.0
        tables.append(table - logsumexp(table, axis=1, keepdims=True))
    return tables


def evidence_of_labels(joint: Joint, codes: Codes, label: int, value: int) -> Array:
    r"""Return how much each other label supports another value of a label of one row, (d,).

    Label j adds to the log-odds of value v what they lose where j is not known:

    .. math:: \log\frac{P(y_i = v \mid x, y_{-i})}{P(y_i \mid x, y_{-i})}
        - \log\frac{P(y_i = v \mid x, y_{-ij})}{P(y_i \mid x, y_{-ij})}

    Parameters
    ----------
    joint : Joint
        Of one row.
    codes : (d,)
        Its labels as given.
    label, value : int
        Position of a label, and the code of another value.
    """
    n_labels = len(codes)
    # given and otherwise; without each label, with all
    asked = np.tile(codes, (2, n_labels + 1, 1))
    others = np.delete(np.arange(n_labels), label)
    asked[:, others, others] = MISSING
    asked[1, :, label] = value
    rows = joint.rows(np.zeros(2 * (n_labels + 1), dtype=np.intp))
    given, otherwise = rows.log_prob_codes(asked.reshape(-1, n_labels)).reshape(2, -1)
    with np.errstate(invalid="ignore"):
        odds = np.nan_to_num(otherwise - given, nan=0.0)
    return np.asarray(np.clip(odds[-1] - odds[:-1], -_MOST_LOG_ODDS, _MOST_LOG_ODDS))


@dataclass(frozen=True)
class NoiseRate:
    """How often one kind of error seems to happen, with a 90 % interval."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Audit:
    """Which given labels look wrong, and what they should rather be.

    Attributes
    ----------
    space : LabelSpace
    codes : (n, d) array of int
        The labels as given, -1 where missing.
    probability : (n, d) array
        Of each given value, given the features and the row's other labels; for a missing label, of
        the suggestion.
    suggestion : (n, d) array of int
        Code of the most probable *other* value, or of the most probable one for a missing label.
    log_odds : (n, d) array
        How much more probable, in nats, the row's label vector would be with the suggestion.
        Positive where the correction is more probable than what is given; -inf where missing.
    surprise : (n,) array
        ``-log P(y | x)``: rows that are unusual given their features have a large one.
    broken : (n, d) array of bool
        Labels in a rule that their row breaks.
    evidence : {(row, label): list of (str, float)}
        What speaks most against some of the most suspicious labels: other labels of the row
        ("not beach") and its columns ("size = 3"), with the nats that each adds to the log-odds of
        the suggestion, the strongest first.
    """

    space: LabelSpace
    codes: Codes
    probability: Array
    suggestion: Codes
    log_odds: Array
    surprise: Array
    broken: Flags
    evidence: Mapping[tuple[int, int], Sequence[tuple[str, float]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        n_rows, n_labels = self.codes.shape
        likelier = int((self.wrong_log_odds > 0).sum())
        return f"Audit({n_rows:,} rows, {n_labels:,} labels: {likelier:,} likelier to be wrong)"

    @property
    def known(self) -> Flags:
        """Which labels are given, (n, d)."""
        return np.asarray(self.codes != MISSING)

    @cached_property
    def wrong_log_odds(self) -> Array:
        r"""Log-odds (n, d) that a given label is wrong; -inf where it is missing.

        `probability` is of labels as they are given, errors included. If a share :math:`f` of the
        true ones was forgotten and a share :math:`a` of the true zeros added, a one is given with
        probability :math:`p = (1 - f) q + a (1 - q)`, where :math:`q` is that of a true one. Hence
        the odds that a given 0 is wrong are :math:`f q / (1 - a)(1 - q)`, and those of a given 1
        are :math:`a (1 - q) / (1 - f) q`.

        Both shares are taken to be the same unless `noise` finds one four times as large as the
        other, and together they make up `n_wrong`. Errors of other variables are spread evenly
        over the other values.
        """
        n_known, n_wrong = max(int(self.known.sum()), 1), max(self.n_wrong().rate, 0.5)
        values = np.array(self.space.cardinalities, dtype=np.float64)
        leaving = np.full(self.codes.shape, n_wrong / n_known)
        arriving = leaving / np.maximum(values - 1.0, 1.0)
        if self.space.is_indicator:
            forgotten, added = (max(rate.rate, 1e-5) for rate in self.noise().values())
            ratio = np.log(forgotten / added)
            times = np.exp(np.sign(ratio) * max(abs(ratio) - np.log(_ALIKE), 0.0))
            true_ones = self._true_ones(forgotten, added)
            added = n_wrong / (times * true_ones + n_known - true_ones)
            leaving = np.where(self.codes == 1, times * added, added)
            arriving = np.where(self.codes == 1, added, times * added)
        # of few known labels any share may look wrong, which must not condemn the others
        leaving, arriving = np.minimum(leaving, 0.25), np.minimum(arriving, 0.25)
        right = np.clip((self.probability - arriving) / (1.0 - leaving - arriving), 1e-4, 1 - 1e-4)
        odds = np.log(arriving / (1.0 - leaving)) - logit(right)
        # beyond the clip by how improbable they are
        return np.where(self.known, odds + 1e-3 * np.where(self.known, self.log_odds, 0.0), -np.inf)

    @property
    def wrong(self) -> Array:
        """Probability (n, d) that a given label is wrong; 0 where it is missing."""
        return np.asarray(expit(self.wrong_log_odds))

    @property
    def score(self) -> Array:
        """How likely it is that a row holds a wrong label, (n,); only its order has a meaning.

        The log-odds that one label or another is wrong, ``log sum_i exp(wrong_log_odds_i)``.
        """
        with np.errstate(divide="ignore"):
            score = logsumexp(self.wrong_log_odds, axis=1)
        first = _MOST_LOG_ODDS + np.maximum(score, 0.0)
        return np.asarray(np.where(self.broken.any(axis=1), first, score))

    @property
    def order(self) -> Indices:
        """Rows to look at, the most suspicious first."""
        return np.argsort(-self.score, kind="stable")

    @property
    def worst_labels(self) -> Indices:
        """Cells (row, label) that are given, the most suspicious first, (m, 2).

        Labels in a rule that their row breaks come before all others.
        """
        rows, labels = np.nonzero(self.known)
        order = np.lexsort((-self.wrong_log_odds[rows, labels], ~self.broken[rows, labels]))
        return np.stack([rows, labels], axis=1)[order]

    def noise(self, label: int | str | None = None) -> dict[str, NoiseRate]:
        """Estimate how often labels are wrong, for one label or for all together.

        For 0/1 labels: ``"forgotten"``, the share of true ones that are given as 0, and
        ``"added"``, the share of true zeros given as 1. For other variables: ``"wrong"``.

        The rates are read off the labels that the rest of the row predicts most confidently: what
        disagrees there is mostly noise. Where even these are hard to predict the estimate is too
        large, so read it as "at most about".
        """
        columns = slice(None) if label is None else [self.space.index(label)]
        given = self.known[:, columns]
        agreeing = -self.log_odds[:, columns][given]  # log-odds of what is given
        if not self.space.is_indicator:
            return {"wrong": _rate_of_confident(np.abs(agreeing), agreeing < 0)}
        ones = self.codes[:, columns][given] == 1
        for_one = np.where(ones, agreeing, -agreeing)  # log-odds of a one
        likely = for_one > 0
        return {
            "forgotten": _rate_of_confident(for_one[likely], ~ones[likely]),
            "added": _rate_of_confident(-for_one[~likely], ones[~likely]),
        }

    def n_wrong(self) -> NoiseRate:
        """Estimate how many of the given labels are wrong: how far it is worth reading.

        The `rate` is a number of labels here, with its 90 % interval. Labels that nothing predicts
        cannot be distinguished from wrong ones: where there are many, the number is too large.
        """
        noise = self.noise()
        n_known = int(self.known.sum())
        if "wrong" in noise:
            wrong = noise["wrong"]
            return NoiseRate(wrong.rate * n_known, wrong.low * n_known, wrong.high * n_known)
        counts = []
        for end in ("rate", "low", "high"):
            forgotten, added = (getattr(noise[kind], end) for kind in ("forgotten", "added"))
            true_ones = self._true_ones(forgotten, added)
            counts.append(forgotten * true_ones + added * (n_known - true_ones))
        return NoiseRate(*counts)

    def _true_ones(self, forgotten: float, added: float) -> float:
        """True ones: those given are true ones that were kept, and zeros that became ones."""
        n_known, n_ones = int(self.known.sum()), int((self.codes == 1).sum())
        kept = max(1.0 - forgotten - added, 0.05)
        return min(max((n_ones - added * n_known) / kept, 0.0), float(n_known))

    def corrected(self, at_least: float = 0.9) -> tuple[Any, Flags]:
        """Return the labels with the most surely wrong ones corrected, and which of them changed.

        Missing labels are filled in where their suggestion is as probable. Labels come back in
        the form in which they were given.
        """
        if not 0.5 <= at_least <= 1.0:
            raise ValueError(f"at_least is {at_least}: give a probability between 0.5 and 1.")
        sure = np.where(self.known, self.wrong, self.probability) >= at_least
        return self.space.decode(np.where(sure, self.suggestion, self.codes)), sure

    def to_frame(self, n: int | None = None) -> pd.DataFrame:
        """Return the `n` most suspicious labels (all by default) as a data frame, worst first.

        One line per label: row, label, what is given, its probability, the suggestion, how probably
        it is wrong, by how many nats the row's label vector would gain, and the `evidence` against
        it.
        """
        require("pandas", "A data frame")
        import pandas as pd

        return pd.DataFrame(self.listed(n))

    def listed(self, n: int | None = None) -> dict[str, Any]:
        """Return the columns of `to_frame`."""
        cells = self.worst_labels[:n]
        rows, labels = cells[:, 0], cells[:, 1]
        return {
            "row": rows,
            "label": np.array(self.space.names, dtype=object)[labels],
            "given": self.values_at(self.codes, cells),
            "probability": self.probability[rows, labels],
            "suggestion": self.values_at(self.suggestion, cells),
            "wrong": self.wrong[rows, labels],
            "gain": self.log_odds[rows, labels],
            "against": [self.against(*cell) for cell in cells.tolist()],
        }

    def against(self, row: int, label: int) -> str:
        """Write the evidence against a label, such as "not beach +2.1; size = 3 +0.4"."""
        return "; ".join(
            f"{what} {nats:+.1f}" for what, nats in self.evidence.get((row, label), ())
        )

    def value_name(self, row: int, label: int) -> str:
        """Write a given value: "beach" or "not beach", or "weather=dry" of a class variable."""
        name, code = self.space.names[label], self.codes[row, label]
        if self.space.is_indicator:
            return "not " * int(code == 0) + name
        return f"{name}={self.space.classes[label][code]}"

    def values_at(self, codes: Codes, cells: Indices) -> NDArray[Any]:
        """Return the user's values of some cells (m, 2) of a table of codes."""
        values = [self.space.classes[label][codes[row, label]] for row, label in cells]
        return np.array(values, dtype=object)


def _rate_of_confident(confidence: Array, wrong: Flags) -> NoiseRate:
    """Return how often predictions would be contradicted whose confidence is greatest.

    A line through the contradictions of the more confident ones, by rank, gives the rate at its
    end. Its error is that of the mean of a quarter as many.
    """
    if len(confidence) == 0:
        return NoiseRate(0.0, 0.0, 1.0)
    most = max(int(np.ceil(_CONFIDENT_SHARE * len(confidence))), min(100, len(confidence)))
    top = wrong[np.argsort(-confidence, kind="stable")[:most]]
    rank = (np.arange(most) + 0.5) / most - 0.5
    slope = max(float(rank @ top) / float(rank @ rank), 0.0) if most > 1 else 0.0
    rate = max(float(top.mean()) - 0.5 * slope, 0.0)
    for_it, against = rate * most / 4 + 0.5, (1.0 - rate) * most / 4 + 0.5
    low, high = (float(beta.ppf(q, for_it, against)) for q in (0.05, 0.95))
    return NoiseRate(rate, min(low, rate), max(high, rate))


def pooled(experts: Sequence[Sequence[Array]], codes: Codes) -> list[Array]:
    r"""Pool the log-probabilities of several experts for every label, d arrays (n, K_i).

    .. math:: \log P(y_i = v) = \sum_m w_m \log P_m(y_i = v) + b\,[v = 1] - \log Z

    The weights :math:`w_m \ge 0`, and :math:`b` where all labels have two values, maximise the
    likelihood of the given labels, which the experts have not seen: an expert that is overconfident
    or redundant counts less.

    Parameters
    ----------
    experts : for each expert, d arrays (n, K_i)
        Log-probabilities, such as `log_conditionals` returns them.
    codes : (n, d)
        The labels as given.
    """
    floored = [np.maximum(np.stack(tables), -_FLOOR) for tables in zip(*experts, strict=True)]
    two_valued = all(tables.shape[2] == 2 for tables in floored)
    known = [np.flatnonzero(column != MISSING) for column in codes.T]
    equal = np.array([1.0 / len(experts)] * len(experts) + [0.0])

    def log_pooled(weights: Array, i: int, rows: Any = slice(None)) -> Array:
        scores = np.tensordot(weights[:-1], floored[i][:, rows], axes=1)
        if two_valued:
            scores[:, 1] += weights[-1]
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))

    def loss(weights: Array) -> tuple[float, Array]:
        away = weights - equal  # with few labels the experts count the same
        value, gradient = float(_PRIOR * away @ away), 2.0 * _PRIOR * away
        for i, rows in enumerate(known):
            log_prob, given = log_pooled(weights, i, rows), codes[rows, i]
            value -= float(log_prob[np.arange(len(rows)), given].sum())
            excess = np.exp(log_prob)
            excess[np.arange(len(rows)), given] -= 1.0
            gradient[:-1] += np.tensordot(floored[i][:, rows], excess, axes=2)
            gradient[-1] += excess[:, 1].sum() if two_valued else 0.0
        return value, gradient

    bounds = [(0.0, None)] * len(experts) + [(None, None)]
    weights = minimize(loss, equal, jac=True, bounds=bounds, method="L-BFGS-B").x
    return [log_pooled(weights, i) for i in range(len(floored))]


def corrections(
    log_prob: Sequence[Array],
    space: LabelSpace,
    codes: Codes,
    surprise: Array,
    broken: Flags | None = None,
) -> Audit:
    """Turn the probabilities of all values of every label into an audit.

    Parameters
    ----------
    log_prob : d arrays (n, K_i)
        What `log_conditionals` or `pooled` returns.
    space : LabelSpace
    codes : (n, d)
        The labels as given.
    surprise : (n,)
    broken : (n, d) of bool, optional
        Labels in a rule that their row breaks.
    """
    rows = np.arange(len(codes))
    probability, log_odds = np.empty(codes.shape), np.empty(codes.shape)
    suggestion = np.empty_like(codes)
    for i, (column, table) in enumerate(zip(codes.T, log_prob, strict=True)):
        values = np.maximum(table, -_MOST_LOG_ODDS)
        given = column != MISSING
        at = np.where(given, column, 0)
        others = values.copy()
        others[rows[given], at[given]] = -np.inf
        suggestion[:, i] = others.argmax(axis=1) if others.shape[1] > 1 else 0
        best = others[rows, suggestion[:, i]]
        own = np.where(given, values[rows, at], values[rows, suggestion[:, i]])
        probability[:, i] = np.exp(own)
        log_odds[:, i] = np.where(given, best - own, -np.inf)
    broken = np.zeros(codes.shape, dtype=bool) if broken is None else broken
    return Audit(space, codes, probability, suggestion, log_odds, surprise, broken)
