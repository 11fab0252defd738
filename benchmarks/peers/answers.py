"""What a method says about rows held out: label vectors, and how probable the true ones were.

Codes 0 .. K-1 are those of all rows of a data set. A value or a set that the training rows lack,
and a vote that no tree gave, have probability zero in the libraries, and one such row makes a
log-loss infinite. They are given what a finite sample supports instead, and are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from colabel.core.arrays import Array, Codes, Flags


class Answers(Protocol):
    """What the measures ask of any method about m rows."""

    def subset(self) -> Codes:
        """Label vectors (m, d) for exact match: what `predict` gives."""

    def hamming(self) -> Codes:
        """Label vectors (m, d) for the share of right labels."""

    def f1(self) -> Codes:
        """Label vectors (m, d) for the F1 of rows: where a method has no rule for it, `subset`."""

    def micro_f1(self) -> Codes:
        """Label vectors (m, d) for the micro F1."""

    def macro_f1(self) -> Codes:
        """Label vectors (m, d) for the macro F1."""

    def log_prob(self, true: Codes) -> tuple[Array, Flags]:
        """Log-probability (m,) of true vectors (m, d), and where the method itself said zero."""


def without_zeros(table: Array, n_train: int) -> Array:
    """Probabilities (m, K) with Laplace's share 1 / (n + K) in place of zeros, rows of sum 1."""
    filled = np.where(table > 0, table, 1.0 / (n_train + table.shape[1]))
    scaled: Array = filled / filled.sum(axis=1, keepdims=True)
    return scaled


def over_all_values(table: Array, classes: Any, n_values: int) -> Array:
    """Probabilities of the values that were seen as those of all K values, (m, K)."""
    spread = np.zeros((len(table), n_values))
    spread[:, np.asarray(classes, dtype=np.intp)] = table
    return spread


@dataclass(frozen=True, eq=False)
class ByMarginals:
    """Each label by itself: the joint is the product of the marginals.

    Attributes
    ----------
    tables : d arrays (m, K)
    n_train : int
    decided : (m, d), optional
        What the method predicts, where that is not the most probable value of each label.
    """

    tables: Sequence[Array]
    n_train: int
    decided: Codes | None = None

    def subset(self) -> Codes:
        return self.hamming() if self.decided is None else self.decided

    f1 = micro_f1 = macro_f1 = subset

    def hamming(self) -> Codes:
        return np.stack([table.argmax(axis=1) for table in self.tables], axis=1).astype(np.int32)

    def log_prob(self, true: Codes) -> tuple[Array, Flags]:
        return _product(self.tables, true, self.n_train)


@dataclass(frozen=True, eq=False)
class ByChainRule:
    """A greedy chain: log P(y | x) is the sum of log P(y_j | x, true y before j).

    Attributes
    ----------
    decided : (m, d)
    given_true : callable
        From true vectors (m, d) to the d conditional tables (m, K), in the order of the labels.
    n_train : int
    """

    decided: Codes
    given_true: Callable[[Codes], Sequence[Array]]
    n_train: int

    def subset(self) -> Codes:
        return self.decided

    f1 = micro_f1 = macro_f1 = subset

    def hamming(self) -> Codes:
        return self.decided

    def log_prob(self, true: Codes) -> tuple[Array, Flags]:
        return _product(self.given_true(true), true, self.n_train)


@dataclass(frozen=True, eq=False)
class BySets:
    """A distribution over the S label vectors of the training rows, and a share for all others.

    With n training rows, N1 vectors seen once and the vectors' probabilities P(s | x)::

        seen     (1 - u) (n P(s | x) + 1) / (n + S)      u = (N1 + 1) / (n + 2)
        unseen    u q(y) / q(all unseen)                 q(y) = prod_j (n_j(y_j) + 1) / (n + K_j)

    u is Good and Turing's estimate of the probability of a vector not seen before.

    Attributes
    ----------
    prob : (m, S)
    vectors : (S, d)
    train : (n, d)
        Label vectors of the training rows.
    cardinalities : d numbers of values
    """

    prob: Array
    vectors: Codes
    train: Codes
    cardinalities: Sequence[int]

    def subset(self) -> Codes:
        best: Codes = self.vectors[self.prob.argmax(axis=1)]
        return best

    f1 = micro_f1 = macro_f1 = subset

    def hamming(self) -> Codes:
        best = [
            (self.prob @ (self.vectors[:, [j]] == np.arange(n_values))).argmax(axis=1)
            for j, n_values in enumerate(self.cardinalities)
        ]
        return np.stack(best, axis=1).astype(np.int32)

    def log_prob(self, true: Codes) -> tuple[Array, Flags]:
        n, n_sets = len(self.train), len(self.vectors)
        position = {tuple(vector): s for s, vector in enumerate(self.vectors.tolist())}
        found = np.array([position.get(tuple(vector), -1) for vector in true.tolist()])
        counts = np.unique(self.train, axis=0, return_counts=True)[1]
        unseen_share = ((counts == 1).sum() + 1.0) / (n + 2.0)
        if n_sets == np.prod(np.array(self.cardinalities, dtype=np.float64)):
            unseen_share = 0.0
        own = self.prob[np.arange(len(true)), found]
        seen = (1.0 - unseen_share) * (n * own + 1.0) / (n + n_sets)
        log_prior = self._log_prior(true)
        left = max(1.0 - float(np.exp(self._log_prior(self.vectors)).sum()), 1e-12)
        with np.errstate(divide="ignore"):
            unseen = np.log(unseen_share) + log_prior - np.log(left)
        is_seen = found >= 0
        return np.where(is_seen, np.log(seen), unseen), ~is_seen | (own == 0)

    def _log_prior(self, codes: Codes) -> Array:
        total = np.zeros(len(codes))
        for j, n_values in enumerate(self.cardinalities):
            counts = np.bincount(self.train[:, j], minlength=n_values) + 1.0
            total += np.log(counts / counts.sum())[codes[:, j]]
        return total


@dataclass(frozen=True, eq=False)
class ByJoint:
    """A joint of colabel, of a model whose label values are the codes themselves."""

    joint: Any
    mode: Codes

    def subset(self) -> Codes:
        return self.mode

    def hamming(self) -> Codes:
        return self._decided("hamming")

    def f1(self) -> Codes:
        return self._decided("f1")

    def micro_f1(self) -> Codes:
        return self._decided("micro_f1")

    def macro_f1(self) -> Codes:
        return self._decided("macro_f1")

    def _decided(self, loss: str) -> Codes:
        from colabel.decide import decide

        values: Codes = np.asarray(decide(self.joint, loss))
        return values.astype(np.int32)

    def log_prob(self, true: Codes) -> tuple[Array, Flags]:
        known = np.zeros(true.shape, dtype=np.int32)
        lacking = np.zeros(len(true), dtype=np.bool_)
        for j, values in enumerate(self.joint.space.classes):
            match = true[:, [j]] == np.asarray(values).astype(np.int64)
            known[:, j] = match.argmax(axis=1)
            lacking |= ~match.any(axis=1)
        logs: Array = np.minimum(self.joint.log_prob_codes(known), 0.0)
        logs = np.where(lacking, -np.inf, logs)
        return logs, np.isneginf(logs)


def _product(tables: Sequence[Array], true: Codes, n_train: int) -> tuple[Array, Flags]:
    rows, total = np.arange(len(true)), np.zeros(len(true))
    zero = np.zeros(len(true), dtype=np.bool_)
    for table, codes in zip(tables, true.T, strict=True):
        total += np.log(without_zeros(table, n_train)[rows, codes])
        zero |= table[rows, codes] <= 0
    return total, zero
