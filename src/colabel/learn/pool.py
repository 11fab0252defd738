"""Pool: several joints as one, a mixture whose probable vectors are weighed anew.

The weights of the mixture maximise the likelihood of rows that its parts have not seen. A
log-linear pool (a product of experts) joins their log-probabilities of a few listed vectors by
learned exponents. `ExpertLists` holds these; `LabelPrior` says how often label vectors occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, minimize_scalar

from colabel.core.arrays import Array, Codes, Flags, Indices, row_slices
from colabel.core.numeric import as_bytes, bin_sums, log_sum_exp
from colabel.core.progress import check_deadline
from colabel.core.schema import CODES, Between, Distribution, stored
from colabel.joint import Independent, Joint, Mixture, Reweighted, VectorList
from colabel.joint.repeated import Repeated
from colabel.joint.vectors.vector_list import entries_of_rows, row_log_sum, row_max
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import TrainingData

_LEAST = 1e-4  # a share below this is none: the part could as well not be there


def mixture_weights(
    log_prob: Array,
    sample_weight: Array | None = None,
    *,
    shrinkage: float = 0.0,
    tol: float = 1e-7,
    max_iter: int = 2000,
) -> Array:
    r"""Weights w (M,) on the simplex that maximise ``sum_r s_r log sum_m w_m P_m(y_r | x_r)``.

    The objective is concave. EM climbs it, since the mean responsibility is the next weight:

    .. math:: w_m \leftarrow \sum_r s_r \frac{w_m P_{rm}}{\sum_l w_l P_{rl}} \Big/ \sum_r s_r

    and ends when no weight could gain: by concavity the optimum is at most
    ``log max_m sum_r s_r P_rm / sum_l w_l P_rl`` nats per row away.

    Parameters
    ----------
    log_prob : (n, M)
        Log-probability of each row's label vector under each part. A row that no part thinks
        possible says nothing and is left out.
    sample_weight : (n,), optional
    shrinkage : float
        Rows of evidence that equal weights are worth; a part that they alone speak for has none.
    tol : float
        Nats per row that the likelihood may be below its maximum.
    max_iter : int

    Returns
    -------
    weights : (M,)
        Sum to one; exactly zero for parts without use.

    Examples
    --------
    >>> import numpy as np
    >>> mixture_weights(np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.6]])).round(2)
    array([0.73, 0.27])
    """
    best = log_prob.max(axis=1)
    useful = best > -np.inf
    n_parts = log_prob.shape[1]
    share = np.ones(len(log_prob)) if sample_weight is None else sample_weight
    share = share[useful]
    weights = np.full(n_parts, 1.0 / n_parts)
    if not share.sum() > 0:
        return weights
    share = share / (share.sum() + shrinkage)
    relative = np.exp(log_prob[useful] - best[useful, None])
    own = (1.0 - share.sum()) / n_parts
    if shrinkage:  # rows that one of the parts alone explains
        share = np.append(share, np.full(n_parts, own))
        relative = np.concatenate([relative, np.eye(n_parts)])
    for _ in range(max_iter):
        gain = (share / (relative @ weights)) @ relative  # mean of P_m / P
        if np.log(gain.max()) < tol:
            break
        weights = weights * gain
        weights /= weights.sum()
    weights[weights < min(max(_LEAST, 2.0 * own), weights.max())] = 0.0
    normed: Array = weights / weights.sum()
    return normed


_LARGEST = 8.0  # of a coefficient: a list is not sharpened without end


def pool_coefficients(
    features: Array,
    indptr: Indices,
    truth: Indices,
    prior: Array,
    sample_weight: Array | None = None,
    *,
    penalty: float = 1.0,
    least: ArrayLike = -np.inf,
) -> Array:
    r"""Exponents a (F,) of a log-linear pool, by penalised conditional likelihood.

    .. math::
        Q(y \mid x) \propto e^{a^\top f(x, y)}, \quad y \in L(x) \qquad
        \max_a \sum_r s_r \log \sum_{y \in T_r} Q(y \mid x_r)
        - \tfrac{\lambda}{2} \lVert a - a_0 \rVert^2

    where :math:`T_r` is the true vector, or of a row that lacks labels all that agree with the
    others. With the members' log-probabilities as features this is the logarithmic opinion pool
    ``prod_m P_m(y | x)^{a_m}``, normalised over the list: a problem of a few numbers, and a concave
    one where no labels are missing.

    Parameters
    ----------
    features : (N, F)
        Of the listed vectors, lists end to end.
    indptr : (n + 1,)
        List r has the entries ``indptr[r]`` to ``indptr[r + 1]``, at least one.
    truth : (t,)
        Entries that may be the true vector of their list, ascending; at least one of each list.
    prior : (F,)
        The coefficients a_0 that little evidence leaves.
    sample_weight : (n,), optional
    penalty : float
        The weight of a row's evidence that the prior is worth.
    least : float or (F,)
        Lower bounds of the coefficients.

    Returns
    -------
    coef : (F,)
    """
    weight = np.ones(len(indptr) - 1) if sample_weight is None else sample_weight
    every, of_truth = (features, indptr), (features[truth], np.searchsorted(truth, indptr))

    def log_sums(coef: Array, features: Array, indptr: Indices) -> tuple[Array, Array]:
        """Of each list, and the gradient of their weighted sum."""
        scores, lengths = features @ coef, np.diff(indptr)
        found = row_log_sum(scores, indptr)
        prob = np.exp(scores - np.repeat(found, lengths))
        return found, (prob * np.repeat(weight, lengths)) @ features

    def negative(coef: Array) -> tuple[float, Array]:
        (true, of_true), (listed, of_listed) = (log_sums(coef, *part) for part in (of_truth, every))
        value, gradient = weight @ (true - listed), of_true - of_listed
        difference = coef - prior
        return (
            float(0.5 * penalty * difference @ difference - value),
            penalty * difference - gradient,
        )

    lower = np.broadcast_to(np.maximum(least, -_LARGEST), prior.shape)
    bounds = [(bound, _LARGEST) for bound in lower.tolist()]
    start = np.maximum(prior, lower)
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds)
    coef: Array = found.x
    return coef


# A joint that calls a vector impossible says no more than one that finds it so many nats less
# probable than the best of the row's list.
_MOST_BELOW = 40.0
_CODES_AT_ONCE = 1 << 23  # numbers of listed vectors that are sorted at once

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ExpertLists:
    """The union of the joints' most probable vectors, row by row, with what all say.

    Attributes
    ----------
    indptr : (n + 1,)
        The list of row r has the entries ``indptr[r]`` to ``indptr[r + 1]``.
    codes : (N, d)
        The listed vectors of each row, ascending.
    log_prob : (N, M)
        Log-probability of each under each joint.
    most_unlisted : (n, M)
        Log-probability that no vector outside the list exceeds under each joint.
    proven : (M,)
        Whether that is so: a joint may have named vectors that are not its best.
    """

    indptr: Indices
    codes: Codes
    log_prob: Array
    most_unlisted: Array
    proven: Flags

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.indptr) - 1

    @property
    def row(self) -> Indices:
        """Row (N,) of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def features(self, new: Flags) -> Array:
        """What a log-linear pool sees of each entry: each expert, and whether it is new (N, M + 1).

        ExpertLists are relative to the best of the row's list: a pool is normed row by row.
        """
        best = np.stack([row_max(column, self.indptr) for column in self.log_prob.T], axis=1)
        below = self.log_prob - np.where(np.isneginf(best), 0.0, best)[self.row]
        return np.column_stack([np.maximum(below, -_MOST_BELOW), new])

    def mixed(self, weights: Array) -> Array:
        """Log-probability (N,) of the entries under the mixture of the joints."""
        used = weights > 0
        return log_sum_exp(self.log_prob[:, used] + np.log(weights[used]))

    def listed_mass(self, weights: Array) -> Array:
        """Probability (n,) of all that is listed under the mixture of the joints."""
        return np.minimum(bin_sums(self.row, np.exp(self.mixed(weights)), self.n_rows), 1.0)

    def most_left(self, weights: Array) -> Array:
        """Log-probability (n,) under the mixture that no vector outside the list exceeds."""
        used = weights > 0
        return log_sum_exp(self.most_unlisted[:, used] + np.log(weights[used]))

    def agreeing(self, codes: Codes) -> Indices:
        """Entries (t,) that agree with what is known of one vector (n, d) of each row."""
        known = codes[self.row]
        return np.flatnonzero(((known == MISSING) | (self.codes == known)).all(axis=1))

    def joined(self, *others: ExpertLists) -> ExpertLists:
        """Return these rows and then those of the others."""
        parts = (self, *others)
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        return ExpertLists(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.log_prob for part in parts]),
            np.concatenate([part.most_unlisted for part in parts]),
            np.all([part.proven for part in parts], axis=0),
        )

    def without_codes(self) -> ExpertLists:
        """Return the lists without their vectors, which take most of the room."""
        return replace(self, codes=np.empty((len(self.codes), 0), dtype=np.int32))


