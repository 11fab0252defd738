"""Pool: several joints as one, a mixture whose probable vectors are weighed anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.optimize import minimize_scalar

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.numeric import log_sum_exp
from colabel.core.schema import Between, Distribution, stored
from colabel.joint import Joint, Mixture, Reweighted, VectorList
from colabel.joint.vectors.lists import row_log_sum
from colabel.learn.mixing import mixture_weights
from colabel.learn.pool._opinions import HeldOutOpinions, Opinions, opinions
from colabel.learn.pool.coefficients import pool_coefficients
from colabel.learn.pool.prior import LabelPrior

_PENALTIES = (2.0, 10.0, 50.0, 200.0)  # rows of evidence that the mixture's weights are worth
_MOST_PROVEN = 32  # labels up to which members prove that what they list is their best
_WIDEST = 3.0  # the odds of all that is not listed change by e^3 at most


@stored("pool")
@dataclass(frozen=True, eq=False)
class Pool:
    r"""How M joints of the same rows become one.

    Their mixture ``P_0 = sum_m w_m P_m`` says what is possible at all. Of each row the vectors
    that some joint finds probable are listed, and share the probability of the list anew, by a
    logarithmic opinion pool:

    .. math::
        Q(y \mid x) \propto e^{b \cdot 1[y \text{ is new}]} \prod_m P_m(y \mid x)^{a_m},
        \quad y \in L(x)

    A mixture is right when one of the members is, without saying which; a pool is right when each
    knows something that the others do not. The exponents also temper what is too sure of itself,
    and b is what a label vector pays for never having occurred.

    Attributes
    ----------
    weights : (M,)
        Of the mixture.
    coef : (M + 1,) or None
        Exponents a, then b; None where the mixture was no worse on rows held out.
    log_outside : float
        Logarithm of the factor by which the odds of all that is not listed change.
    n_listed : int
        How many vectors each joint lists.
    """

    weights: Annotated[Array, "m", Distribution()]
    coef: Annotated[Array | None, "m+1", Between(-100.0, 100.0)]
    log_outside: Annotated[float, Between(-_WIDEST, _WIDEST)]
    n_listed: Annotated[int, Between(1, 1 << 16)]

    def joint(self, joints: Sequence[Joint], prior: LabelPrior) -> Joint:
        """Return P(y | x) from those of the members."""
        used = np.flatnonzero(self.weights).tolist()
        base = Mixture([joints[m] for m in used], self.weights[used])
        proven = base.space.n_labels <= _MOST_PROVEN
        if self.coef is None and proven:
            return base
        said = opinions(joints, self.n_listed, proven=proven)
        if self.coef is None:
            log_weights = said.mixed(self.weights)
        else:
            log_weights = self._list_weights(said, said.features(prior.is_new(said.codes)))
        entries = np.arange(len(said.codes))
        listed = VectorList.of_lists(base.space, said.codes, said.indptr, entries, log_weights)
        unlisted = said.most_left(self.weights) if proven else np.full(base.n_rows, -np.inf)
        joint = Reweighted(base, listed, unlisted)
        if not said.proven[used].all():
            joint.exact = joint.exact.without("mode")
            joint.how += " Members' lists may lack their best: modes are not proven."
        return joint

    def _list_weights(self, said: Opinions, features: Array) -> Array:
        """Log-weights (N,) of the entries: together the mixture's mass of the list."""
        assert self.coef is not None
        scores = features @ self.coef
        with np.errstate(divide="ignore"):
            total = np.log(said.listed_mass(self.weights)) - self.log_outside
        weights: Array = scores + (total - row_log_sum(scores, said.indptr))[said.row]
        return weights

    def log_prob(self, held: HeldOutOpinions) -> Array:
        """Log-probability (n,) of what was true."""
        mixed = _mixed_truth(held, self.weights)
        if self.coef is None:
            return mixed
        said = held.opinions
        of_list = self._list_weights(said, said.features(held.new))
        mass = said.listed_mass(self.weights)
        norm = np.log(mass * np.exp(-self.log_outside) + (1.0 - mass))
        listed = held.entry >= 0
        found: Array = np.where(listed, of_list[held.entry], mixed) - np.where(held.known, norm, 0)
        return found


