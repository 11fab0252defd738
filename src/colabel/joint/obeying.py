"""Joints subject to rules: by lists of what obeys, by factors of pairs, or by weighted draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.chunks import row_slices
from colabel.core.numeric import first_occurrences, log_sum_exp
from colabel.joint.base import Joint
from colabel.joint.chain.prefixes import Prefixes, best_distinct
from colabel.joint.exactness import APPROXIMATE, Exactness
from colabel.joint.field import PairwiseField
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import fill_impossible, impossible_evidence
from colabel.joint.vectors import VectorList
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

StateOf = Callable[[Codes, Indices], Indices]

_MOST_STATES = 4096  # of a variable that stands for a rule
# Draws of each row where sums over what obeys are too many: fewer of large batches of many labels.
_MOST_DRAWS, _FEWEST_DRAWS, _CODES_DRAWN, _SEED = 500, 50, 1 << 24, 0
_N_BEST = 16


def obeying(joint: Joint, rules: CompiledRules) -> tuple[Joint, Array]:
    """Return any joint subject to rules, and their log-probability (n,).

    All vectors that obey are written out if there are few; otherwise there are weighted draws.
    """
    return obeying_list(joint, rules) or drawn_joint(joint, rules, proposed)


def drawn_joint(
    joint: Joint, rules: CompiledRules, draw: Callable[[Joint, CompiledRules], Weighted]
) -> tuple[Joint, Array]:
    """Return a joint subject to rules by draws, and their log-probability (n,)."""
    drawn = draw(joint, rules)
    return Drawn(joint, rules, drawn), drawn.log_mass


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
    log_prob[np.isneginf(mass)] = 0.0  # rows that nobody asks about
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
    factors = rules.factors(_MOST_STATES)
    if factors is None:
        return None
    single, pairs, helpers = factors
    d = field.space.n_labels
    unary = list(field.unary)
    for i, mask in single.items():
        unary[i] = unary[i] + np.where(mask, 0.0, -np.inf)
    tables: dict[tuple[int, int], Array] = {
        (i, j): table for (i, j), table in zip(field.edges.tolist(), field.tables, strict=True)
    }
    for pair, mask in pairs.items():
        tables[pair] = tables.get(pair, 0.0) + np.where(mask, 0.0, -np.inf)[None]
    sizes, names = [len(c) for c in field.space.classes], list(field.space.names)
    for place, helper in enumerate(helpers):
        unary.append(np.tile(np.where(helper.unary, 0.0, -np.inf), (field.n_rows, 1)))
        sizes.append(helper.n_states)
        names.append(f"rule {d + place}")
        for other, mask in helper.masks.items():
            i = other if other >= 0 else d - 1 - other
            tables[i, d + place] = np.where(mask, 0.0, -np.inf)[None]
    classes = (*field.space.classes, *(np.arange(size) for size in sizes[d:]))
    space = field.space if not helpers else LabelSpace(tuple(names), classes, "matrix")
    joint = field.extended(space, unary, tables, rules.memory)
    if not joint.exact.all:
        return None
    mass = np.minimum(joint.log_share_of(field), 0.0)
    zero = np.isneginf(mass)
    if zero.any():
        # rows in which nothing obeys may be parts of a mixture: they get some distribution
        neutral = obeying_field(field.neutral(zero), rules) if not field.is_neutral(zero) else None
        return None if neutral is None else (neutral[0], mass)
    if not helpers:
        return joint, mass
    return Projected(field.space, joint, [helper.state_of for helper in helpers]), mass


class Projected(Joint):
    """The first d labels of a joint whose other variables are functions of them.

    Parameters
    ----------
    space : LabelSpace
        Of the d labels.
    whole : Joint
        Of the labels and of h more variables; answers exactly.
    states : sequence of h callables
        From codes (m, d) and the states of the variables before, (m, .), to states (m,).
    """

    def __init__(
        self,
        space: LabelSpace,
        whole: Joint,
        states: Sequence[StateOf],
    ) -> None:
        super().__init__(space, whole.n_rows)
        self.whole, self._states = whole, states
        self.exact = whole.exact
        self.how = f"{whole.how} {len(states)} variables of them stand for rules."

    def _lifted(self, codes: Codes) -> Codes:
        """Add the other variables to codes (m, d); MISSING where a label is."""
        known = (codes != MISSING).all(axis=1)
        found = np.full((len(codes), self.whole.space.n_labels), MISSING, dtype=np.int32)
        found[:, : codes.shape[1]] = codes
        states = np.empty((int(known.sum()), 0), dtype=np.intp)
        for state_of in self._states:
            states = np.column_stack([states, state_of(codes[known], states)])
        found[np.ix_(known, np.arange(codes.shape[1], found.shape[1]))] = states
        return found

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors."""
        return self.whole.mode_codes()[:, : self.space.n_labels]

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return self.whole.marginal_tables()[: self.space.n_labels]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.whole.pair_table(i, j)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        return self.whole.entropy()

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return self.whole.log_prob_codes(self._lifted(codes))

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        codes, log_prob = self.whole.top_k_codes(k)
        codes = np.ascontiguousarray(codes[:, :, : self.space.n_labels])
        fill_impossible(codes, (log_prob > -np.inf).sum(axis=1), self.space.cardinalities)
        return codes, log_prob

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        return self.whole.sample_codes(size, rng)[:, :, : self.space.n_labels]

    def given_codes(self, evidence: Codes) -> Projected:
        """Return the joint given the known entries of evidence (n, d)."""
        free = self.whole.space.n_labels - self.space.n_labels
        unknown = np.full((self.n_rows, free), MISSING, dtype=np.int32)
        try:
            whole = self.whole.given_codes(np.hstack([evidence, unknown]).astype(np.int32))
        except ValueError:
            impossible = np.flatnonzero(np.isneginf(self.log_prob_codes(evidence)))
            raise impossible_evidence(self.space, evidence, impossible) from None
        return Projected(self.space, whole, self._states)

    def rows(self, index: Rows) -> Projected:
        """Return the joint of some of the rows."""
        return Projected(self.space, self.whole.rows(index), self._states)

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        listed = obeying_list(self, rules)
        if listed is not None:
            return listed
        assert isinstance(self.whole, PairwiseField)
        found = obeying_field(self.whole, rules.over(self.whole.space))
        if found is None:
            return drawn_joint(self, rules, proposed)
        joint, mass = found
        if not isinstance(joint, Projected):
            return Projected(self.space, joint, self._states), mass
        n_before, n_labels = len(self._states), self.space.n_labels

        def lifted(state_of: StateOf) -> StateOf:
            # the new variables were made of the labels and of the variables before them
            return lambda codes, so_far: state_of(
                np.hstack([codes, so_far[:, :n_before]]).astype(np.int32), so_far[:, n_before:]
            )

        states = [*self._states, *map(lifted, joint._states)]
        assert joint.whole.space.n_labels == n_labels + len(states)
        return Projected(self.space, joint.whole, states), mass


