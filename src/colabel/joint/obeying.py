"""Joints subject to rules: by lists of what obeys, by factors of pairs, or by weighted draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Rows, row_slices
from colabel.core.numeric import first_occurrences, log_sum_exp
from colabel.joint.base import APPROXIMATE, Exactness, Joint
from colabel.joint.chain.prefixes import Prefixes, best_distinct
from colabel.joint.elimination import ROOT, eliminate
from colabel.joint.field import PairwiseField
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import fill_impossible, require_possible
from colabel.joint.vectors import VectorList
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules
from colabel.rules.compiled import Factors, Helper, counters

# Draws of each row where sums over what obeys are too many: fewer of large batches of many labels.
_MOST_DRAWS, _FEWEST_DRAWS, _CODES_DRAWN, _SEED = 500, 50, 1 << 24, 0
_N_BEST = 16


def obeying(joint: Joint, rules: CompiledRules) -> tuple[Joint, Array]:
    """Return any joint subject to rules, and their log-probability (n,).

    All vectors that obey are written out if there are few; otherwise there are weighted draws.
    """
    return obeying_list(joint, rules) or proposed(joint, rules)


def with_mass(joint: Joint, log_mass: Array) -> Joint:
    """Return a joint in which rows of probability zero have the distribution of another row.

    They are never used, except as parts of a mixture.
    """
    zero = np.isneginf(log_mass)
    if not zero.any() or zero.all():
        return joint
    return joint.rows(np.where(zero, np.flatnonzero(~zero)[0], np.arange(joint.n_rows)))


def obeying_list(joint: Joint, rules: CompiledRules) -> tuple[Joint, Array] | None:
    """Write out all vectors that obey; None if they are too many."""
    vectors = rules.vectors
    if vectors is None:
        return None
    log_prob = np.empty((joint.n_rows, len(vectors)))
    for chunk in row_slices(joint.n_rows, 1 << 21, len(vectors)):
        rows = np.arange(joint.n_rows)[chunk]
        asked = np.tile(vectors, (len(rows), 1))
        found = joint.log_prob_at(np.repeat(rows, len(vectors)), asked)
        log_prob[chunk] = found.reshape(len(rows), -1)
    mass = np.minimum(log_sum_exp(log_prob), 0.0)
    log_prob[np.isneginf(mass)] = 0.0  # rows that are never used
    listed = VectorList(joint.space, vectors, log_prob)
    if "log_prob" not in joint.exact:
        listed.exact = APPROXIMATE
    listed.how = f"Sums over the {len(vectors)} label vectors that obey the rules, of: {joint.how}"
    return listed, mass


# Fields


def as_field(
    space: LabelSpace,
    unary: Sequence[Array],
    edges: Sequence[tuple[int, int]] = (),
    tables: Sequence[Array] = (),
) -> PairwiseField:
    """Return tables of log-probabilities as a field."""
    return PairwiseField(space, unary, np.array(edges, dtype=np.intp).reshape(-1, 2), tables)


def obeying_field(field: PairwiseField, rules: CompiledRules) -> tuple[Joint, Array] | None:
    """Add the rules' factors to a field; None where it would not be answered exactly."""
    tables = dict(zip(map(tuple, field.edges.tolist()), field.tables, strict=True))
    factors = _factors(rules, tuple(tables))
    if factors is None:
        return None
    single, pairs, helpers, _ = factors
    d = field.space.n_labels
    unary = list(field.unary)
    for i, mask in single.items():
        unary[i] = unary[i] + np.where(mask, 0.0, -np.inf)
    for helper in helpers:
        unary.append(np.tile(np.where(helper.unary, 0.0, -np.inf), (field.n_rows, 1)))
    for pair, mask in pairs.items():
        tables[pair] = tables.get(pair, 0.0) + np.where(mask, 0.0, -np.inf)[None]
    names = (*field.space.names, *(f"rule {place}" for place in range(len(helpers))))
    classes = (*field.space.classes, *(np.arange(helper.n_states) for helper in helpers))
    space = LabelSpace(names, classes, "matrix") if helpers else field.space
    whole = field.extended(space, unary, tables, rules.memory)
    if not whole.exact.all:
        return None
    mass = np.minimum(whole.log_share_of(field), 0.0)
    if np.isneginf(mass).all():
        return field, mass
    joint = with_mass(whole, mass)
    if not helpers:
        return joint, mass

    def candidates(k: int) -> tuple[Codes, Array]:
        codes, log_prob = joint.top_k_codes(k)
        codes = np.ascontiguousarray(codes[:, :, :d])
        fill_impossible(codes, (log_prob > -np.inf).sum(axis=1), field.space.cardinalities)
        return codes, log_prob

    how = f"{joint.how} {len(helpers)} variables of them stand for rules."
    base, inside = with_mass(field, mass), np.where(np.isneginf(mass), 0.0, mass)
    return Obeying(base, rules, inside, joint, candidates, joint.exact, how), mass


