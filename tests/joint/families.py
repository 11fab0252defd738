"""One table of all families, each with the distribution it stands for, in exact arithmetic.

`FAMILIES[name](rng, sizes, n_rows, scale)` returns a joint of random tables whose scores are about
as large as `scale`, full of ties (``"ties"``) or in part impossible (``"zeros"``), and the
`Enumerated` distribution that follows from these same tables.
"""

from __future__ import annotations

import itertools
import math
from functools import partial

import mpmath
import numpy as np
from scipy.special import log_softmax

from colabel.joint import (
    Chain,
    DependencyNetwork,
    Independent,
    LDSPosterior,
    LinearConditionals,
    Mixture,
    PairwiseField,
    Reweighted,
    Tree,
    VectorList,
)
from colabel.joint.chain import BeamSearch, EpsilonSearch, MonteCarlo, TableLinks
from colabel.joint.repeated import Repeated
from colabel.joint.vectors import WrittenOut
from tests.joint.lds.oracle import random_network as random_lds
from tests.joint.lds.oracle import slow_copy
from tests.joint.oracle import Enumerated, every_vector, exp_sum, make_space


def normal(rng, shape, scale):
    """Scores of about a scale; half of the time many are alike but for a few nats.

    Where some are impossible, the first value never is: the vector of these is left.
    """
    if scale == "ties":
        return rng.integers(-1, 2, size=shape).astype(float)
    if scale == "zeros":
        scores = rng.normal(size=shape)
        scores[..., 1:][rng.random(scores[..., 1:].shape) < 0.3] = -np.inf
        return scores
    if rng.random() < 0.5:
        return scale * rng.normal(size=shape)
    return scale * rng.integers(-1, 2, size=shape) + rng.normal(size=shape)


def of_marginals(prob):
    """Independent 0/1 labels that are 1 with probabilities (n, d)."""
    with np.errstate(divide="ignore"):
        tables = [np.log(np.stack([1 - p, p], axis=1)) for p in np.asarray(prob).T]
    return Independent(make_space((2,) * len(tables)), tables)


def independent(rng, sizes, n_rows, scale):
    tables = [log_softmax(normal(rng, (n_rows, k), scale), axis=-1) for k in sizes]
    exact = Enumerated.of_scores(
        sizes, n_rows, lambda r, y: [t[r, v] for t, v in zip(tables, y, strict=True)]
    )
    return Independent(make_space(sizes), tables), exact


def random_tree(rng, sizes, n_rows, scale):
    order = rng.permutation(len(sizes)).tolist()
    parents = [-1] * len(sizes)
    for place, i in enumerate(order[1:], 1):
        parents[i] = [-1, *order][rng.integers(0, place + 1)]
    above = [1 if p == -1 else sizes[p] for p in parents]
    tables = [
        log_softmax(normal(rng, (n_rows, a, k), scale), axis=-1)
        for a, k in zip(above, sizes, strict=True)
    ]
    return Tree(make_space(sizes), parents, tables)


def tree(rng, sizes, n_rows, scale):
    joint = random_tree(rng, sizes, n_rows, scale)
    parents, tables = joint.parents.tolist(), joint.log_tables

    def score(r, y):
        return [tables[i][r, 0 if p == -1 else y[p], y[i]] for i, p in enumerate(parents)]

    return joint, Enumerated.of_scores(sizes, n_rows, score)


def many_labels(n_labels):
    """Three rows of a random tree of too many labels for enumeration."""
    rng = np.random.default_rng(n_labels)
    parents = [-1, *(int(rng.integers(0, i)) for i in range(1, n_labels))]
    tables = [np.log(rng.dirichlet(np.ones(2), size=(3, 1 if p < 0 else 2))) for p in parents]
    return Tree(make_space((2,) * n_labels), parents, tables)


class OnePrefix(TableLinks):
    """Links that take prefixes one at a time."""

    codes_at_once = 1

    def take(self, rows):
        return OnePrefix(super().take(rows).tables)


def chain(rng, sizes, n_rows, scale, links=TableLinks, **options):
    order = rng.permutation(len(sizes)).tolist()
    along = [sizes[i] for i in order]
    shapes = [(n_rows, *along[: k + 1]) for k in range(len(sizes))]
    tables = [log_softmax(normal(rng, shape, scale), axis=-1) for shape in shapes]

    def score(r, y):
        return [table[(r, *(y[i] for i in order[: k + 1]))] for k, table in enumerate(tables)]

    joint = Chain(make_space(sizes), order, links.of(tables), **options)
    return joint, Enumerated.of_scores(sizes, n_rows, score)