# Draws


def n_draws(joint: Joint) -> int:
    """How many vectors a row are drawn."""
    fitting = _CODES_DRAWN // max(1, joint.n_rows * joint.space.n_labels)
    return min(_MOST_DRAWS, max(_FEWEST_DRAWS, fitting))


class Weighted(NamedTuple):
    """Draws that obey rules.

    Attributes
    ----------
    codes : (S, n, d)
    log_weights : (S, n)
    log_mass : (n,)
        Log-probability of the rules.
    best : callable
        From k to at least the k best vectors found, with log-probabilities before the rules were
        known, and whether there are no better ones.
    how : str
    """

    codes: Codes
    log_weights: Array
    log_mass: Array
    best: Callable[[int], tuple[Prefixes, bool]]
    how: str


class Drawn(Joint):
    """A joint subject to rules that too many vectors obey: sums by weighted draws that obey.

    Complete vectors have the probability of the joint divided by an estimate of that of the rules;
    the mode is the best vector that was found, and obeys.
    """

    def __init__(self, base: Joint, rules: CompiledRules, drawn: Weighted) -> None:
        super().__init__(base.space, base.n_rows)
        self.base, self.rules, self._drawn = base, rules, drawn
        size, n_rows, d = drawn.codes.shape
        weights = drawn.log_weights.T.copy()
        weights[np.isneginf(weights).all(axis=1)] = 0.0  # rows that nobody asks about
        vectors = drawn.codes.transpose(1, 0, 2).reshape(n_rows * size, d)
        vectors = vectors if n_rows else np.zeros((1, d), dtype=np.int32)
        indptr = np.arange(n_rows + 1) * size
        entries = np.arange(n_rows * size)
        self.listed = VectorList.of_lists(base.space, vectors, indptr, entries, weights.ravel())
        self._look_for(_N_BEST)
        self.how = f"{drawn.how} Before the rules: {base.how}"

    def _look_for(self, k: int) -> None:
        """Set the k best vectors (n, k, d) and their log-probabilities (n, k)."""
        k = self._at_most_all(k)
        found, proved = self._drawn.best(k)
        codes, log_prob, count = best_distinct(found, self.n_rows, k)
        fill_impossible(codes, count, self.space.cardinalities)
        self._best = codes, np.minimum(log_prob - self._drawn.log_mass[:, None], 0.0)
        self.exact = Exactness(["mode"]) if proved else APPROXIMATE

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the best vectors found."""
        return self._best[0][:, 0]

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        if k > self._best[0].shape[1]:
            self._look_for(k)
        return self._best[0][:, :k], self._best[1][:, :k]

    def marginal_tables(self) -> list[Array]:
        """Return estimates of P(y_i) for each label as arrays (n, K_i)."""
        return self.listed.marginal_tables()

    def pair_table(self, i: int, j: int) -> Array:
        """Return estimates of P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.listed.pair_table(i, j)

    def _size_marginals(self) -> SizeMarginals:
        return self.listed._size_marginals()

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return estimated log-probabilities (n,) of the observed entries of codes (n, d)."""
        found = self.listed.log_prob_codes(codes)
        whole = np.flatnonzero((codes != MISSING).all(axis=1))
        value = self.base.rows(whole).log_prob_codes(codes[whole]) - self._drawn.log_mass[whole]
        obeys = self.rules.may_hold(codes[whole])
        found[whole] = np.where(obeys, np.minimum(value, 0.0), -np.inf)
        return found

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d), from those drawn before by their weights."""
        return self.listed.sample_codes(size, rng)

    def given_codes(self, evidence: Codes) -> Joint:
        """Return the joint given the known entries of evidence (n, d)."""
        joint, mass = self.base.given_codes(evidence)._obeying(self.rules)
        impossible = np.flatnonzero(np.isneginf(mass))
        if impossible.size:
            raise impossible_evidence(self.space, evidence, impossible)
        return joint

    def rows(self, index: Rows) -> Drawn:
        """Return the joint of some of the rows."""
        chosen = np.arange(self.n_rows)[index]

        def best(k: int) -> tuple[Prefixes, bool]:
            codes, log_prob = self.top_k_codes(k)
            codes, log_prob = codes[chosen], log_prob[chosen] + self._drawn.log_mass[chosen, None]
            place = np.repeat(np.arange(len(chosen)), codes.shape[1])
            found = Prefixes(place, codes.reshape(len(place), codes.shape[2]), log_prob.ravel())
            return found.take(found.log_prob > -np.inf), "mode" in self.exact

        drawn = Weighted(
            self._drawn.codes[:, chosen],
            self._drawn.log_weights[:, chosen],
            self._drawn.log_mass[chosen],
            best,
            self._drawn.how,
        )
        return Drawn(self.base.rows(chosen), self.rules, drawn)

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        joint, mass = self.base._obeying(CompiledRules.joined(self.rules, rules))
        return joint, np.minimum(mass - self._drawn.log_mass, 0.0)


