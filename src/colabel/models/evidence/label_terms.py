"""What the other labels of an answer add to the log-odds of a label, by its joint."""

from __future__ import annotations

from itertools import chain, combinations
from math import factorial

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.numeric import log_sum_exp
from colabel.joint import Joint
from colabel.labels import MISSING

_CANDIDATES = 20  # labels that are set alone, to see what each does; the least certain ones
_NAMED = 5  # of them, those with a term of their own; the others share one

MOST = float(np.log(1e9))
"""Log-odds are cut here: a probability of 1 has none."""


def cut(log_odds: Array) -> Array:
    """Keep log-odds between -MOST and MOST."""
    return np.clip(log_odds, -MOST, MOST)


def log_odds_of(table: Array, value: int) -> Array:
    """Return log P(v) - log P(not v), cut, from probabilities (n, K)."""
    with np.errstate(divide="ignore"):
        return _log_odds(np.log(table), value)


def _log_odds(log_prob: Array, value: int) -> Array:
    """Return the log-odds (n,) of one of K values with log-probabilities (n, K), cut."""
    others = np.delete(log_prob, value, axis=1)
    rest = log_sum_exp(others, axis=1) if others.shape[1] else np.full(len(log_prob), -np.inf)
    both = np.stack([log_prob[:, value], rest])
    # what is impossible altogether says nothing
    known = np.isfinite(both).any(axis=0)
    with np.errstate(invalid="ignore"):
        return cut(np.where(known, both[0] - both[1], 0.0))


class LabelTerms:
    r"""The joint of one row and an answer: what some labels of it say of another.

    :math:`v(T)` is the log-odds of a label given that the labels in T have the values of the
    answer. The terms are the Shapley values of v: exact over the five labels that change it most
    when set alone, and all the others together as a sixth.

    Parameters
    ----------
    joint : Joint
        Of one row.
    answer : (d,)
        Codes.
    """

    def __init__(self, joint: Joint, answer: Codes) -> None:
        self.joint, self.answer = joint, answer
        self.tables = [table[0] for table in joint.marginal_tables()]
        sure = [table[code] for table, code in zip(self.tables, answer, strict=True)]
        self.candidates: Indices = np.sort(np.argsort(sure, kind="stable")[:_CANDIDATES])

    def alone(self, label: int, value: int) -> float:
        """Return the log-odds of a value of a label, nothing else being known."""
        return float(log_odds_of(self.tables[label][None], value)[0])

    def given(self, label: int, value: int, known: list[list[int]]) -> Array:
        """Return v of each of some lists of labels, (len(known),)."""
        size = len(self.tables[label])
        codes = np.full((len(known), size, len(self.answer)), MISSING, dtype=np.int32)
        for place, labels in enumerate(known):
            codes[place, :, labels] = self.answer[labels, None]
        codes[:, :, label] = np.arange(size)
        flat = codes.reshape(-1, len(self.answer))
        repeated = self.joint.rows(np.zeros(len(flat), dtype=np.intp))
        return _log_odds(repeated.log_prob_codes(flat).reshape(len(known), size), value)

    def of(self, label: int, value: int) -> Array:
        """Return the terms (d + 1,): of each label, and of all without a term of their own."""
        terms = np.zeros(len(self.answer) + 1)
        others = [int(j) for j in self.candidates if j != label]
        if len(self.answer) < 2:
            return terms
        alone = self.alone(label, value)
        effects = np.abs(self.given(label, value, [[j] for j in others]) - alone)
        named = [others[k] for k in np.argsort(-effects, kind="stable")[:_NAMED]]
        rest = [j for j in range(len(self.answer)) if j != label and j not in named]
        players = [[j] for j in named] + ([rest] if rest else [])
        subsets = [*chain(*(combinations(range(len(players)), k) for k in range(len(players) + 1)))]
        known = [[j for player in subset for j in players[player]] for subset in subsets]
        found = dict(zip(subsets, self.given(label, value, known).tolist(), strict=True))
        found[()] = alone
        shares = _shapley(found, len(players))
        terms[named] = shares[: len(named)]
        terms[-1] = shares[len(named) :].sum()
        return terms


def _shapley(value: dict[tuple[int, ...], float], n_players: int) -> Array:
    r"""Shapley values from v of every subset: means of v(S + g) - v(S) over all orders.

    .. math:: \sum_S \frac{|S|! \, (n - |S| - 1)!}{n!} \left( v(S \cup g) - v(S) \right)
    """
    shares = np.zeros(n_players)
    for subset, before in value.items():
        for player in set(range(n_players)) - set(subset):
            after = value[tuple(sorted((*subset, player)))]
            weight = factorial(len(subset)) * factorial(n_players - len(subset) - 1)
            shares[player] += weight * (after - before)
    return shares / factorial(n_players)
