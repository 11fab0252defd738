"""The generative mixture of label dependency sets: parameters, and scores of label vectors.

Compiled scores of label vectors, and coordinate ascent over dependency sets. No checks here.

The features enter as columns (n, p), the position of each feature's value among the columns of
all features. A label vector that training has seen has mixture weights of its own, any other one
the fallback; `common` (d, S, C) holds the fallback weights times phi.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core import schema
from colabel.core.arrays import Array, Codes, Indices, Keys, row_slices
from colabel.core.compiling import njit
from colabel.core.threads import map_threads
from colabel.labels import MISSING, all_vectors

# A product is turned into its logarithm before it can underflow.
_SMALL = 1e-100


class Blocks(NamedTuple):
    """The dependency sets as flat arrays.

    Attributes
    ----------
    first : (d + 1,)
        Codes of set k are `labels[first[k]:first[k + 1]]`.
    labels : (m,)
    n_states : (d,)
    strides : (d, d)
        What a step of label i adds to the state of set k.
    sizes : (d,)
        Number of values of every label.
    touched_first : (d + 1,)
        Sets that share a label with set k are `touched[touched_first[k]:touched_first[k + 1]]`.
    touched : (t,)
    """

    first: Indices
    labels: Indices
    n_states: Indices
    strides: Indices
    sizes: Indices
    touched_first: Indices
    touched: Indices


class Seen(NamedTuple):
    """The label vectors that training has seen, ready to be looked up.

    Attributes
    ----------
    words : (d, K)
        A random word for each value of each label; the key of a vector is their exclusive or.
    keys : (U,)
        Keys in ascending order.
    order : (U,)
        Position of the vector with each key.
    vectors : (U, d)
    """

    words: Keys
    keys: Keys
    order: Indices
    vectors: Codes


class Model(NamedTuple):
    """What all rows share: the sets, the vectors seen, `log_alpha` (d, S), `common` (d, S, C)."""

    blocks: Blocks
    seen: Seen
    log_alpha: Array
    common: Array


@njit(nogil=True, cache=True, error_model="numpy")
def key_of(words: Keys, vector: Codes) -> np.uint64:
    """Key of a label vector (d,)."""
    key = np.uint64(0)
    for i in range(vector.size):
        key ^= words[i, vector[i]]
    return key


@njit(nogil=True, cache=True, error_model="numpy")
def find(seen: Seen, vector: Codes) -> int:
    """Position of a vector (d,) among those seen, or -1."""
    key = key_of(seen.words, vector)
    place, end = 0, seen.keys.size
    while place < end:
        middle = (place + end) // 2
        if seen.keys[middle] < key:
            place = middle + 1
        else:
            end = middle
    while place < seen.keys.size and seen.keys[place] == key:
        position = seen.order[place]
        same = True
        for i in range(vector.size):
            if seen.vectors[position, i] != vector[i]:
                same = False
                break
        if same:
            return int(position)
        place += 1
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def positions(seen: Seen, vectors: Codes) -> Indices:
    """Positions (m,) of vectors (m, d) among those seen, -1 for the others."""
    places = np.empty(len(vectors), dtype=np.intp)
    for m in range(len(vectors)):
        places[m] = find(seen, vectors[m])
    return places


@njit(nogil=True, cache=True, error_model="numpy")
def log_mixtures(
    states: Indices,
    position: Indices,
    weights: Array,
    fallback: Array,
    phi: Array,
    first: Indices,
    table: Array,
) -> None:
    """Fill table (m, C) with log sum_k theta[j, k] phi[k, s_k, c] for m label vectors.

    states (m, d); position (m,) of a vector among those seen, or -1; weights (U, d, p); fallback
    (d, p); phi (d, S, C); first (p + 1,).
    """
    n_features = first.size - 1
    for m in range(len(states)):
        mixed = table[m]
        mixed[:] = 0.0
        for k in range(states.shape[1]):
            share = fallback[k] if position[m] < 0 else weights[position[m], k]
            conditional = phi[k, states[m, k]]
            for j in range(n_features):
                for c in range(first[j], first[j + 1]):
                    mixed[c] += share[j] * conditional[c]
        for c in range(mixed.size):
            mixed[c] = math.log(mixed[c]) if mixed[c] > 0.0 else -np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def _log_product(factors: Array) -> float:
    """Sum of the logarithms of factors (p,), by few logarithms."""
    total, product = 0.0, 1.0
    for factor in factors:
        if factor <= 0.0:
            return -np.inf
        product *= factor
        if product < _SMALL:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(nogil=True, cache=True, error_model="numpy")
def _mix(columns: Indices, states: Indices, common: Array, mixed: Array) -> None:
    """Set mixed (p,) to the probabilities of the features under the fallback weights."""
    mixed[:] = 0.0
    for k in range(states.size):
        for j in range(columns.size):
            mixed[j] += common[k, states[k], columns[j]]


@njit(nogil=True, cache=True, error_model="numpy")
def score_block(
    k: int,
    columns: Indices,
    vector: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
    scores: Array,
) -> None:
    """Fill scores (S_k,): log Pr(labels, features) for all values of the labels of set k.

    The other labels stay as in `vector` (d,), which is unchanged afterwards. Values that
    contradict the evidence (d,), where that is not negative, score -inf.
    """
    blocks, seen, log_alpha, common = model
    n_labels = vector.size
    labels = blocks.labels[blocks.first[k] : blocks.first[k + 1]]
    touched = blocks.touched[blocks.touched_first[k] : blocks.touched_first[k + 1]]
    states = np.empty(n_labels, dtype=np.intp)
    for s in range(n_labels):
        states[s] = 0
        for i in range(n_labels):
            states[s] += blocks.strides[s, i] * vector[i]
    mixed, changed = np.empty(columns.size), np.empty(columns.size)
    _mix(columns, states, common, mixed)
    prior = 0.0
    for s in range(n_labels):
        prior += log_alpha[s, states[s]]
    before = np.empty(labels.size, dtype=np.int32)
    for place in range(labels.size):
        before[place] = vector[labels[place]]
    for state in range(blocks.n_states[k]):
        allowed = True
        for place in range(labels.size):
            i = labels[place]
            vector[i] = state // blocks.strides[k, i] % blocks.sizes[i]
            allowed = allowed and (evidence[i] < 0 or evidence[i] == vector[i])
        scores[state] = -np.inf
        if not allowed:
            continue
        position = find(seen, vector)
        if position >= 0:
            scores[state] = seen_scores[position]
            continue
        for j in range(columns.size):
            changed[j] = mixed[j]
        score = prior
        for s in touched:
            new = states[s]
            for place in range(labels.size):
                i = labels[place]
                new += blocks.strides[s, i] * (vector[i] - before[place])
            score += log_alpha[s, new] - log_alpha[s, states[s]]
            if new != states[s]:
                for j in range(columns.size):
                    changed[j] += common[s, new, columns[j]] - common[s, states[s], columns[j]]
        scores[state] = score + _log_product(changed)
    for place in range(labels.size):
        vector[labels[place]] = before[place]


@njit(nogil=True, cache=True, error_model="numpy")
def ascend(
    which: Indices,
    max_sweeps: int,
    columns: Indices,
    vectors: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
) -> None:
    """Improve vectors (n, d) in place, one dependency set of `which` after the other.

    Each set takes the values of its labels that are best given all the others, for at most
    `max_sweeps` sweeps or until nothing changes. In a tie the values stay as they are.
    """
    blocks, scores = model.blocks, np.empty(model.log_alpha.shape[1])
    for row in range(len(vectors)):
        vector, known = vectors[row], evidence[row]
        for _ in range(max_sweeps):
            moved = False
            for k in which:
                score_block(k, columns[row], vector, known, seen_scores[row], model, scores)
                present = 0
                for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                    present += blocks.strides[k, i] * vector[i]
                best = present
                for state in range(blocks.n_states[k]):
                    if scores[state] > scores[best] + 1e-12 * abs(scores[best]):
                        best = state
                if best != present:
                    moved = True
                    for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                        vector[i] = best // blocks.strides[k, i] % blocks.sizes[i]
            if not moved:
                break


@njit(nogil=True, cache=True, error_model="numpy")
def neighbours(
    columns: Indices,
    vectors: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
    codes: Codes,
    keys: Keys,
    scores: Array,
) -> None:
    """Write out the vectors that differ from vectors (n, d) within one set only.

    codes (n, N, d), their keys and scores (n, N), with N the number of states of all sets
    together; a score of -inf marks vectors seen in training and contradictions.
    """
    blocks, seen, within = model.blocks, model.seen, np.empty(model.log_alpha.shape[1])
    for row in range(len(vectors)):
        vector, known = vectors[row], evidence[row]
        place = 0
        for k in range(len(blocks.n_states)):
            score_block(k, columns[row], vector, known, seen_scores[row], model, within)
            for state in range(blocks.n_states[k]):
                for i in range(vector.size):
                    codes[row, place, i] = vector[i]
                for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                    codes[row, place, i] = state // blocks.strides[k, i] % blocks.sizes[i]
                keys[row, place] = key_of(seen.words, codes[row, place])
                scores[row, place] = within[state]
                if find(seen, codes[row, place]) >= 0:
                    scores[row, place] = -np.inf
                place += 1


@schema.stored("label-sets")
@dataclass(frozen=True)
class DependencySets:
    """One set of labels per label: LS_k holds label k and its parents in the network.

    A set's *state* numbers the values of its labels, those of label k changing fastest, so that
    the K_k entries of a row of the table of P(L_k | parents) are neighbours.

    Attributes
    ----------
    parents : tuple of d tuples of int
        Parents of every label, ascending.
    cardinalities : tuple of d int
        Number of values of every label.

    Examples
    --------
    >>> import numpy as np
    >>> sets = DependencySets(((), (0,)), (2, 3))
    >>> sets.members
    ((0,), (0, 1))
    >>> sets.states(np.array([[1, 2]])).tolist()
    [[1, 5]]
    """

    parents: Annotated[tuple[tuple[int, ...], ...], "d _", schema.Below("d")]
    cardinalities: Annotated[tuple[int, ...], "d", schema.Between(1, 2**31), schema.Is("sizes")]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        sizes, parents = fields["cardinalities"], fields["parents"]
        for label, above in enumerate(parents):
            ascending = list(above) == sorted(set(above)) and label not in above
            schema.check_that(ascending, "parents are damaged")
        schema.check_acyclic(parents)
        dims["states"] = tuple(
            math.prod(sizes[i] for i in (*above, k)) for k, above in enumerate(parents)
        )

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]], cardinalities: Sequence[int]) -> DependencySets:
        """Make the sets from any sequences of parents."""
        ordered = tuple(tuple(sorted(int(p) for p in each)) for each in parents)
        return cls(ordered, tuple(int(k) for k in cardinalities))

    @property
    def n_labels(self) -> int:
        """Number of labels, and of sets."""
        return len(self.parents)

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Labels of each set: the parents, then the label itself."""
        return tuple((*above, k) for k, above in enumerate(self.parents))

    @cached_property
    def n_states(self) -> Indices:
        """Number of states of each set, shape (d,)."""
        sizes = [math.prod(self.cardinalities[i] for i in each) for each in self.members]
        return np.array(sizes, dtype=np.intp)

    @cached_property
    def strides(self) -> Indices:
        """What a step of label i adds to the state of set k, shape (d, d); zero outside a set."""
        strides = np.zeros((self.n_labels, self.n_labels), dtype=np.intp)
        for k, labels in enumerate(self.members):
            step = 1
            for i in reversed(labels):
                strides[k, i] = step
                step *= self.cardinalities[i]
        return strides

    def states(self, codes: Codes) -> Indices:
        """Return the state of every set in complete label vectors (m, d), shape (m, d)."""
        states: Indices = codes.astype(np.intp) @ self.strides.T
        return states

    def assignments(self, k: int) -> Codes:
        """Return all values of the labels of set k in the order of its states, (S_k, size)."""
        sizes = [self.cardinalities[i] for i in self.members[k]]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        return grid.T.astype(np.int32)


