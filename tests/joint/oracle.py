"""A slow, obvious distribution over label vectors: a dictionary per row, sums by loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import strategies as st

from colabel.labels import MISSING, LabelSpace


class Oracle:
    """Every label vector of every row with its probability."""

    def __init__(self, cardinalities, rows):
        self.cardinalities = cardinalities
        self.rows = rows  # list over rows of {vector: probability}

    @classmethod
    def of_tree(cls, cardinalities, parents, log_tables):
        rows = []
        for r in range(len(log_tables[0])):
            row = {}
            for y in itertools.product(*map(range, cardinalities)):
                p = 1.0
                for i, parent in enumerate(parents):
                    u = 0 if parent == -1 else y[parent]
                    p *= math.exp(log_tables[i][r, u, y[i]])
                row[y] = p
            rows.append(row)
        return cls(cardinalities, rows)

    @classmethod
    def of_independent(cls, cardinalities, log_tables):
        tables = [table[:, None, :] for table in log_tables]
        return cls.of_tree(cardinalities, [-1] * len(tables), tables)

    def prob(self, r, codes):
        """Probability of the observed entries of one vector in row r."""
        return math.fsum(p for y, p in self.rows[r].items() if agrees(y, codes))

    def log_prob(self, codes):
        return np.array([safe_log(self.prob(r, c)) for r, c in enumerate(codes)])

    def best(self, k):
        """The k highest log-probabilities of each row."""
        return np.array(
            [[safe_log(p) for p in sorted(row.values())[::-1][:k]] for row in self.rows]
        )

    def marginals(self):
        tables = [np.zeros((len(self.rows), k)) for k in self.cardinalities]
        for r, row in enumerate(self.rows):
            for y, p in row.items():
                for i, v in enumerate(y):
                    tables[i][r, v] += p
        return tables

    def pair(self, i, j):
        table = np.zeros((len(self.rows), self.cardinalities[i], self.cardinalities[j]))
        for r, row in enumerate(self.rows):
            for y, p in row.items():
                table[r, y[i], y[j]] += p
        return table

    def entropy(self):
        return np.array([-math.fsum(p * math.log(p) for p in r.values() if p) for r in self.rows])

    def given(self, codes):
        """The oracle given evidence (n, d); the evidence must be possible in every row."""
        rows = []
        for r, row in enumerate(self.rows):
            total = self.prob(r, codes[r])
            rows.append({y: p / total if agrees(y, codes[r]) else 0.0 for y, p in row.items()})
        return Oracle(self.cardinalities, rows)


def agrees(y, codes):
    return all(c in (MISSING, v) for v, c in zip(y, codes, strict=True))


def safe_log(p):
    return math.log(p) if p > 0 else -math.inf


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


@st.composite
def instances(draw, max_labels=5, max_values=4, max_rows=4):
    """Cardinalities, parents of a random forest, tree tables, and a generator for the rest."""
    d = draw(st.integers(1, max_labels))
    cardinalities = tuple(draw(st.lists(st.integers(1, max_values), min_size=d, max_size=d)))
    order = draw(st.permutations(range(d)))
    parents = [-1] * d
    for place, i in enumerate(order):
        parents[i] = draw(st.sampled_from([-1, *order[:place]]))
    n_rows = draw(st.integers(1, max_rows))
    style = draw(st.sampled_from(["smooth", "zeros", "ties"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    above = [1 if p == -1 else cardinalities[p] for p in parents]
    shapes = zip([n_rows] * d, above, cardinalities, strict=True)
    return cardinalities, parents, [random_log_table(rng, s, style) for s in shapes], rng


def random_evidence(rng, n_rows, cardinalities, known=0.4):
    """Codes (n, d), each entry known with the given probability."""
    codes = np.stack([rng.integers(0, k, size=n_rows) for k in cardinalities], axis=1)
    return np.where(rng.random(codes.shape) < known, codes, MISSING).astype(np.int32)


def possible_evidence(joint, oracle, rng):
    """Draw evidence (n, d); what is impossible must be refused by its row, and is left out."""
    evidence = random_evidence(rng, joint.n_rows, oracle.cardinalities)
    impossible = np.flatnonzero(np.isneginf(oracle.log_prob(evidence)))
    if impossible.size:
        with pytest.raises(ValueError, match=f"row {impossible[0]} has"):
            joint.given_codes(evidence)
        evidence[impossible] = MISSING
    return evidence
