"""Shapley values: of the columns of a row by random orders, of the other labels by their joint."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.numeric import log_sum_exp
from colabel.joint import Joint
from colabel.labels import MISSING

_NUMBERS_AT_ONCE = 1 << 22  # in the rows that are asked about at once
_CANDIDATES = 20  # labels that are set alone, to see what each does; the least certain ones
_NAMED = 5  # of them, those with a term of their own; the others share one

MOST = float(np.log(1e9))
"""Log-odds are cut here: a probability of 1 has none."""


class Attribution(NamedTuple):
    """What terms add to some answers.

    Attributes
    ----------
    base : (m,)
        Mean of the answers for the rows that it was compared with.
    values : (m, G)
        Shapley values: ``base + values.sum(axis=1)`` are the answers for the row.
    errors : (m, G)
        Their standard errors.
    """

    base: Array
    values: Array
    errors: Array


def shapley_values(
    answer: Callable[[Array], Array],
    x: Array,
    background: Array,
    owner: Indices,
    n_orders: int,
    rng: Generator,
) -> Attribution:
    r"""Estimate what each term of a row adds to answers about it.

    With z another row and S a set of terms, let :math:`v_z(S)` be the answer for z with the terms
    in S taken from x. The Shapley value of a term is the mean of
    :math:`v_z(S \cup \{g\}) - v_z(S)` over rows z of the background and over random orders of the
    terms, S being those that come before g. Each order is also used backwards, which cancels
    interactions of two terms; along an order the differences sum to v(x) - v(z), so their means
    sum exactly too.

    Parameters
    ----------
    answer : function from rows (n, p) to answers (n, m)
    x : (p,)
    background : (b, p)
    owner : (p,)
        Term of each feature.
    n_orders : int
        Orders, forwards and backwards together.
    rng : Generator
    """
    features = [np.flatnonzero(owner == term) for term in range(int(owner.max()) + 1)]
    n_pairs = max(1, n_orders // 2)
    pairs = []
    for z in background[np.resize(rng.permutation(len(background)), n_pairs)]:
        # a term that is the same in both rows adds nothing, whatever the order
        different = [g for g, own in enumerate(features) if (x[own] != z[own]).any()]
        pairs.append((z, rng.permutation(np.array(different, dtype=np.intp))))
    longest = 2 * (len(features) + 1) * len(x)
    at_once = max(1, _NUMBERS_AT_ONCE // longest)
    base, values = [], []
    for start in range(0, n_pairs, at_once):
        part = pairs[start : start + at_once]
        paths = [_path(x, z, way, features) for z, order in part for way in (order, order[::-1])]
        found = np.split(answer(np.concatenate(paths)), np.cumsum([len(p) for p in paths])[:-1])
        for (_, order), there, back in zip(part, found[::2], found[1::2], strict=True):
            steps = np.zeros((there.shape[1], len(features)))
            steps[:, order] = np.diff(there, axis=0).T / 2.0
            steps[:, order[::-1]] += np.diff(back, axis=0).T / 2.0
            base.append(there[0])
            values.append(steps)
    spread = np.std(values, axis=0, ddof=1) if n_pairs > 1 else np.full_like(values[0], np.nan)
    return Attribution(np.mean(base, axis=0), np.mean(values, axis=0), spread / np.sqrt(n_pairs))


def _path(x: Array, z: Array, order: Indices, features: list[Indices]) -> Array:
    """Return z, and z with ever more terms of x, in their order; the last is as x."""
    rows = np.tile(z, (len(order) + 1, 1))
    for step, term in enumerate(order, start=1):
        rows[step:, features[term]] = x[features[term]]
    return rows


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
        return np.clip(np.where(known, both[0] - both[1], 0.0), -MOST, MOST)


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