@schema.stored("feature-columns")
@dataclass(frozen=True)
class FeatureColumns:
    """Discrete features as columns: value v of feature j has the column first[j] + v.

    Attributes
    ----------
    n_values : tuple of p int
        Number of values of every feature.

    Examples
    --------
    >>> import numpy as np
    >>> columns = FeatureColumns((2, 3))
    >>> columns.positions(np.array([[1, 2]])).tolist()
    [[1, 4]]
    """

    n_values: Annotated[tuple[int, ...], "p", schema.Between(1, 2**31), schema.Is("values")]

    @property
    def n_features(self) -> int:
        """Number of features p."""
        return len(self.n_values)

    @property
    def n_columns(self) -> int:
        """Number of columns C."""
        return sum(self.n_values)

    @cached_property
    def first(self) -> Indices:
        """First column of each feature, and the number of columns at the end, shape (p + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_values)]).astype(np.intp)

    def of(self, j: int) -> slice:
        """Columns of feature j."""
        return slice(int(self.first[j]), int(self.first[j + 1]))

    def positions(self, features: Codes) -> Indices:
        """Columns (n, p) of the values of feature codes (n, p)."""
        found: Indices = features.astype(np.intp) + self.first[:-1]
        return found

    def one_hot(self, features: Codes) -> Array:
        """Rows (n, C) with a one in the column of every feature's value."""
        rows = np.zeros((len(features), self.n_columns))
        rows[np.arange(len(features))[:, None], self.positions(features)] = 1.0
        return rows


