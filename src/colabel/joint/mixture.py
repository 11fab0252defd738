"""Mixture: several joints of the same rows, each right with some probability."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.joint._chain_prefixes import Prefixes, best_distinct
from colabel.joint._user_terms import impossible_evidence
from colabel.joint.base import Joint
from colabel.labels import MISSING, LabelSpace

__all__ = ["Mixture"]


# Longest lists asked of the members before the best vector found is taken as it is.
_LONGEST_LIST = 4096
# Codes of candidates that are scored at once, as numbers.
_CODES_AT_ONCE = 1 << 23


class Mixture(Joint):
    r"""A weighted mean of distributions: P(y | x) = sum_m w_m P_m(y | x).

    This is the joint of ensembles. Probabilities, marginals and samples are those of the
    members, averaged; evidence also reweighs the members, by the probability each gave it.

    A vector that is missing from the k best of every member has a probability of at most
    sum_m w_m P_m(k-th best). So the vectors on the members' lists are scored by the mixture, and
    the lists are made longer until the best of them beat that bound: exact where the members'
    lists are. If they are not, the best of the members' own candidates are taken.

    Parameters
    ----------
    members : sequence of Joint
        Of the same labels and rows.
    weights : array-like of shape (M,) or (n, M), optional
        Weights of the members, for all rows or each; equal by default. They are normalised.

    Attributes
    ----------
    members : tuple of Joint
    log_weights : (n, M) array
        Logarithms of the normalised weights.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent, Mixture
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> first = Independent(space, [np.log([[0.1, 0.9]]), np.log([[0.1, 0.9]])])
    >>> second = Independent(space, [np.log([[0.8, 0.2]]), np.log([[0.8, 0.2]])])
    >>> joint = Mixture([first, second])
    >>> joint.marginals(), joint.given({"a": 1}).marginals().round(2)
    (array([[0.55, 0.55]]), array([[1.  , 0.77]]))
    """

    def __init__(self, members: Sequence[Joint], weights: ArrayLike | None = None) -> None:
        _check_members(members)
        n_rows = members[0].n_rows
        shape = n_rows, len(members)
        given = np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
        if given.shape not in {(len(members),), shape}:
            raise ValueError(
                f"weights have shape {given.shape}, but there are {len(members)} members and "
                f"{n_rows} rows: give one weight per member, or one per row and member."
            )
        table = np.broadcast_to(given, shape)
        if not (np.isfinite(table) & (table >= 0)).all() or not (table.sum(axis=1) > 0).all():
            raise ValueError(
                "weights must be finite and not negative, and some weight of each row positive."
            )
        with np.errstate(divide="ignore"):
            log_weights = np.log(table)
        self._set(members, log_weights)

    def _set(self, members: Sequence[Joint], log_weights: Array) -> None:
        super().__init__(members[0].space, members[0].n_rows)
        self.members = tuple(members)
        self.log_weights = log_weights - _log_sum(log_weights)[:, None]
        self.exact = all(member.exact for member in members)
        inner = "; ".join(dict.fromkeys(member.how for member in members))
        self.how = (
            f"Averages of {len(members)} members ({inner}) Modes: the best of the members' "
            f"candidates, {'proven best' if self.exact else 'scored by the mixture'}."
        )

    def _with(self, members: Sequence[Joint], log_weights: Array) -> Mixture:
        """Return a mixture that needs no check."""
        joint = Mixture.__new__(Mixture)
        joint._set(members, log_weights)
        return joint

    @property
    def weights(self) -> Array:
        """Weights (n, M) of the members, rows summing to one."""
        return np.exp(self.log_weights)

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors."""
        return self.top_k_codes(1)[0][:, 0]

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        codes = np.empty((self.n_rows, k, self.space.n_labels), dtype=np.int32)
        log_prob = np.empty((self.n_rows, k))
        open_rows, length = np.arange(self.n_rows), k
        while True:
            part = self.rows(open_rows)
            found, missed = part._listed(k, length)
            codes[open_rows], log_prob[open_rows] = found
            proven = missed <= found[1][:, -1]
            if not self.exact or proven.all() or length == self._at_most_all(length + 1):
                return codes, log_prob
            if length >= _LONGEST_LIST:
                _warn_of_cut(int((~proven).sum()))
                return codes, log_prob
            open_rows, length = open_rows[~proven], self._at_most_all(4 * length)

    def _listed(self, k: int, length: int) -> tuple[tuple[Codes, Array], Array]:
        """The k best on the members' lists, and a bound (n,) for the vectors on no list."""
        lists = [member.top_k_codes(length) for member in self.members]
        last = np.stack([log_prob[:, -1] for _, log_prob in lists], axis=1)
        codes = np.concatenate([found for found, _ in lists], axis=1)
        rows = np.repeat(np.arange(self.n_rows), codes.shape[1])
        flat = codes.reshape(len(rows), -1)
        candidates = Prefixes(rows, flat, self._log_prob_of(rows, flat))
        best, log_prob, _ = best_distinct(candidates, self.n_rows, k)
        return (best, log_prob), _log_sum(self.log_weights + last)

    def _log_prob_of(self, rows: Indices, codes: Codes) -> Array:
        """Log-probability (m,) of codes (m, d), each in its own row."""
        step = max(1, _CODES_AT_ONCE // max(1, codes.shape[1]))
        starts = range(0, len(rows), step)
        parts = [
            self.rows(rows[start : start + step]).log_prob_codes(codes[start : start + step])
            for start in starts
        ]
        return np.concatenate([np.empty(0), *parts])

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return self._averaged([member.marginal_tables() for member in self.members])

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self._averaged([[member.pair_table(i, j)] for member in self.members])[0]

    def vote_tables(self) -> list[Array]:
        """Return the weighted share of members whose mode has each value, arrays (n, K_i).

        Classic ensembles of chains decide by such votes.
        """
        modes = [member.mode_codes() for member in self.members]
        sizes = self.space.cardinalities
        return self._averaged(
            [[(m[:, i, None] == np.arange(k)) * 1.0 for i, k in enumerate(sizes)] for m in modes]
        )

    def vote_codes(self) -> Codes:
        """Return the codes (n, d) with most votes for each label; the smaller code wins a tie."""
        best = [table.argmax(axis=1) for table in self.vote_tables()]
        return np.stack(best, axis=1).astype(np.int32)

    def _averaged(self, tables: Sequence[Sequence[Array]]) -> list[Array]:
        """Average tables[m][i] (n, ...) over the members."""
        weights = self.weights
        return [
            np.asarray(sum(_scaled(table, weights[:, m]) for m, table in enumerate(of_label)))
            for of_label in zip(*tables, strict=True)
        ]

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return _log_sum(self.log_weights + self._member_log_prob(codes))

    def _member_log_prob(self, codes: Codes) -> Array:
        return np.stack([member.log_prob_codes(codes) for member in self.members], axis=1)

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): a member for each draw, then a vector of that member."""
        cumulated = self.weights.cumsum(axis=1)
        # dividing makes the last exactly 1, so a member of weight zero is never drawn
        cumulated /= cumulated[:, -1:]
        uniform = rng.random((size, self.n_rows, 1))
        member = (uniform >= cumulated[None, :, :-1]).sum(axis=2)
        codes = np.empty((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        for m, joint in enumerate(self.members):
            mine = member == m
            most = int(mine.sum(axis=0).max(initial=0))
            drawn = joint.sample_codes(most, rng)
            place, row = np.nonzero(mine)
            codes[place, row] = drawn[(mine.cumsum(axis=0) - 1)[mine], row]
        return codes

    def given_codes(self, evidence: Codes) -> Mixture:
        """Return the joint given the known entries of evidence (n, d)."""
        likelihood = self._member_log_prob(evidence)
        log_weights = self.log_weights + likelihood
        impossible = np.flatnonzero(np.isneginf(log_weights).all(axis=1))
        if impossible.size:
            raise impossible_evidence(self.space, evidence, impossible)
        # a member that excludes a row's evidence has weight zero there: spare it the evidence
        members = [
            member.given_codes(
                np.where(np.isneginf(likelihood[:, m, None]), MISSING, evidence).astype(np.int32)
            )
            for m, member in enumerate(self.members)
        ]
        return self._with(members, log_weights)

    def rows(self, index: Rows) -> Mixture:
        """Return the joint of some of the rows."""
        return self._with([m.rows(index) for m in self.members], self.log_weights[index])


def _scaled(table: Array, weight: Array) -> Array:
    return table * weight.reshape(-1, *[1] * (table.ndim - 1))


def _log_sum(values: Array) -> Array:
    """Log of the sum of exponentials over the last axis, -inf where all are."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(values, axis=1))


def _check_members(members: Sequence[Joint]) -> None:
    if not members:
        raise ValueError("A mixture needs at least one member.")
    first = members[0]
    for position, member in enumerate(members):
        if member.n_rows != first.n_rows or not _same_labels(member.space, first.space):
            raise ValueError(
                f"Member {position} has {member.n_rows} rows and labels {member.space.names}, but "
                f"member 0 has {first.n_rows} rows and labels {first.space.names}: the members of "
                "a mixture must describe the same rows and labels."
            )


def _same_labels(one: LabelSpace, other: LabelSpace) -> bool:
    return one is other or (one.names, one.cardinalities) == (other.names, other.cardinalities)


def _warn_of_cut(n_cut: int) -> None:
    warnings.warn(
        f"The {_LONGEST_LIST} best vectors of every member do not prove which are the best of the "
        f"mixture in {n_cut} rows: the best found are taken there.",
        RuntimeWarning,
        stacklevel=4,
    )
