"""A slow, obvious distribution over label vectors: a dictionary per row, in exact arithmetic."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from colabel.labels import MISSING, LabelSpace

mpmath.mp.dps = 100  # e^-1e30 has an exponent like any other; sums of scores up to 1e30 are exact


class Enumerated:
    """Every label vector of every row with its probability, as numbers of a hundred digits."""

    def __init__(self, sizes, rows):
        self.sizes = sizes
        self.rows = []
        for row in rows:
            total = mpmath.fsum(row.values())
            self.rows.append({y: p / total for y, p in row.items()})

    @classmethod
    def of_scores(cls, sizes, n_rows, score):
        """Of scores ``score(row, vector)``, lists of numbers to be added up."""
        vectors = list(itertools.product(*map(range, sizes)))
        return cls(sizes, [{y: exp_sum(score(r, y)) for y in vectors} for r in range(n_rows)])

    def sum(self, r, test):
        return mpmath.fsum(p for y, p in self.rows[r].items() if test(y))

    def log_prob(self, codes):
        return np.array([log_of(self.prob(r, tuple(c))) for r, c in enumerate(codes.tolist())])

    def prob(self, r, codes):
        if MISSING not in codes:
            return self.rows[r][codes]
        return self.sum(r, lambda y: agrees(y, codes))

    def best(self, k):
        return np.array([[log_of(p) for p in sorted(r.values())[::-1][:k]] for r in self.rows])

    def marginals(self):
        return [
            np.array(
                [
                    [float(self.sum(r, lambda y, i=i, v=v: y[i] == v)) for v in range(size)]
                    for r in range(len(self.rows))
                ]
            )
            for i, size in enumerate(self.sizes)
        ]

    def pair(self, i, j):
        table = np.zeros((len(self.rows), self.sizes[i], self.sizes[j]))
        for r, row in enumerate(self.rows):
            for y, p in row.items():
                table[r, y[i], y[j]] += float(p)
        return table

    def entropy(self):
        return np.array(
            [float(-mpmath.fsum(p * mpmath.log(p) for p in r.values() if p)) for r in self.rows]
        )

    def where(self, test):
        """The distribution given ``test(row, vector)``, and the log-probability of that."""
        kept = [
            {y: p if test(r, y) else mpmath.mpf(0) for y, p in row.items()}
            for r, row in enumerate(self.rows)
        ]
        return Enumerated(self.sizes, kept)

    def given(self, codes):
        return self.where(lambda r, y: agrees(y, codes[r]))


def every_vector(sizes):
    """All label vectors (v, d) as codes."""
    return np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)


def assert_tables(found, expected, atol, **options):
    """Arrays of two lists are close, one by one."""
    for table, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(table, wanted, atol=atol, **options)


def assert_frequencies(drawn, exact, slack=1.0):
    """Draws (size, n, d) have about the frequencies of a distribution in each row."""
    size = len(drawn)
    for r, row in enumerate(exact.rows):
        for y, p in row.items():
            count, p = (drawn[:, r] == y).all(axis=1).sum(), float(p)
            assert abs(count - size * p) <= 5 * slack * math.sqrt(size * p * (1 - p)) + 1


def exp_sum(terms):
    if any(term == -math.inf for term in terms):
        return mpmath.mpf(0)
    return mpmath.exp(mpmath.fsum(mpmath.mpf(float(term)) for term in terms))


def log_of(p):
    return float(mpmath.log(p)) if p else -math.inf


def agrees(y, codes):
    return all(c in (MISSING, v) for v, c in zip(y, codes, strict=True))


def make_space(cardinalities):
    """A space whose labels are y0, y1, ... with values 0, 1, ..."""
    names = tuple(f"y{i}" for i in range(len(cardinalities)))
    return LabelSpace(names, tuple(np.arange(k) for k in cardinalities), "matrix")


def random_log_table(rng, shape, style):
    """Log-probabilities over the last axis: smooth, with zeros, or full of ties and zeros."""
    if style == "smooth":
        weights = rng.gamma(0.7, size=shape) + 1e-9
    elif style == "zeros":
        weights = rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.6)
    else:
        weights = rng.integers(0, 3, size=shape).astype(float)
    # a distribution needs some mass: put it on one value where all the weights are zero
    weights[..., 0] += weights.sum(axis=-1) == 0
    with np.errstate(divide="ignore"):
        return np.log(weights / weights.sum(axis=-1, keepdims=True))


def random_evidence(rng, n_rows, cardinalities, known=0.4):
    """Codes (n, d), each entry known with the given probability."""
    codes = np.stack([rng.integers(0, k, size=n_rows) for k in cardinalities], axis=1)
    return np.where(rng.random(codes.shape) < known, codes, MISSING).astype(np.int32)


def possible_evidence(joint, exact, rng):
    """Draw evidence (n, d); what is impossible must be refused by its row, and is left out."""
    evidence = random_evidence(rng, joint.n_rows, exact.sizes)
    impossible = np.flatnonzero(np.isneginf(exact.log_prob(evidence)))
    if impossible.size:
        with pytest.raises(ValueError, match=f"row {impossible[0]} has"):
            joint.given_codes(evidence)
        evidence[impossible] = MISSING
    return evidence
