"""The mixture over label dependency sets by loops, straight from the formulas of the paper."""

from __future__ import annotations

import itertools
import math

import numpy as np

from colabel.joint.lds.network import DependencySets, FeatureColumns, LDSNetwork
from colabel.labels import MISSING


def values_of_set(vector, members):
    """Values that the labels of a dependency set take in a label vector."""
    return tuple(int(vector[i]) for i in members)


class SlowMixture:
    """Parameters in dictionaries: alpha, theta and phi as the paper defines them.

    alpha[i][parent values][value], theta[label vector][j][k], phi[j][k][values of the set][value].
    """

    def __init__(self, parents, sizes, n_values, smoothing, printed=False):
        self.parents, self.sizes, self.n_values = parents, sizes, n_values
        self.members = [(*above, k) for k, above in enumerate(parents)]
        self.smoothing = smoothing
        self.printed = printed  # the M-step of the paper: times Pr(F_j = v | l)

    def fit(self, labels, features, weight, n_iter):
        """Maximum likelihood for alpha, `n_iter` iterations of EM for theta and phi."""
        self.alpha = [self._label_table(i, labels, weight) for i in range(len(self.parents))]
        rows = [
            (tuple(map(int, y)), tuple(map(int, f)), w)
            for y, f, w in zip(labels, features, weight, strict=True)
            if MISSING not in y
        ]
        self.seen = sorted({y for y, _, _ in rows})
        q, p = len(self.parents), len(self.n_values)
        self.theta = {y: [[1 / q] * q for _ in range(p)] for y in self.seen}
        self.phi = [[self._first_table(j, k, rows) for k in range(q)] for j in range(p)]
        for _ in range(n_iter):
            self._iterate(rows)
        return self

    def _label_table(self, i, labels, weight):
        table = {}
        for above in itertools.product(*(range(self.sizes[a]) for a in self.parents[i])):
            counts = [self.smoothing] * self.sizes[i]
            for y, w in zip(labels, weight, strict=True):
                if y[i] != MISSING and values_of_set(y, self.parents[i]) == above:
                    counts[y[i]] += w
            table[above] = [c / sum(counts) for c in counts]
        return table

    def _first_table(self, j, k, rows):
        counts = self._no_counts(j, k)
        for y, f, w in rows:
            counts[values_of_set(y, self.members[k])][f[j]] += w
        return {z: [c / sum(row) for c in row] for z, row in counts.items()}

    def _no_counts(self, j, k):
        states = itertools.product(*(range(self.sizes[i]) for i in self.members[k]))
        return {z: [self.smoothing] * self.n_values[j] for z in states}

    def _iterate(self, rows):
        q = len(self.parents)
        new_theta = {y: [[self.smoothing] * q for _ in self.n_values] for y in self.seen}
        new_phi = [[self._no_counts(j, k) for k in range(q)] for j in range(len(self.n_values))]
        for y, f, w in rows:
            for j, v in enumerate(f):
                terms = self.terms(y, j, v)
                for k in range(q):
                    expected = w * terms[k] / sum(terms)
                    if self.printed:
                        expected *= sum(terms)
                    new_theta[y][j][k] += expected
                    new_phi[j][k][values_of_set(y, self.members[k])][v] += expected
        self.theta = {
            y: [[c / sum(row) for c in row] for row in table] for y, table in new_theta.items()
        }
        self.phi = [
            [{z: [c / sum(row) for c in row] for z, row in t.items()} for t in tables]
            for tables in new_phi
        ]

    def expected(self, features, weight):
        """Rows (labels, features, weights) of every label vector, weighted by P(labels | f)."""
        rows = []
        for f, w in zip(features, weight, strict=True):
            every = list(itertools.product(*map(range, self.sizes)))
            joint = [math.exp(self.log_joint(y, f)) for y in every]
            rows += [(y, f, w * p / sum(joint)) for y, p in zip(every, joint, strict=True)]
        return tuple(map(np.array, zip(*rows, strict=True)))

    def unlabelled_step(self, labels, features, weight, others, other_weight):
        """One iteration of EM on rows with labels and rows without."""
        soft = self.expected(others, other_weight)
        own = labels, features, weight
        labels, features, weight = (np.concatenate(pair) for pair in zip(own, soft, strict=True))
        self.seen = list(itertools.product(*map(range, self.sizes)))
        q, p = len(self.parents), len(self.n_values)
        for y in self.seen:
            self.theta.setdefault(y, [[1 / q] * q for _ in range(p)])
        self._iterate(
            [(tuple(map(int, y)), f, w) for y, f, w in zip(labels, features, weight, strict=True)]
        )
        self.alpha = [self._label_table(i, labels, weight) for i in range(q)]

    def terms(self, y, j, v):
        """theta times phi for each dependency set; equal weights for a vector never seen."""
        q = len(self.parents)
        weights = self.theta[y][j] if y in self.theta else [1 / q] * q
        return [weights[k] * self.phi[j][k][values_of_set(y, self.members[k])][v] for k in range(q)]

    def log_joint(self, y, f):
        """Logarithm of Equation 3."""
        y = tuple(map(int, y))
        found = 0.0
        for i, above in enumerate(self.parents):
            found += math.log(self.alpha[i][values_of_set(y, above)][y[i]])
        for j, v in enumerate(f):
            found += math.log(sum(self.terms(y, j, v)))
        return found

    def objective(self, labels, features, weight):
        """What EM maximises: the features' likelihood and the prior of the pseudo-counts."""
        found = 0.0
        for y, f, w in zip(labels, features, weight, strict=True):
            for j, v in enumerate(f):
                found += w * math.log(sum(self.terms(tuple(map(int, y)), j, v)))
        for table in self.theta.values():
            found += self.smoothing * sum(math.log(t) for row in table for t in row)
        for tables in self.phi:
            for table in tables:
                found += self.smoothing * sum(math.log(p) for row in table.values() for p in row)
        return found

    def ascend(self, f, start, evidence=None, max_sweeps=100):
        """Block coordinate ascent over the dependency sets (Figure 5)."""
        y = [s if evidence is None or e == MISSING else e for s, e in zip_evidence(start, evidence)]
        for _ in range(max_sweeps):
            before = list(y)
            for members in self.members:
                best, best_score = tuple(y), self.log_joint(y, f)
                for values in itertools.product(*(range(self.sizes[i]) for i in members)):
                    other = list(y)
                    for i, value in zip(members, values, strict=True):
                        other[i] = value
                    if evidence is not None and any(
                        e not in (MISSING, o) for e, o in zip(evidence, other, strict=True)
                    ):
                        continue
                    score = self.log_joint(other, f)
                    if score > best_score + 1e-11 * abs(best_score):
                        best, best_score = tuple(other), score
                y = list(best)
            if y == before:
                break
        return y


