"""Mixture: several joints of the same rows, each right with some probability."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.numeric import first_occurrences, log_sum_exp
from colabel.joint.base import APPROXIMATE, Exactness, Joint, common
from colabel.joint.chain.prefixes import Prefixes, best_distinct
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import require_possible
from colabel.labels import MISSING
from colabel.rules import CompiledRules

__all__ = ["Mixture"]


_SLACK = 1e-9  # nats; vectors tied with the best are candidates too
_FIRST_ROWS = 8  # rows whose lists are compared at once while their lengths are unknown


class SumOfJoints(Joint):
    """Base of joints that are sums of others: P(y | x) = sum_m f_m(x) P_m(y | x).

    A subclass implements `_parts`; factors may be negative.
    """

    @abstractmethod
    def _parts(self) -> Sequence[tuple[Joint, Array]]:
        """The joints and their factors (n,)."""

    def _summed(self, tables: Sequence[Sequence[Array]]) -> list[Array]:
        """Sum tables[part][i] (n, ...) by the factors of the parts."""
        sums = []
        for of_label in zip(*tables, strict=True):
            scaled = (
                table * factor.reshape(-1, *[1] * (table.ndim - 1))
                for table, (_, factor) in zip(of_label, self._parts(), strict=True)
            )
            sums.append(np.asarray(sum(scaled)))
        return sums

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return self._summed([part.marginal_tables() for part, _ in self._parts()])

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.pair_tables([(i, j)])[0]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        return self._summed([part.pair_tables(pairs) for part, _ in self._parts()])

    def _size_marginals(self) -> SizeMarginals:
        sizes = self._summed([part._size_marginals() for part, _ in self._parts()])
        return SizeMarginals(*sizes)


class Mixture(SumOfJoints):
    r"""A weighted mean of distributions: P(y | x) = sum_m w_m P_m(y | x).

    This is the joint of ensembles. Probabilities, marginals and samples are those of the
    members, averaged; evidence also reweighs the members, by the probability each gave it.

    A vector of probability p reaches t_m in some member, for any t_m with sum_m w_m t_m <= p: more
    is asked of light members than of heavy ones. The members' own modes give a first p; every
    vector that some member finds that probable is then scored by the mixture, and the best of them
    is the mode, with proof. The same goes for the k best. So no vector is more probable than the
    mode, in particular none of `top_k`. Members that cannot list all those vectors list the best
    they have: `exact` then lacks "mode", which is the best vector found and never less probable
    than a member's own.

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
        self.log_weights = log_weights - log_sum_exp(log_weights)[:, None]
        exact = common(member.exact for member in members).without("mode")
        proven = "log_prob" in exact and all(member.lists_all for member in members)
        self.exact = Exactness([*exact, "mode"]) if proven else exact
        inner = "; ".join(dict.fromkeys(member.how.removesuffix(".") for member in members))
        self.how = (
            f"Averages of {len(members)} members ({inner}). Modes: the best of the members' "
            f"candidates, {'proven best' if 'mode' in self.exact else 'scored by the mixture'}."
        )

    def _with(self, members: Sequence[Joint], log_weights: Array) -> Mixture:
        """Return a mixture that needs no check."""
        return self._unchecked(members, log_weights)

    @property
    def weights(self) -> Array:
        """Weights (n, M) of the members, rows summing to one."""
        return np.exp(self.log_weights)

    def _parts(self) -> Sequence[tuple[Joint, Array]]:
        return list(zip(self.members, self.weights.T, strict=True))

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        best = self._joined(k, [member.top_k_codes(k)[0] for member in self.members])
        # where less than k vectors are possible, the members' lists have them all
        least = np.where(np.isneginf(best[1][:, -1]), np.inf, best[1][:, -1])
        return self._proven(*best, self._thresholds(least) - _SLACK)

    def likely_codes(self, k: int) -> tuple[Codes, Array]:
        """Return the best (n, k, d) of the members' candidates, and their log-probabilities."""
        return self._joined(k, [member.likely_codes(k)[0] for member in self.members])

    def _joined(self, k: int, lists: Sequence[Codes]) -> tuple[Codes, Array]:
        """The best of the vectors (n, ., d) that the members have listed."""
        codes = np.concatenate(lists, axis=1)
        rows = np.repeat(np.arange(self.n_rows), codes.shape[1])
        return self._best(rows, codes.reshape(-1, self.space.n_labels), self._at_most_all(k))

    def _thresholds(self, least: Array) -> Array:
        """Log-probabilities t (n, M): every vector above `least` (n,) is above one of them.

        With ``sum_m w_m t_m = p`` a vector below all t_m is below p. With t_m ~ w_m^(-1/2) members
        of small weight have high thresholds, and so short lists.
        """
        half = 0.5 * self.log_weights
        thresholds: Array = (least - log_sum_exp(half))[:, None] - half
        return thresholds

    def _proven(self, codes: Codes, log_prob: Array, least: Array) -> tuple[Codes, Array]:
        """The best of vectors (n, k, d) and of all that reach a threshold (n, M) of some member.

        Some rows at a time, the more the shorter their lists are.
        """
        codes, log_prob, k = codes.copy(), log_prob.copy(), codes.shape[1]
        n_cut, start, step = 0, 0, _FIRST_ROWS
        while start < self.n_rows:
            chunk = np.arange(start, min(start + step, self.n_rows))
            some = self.rows(chunk)
            listed = [m.listed_above(t) for m, t in zip(some.members, least[chunk].T, strict=True)]
            n_cut += int(np.any([part.cut for part in listed], axis=0).sum())
            rows = np.concatenate([np.repeat(np.arange(len(chunk)), k), *(p.rows for p in listed)])
            known = codes[chunk].reshape(-1, codes.shape[2])
            vectors = np.concatenate([known, *(part.codes for part in listed)])
            codes[chunk], log_prob[chunk] = some._best(rows, vectors, k)
            start += len(chunk)
            fitting = self.codes_at_once // 2 * len(chunk) // max(1, vectors.size)
            step = min(max(1, fitting), 4 * len(chunk))
        self._take_back(n_cut)
        return codes, log_prob

    def _best(self, rows: Indices, codes: Codes, k: int) -> tuple[Codes, Array]:
        """Of vectors (m, d), each of its own row, the k best of each row."""
        first = first_occurrences(rows, codes)
        rows, codes = rows[first], codes[first]
        candidates = Prefixes(rows, codes, self.log_prob_at(rows, codes))
        best, log_prob, _ = best_distinct(candidates, self.n_rows, k)
        return best, log_prob

    def _take_back(self, n_cut: int) -> None:
        """Say from now on that the best vectors are not proven in some rows."""
        if n_cut and "mode" in self.exact:
            self.exact = self.exact.without("mode")
            self.how += f" In {n_cut} rows there were too many to prove it."

    def vote_tables(self) -> list[Array]:
        """Return the weighted share of members whose mode has each value, arrays (n, K_i).

        Classic ensembles of chains decide by such votes.
        """
        modes = [member.mode_codes() for member in self.members]
        sizes = self.space.cardinalities
        return self._summed(
            [[(m[:, i, None] == np.arange(k)) * 1.0 for i, k in enumerate(sizes)] for m in modes]
        )

    def vote_codes(self) -> Codes:
        """Return the codes (n, d) with most votes for each label; the smaller code wins a tie."""
        best = [table.argmax(axis=1) for table in self.vote_tables()]
        return np.stack(best, axis=1).astype(np.int32)

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return log_sum_exp(self.log_weights + self._member_log_prob(codes))

    def _member_log_prob(self, codes: Codes) -> Array:
        return np.stack([member.log_prob_codes(codes) for member in self.members], axis=1)

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,)."""
        log_prob = np.stack([member.log_prob_at(rows, codes) for member in self.members], axis=1)
        return log_sum_exp(self.log_weights[rows] + log_prob)

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
            if not most:
                continue
            drawn = joint.sample_codes(most, rng)
            place, row = np.nonzero(mine)
            codes[place, row] = drawn[(mine.cumsum(axis=0) - 1)[mine], row]
        return codes

    def given_codes(self, evidence: Codes) -> Mixture:
        """Return the joint given the known entries of evidence (n, d)."""
        likelihood = self._member_log_prob(evidence)
        # subtract the largest first: next to likelihoods of e^-1e20 no weight would count
        top = np.where(np.isneginf(self.log_weights), -np.inf, likelihood).max(axis=1)
        top[np.isneginf(top)] = 0.0
        log_weights = self.log_weights + (likelihood - top[:, None])
        require_possible(self.space, evidence, np.isneginf(log_weights).all(axis=1))
        # a member that excludes a row's evidence has weight zero there: do not condition it
        members = [
            member.given_codes(
                np.where(np.isneginf(likelihood[:, m, None]), MISSING, evidence).astype(np.int32)
            )
            for m, member in enumerate(self.members)
        ]
        joint = self._with(members, log_weights)
        exact = common(member.exact for member in self.members)
        whole = (evidence != MISSING).all(axis=1) | (evidence == MISSING).all(axis=1)
        if "sums" not in exact and not ("log_prob" in exact and whole.all()):
            joint.exact = APPROXIMATE
            joint.how += " The members' probabilities of the evidence are estimates."
        return joint

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        parts = [member._obeying(rules) for member in self.members]
        masses = np.stack([mass for _, mass in parts], axis=1)
        total = np.minimum(log_sum_exp(self.log_weights + masses), 0.0)
        zero = np.isneginf(total)[:, None]
        joint = self._with(
            [member for member, _ in parts],
            np.where(zero, self.log_weights, self.log_weights + masses),
        )
        if "sums" not in common(member.exact for member in self.members):
            joint.exact = APPROXIMATE
            joint.how += " The members' probabilities of the rules are estimates."
        return joint, total

    def rows(self, index: Rows) -> Mixture:
        """Return the joint of some of the rows."""
        joint = self._with([m.rows(index) for m in self.members], self.log_weights[index])
        joint.exact = common([joint.exact, self.exact])
        return joint


def _check_members(members: Sequence[Joint]) -> None:
    if not members:
        raise ValueError("A mixture needs at least one member.")
    first = members[0]
    for position, member in enumerate(members):
        one, other = member.space, first.space
        same = one is other or (one.names, one.cardinalities) == (other.names, other.cardinalities)
        if member.n_rows != first.n_rows or not same:
            raise ValueError(
                f"Member {position} has {member.n_rows} rows and labels {member.space.names}, but "
                f"member 0 has {first.n_rows} rows and labels {first.space.names}: the members of "
                "a mixture must describe the same rows and labels."
            )