def proposals(joint: Joint, rules: CompiledRules) -> tuple[Joint, Codes]:
    """Return independent labels with the joint's marginals, subject to the rules, and draws.

    Where even these tie too many labels together, lists of draws of the joint that obey and of the
    best vector by the marginals stand for them.
    """
    tables = [np.log(np.clip(table, 1e-4, None)) for table in joint.marginal_tables()]
    tables = [table - log_sum_exp(table)[:, None] for table in tables]
    rng, size = np.random.default_rng(_SEED), n_draws(joint)
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
    entries = np.arange(vectors.shape[0] * vectors.shape[1])
    listed = VectorList.of_lists(
        joint.space,
        vectors.transpose(1, 0, 2).reshape(len(entries), -1),
        np.arange(joint.n_rows + 1) * len(vectors),
        entries,
        weights.T.ravel(),
    )
    return listed, listed.sample_codes(size, rng)


def proposed(joint: Joint, rules: CompiledRules) -> Weighted:
    """Weigh draws of independent labels that obey by the joint: importance sampling."""
    guess, codes = proposals(joint, rules)
    size, n_rows, d = codes.shape
    log_prob = np.stack([joint.log_prob_codes(draw) for draw in codes])
    log_weights = log_prob - np.stack([guess.log_prob_codes(draw) for draw in codes])
    log_mass = np.minimum(log_sum_exp(log_weights, axis=0) - np.log(size), 0.0)

    def best(k: int) -> tuple[Prefixes, bool]:
        named, of_guess = guess.top_k_codes(k)
        more = named.transpose(1, 0, 2)
        own = np.stack([joint.log_prob_codes(vectors) for vectors in more])
        own[np.isneginf(of_guess.T)] = -np.inf  # impossible vectors fill short lists up
        vectors = np.concatenate([codes, more]).reshape(-1, d)
        values = np.concatenate([log_prob, own]).ravel()
        rows = np.tile(np.arange(n_rows), size + len(more))
        found = Prefixes(rows, vectors, values).take(values > -np.inf)
        return found.take(first_occurrences(found.rows, found.codes)), False

    how = (
        f"Approximate: {size} draws a row of independent labels that obey the rules, weighted; the "
        "mode is the best of them."
    )
    return Weighted(codes, log_weights, log_mass, best, how)