def sums_by_state(state: Indices, n_states: int, values: Array) -> Array:
    """Sum the rows of values (n, C) that are in each state (n,): (n_states, C).

    Examples
    --------
    >>> import numpy as np
    >>> sums_by_state(np.array([2, 0, 2]), 3, np.array([[1.0], [2.0], [3.0]])).ravel().tolist()
    [2.0, 0.0, 4.0]
    """
    shape = (n_states, len(state))
    is_in = sp.csr_array((np.ones(len(state)), (state, np.arange(len(state)))), shape=shape)
    return np.asarray(is_in @ values, dtype=np.float64)


# Seed of the random words behind the keys of label vectors; keys never show in an answer.
_KEY_SEED = 20160829
_ROWS_AT_ONCE = 256
_MOST_SWEEPS = 100


@schema.stored("lds-network")
@dataclass(frozen=True)
class LDSNetwork:
    r"""Labels from a Bayesian network, each feature from a mixture over label dependency sets.

    .. math:: P(l, f) = \prod_i P(l_i \mid l_{Pa(i)}) \prod_j \sum_k \theta^l_{jk}
              \phi_{jk}(f_j \mid l_{LS_k})

    Shapes: d labels and as many sets, p features with C values in all, U label vectors seen in
    training, S the largest number of states of a set.

    Attributes
    ----------
    sets : DependencySets
    columns : FeatureColumns
    alpha : (d, S) array
        P(l_k | parents) for each state of set k; zero beyond its states.
    vectors : (U, d) array of int32
        The label vectors seen in training.
    vector_weights : (U,) array
        How often each was seen.
    theta : (U, d, p) array
        Mixture weights: probability of set k for feature j, given the label vector.
    phi : (d, S, C) array
        Probability of each value of each feature, given the state of set k; zero beyond its
        states.
    """

    sets: Annotated[DependencySets, "d sizes states"]
    columns: Annotated[FeatureColumns, "p values"]
    alpha: Annotated[Array, "d max(states)", schema.Between(0.0, 1.0)]
    vectors: Annotated[Codes, "u d", schema.CODES]
    vector_weights: Annotated[Array, "u", schema.Between(0.0)]
    theta: Annotated[Array, "u d p", schema.Distribution(axis=1)]
    phi: Annotated[Array, "d max(states) sum(values)", schema.Between(0.0, 1.0)]

    # Parts

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        first = np.cumsum((0, *dims["values"][:-1]))
        for k, (n_states, size) in enumerate(zip(dims["states"], dims["sizes"], strict=True)):
            schema.Distribution().check(
                fields["alpha"][k, :n_states].reshape(-1, size), dims, "alpha"
            )
            sums = np.add.reduceat(fields["phi"][k, :n_states], first, axis=1)
            schema.Distribution().check(sums[..., None], dims, "phi")

    @property
    def fallback(self) -> Array:
        """Mixture weights (d, p) of a label vector that training has not seen: all equal.

        Such a vector has no rows, so that only the pseudo-counts of the smoothing are left.
        """
        return np.full(self.theta.shape[1:], 1.0 / self.sets.n_labels)

    @cached_property
    def log_alpha(self) -> Array:
        """Logarithms of `alpha`."""
        with np.errstate(divide="ignore"):
            logs: Array = np.log(self.alpha)
        return logs

    @cached_property
    def _common(self) -> Array:
        feature_of = np.repeat(np.arange(self.columns.n_features), self.columns.n_values)
        common: Array = self.fallback[:, None, feature_of] * self.phi
        return common

    @cached_property
    def _seen(self) -> Seen:
        most = max(self.sets.cardinalities)
        words = np.random.default_rng(_KEY_SEED).integers(
            0, 2**64, size=(self.sets.n_labels, most), dtype=np.uint64
        )
        vectors = np.ascontiguousarray(self.vectors, dtype=np.int32)
        spread = words[np.arange(self.sets.n_labels), vectors]
        keys = np.bitwise_xor.reduce(spread, axis=1)
        order = np.argsort(keys, kind="stable")
        return Seen(words, keys[order], order.astype(np.intp), vectors)

    @cached_property
    def _blocks(self) -> Blocks:
        members = self.sets.members
        overlap = [
            [s for s, other in enumerate(members) if set(own) & set(other)] for own in members
        ]
        return Blocks(
            _starts([len(own) for own in members]),
            np.concatenate([np.array(own, dtype=np.intp) for own in members]),
            self.sets.n_states,
            self.sets.strides,
            np.array(self.sets.cardinalities, dtype=np.intp),
            _starts([len(each) for each in overlap]),
            np.concatenate([np.array(each, dtype=np.intp) for each in overlap]),
        )

    @cached_property
    def _model(self) -> Model:
        return Model(self._blocks, self._seen, self.log_alpha, self._common)

    # Scores

    def seen_positions(self, codes: Codes) -> Indices:
        """Positions (m,) of label vectors (m, d) in `vectors`, -1 for those never seen."""
        return positions(self._seen, np.ascontiguousarray(codes, dtype=np.int32))

    def log_prior(self, codes: Codes) -> Array:
        """Log Pr(labels), before the features are seen, of complete vectors (m, d): (m,)."""
        states = self.sets.states(codes)
        log_prob: Array = self.log_alpha[np.arange(self.sets.n_labels), states].sum(axis=1)
        return log_prob

    def log_conditional(self, codes: Codes) -> Array:
        """Log Pr(F_j = v | labels) of complete vectors (m, d), in columns: (m, C)."""
        table = np.empty((len(codes), self.columns.n_columns))
        log_mixtures(
            self.sets.states(codes),
            self.seen_positions(codes),
            self.theta,
            self.fallback,
            self.phi,
            self.columns.first,
            table,
        )
        return table

    def log_joint(self, features: Codes, codes: Codes, entries_at_once: int = 1 << 22) -> Array:
        """Log Pr(labels, features) of each row's own label vector: (n, p), (n, d) to (n,)."""
        log_prob = self.log_prior(codes)
        for chunk in row_slices(len(codes), entries_at_once, self.columns.n_columns):
            table = self.log_conditional(codes[chunk])
            place = self.columns.positions(features[chunk])
            log_prob[chunk] += np.take_along_axis(table, place, axis=1).sum(axis=1)
        return log_prob

    def seen_scores(self, features: Codes) -> Array:
        """Log Pr(labels, features) of the vectors seen in training: (n, U)."""
        return self._table(features, *self._seen_table)

    @cached_property
    def _seen_table(self) -> tuple[Array, Array]:
        return self.log_conditional(self.vectors), self.log_prior(self.vectors)

    def every_vector(self, features: Codes) -> tuple[Codes, Array]:
        """All label vectors (N, d), and log Pr(labels, features) of each: (n, N)."""
        codes, conditional, prior = self._every_table
        return codes, self._table(features, conditional, prior)

    @cached_property
    def _every_table(self) -> tuple[Codes, Array, Array]:
        codes = all_vectors(self.sets.cardinalities)
        return codes, self.log_conditional(codes), self.log_prior(codes)

    def __getstate__(self) -> dict[str, object]:
        # what can be computed again is not stored: the table of all vectors may be large
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _table(self, features: Codes, conditional: Array, prior: Array) -> Array:
        # 0 times -inf would be NaN, so impossible values are added up apart
        finite = np.isfinite(conditional)
        rows = self.columns.one_hot(features)
        if finite.all():
            scores: Array = rows @ conditional.T + prior
            return scores
        scores = rows @ np.where(finite, conditional, 0.0).T + prior
        scores[rows @ (~finite).T.astype(np.float64) > 0] = -np.inf
        return scores

    # Search

    def ascend(
        self,
        features: Codes,
        start: Codes,
        *,
        evidence: Codes | None = None,
        sets: Sequence[int] | None = None,
        max_sweeps: int = _MOST_SWEEPS,
        seen_scores: Array | None = None,
        n_jobs: int | None = None,
    ) -> Codes:
        """Block coordinate ascent of Pr(labels | features), one dependency set at a time.

        Parameters
        ----------
        features : (n, p) array of int
            Codes of the features.
        start : (n, d) array of int
            Where to start.
        evidence : (n, d) array of int, optional
            Values that are known; -1 where not. They replace those of the start.
        sets : sequence of int, optional
            Sets to go through, in this order; all of them by default.
        max_sweeps : int
            Stop after as many rounds even if something still changes.
        seen_scores : (n, U) array, optional
            What `seen_scores(features)` gives, where that is at hand.
        n_jobs : int or None
            Threads.

        Returns
        -------
        (n, d) array of int32
            Vectors that no change within one of the sets improves.
        """
        known = _evidence_or_none(evidence, start)
        codes = np.where(known != MISSING, known, start).astype(np.int32)
        which = np.array(range(self.sets.n_labels) if sets is None else sets, dtype=np.intp)

        def work(chunk: slice) -> None:
            own = features[chunk]
            scores = self.seen_scores(own) if seen_scores is None else seen_scores[chunk]
            at = self.columns.positions(own)
            ascend(which, max_sweeps, at, codes[chunk], known[chunk], scores, self._model)

        map_threads(work, row_slices(len(codes), _ROWS_AT_ONCE), n_jobs, lambda: None)
        return codes

    def neighbours(
        self, features: Codes, codes: Codes, *, evidence: Codes | None = None
    ) -> tuple[Codes, Array]:
        """Unseen vectors that differ from codes (n, d) within one dependency set, and scores.

        Returns
        -------
        codes : (n, N, d) array of int32
        scores : (n, N) array
            Log Pr(labels, features); -inf marks places without a vector.
        """
        known = _evidence_or_none(evidence, codes)
        n_places = int(self.sets.n_states.sum())
        vectors = np.empty((len(codes), n_places, self.sets.n_labels), dtype=np.int32)
        scores = np.empty((len(codes), n_places))
        own = np.array(codes, dtype=np.int32, order="C")
        at, of_seen = self.columns.positions(features), self.seen_scores(features)
        keys = np.empty((len(codes), n_places), dtype=np.uint64)
        neighbours(at, own, known, of_seen, self._model, vectors, keys, scores)
        # equal keys side by side: all but the first are repetitions
        order = np.argsort(keys, axis=1, kind="stable")
        keys = np.take_along_axis(keys, order, axis=1)
        row, step = np.nonzero(keys[:, 1:] == keys[:, :-1])
        scores[row, order[row, step + 1]] = -np.inf
        return vectors, scores


def _evidence_or_none(evidence: Codes | None, codes: Codes) -> Codes:
    if evidence is None:
        return np.full(codes.shape, MISSING, dtype=np.int32)
    return np.ascontiguousarray(evidence, dtype=np.int32)


def _starts(lengths: list[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