def zip_evidence(start, evidence):
    return zip(start, start if evidence is None else evidence, strict=True)


def random_network(rng, parents, sizes, n_values, n_seen, sharpness=1.0):
    """A network with random tables that has seen some of its label vectors."""
    sets = DependencySets.of(parents, sizes)
    columns = FeatureColumns(n_values)
    every = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    vectors = every[np.sort(rng.choice(len(every), size=min(n_seen, len(every)), replace=False))]
    most = sets.n_states.max()
    alpha, phi = np.zeros((len(sizes), most)), np.zeros((len(sizes), most, columns.n_columns))
    for k, n_states in enumerate(sets.n_states):
        rows = rng.dirichlet(np.full(sizes[k], sharpness), size=n_states // sizes[k])
        alpha[k, :n_states] = rows.ravel()
        for j, size in enumerate(n_values):
            phi[k, :n_states, columns.of(j)] = rng.dirichlet(np.full(size, sharpness), n_states)
    theta = rng.dirichlet(np.full(len(sizes), 0.3), size=(len(vectors), len(n_values)))
    return LDSNetwork(
        sets, columns, alpha, vectors, np.ones(len(vectors)), theta.transpose(0, 2, 1).copy(), phi
    )


def slow_copy(network):
    """The same parameters as a SlowMixture."""
    sets, columns = network.sets, network.columns
    slow = SlowMixture(sets.parents, sets.cardinalities, columns.n_values, 1.0)
    slow.alpha = []
    for i, above in enumerate(sets.parents):
        rows = network.alpha[i, : sets.n_states[i]].reshape(-1, sets.cardinalities[i])
        states = itertools.product(*(range(sets.cardinalities[a]) for a in above))
        slow.alpha.append({z: list(row) for z, row in zip(states, rows, strict=True)})
    slow.seen = [tuple(map(int, y)) for y in network.vectors]
    slow.theta = {y: network.theta[u].T.tolist() for u, y in enumerate(slow.seen)}
    slow.phi = [
        [
            {
                tuple(map(int, z)): network.phi[k, s, columns.of(j)].tolist()
                for s, z in enumerate(sets.assignments(k))
            }
            for k in range(sets.n_labels)
        ]
        for j in range(columns.n_features)
    ]
    return slow


def draw_rows(network, n_rows, rng):
    """Labels and features drawn from a network by the steps of Section 2.2.

    A label vector that the network has not seen gets equal mixture weights.
    """
    sets, columns = network.sets, network.columns
    labels = np.zeros((n_rows, sets.n_labels), dtype=np.int32)
    done: set[int] = set()
    while len(done) < sets.n_labels:
        for i, above in enumerate(sets.parents):
            if i in done or not set(above) <= done:
                continue
            labels[:, i] = 0
            base = sets.states(labels)[:, i]
            table = network.alpha[i][base[:, None] + np.arange(sets.cardinalities[i])]
            labels[:, i] = (rng.random(n_rows)[:, None] > table.cumsum(axis=1)).sum(axis=1)
            done.add(i)
    conditional = np.exp(network.log_conditional(labels))
    features = np.empty((n_rows, columns.n_features), dtype=np.int32)
    for j in range(columns.n_features):
        cumulated = conditional[:, columns.of(j)].cumsum(axis=1)[:, :-1]
        features[:, j] = (rng.random(n_rows)[:, None] > cumulated).sum(axis=1)
    return labels, features
