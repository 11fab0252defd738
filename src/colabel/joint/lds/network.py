"""The generative mixture of label dependency sets: parameters, and scores of label vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.schema import Between, CodesOf, Dims, Distribution, Fields, stored
from colabel.core.threads import map_threads
from colabel.joint.lds import _score_kernels as kernels
from colabel.joint.lds.sets import DependencySets, FeatureColumns
from colabel.labels import MISSING, all_vectors

__all__ = ["LDSNetwork"]

# Seed of the random words behind the keys of label vectors; keys never show in an answer.
_KEY_SEED = 20160829
_ROWS_AT_ONCE = 256
_ENTRIES_AT_ONCE = 2**22
_MOST_SWEEPS = 100


@stored("lds-network")
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
    alpha: Annotated[Array, "d max(states)", Between(0.0, 1.0)]
    vectors: Annotated[Codes, "u d", CodesOf()]
    vector_weights: Annotated[Array, "u", Between(0.0)]
    theta: Annotated[Array, "u d p", Distribution(axis=1)]
    phi: Annotated[Array, "d max(states) sum(values)", Between(0.0, 1.0)]

    # Parts

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        first = np.cumsum((0, *dims["values"][:-1]))
        for k, (n_states, size) in enumerate(zip(dims["states"], dims["sizes"], strict=True)):
            Distribution().check(fields["alpha"][k, :n_states].reshape(-1, size), dims, "alpha")
            sums = np.add.reduceat(fields["phi"][k, :n_states], first, axis=1)
            Distribution().check(sums[..., None], dims, "phi")

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
            found: Array = np.log(self.alpha)
        return found

    @cached_property
    def _common(self) -> Array:
        feature_of = np.repeat(np.arange(self.columns.n_features), self.columns.n_values)
        common: Array = self.fallback[:, None, feature_of] * self.phi
        return common

    @cached_property
    def _seen(self) -> kernels.Seen:
        most = max(self.sets.cardinalities)
        words = np.random.default_rng(_KEY_SEED).integers(
            0, 2**64, size=(self.sets.n_labels, most), dtype=np.uint64
        )
        vectors = np.ascontiguousarray(self.vectors, dtype=np.int32)
        spread = words[np.arange(self.sets.n_labels), vectors]
        keys = np.bitwise_xor.reduce(spread, axis=1)
        order = np.argsort(keys, kind="stable")
        return kernels.Seen(words, keys[order], order.astype(np.intp), vectors)

    @cached_property
    def _blocks(self) -> kernels.Blocks:
        members = self.sets.members
        overlap = [
            [s for s, other in enumerate(members) if set(own) & set(other)] for own in members
        ]
        return kernels.Blocks(
            _starts([len(own) for own in members]),
            np.concatenate([np.array(own, dtype=np.intp) for own in members]),
            self.sets.n_states,
            self.sets.strides,
            np.array(self.sets.cardinalities, dtype=np.intp),
            _starts([len(each) for each in overlap]),
            np.concatenate([np.array(each, dtype=np.intp) for each in overlap]),
        )

    # Scores

    def seen_positions(self, codes: Codes) -> Indices:
        """Positions (m,) of label vectors (m, d) in `vectors`, -1 for those never seen."""
        return kernels.positions(self._seen, np.ascontiguousarray(codes, dtype=np.int32))

    def log_prior(self, codes: Codes) -> Array:
        """Log Pr(labels), before the features are seen, of complete vectors (m, d): (m,)."""
        states = self.sets.states(codes)
        found: Array = self.log_alpha[np.arange(self.sets.n_labels), states].sum(axis=1)
        return found

    def log_conditional(self, codes: Codes) -> Array:
        """Log Pr(F_j = v | labels) of complete vectors (m, d), in columns: (m, C)."""
        table = np.empty((len(codes), self.columns.n_columns))
        kernels.log_mixtures(
            self.sets.states(codes),
            self.seen_positions(codes),
            self.theta,
            self.fallback,
            self.phi,
            self.columns.first,
            table,
        )
        return table

    def log_joint(self, features: Codes, codes: Codes) -> Array:
        """Log Pr(labels, features) of each row's own label vector: (n, p), (n, d) to (n,)."""
        found = self.log_prior(codes)
        for chunk in row_slices(len(codes), _ENTRIES_AT_ONCE, self.columns.n_columns):
            table = self.log_conditional(codes[chunk])
            place = self.columns.positions(features[chunk])
            found[chunk] += np.take_along_axis(table, place, axis=1).sum(axis=1)
        return found

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
            kernels.ascend(
                which, max_sweeps, *self._arguments(own, codes[chunk], known[chunk], scores)
            )

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
        found = np.empty((len(codes), n_places, self.sets.n_labels), dtype=np.int32)
        scores = np.empty((len(codes), n_places))
        own = np.array(codes, dtype=np.int32, order="C")
        arguments = self._arguments(features, own, known, self.seen_scores(features))
        keys = np.empty((len(codes), n_places), dtype=np.uint64)
        kernels.neighbours(*arguments, found, keys, scores)
        # equal keys side by side: all but the first are repetitions
        order = np.argsort(keys, axis=1, kind="stable")
        keys = np.take_along_axis(keys, order, axis=1)
        row, step = np.nonzero(keys[:, 1:] == keys[:, :-1])
        scores[row, order[row, step + 1]] = -np.inf
        return found, scores

    def _arguments(
        self, features: Codes, codes: Codes, known: Codes, seen_scores: Array
    ) -> tuple[Indices, Codes, Codes, kernels.Blocks, kernels.Seen, Array, Array, Array]:
        """What the search kernels ask for."""
        return (
            self.columns.positions(features),
            codes,
            known,
            self._blocks,
            self._seen,
            seen_scores,
            self.log_alpha,
            self._common,
        )


def _evidence_or_none(evidence: Codes | None, codes: Codes) -> Codes:
    if evidence is None:
        return np.full(codes.shape, MISSING, dtype=np.int32)
    return np.ascontiguousarray(evidence, dtype=np.int32)


def _starts(lengths: list[int]) -> Indices:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
