"""Reweighted: a joint in which some listed label vectors have probabilities of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.numeric import first_occurrences
from colabel.joint.base import APPROXIMATE, Exactness, Joint
from colabel.joint.chain.prefixes import Prefixes, best_distinct
from colabel.joint.mixture import SumOfJoints
from colabel.joint.user_terms import require_possible
from colabel.joint.vectors import VectorList
from colabel.labels import MISSING
from colabel.rules import CompiledRules

__all__ = ["Reweighted"]

_ROUNDS = 64  # rounds of draws in search of vectors that are not listed


class Reweighted(SumOfJoints):
    r"""A joint P_0 in which the vectors of a list L have new weights; the others keep theirs.

    .. math::
        P(y \mid x) = \frac{1}{Z(x)} \cdot
        \begin{cases} w_y(x) & y \in L(x) \\ P_0(y \mid x) & \text{else} \end{cases}
        \qquad Z = \sum_{y \in L} w_y + 1 - \sum_{y \in L} P_0(y \mid x)

    So what is known better about the few probable vectors, such as a calibration or the estimate of
    several models, can be said about them, while every other vector keeps an honest probability.
    Sums are those of three joints, ``list + P_0 - P_0 on the list``: exact where those of P_0 are.

    Parameters
    ----------
    base : Joint
        P_0, for n rows.
    listed : VectorList
        The list of each row with its weights: `log_weights` and `log_total` together, as given.
    most_unlisted : array-like of shape (n,), optional
        Log-probability under P_0 that no vector outside the list exceeds. Where it is below the
        best of the list, P_0 is not searched for the mode.

    Attributes
    ----------
    base : Joint
    listed : VectorList
    log_scale : (n,) array
        Factor of P_0 outside the list; zero before evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent, Reweighted, VectorList
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> base = Independent(space, [np.log([[0.5, 0.5]]), np.log([[0.5, 0.5]])])
    >>> listed = VectorList(space, [[0, 0], [1, 1]], np.log([[0.4, 0.1]]))
    >>> joint = Reweighted(base, listed)
    >>> joint.mode(), np.exp(joint.log_prob([[0, 1]]))
    (array([[0, 0]]), array([0.25]))
    >>> joint.given({"a": 1}).marginals().round(3)
    array([[1.   , 0.286]])
    """

    def __init__(
        self, base: Joint, listed: VectorList, most_unlisted: ArrayLike | None = None
    ) -> None:
        if base.n_rows != listed.n_rows or base.space.cardinalities != listed.space.cardinalities:
            raise ValueError(
                f"base has {base.n_rows} rows of {base.space.n_labels} labels, but the list has "
                f"{listed.n_rows} rows of {listed.space.n_labels}: both must describe the same."
            )
        bound = np.zeros(base.n_rows) if most_unlisted is None else np.asarray(most_unlisted)
        if bound.shape != (base.n_rows,):
            raise ValueError(
                f"most_unlisted has shape {bound.shape}, but there are {base.n_rows} rows: give "
                "one log-probability per row."
            )
        self._set(base, listed, _covered(base, listed), np.zeros(base.n_rows), bound)

    def _set(
        self, base: Joint, listed: VectorList, covered: VectorList, scale: Array, bound: Array
    ) -> None:
        super().__init__(base.space, base.n_rows)
        self.base, self.listed, self.log_scale = base, listed, scale
        self._covered, self._bound = covered, bound
        # weights of the three parts, up to the common 1 / Z
        outside = np.maximum(-np.expm1(np.minimum(covered.log_total, 0.0)), 0.0)
        with np.errstate(divide="ignore"):
            self._log_norm = np.logaddexp(listed.log_total, scale + np.log(outside))
        self.exact = base.exact
        self.how = f"A list of label vectors with weights of their own; all others: {base.how}"

    # Sums

    def _parts(self) -> Sequence[tuple[Joint, Array]]:
        """The joints whose weighted sum this one is, with their factors (n,)."""
        of_base = np.exp(self.log_scale - self._log_norm)
        return (
            (self.base, of_base),
            (self.listed, np.exp(self.listed.log_total - self._log_norm)),
            (self._covered, -of_base * np.exp(self._covered.log_total)),
        )

    def _summed(self, tables: Sequence[Sequence[Array]]) -> list[Array]:
        # differences of nearly equal sums may be below zero by rounding
        return [np.maximum(table, 0.0) for table in super()._summed(tables)]

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return [table / table.sum(axis=1, keepdims=True) for table in super().marginal_tables()]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        tables = super().pair_tables(pairs)
        return [table / table.sum(axis=(1, 2), keepdims=True) for table in tables]

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        log_of_base = np.where(self.log_scale > -np.inf, self.log_scale - self._log_norm, -np.inf)
        # -sum p log p over the list, and over the rest, where log p = log P_0 + a constant
        of_list = _weighted_entropy(self.listed, self._log_norm)
        total = np.exp(self._covered.log_total)
        outside = self.base.entropy() - _weighted_entropy(self._covered)
        share = np.exp(log_of_base)
        left = share * outside - (1.0 - total) * _times(share, log_of_base)
        return np.maximum(of_list + left, 0.0)

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        parts = (self.listed, self.base, self._covered)
        return self._combined(
            codes, np.arange(self.n_rows), *(p.log_prob_codes(codes) for p in parts)
        )

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,)."""
        parts = (self.listed, self.base, self._covered)
        return self._combined(codes, rows, *(p.log_prob_at(rows, codes) for p in parts))

    def _combined(
        self, codes: Codes, rows: Indices, on_list: Array, outside: Array, taken: Array
    ) -> Array:
        """Log-probabilities (m,) of codes (m, d) in rows (m,), from those of the three parts."""
        on_list = on_list + self.listed.log_total[rows]
        complete = (codes != MISSING).all(axis=1)
        # of some labels only, P_0 has the listed vectors among those it sums
        taken = taken + self._covered.log_total[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(taken > -np.inf, np.exp(np.minimum(taken - outside, 0.0)), 0.0)
            left = np.log1p(-share)
        known = complete & (on_list > -np.inf)
        rest = np.where(known, -np.inf, np.where(complete, outside, outside + left))
        log_prob: Array = np.logaddexp(on_list, rest + self.log_scale[rows]) - self._log_norm[rows]
        return np.minimum(log_prob, 0.0)

    # Vectors

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        codes, log_prob = self.listed.top_k_codes(k)
        log_prob += (self.listed.log_total - self._log_norm)[:, None]
        factor = self.log_scale - self._log_norm
        open_rows = np.flatnonzero(log_prob[:, -1] < self._bound + factor)
        length = k
        while open_rows.size:
            some = self.base.rows(open_rows)
            vectors, of_base = some.top_k_codes(length)
            if "mode" in self.exact and "mode" not in some.exact:
                self.exact = self.exact.without("mode")
                self.how += " A search of theirs was cut short: some modes are not proven."
            whole = vectors.shape[1] == self._at_most_all(length + 1)
            codes[open_rows], log_prob[open_rows] = self._merged(
                open_rows, codes[open_rows], log_prob[open_rows], vectors
            )
            # vectors not yet listed are at most as probable as the last one listed
            ended = of_base[:, -1] + factor[open_rows] <= log_prob[open_rows, -1]
            open_rows = open_rows[~(ended | whole)]
            length *= 4
        return codes, log_prob

    def _merged(
        self, rows: Indices, codes: Codes, log_prob: Array, more: Codes
    ) -> tuple[Codes, Array]:
        """Of vectors (m, k, d) and `more` (m, l, d) of some rows the best k, with probabilities."""
        m, k, d = codes.shape
        place = np.repeat(np.arange(m), more.shape[1])
        flat = more.reshape(-1, d)
        values = self.log_prob_at(rows[place], flat)
        # those of P_0 first: where a list is short, impossible vectors fill its places
        place = np.concatenate([place, np.repeat(np.arange(m), k)])
        flat = np.concatenate([flat, codes.reshape(-1, d)])
        values = np.concatenate([values, log_prob.ravel()])
        first = first_occurrences(place, flat)
        best, of_best, _ = best_distinct(Prefixes(place[first], flat[first], values[first]), m, k)
        return best, of_best

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): from the list, or from P_0 without the listed vectors."""
        filled = np.flatnonzero(np.diff(self.listed.indptr))  # evidence may leave a list empty
        codes = np.zeros((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        codes[:, filled] = self.listed.rows(filled).sample_codes(size, rng)
        share = np.exp(self.listed.log_total - self._log_norm)
        wanted = rng.random((size, self.n_rows)) >= share
        for _ in range(_ROUNDS):
            rows = np.flatnonzero(wanted.any(axis=0))
            if not rows.size:
                break
            drawn = self.base.rows(rows).sample_codes(size, rng)
            place = np.repeat(rows[None], size, axis=0).ravel()
            listed = self.listed.log_prob_at(place, drawn.reshape(-1, drawn.shape[2]))
            taken = wanted[:, rows] & np.isneginf(listed).reshape(size, -1)
            at, column = np.nonzero(taken)
            codes[at, rows[column]] = drawn[at, column]
            wanted[at, rows[column]] = False
        return codes

    # Parts

    def given_codes(self, evidence: Codes) -> Reweighted:
        """Return the joint given the known entries of evidence (n, d)."""
        of_base = self.base.log_prob_codes(evidence)
        possible = of_base > -np.inf
        listed = self.listed.agreeing(evidence)
        require_possible(self.space, evidence, ~possible & np.isneginf(listed.log_total))
        # a base that excludes a row's evidence has weight zero there: do not condition it
        spared = np.where(possible[:, None], evidence, MISSING).astype(np.int32)
        base = self.base.given_codes(spared)
        covered, scale = _covered(base, listed), self.log_scale + of_base
        joint = self._unchecked(base, listed, covered, scale, np.zeros(self.n_rows))
        if "sums" not in self.base.exact:
            joint.exact = APPROXIMATE
        return joint

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        base, mass = self.base._obeying(rules)
        listed = self.listed.obeying_only(rules)
        # P_0 of what obeys has grown by as much as the rules took away
        bound = np.minimum(self._bound - np.where(np.isneginf(mass), 0.0, mass), 0.0)
        covered = _covered(base, listed)
        joint = self._unchecked(base, listed, covered, self.log_scale + mass, bound)
        total = np.minimum(joint._log_norm - self._log_norm, 0.0)
        if "sums" not in self.base.exact:
            joint.exact = APPROXIMATE
        return joint, total

    def rows(self, index: Rows) -> Reweighted:
        """Return the joint of some of the rows."""
        joint = self._unchecked(
            self.base.rows(index),
            self.listed.rows(index),
            self._covered.rows(index),
            self.log_scale[index],
            self._bound[index],
        )
        joint.exact = Exactness(joint.exact & self.exact)
        return joint


def _times(factor: Array, log: Array) -> Array:
    """The product, where 0 log 0 = 0."""
    products: Array = np.where(factor > 0, factor * np.where(factor > 0, log, 0.0), 0.0)
    return products


def _weighted_entropy(part: VectorList, log_norm: Array | float = 0.0) -> Array:
    """-sum_y p log p of the weights p of a list, divided by their norm."""
    log_total = part.log_total - log_norm
    total = np.exp(log_total)
    return total * part.entropy() - _times(total, log_total)


def _covered(base: Joint, listed: VectorList) -> VectorList:
    """The vectors of the list with their probabilities under `base`."""
    row = np.repeat(np.arange(listed.n_rows), np.diff(listed.indptr))
    values = base.log_prob_at(row, listed.vectors[listed.indices])
    return listed.reweighted(values)