def field_of(is_tree=False, coupling=1.0, **options):
    def field(rng, sizes, n_rows, scale):
        d = len(sizes)
        pairs = list(itertools.combinations(range(d), 2))
        if is_tree:
            pairs = [(int(rng.integers(0, i)), i) for i in range(1, d)]
        else:
            density = rng.choice([0.0, 0.3, 0.6, 1.0])
            pairs = [pair[:: rng.choice([1, -1])] for pair in pairs if rng.random() < density]
        unary = [normal(rng, (n_rows, k), scale) for k in sizes]
        shared = [n_rows if rng.random() < 0.5 else 1 for _ in pairs]
        tables = [
            coupling * normal(rng, (m, sizes[i], sizes[j]), scale)
            for m, (i, j) in zip(shared, pairs, strict=True)
        ]

        def score(r, y):
            terms = [u[r, v] for u, v in zip(unary, y, strict=True)]
            each = zip(pairs, tables, strict=True)
            return terms + [t[r if len(t) > 1 else 0, y[i], y[j]] for (i, j), t in each]

        joint = PairwiseField(make_space(sizes), unary, pairs, tables, n_jobs=1, **options)
        return joint, Enumerated.of_scores(sizes, n_rows, score)

    return field


def vector_list(rng, sizes, n_rows, scale):
    vectors = every_vector(sizes)
    weights = normal(rng, (n_rows, len(vectors)), scale)
    place = {tuple(y): v for v, y in enumerate(vectors.tolist())}
    exact = Enumerated.of_scores(sizes, n_rows, lambda r, y: [weights[r, place[y]]])
    return VectorList(make_space(sizes), vectors, weights), exact


