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
from colabel.joint.chain import EpsilonSearch, TableLinks
from colabel.joint.repeated import Repeated
from colabel.joint.vectors import WrittenOut
from tests.joint.lds.oracle import random_network as random_lds
from tests.joint.lds.oracle import slow_copy
from tests.joint.oracle import Enumerated, exp_sum, make_space


def log_softmax(scores):
    """Log-probabilities over the last axis, as doubles: what they stand for is exact."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


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


def independent(rng, sizes, n_rows, scale):
    tables = [log_softmax(normal(rng, (n_rows, k), scale)) for k in sizes]
    exact = Enumerated.of_scores(
        sizes, n_rows, lambda r, y: [t[r, v] for t, v in zip(tables, y, strict=True)]
    )
    return Independent(make_space(sizes), tables), exact


def tree(rng, sizes, n_rows, scale):
    d = len(sizes)
    parents = [-1, *(int(rng.integers(-1, i)) for i in range(1, d))]
    above = [1 if p == -1 else sizes[p] for p in parents]
    tables = [
        log_softmax(normal(rng, (n_rows, a, k), scale)) for a, k in zip(above, sizes, strict=True)
    ]

    def score(r, y):
        return [tables[i][r, 0 if p == -1 else y[p], y[i]] for i, p in enumerate(parents)]

    return Tree(make_space(sizes), parents, tables), Enumerated.of_scores(sizes, n_rows, score)


class OnePrefix(TableLinks):
    """Links that take prefixes one at a time."""

    codes_at_once = 1

    def take(self, rows):
        return OnePrefix(super().take(rows).tables)


def chain(rng, sizes, n_rows, scale, links=TableLinks, **options):
    order = rng.permutation(len(sizes)).tolist()
    along = [sizes[i] for i in order]
    tables = [log_softmax(normal(rng, (n_rows, *along[: k + 1]), scale)) for k in range(len(sizes))]

    def score(r, y):
        return [table[(r, *(y[i] for i in order[: k + 1]))] for k, table in enumerate(tables)]

    joint = Chain(make_space(sizes), order, links.of(tables), **options)
    return joint, Enumerated.of_scores(sizes, n_rows, score)


def field_of(is_tree=False, **options):
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
            normal(rng, (m, sizes[i], sizes[j]), scale)
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
    vectors = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    weights = normal(rng, (n_rows, len(vectors)), scale)
    place = {tuple(y): v for v, y in enumerate(vectors.tolist())}
    exact = Enumerated.of_scores(sizes, n_rows, lambda r, y: [weights[r, place[y]]])
    return VectorList(make_space(sizes), vectors, weights), exact


def own_lists(rng, sizes, n_rows, scale):
    """Lists in an order of each row's own, some vectors named twice."""
    pool = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
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
    vectors = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
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


def network(rng, sizes, n_rows, scale):
    """A dependency network whose conditionals are those of a field."""
    owner = np.repeat(np.arange(len(sizes)), [1 if k == 2 else k for k in sizes])
    weights = normal(rng, (len(owner), len(owner)), 0.5 * scale)
    weights = weights + weights.T
    weights[owner[:, None] == owner] = 0.0
    base = normal(rng, (n_rows, len(owner)), scale)

    def score(r, y):
        on = [c for c, i in enumerate(owner) if y[i] == (1 if sizes[i] == 2 else c - first[i])]
        pairs = [weights[a, b] for a, b in itertools.combinations(on, 2)]
        return [base[r, c] for c in on] + pairs

    first = np.searchsorted(owner, np.arange(len(sizes)))
    linear = LinearConditionals(base, weights, sizes)
    joint = DependencyNetwork(make_space(sizes), linear, n_chains=2, n_sweeps=400, n_jobs=1)
    return joint, Enumerated.of_scores(sizes, n_rows, score)


APPROXIMATE = {
    "dependency network": network,
    "field, belief propagation": field_of(engine="belief_propagation"),
    "field, gibbs": field_of(engine="gibbs", n_chains=2),
    "lds, search": lds_of("search"),
}
FAMILIES = {**EXACT, **APPROXIMATE}