class UnansweredError(Exception):
    """A joint that could not be asked, by its position among all."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(position, why)
        self.position, self.why = position, why


def ask_each(
    joints: Sequence[Joint],
    question: Callable[[Joint], Answer],
    excused: tuple[type[Exception], ...] = (),
) -> list[Answer]:
    """Return the answer of every joint; of an error that is excused, say whose it is.

    Raises
    ------
    UnansweredError
        Instead of an error that is excused.
    """
    found = []
    for position, joint in enumerate(joints):
        check_deadline()
        try:
            found.append(question(joint))
        except excused as error:
            raise UnansweredError(position, str(error) or type(error).__name__) from error
    return found


def expert_lists(
    joints: Sequence[Joint],
    n_listed: int,
    excused: tuple[type[Exception], ...] = (),
    *,
    proven: bool = False,
) -> ExpertLists:
    """List the most probable vectors of each joint, and ask all of them about all of these.

    Parameters
    ----------
    joints : sequence of M Joint
        Of the same rows and labels.
    n_listed : int
        How many vectors each joint names.
    excused : tuple of exceptions
        See `ask_each`.
    proven : bool
        Whether the joints are to prove that what they name is their best, if they can.
    """
    n_rows, d = joints[0].n_rows, joints[0].space.n_labels
    chunks = row_slices(n_rows, _CODES_AT_ONCE, len(joints) * n_listed * (d + 1))
    if len(chunks) == 1:
        return _expert_lists(joints, n_listed, excused, proven)
    parts = [[joint.rows(chunk) for joint in joints] for chunk in chunks]
    first, *others = [_expert_lists(part, n_listed, excused, proven) for part in parts]
    return first.joined(*others)


def _expert_lists(
    joints: Sequence[Joint], n_listed: int, excused: tuple[type[Exception], ...], prove: bool
) -> ExpertLists:
    best = ask_each(
        joints, lambda j: (j.top_k_codes if prove else j.likely_codes)(n_listed), excused
    )
    n_rows, d = joints[0].n_rows, joints[0].space.n_labels
    flat = np.concatenate([codes.reshape(-1, d) for codes, _ in best])
    row = np.concatenate([np.repeat(np.arange(n_rows), codes.shape[1]) for codes, _ in best])
    keyed = np.column_stack([row, flat]).astype(np.int32)
    keyed = np.unique(keyed, axis=0)  # sorted by row, then by codes
    row, codes = keyed[:, 0].astype(np.intp), np.ascontiguousarray(keyed[:, 1:], dtype=np.int32)
    indptr = np.searchsorted(row, np.arange(n_rows + 1))
    lists = ask_each(joints, lambda joint: joint.log_prob_at(row, codes), excused)
    log_prob = np.stack(lists, axis=1)
    unlisted = np.stack([values[:, -1] for _, values in best], axis=1)
    every = math.prod(joints[0].space.cardinalities)  # beyond any float, of a thousand labels
    unlisted[np.diff(indptr) >= every] = -np.inf
    proven = np.array([prove and "mode" in joint.exact for joint in joints])  # after the search
    return ExpertLists(indptr, codes, log_prob, unlisted, proven)


@dataclass(frozen=True)
class HeldOutExperts:
    """ExpertLists about rows that the joints' models had not seen, and what was true.

    Attributes
    ----------
    lists : ExpertLists
        With or without the codes of the vectors: nothing here needs them.
    new : (N,)
        Whether a listed vector is none of those the models had learned from.
    truth : (n, M)
        Log-probability of the true labels, as far as known, under each joint.
    agreeing : (t,)
        Entries of the vectors that agree with the true labels, as far as known, ascending.
    known : (n,)
        Whether all labels of the row are known.
    weight : (n,)
    """

    lists: ExpertLists
    new: Flags
    truth: Array
    agreeing: Indices
    known: Flags
    weight: Array

    def of_joints(self, columns: Indices) -> HeldOutExperts:
        """Return the columns of some of the joints; what the others named stays listed."""
        lists = self.lists
        kept = replace(
            lists,
            log_prob=lists.log_prob[:, columns],
            most_unlisted=lists.most_unlisted[:, columns],
            proven=lists.proven[columns],
        )
        return replace(self, lists=kept, truth=self.truth[:, columns])

    def joined(self, *others: HeldOutExperts) -> HeldOutExperts:
        """Return these rows and then those of the others."""
        parts = (self, *others)
        starts = np.cumsum([0, *(len(part.new) for part in parts[:-1])])
        return HeldOutExperts(
            self.lists.joined(*(part.lists for part in others)),
            np.concatenate([part.new for part in parts]),
            np.concatenate([part.truth for part in parts]),
            np.concatenate([p.agreeing + start for p, start in zip(parts, starts, strict=True)]),
            np.concatenate([part.known for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    def chance_listed(self, weights: Array) -> tuple[Array, Array]:
        """Under the mixture: log-probability of the truth (n,); probability that it is listed."""
        used = weights > 0
        mixed, listed = (
            log_sum_exp(log_prob[:, used] + np.log(weights[used]))
            for log_prob in (self.truth, self.lists.log_prob[self.agreeing])
        )
        row = self.lists.row[self.agreeing]
        # of a row whose labels are all known it is sure
        possible = listed > -np.inf
        share = np.subtract(listed, mixed[row], out=np.full(len(row), -np.inf), where=possible)
        share = np.where(self.known[row], 1.0, np.exp(np.minimum(share, 0.0)))
        return mixed, np.minimum(bin_sums(row, share, len(mixed)), 1.0)


def _complete(data: TrainingData) -> Flags:
    """Rows (n,) of positive weight whose labels are all known."""
    return np.asarray((data.codes != MISSING).all(axis=1) & (data.row_weights > 0))


def seen_vectors(data: TrainingData) -> Codes:
    """The complete label vectors (V, d) of the rows, in ascending order."""
    return np.unique(data.codes[_complete(data)], axis=0)


def joined_vectors(one: Codes, other: Codes) -> Codes:
    """Join two results of `seen_vectors`."""
    return np.unique(np.concatenate([one, other]), axis=0)


@stored("label-prior")
@dataclass(frozen=True, eq=False)
class LabelPrior:
    """The label vectors of the training rows by their frequency, mixed with independent labels.

    The weights of the two maximise the likelihood of each row under the counts of the others, so
    that what has not been seen has the probability that new vectors really have. Of a row of weight
    w, which stands for w rows, one is left out, or all of it where w is below one.

    Attributes
    ----------
    vectors : (V, d)
        The complete label vectors of the training rows, in ascending order.
    counts : (V,)
        Total weight of the rows that have each.
    frequencies : d arrays (K_i,)
        Smoothed frequencies of each label's values.
    weights : (2,)
        Of the vectors and of the independent labels.
    """

    vectors: Annotated[Codes, "v d", CODES]
    counts: Annotated[Array, "v", Between(1e-300)]
    frequencies: Annotated[tuple[Array, ...], "d [sizes]", Distribution()]
    weights: Annotated[Array, "2", Distribution()]

    @classmethod
    def of(cls, data: TrainingData) -> LabelPrior:
        """Count the label vectors."""
        whole = _complete(data)
        weight = data.row_weights[whole]
        vectors, inverse = np.unique(data.codes[whole], axis=0, return_inverse=True)
        inverse = inverse.ravel()
        counts = bin_sums(inverse, weight, len(vectors))
        frequencies = tuple(data.class_frequencies(i) for i in range(data.n_labels))
        own = np.minimum(weight, 1.0)
        left, others = counts[inverse] - own, float(weight.sum()) - own
        with np.errstate(divide="ignore"):
            among_others = np.log(np.divide(left, others, out=np.zeros(len(left)), where=left > 0))
        alone = sum(
            (np.log(table)[data.codes[whole, i]] for i, table in enumerate(frequencies)),
            start=np.zeros(len(weight)),
        )
        weights = mixture_weights(np.stack([among_others, alone], axis=1), weight)
        # never all the weight on what was seen: the next row may be new
        weights = np.maximum(weights, 1.0 / (float(weight.sum()) + 2.0))
        if not len(vectors):
            weights = np.array([0.0, 1.0])
        return cls(vectors, counts, frequencies, weights / weights.sum())

    def joint(self, space: LabelSpace, n_rows: int) -> Joint:
        """The same distribution for each of some rows."""
        one: Joint = Independent(space, [np.log(table)[None] for table in self.frequencies])
        if len(self.vectors):
            listed = VectorList(space, self.vectors, np.log(self.counts)[None])
            one = Mixture([listed, one], self.weights)
        return Repeated(one, np.zeros(n_rows, dtype=np.intp))

    def is_new(self, codes: Codes) -> Flags:
        """Whether each vector (m, d) is none of those that were seen."""
        return np.isin(as_bytes(codes), as_bytes(self.vectors), invert=True)

    def counts_of(self, codes: Codes) -> Array:
        """Total weight (m,) of the training rows that have each vector (m, d)."""
        if not len(self.vectors):
            return np.zeros(len(codes))
        seen, asked = as_bytes(self.vectors), as_bytes(codes)
        order = np.argsort(seen)
        place = order[np.minimum(np.searchsorted(seen, asked, sorter=order), len(seen) - 1)]
        counts: Array = np.where(seen[place] == asked, self.counts[place], 0.0)
        return counts


_PENALTIES = (2.0, 10.0, 50.0, 200.0)  # rows of evidence that the mixture's weights are worth
_SHRINKAGE = 5.0  # rows of evidence that equal weights are worth
_MOST_PROVEN = 32  # labels up to which members prove that what they list is their best
_LEAST_GAIN = 1e-2  # nats of all rows held out; less is rounding
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
        lists = expert_lists(joints, self.n_listed, proven=proven)
        if self.coef is None:
            log_weights = lists.mixed(self.weights)
        else:
            log_weights = self._list_weights(lists, lists.features(prior.is_new(lists.codes)))
        entries = np.arange(len(lists.codes))
        listed = VectorList.of_lists(base.space, lists.codes, lists.indptr, entries, log_weights)
        unlisted = lists.most_left(self.weights) if proven else np.full(base.n_rows, -np.inf)
        joint = Reweighted(base, listed, unlisted)
        if not lists.proven[used].all():
            joint.exact = joint.exact.without("mode")
            joint.how += " Members' lists may lack their best: modes are not proven."
        return joint

    def _list_weights(self, lists: ExpertLists, features: Array) -> Array:
        """Log-weights (N,) of the entries: together the mixture's mass of the list."""
        assert self.coef is not None
        scores = features @ self.coef
        with np.errstate(divide="ignore"):
            total = np.log(lists.listed_mass(self.weights)) - self.log_outside
        weights: Array = scores + (total - row_log_sum(scores, lists.indptr))[lists.row]
        return weights

    def log_prob(self, held: HeldOutExperts) -> Array:
        """Log-probability (n,) of what was true."""
        mixed, listed = held.chance_listed(self.weights)
        if self.coef is None:
            return mixed
        lists = held.lists
        of_list = self._list_weights(lists, lists.features(held.new))[held.agreeing]
        mass = lists.listed_mass(self.weights)
        norm = np.log(mass * np.exp(-self.log_outside) + (1.0 - mass))
        inside = row_log_sum(of_list, np.searchsorted(held.agreeing, lists.indptr))
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(inside, mixed + np.log1p(-listed)) - norm)