def own_lists(rng, sizes, n_rows, scale):
    """Lists in an order of each row's own, some vectors named twice."""
    pool = every_vector(sizes)
    if isinstance(scale, str) or scale <= 1e3:  # sums of weights of 1e11 are known to 1e-5
        pool = np.concatenate([pool, pool[: len(pool) // 2]])
    rows, indices, log_weights, indptr = [], [], [], [0]
    for _ in range(n_rows):
        own = rng.permutation(len(pool))
        weights = normal(rng, len(own), scale)
        weights[0] = max(weights[0], -1.0)  # of one vector at least
        row = dict.fromkeys(itertools.product(*map(range, sizes)), mpmath.mpf(0))
        for position, weight in zip(own, weights, strict=True):
            row[tuple(pool[position].tolist())] += exp_sum([weight])
        rows.append(row)
        indices += own.tolist()
        log_weights += weights.tolist()
        indptr.append(len(indices))
    joint = VectorList.of_lists(make_space(sizes), pool, indptr, indices, log_weights)
    return joint, Enumerated(sizes, rows)


def written_out(rng, sizes, n_rows, scale):
    scores = normal(rng, (n_rows, math.prod(sizes)), scale)
    place = {y: v for v, y in enumerate(itertools.product(*map(range, sizes)))}
    exact = Enumerated.of_scores(sizes, n_rows, lambda r, y: [scores[r, place[y]]])
    return WrittenOut(make_space(sizes), lambda rows: scores[rows], n_rows), exact


def mixture(rng, sizes, n_rows, scale):
    chosen = rng.integers(0, 4, size=rng.integers(1, 5))
    families = [(independent, tree, chain, vector_list)[k] for k in chosen]
    parts = [build(rng, sizes, n_rows, scale) for build in families]
    weights = rng.dirichlet(np.ones(len(parts)), size=n_rows)
    rows = [
        {
            y: mpmath.fsum(w * e.rows[r][y] for w, (_, e) in zip(weight, parts, strict=True))
            for y in parts[0][1].rows[r]
        }
        for r, weight in enumerate(weights)
    ]
    return Mixture([joint for joint, _ in parts], weights), Enumerated(sizes, rows)


def reweighted(rng, sizes, n_rows, scale):
    base, exact = (tree, mixture)[rng.integers(2)](rng, sizes, n_rows, scale)
    vectors = every_vector(sizes)
    vectors = vectors[rng.permutation(len(vectors))[: 1 + len(vectors) // 3]]
    weights = np.log(rng.uniform(0.05, 0.5, (n_rows, len(vectors))))
    rows = []
    for r, row in enumerate(exact.rows):
        new = {tuple(y): exp_sum([w]) for y, w in zip(vectors.tolist(), weights[r], strict=True)}
        rows.append({**row, **new})
    return Reweighted(base, VectorList(base.space, vectors, weights)), Enumerated(sizes, rows)


def repeated(rng, sizes, n_rows, scale):
    shared, exact = (field_of(), mixture)[rng.integers(2)](rng, sizes, 2, scale)
    of_row = rng.integers(0, 2, size=n_rows)
    return Repeated(shared, of_row), Enumerated(sizes, [exact.rows[u] for u in of_row])


def lds_of(inference):
    def lds(rng, sizes, n_rows, scale):
        parents = tuple(tuple(range(max(0, i - 2), i)) for i in range(len(sizes)))
        generative = random_lds(rng, parents, sizes, (3, 2), 6)
        features = rng.integers(0, 2, size=(n_rows, 2))
        slow = slow_copy(generative)
        exact = Enumerated.of_scores(
            sizes, n_rows, lambda r, y: [slow.log_joint(y, features[r].tolist())]
        )
        joint = LDSPosterior(make_space(sizes), generative, features, inference=inference)
        return joint, exact

    return lds


EXACT = {
    "independent": independent,
    "tree": tree,
    "chain": chain,
    "chain, epsilon search": partial(chain, inference=EpsilonSearch(0.0)),
    "chain, a prefix at a time": partial(chain, links=OnePrefix),
    "field": field_of(),
    "field, enumeration": field_of(engine="enumeration"),
    "field, junction tree": field_of(engine="junction_tree"),
    "field, belief propagation on a tree": field_of(True, engine="belief_propagation"),
    "list": vector_list,
    "lists of each row": own_lists,
    "lds": lds_of("exact"),
    "written out": written_out,
    "mixture": mixture,
    "reweighted": reweighted,
    "repeated": repeated,
}


class Opaque:
    """Conditionals that hide being linear, so that they take the path of any estimator."""

    def __init__(self, linear):
        self.linear, self.calls = linear, 0
        self.cardinalities, self.n_rows = linear.cardinalities, linear.n_rows

    def log_prob(self, labels, i):
        self.calls += 1
        return self.linear.log_prob(labels, i)

    def rows(self, index):
        return Opaque(self.linear.rows(index))


def random_network(rng, n_rows, sizes, strength=0.8, symmetric=True, scale=1.0):
    """Linear conditionals; with symmetric weights they are those of a pairwise field."""
    n_columns = sum(1 if k == 2 else k for k in sizes)
    weights = rng.normal(scale=strength, size=(n_columns, n_columns))
    if symmetric:
        weights = (weights + weights.T) / np.sqrt(2)
    return LinearConditionals(rng.normal(scale=scale, size=(n_rows, n_columns)), weights, sizes)


def field_behind(network):
    """The distribution behind symmetric weights: p(y) ~ exp(b.c(y) + c(y) W c(y) / 2)."""
    sizes = network.cardinalities
    owner = np.repeat(np.arange(len(sizes)), [1 if k == 2 else k for k in sizes])
    first = np.searchsorted(owner, np.arange(len(sizes)))

    def score(r, y):
        on = [c for c, i in enumerate(owner) if y[i] == (1 if sizes[i] == 2 else c - first[i])]
        pairs = [network.weights[a, b] for a, b in itertools.combinations(on, 2)]
        return [network.base[r, c] for c in on] + pairs

    return Enumerated.of_scores(sizes, network.n_rows, score)


def network(rng, sizes, n_rows, scale):
    """A dependency network whose conditionals are those of a field."""
    linear = random_network(rng, n_rows, sizes, 0.5 * scale, scale=scale)
    options = {"n_chains": 2, "n_sweeps": 400, "n_jobs": 1}
    return DependencyNetwork(make_space(sizes), linear, **options), field_behind(linear)


PARTLY = {  # some questions are answered exactly
    "chain, greedy": partial(chain, inference="greedy"),
    "chain, beam of two": partial(chain, inference=BeamSearch(2)),
    "chain, epsilon search, cut": partial(chain, inference=EpsilonSearch(0.2)),
    "chain, Monte Carlo": partial(chain, inference=MonteCarlo(5)),
    "chain, sums of draws": partial(chain, limit=1, n_samples=4000),
    "field, gibbs on a tree": field_of(True, engine="gibbs", n_sweeps=300, n_chains=2),
}
APPROXIMATE = {
    "dependency network": network,
    "field, belief propagation": field_of(engine="belief_propagation"),
    "field, gibbs": field_of(engine="gibbs", n_chains=2),
    "lds, search": lds_of("search"),
    "lds, coordinate ascent": lds_of("coordinate ascent"),
}
FAMILIES = {**EXACT, **PARTLY, **APPROXIMATE}