@lru_cache(maxsize=16)  # batches of rows share their rules
def _factors(rules: CompiledRules, edges: tuple[tuple[int, int], ...]) -> Factors | None:
    """Return the factors of rules with helpers for counts, which are counted along the graph.

    The pairs are those of labels and of helpers, whose positions come after the labels'.
    """
    if rules.factors is None:
        return None
    single, pairs, helpers, counts = rules.factors
    pairs, first, helpers = dict(pairs), helpers, []
    sizes = rules.space.cardinalities

    def add(more: Sequence[Helper]) -> None:
        for helper in more:
            place = len(sizes) + len(helpers)
            pairs.update({(i, place): mask for i, mask in helper.masks.items()})
            helpers.append(helper)

    add(first)
    every = sizes + tuple(helper.n_states for helper in helpers)
    graph = eliminate(every, tuple(sorted({*edges, *pairs})), None)
    assert graph is not None
    above = [scope[0] if scope else ROOT for scope in graph.scopes]
    for node in counts:
        add(counters(node, graph.order, above, len(sizes) + len(helpers)))
    return Factors(single, pairs, helpers, counts)


class Obeying(Joint):
    r"""A joint subject to rules, :math:`P(y \mid r) = P(y) / P(r)` for vectors that obey, else 0.

    Parameters
    ----------
    base : Joint
        Before the rules.
    rules : CompiledRules
    log_mass : (n,) array
        Log-probability of the rules.
    inner : Joint
        Its first d labels have the distribution, or nearly: for sums and for draws.
    candidates : callable
        From k to at least k vectors (n, k, d) and their log-probabilities (n, k), best first.
    exact : Exactness
    how : str
    """

    def __init__(
        self,
        base: Joint,
        rules: CompiledRules,
        log_mass: Array,
        inner: Joint,
        candidates: Callable[[int], tuple[Codes, Array]],
        exact: Exactness,
        how: str,
    ) -> None:
        super().__init__(base.space, base.n_rows)
        self.base, self.rules, self.log_mass, self.inner = base, rules, log_mass, inner
        self._candidates, self.exact, self.how = candidates, exact, how
        self._best = np.empty((0, 0, 0), dtype=np.int32), np.empty((0, 0))

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        if k > self._best[0].shape[1]:
            self._best = self._candidates(k)
        return self._best[0][:, :k], self._best[1][:, :k]

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return self.inner.marginal_tables()[: self.space.n_labels]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.inner.pair_table(i, j)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,), where exact."""
        return self.inner.entropy() if "sums" in self.exact else super().entropy()

    def _size_marginals(self) -> SizeMarginals:
        same = self.inner.space.n_labels == self.space.n_labels
        return self.inner._size_marginals() if same else super()._size_marginals()

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        complete = (codes != MISSING).all(axis=1)
        whole, partial = np.flatnonzero(complete), np.flatnonzero(~complete)
        found = np.empty(len(codes))
        base = self.base if complete.all() else self.base.rows(whole)
        value = base.log_prob_codes(codes[whole]) - self.log_mass[whole]
        obeys = self.rules.may_hold(codes[whole])
        found[whole] = np.where(obeys, np.minimum(value, 0.0), -np.inf)
        if partial.size:
            n_more = self.inner.space.n_labels - self.space.n_labels
            more = np.full((partial.size, n_more), MISSING, dtype=np.int32)
            asked = np.hstack([codes[partial], more]).astype(np.int32)
            found[partial] = self.inner.rows(partial).log_prob_codes(asked)
        return found

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        return self.inner.sample_codes(size, rng)[:, :, : self.space.n_labels]

    def given_codes(self, evidence: Codes) -> Joint:
        """Return the joint given the known entries of evidence (n, d)."""
        joint, mass = self.base.given_codes(evidence)._obeying(self.rules)
        require_possible(self.space, evidence, np.isneginf(mass))
        return joint

    def rows(self, index: Rows) -> Obeying:
        """Return the joint of some of the rows."""
        at = np.arange(self.n_rows)[index]

        def candidates(k: int) -> tuple[Codes, Array]:
            codes, log_prob = self.top_k_codes(k)
            return codes[at], log_prob[at]

        base, inner, mass = self.base.rows(at), self.inner.rows(at), self.log_mass[at]
        return Obeying(base, self.rules, mass, inner, candidates, self.exact, self.how)

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        joint, mass = self.base._obeying(CompiledRules.joined(self.rules, rules))
        return joint, np.minimum(mass - self.log_mass, 0.0)


# Draws


def drawn(
    joint: Joint,
    rules: CompiledRules,
    codes: Codes,
    log_weights: Array,
    log_mass: Array,
    best: Callable[[int], Prefixes],
    how: str,
) -> Joint:
    """Return a joint subject to rules that too many vectors obey, by draws (S, n, d) that do.

    `best` finds at least k good vectors, with log-probabilities before the rules were known.
    """
    # rows that are never used
    weights = np.where(np.isneginf(log_weights).all(axis=0), 0.0, log_weights)

    def candidates(k: int) -> tuple[Codes, Array]:
        k = joint._at_most_all(max(k, _N_BEST))
        found, log_prob, count = best_distinct(best(k), joint.n_rows, k)
        fill_impossible(found, count, joint.space.cardinalities)
        return found, np.minimum(log_prob - log_mass[:, None], 0.0)

    listed = VectorList.of_draws(joint.space, codes, weights)
    how = f"{how} Before the rules: {joint.how}"
    return Obeying(joint, rules, log_mass, listed, candidates, APPROXIMATE, how)


def proposals(joint: Joint, rules: CompiledRules) -> tuple[Joint, Codes]:
    """Return independent labels with the joint's marginals, subject to the rules, and draws.

    Where even these tie too many labels together, lists of draws of the joint that obey and of the
    best vector by the marginals stand for them.
    """
    tables = [np.log(np.clip(table, 1e-4, None)) for table in joint.marginal_tables()]
    tables = [table - log_sum_exp(table)[:, None] for table in tables]
    fitting = _CODES_DRAWN // max(1, joint.n_rows * joint.space.n_labels)
    rng, size = np.random.default_rng(_SEED), min(_MOST_DRAWS, max(_FEWEST_DRAWS, fitting))
    found = obeying_field(as_field(joint.space, tables), rules)
    if found is not None:
        return found[0], found[0].sample_codes(size, rng)
    draws = joint.sample_codes(size, rng)
    flat = draws.reshape(-1, draws.shape[2])
    obeys = rules.may_hold(flat).reshape(draws.shape[:2])
    best = np.stack(
        [rules.best_vector([table[r] for table in tables]) for r in range(joint.n_rows)]
    ).reshape(1, joint.n_rows, -1)
    vectors = np.concatenate([best, draws])
    weights = np.where(np.concatenate([np.ones((1, joint.n_rows), bool), obeys]), 0.0, -np.inf)
    listed = VectorList.of_draws(joint.space, vectors, weights)
    return listed, listed.sample_codes(size, rng)


def proposed(joint: Joint, rules: CompiledRules) -> tuple[Joint, Array]:
    """Weigh draws of independent labels that obey by the joint: importance sampling."""
    guess, codes = proposals(joint, rules)
    size, n_rows, d = codes.shape
    log_prob = np.stack([joint.log_prob_codes(draw) for draw in codes])
    log_weights = log_prob - np.stack([guess.log_prob_codes(draw) for draw in codes])
    log_mass = np.minimum(log_sum_exp(log_weights, axis=0) - np.log(size), 0.0)

    def best(k: int) -> Prefixes:
        named, of_guess = guess.top_k_codes(k)
        more = named.transpose(1, 0, 2)
        own = np.stack([joint.log_prob_codes(vectors) for vectors in more])
        own[np.isneginf(of_guess.T)] = -np.inf  # impossible vectors fill short lists up
        vectors = np.concatenate([codes, more]).reshape(-1, d)
        values = np.concatenate([log_prob, own]).ravel()
        rows = np.tile(np.arange(n_rows), size + len(more))
        found = Prefixes(rows, vectors, values).take(values > -np.inf)
        return found.take(first_occurrences(found.rows, found.codes))

    how = (
        f"Approximate: {size} draws per row of independent labels that obey the rules, weighted; "
        "the mode is the best of them."
    )
    return drawn(joint, rules, codes, log_weights, log_mass, best, how), log_mass