def learn_pool(
    held: HeldOutExperts, fold: Indices, n_listed: int, least: Sequence[float] = ()
) -> Pool:
    """Learn how to pool the members from their answers for rows they had not seen.

    The weights are those of the most likely mixture. Whether to pool, and how near to these weights
    the exponents stay, is asked once more of rows that have not been seen: the exponents are
    learned from all folds but one and judged on it.

    Parameters
    ----------
    held : HeldOutExperts
        Of n rows.
    fold : (n,)
        The fold in which each row was held out.
    n_listed : int
        How many vectors each joint lists.
    least : sequence of float
        Lower bounds of the exponents of the first members; the others may be negative.
    """
    weights = mixture_weights(held.truth, held.weight, shrinkage=_SHRINKAGE)
    plain = Pool(weights, None, 0.0, n_listed)
    folds = np.unique(fold)
    of_plain = plain.log_prob(held)
    best, most = None, _LEAST_GAIN
    for penalty in _PENALTIES if len(folds) > 1 else ():
        gain = np.zeros(len(fold))
        for f in folds:
            pooled = _pooled(held, plain, fold != f, penalty, least)
            mine = (fold == f) & (held.weight > 0) & (of_plain > -np.inf)
            gain[mine] = pooled.log_prob(held)[mine] - of_plain[mine]
        worth = float(held.weight @ gain)
        if worth > most:
            best, most = penalty, worth
    if best is None:
        return plain
    return _pooled(held, plain, np.ones(len(fold), dtype=bool), best, least)