def learn_pool(
    held: HeldOutOpinions, fold: Indices, n_listed: int, least: Sequence[float] = ()
) -> Pool:
    """Learn how to join the members from what they said about rows they had not seen.

    The weights are those of the most likely mixture. Whether to pool, and how near to these weights
    the exponents stay, is asked once more of rows that have not been seen: the exponents are
    learned from all folds but one and judged on it.

    Parameters
    ----------
    held : HeldOutOpinions
        Of n rows.
    fold : (n,)
        The fold in which each row was held out.
    n_listed : int
        How many vectors each joint lists.
    least : sequence of float
        Lower bounds of the exponents of the first members; the others may be negative.
    """
    plain = Pool(mixture_weights(held.truth, held.weight), None, 0.0, n_listed)
    folds = np.unique(fold)
    counted = np.where(held.known, held.weight, 0.0)
    of_plain = plain.log_prob(held)
    best, most = None, 0.0
    for penalty in _PENALTIES if len(folds) > 1 else ():
        gain = np.zeros(len(fold))
        for f in folds:
            pooled = _pooled(held, plain, fold != f, penalty, least)
            mine = fold == f
            gain[mine] = (pooled.log_prob(held) - of_plain)[mine]
        worth = float(counted[counted > 0] @ gain[counted > 0])
        if worth > most:
            best, most = penalty, worth
    if best is None:
        return plain
    return _pooled(held, plain, np.ones(len(fold), dtype=bool), best, least)


def pool_of(held: HeldOutOpinions, penalty: float = 10.0) -> Pool:
    """Learn weights and exponents from some rows, without asking whether the pool is better."""
    plain = Pool(mixture_weights(held.truth, held.weight), None, 0.0, 1)
    return _pooled(held, plain, np.ones(len(held.weight), dtype=bool), penalty, ())


def _pooled(
    held: HeldOutOpinions, plain: Pool, rows: Flags, penalty: float, least: Sequence[float]
) -> Pool:
    """Learn the exponents of the pool from some of the rows."""
    said = held.opinions
    use = np.flatnonzero(rows & (held.entry >= 0) & (held.weight > 0))
    if not use.size:
        return plain
    lengths = np.diff(said.indptr)[use]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(indptr[-1]) + np.repeat(said.indptr[use] - indptr[:-1], lengths)
    truth = indptr[:-1] + held.entry[use] - said.indptr[use]
    features = said.features(held.new)[entries]
    prior = np.append(plain.weights, 0.0)
    lower = np.full(len(prior), -np.inf)
    lower[: len(least)] = least
    coef = pool_coefficients(
        features, indptr, truth, prior, held.weight[use], penalty=penalty, least=lower
    )
    counted = rows & held.known
    mass = said.listed_mass(plain.weights)[counted]
    outside = _log_outside(mass, held.entry[counted] >= 0, held.weight[counted])
    return Pool(plain.weights, coef, outside, plain.n_listed)


def _log_outside(mass: Array, listed: Flags, weight: Array) -> float:
    """The factor e^b by which the odds of what is not listed should change, as b.

    Maximises the likelihood of whether the truth was listed, less ``b^2 / 2``.
    """

    def negative(b: float) -> float:
        norm = np.log(mass + np.exp(b) * (1.0 - mass))
        value = np.where(listed, 0.0, b) - norm
        return float(0.5 * b * b - weight @ value)

    return float(minimize_scalar(negative, bounds=(-_WIDEST, _WIDEST), method="bounded").x)


def _mixed_truth(held: HeldOutOpinions, weights: Array) -> Array:
    used = weights > 0
    return log_sum_exp(held.truth[:, used] + np.log(weights[used]))