def pool_of(held: HeldOutExperts, penalty: float = 10.0) -> Pool:
    """Learn weights and exponents from some rows, without asking whether the pool is better."""
    plain = Pool(mixture_weights(held.truth, held.weight), None, 0.0, 1)
    return _pooled(held, plain, np.ones(len(held.weight), dtype=bool), penalty, ())


def _pooled(
    held: HeldOutExperts, plain: Pool, rows: Flags, penalty: float, least: Sequence[float]
) -> Pool:
    """Learn the exponents of the pool from some of the rows."""
    lists, (_, listed) = held.lists, held.chance_listed(plain.weights)
    weight = held.weight * listed
    use = np.flatnonzero(rows & (weight > 0))
    if not use.size:
        return plain
    entries, indptr = entries_of_rows(use, lists.indptr)
    truth = np.flatnonzero(np.isin(entries, held.agreeing))
    features = lists.features(held.new)[entries]
    prior = np.append(plain.weights, 0.0)
    lower = np.full(len(prior), -np.inf)
    lower[: len(least)] = least
    coef = pool_coefficients(
        features, indptr, truth, prior, weight[use], penalty=penalty, least=lower
    )
    mass = lists.listed_mass(plain.weights)[rows]
    outside = _log_outside(mass, listed[rows], held.weight[rows])
    return Pool(plain.weights, coef, outside, plain.n_listed)


def _log_outside(mass: Array, listed: Array, weight: Array) -> float:
    """The factor e^b by which the odds of what is not listed should change, as b.

    Maximises the likelihood of whether the truth was listed, less ``b^2 / 2``; `listed` is the
    chance of that under the mixture.
    """

    def negative(b: float) -> float:
        norm = np.log(mass + np.exp(b) * (1.0 - mass))
        value = np.log(listed + np.exp(b) * (1.0 - listed)) - norm
        return float(0.5 * b * b - weight @ value)

    return float(minimize_scalar(negative, bounds=(-_WIDEST, _WIDEST), method="bounded").x)
