"""Gibbs sampling of label vectors: `init` and `step` for conditionals of any kind.

This is the reference: plain NumPy, vectorised over chains and rows. Linear conditionals have a
compiled twin (`kernels`) that draws the same samples from the same streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from colabel.core.arrays import Array, Codes, Indices, Keys, Rows
from colabel.core.label_features import column_owner, label_columns
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_integer
from colabel.core.threads import map_threads, n_threads
from colabel.joint.gibbs.kernels import Network, run_rows
from colabel.joint.gibbs.random import random_labels, random_orders, uniforms
from colabel.labels import MISSING


class Conditionals(Protocol):
    """The conditionals ``p(y_i | x, y_-i)`` of d labels for each of n rows; enough for Gibbs."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of each label."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        ...

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return ``log p(y_i = v | x, y_-i)``, (m, n, K_i), for m label vectors (m, n, d) a row.

        The entry of label i itself must not matter.
        """
        ...

    def rows(self, index: Rows) -> Conditionals:
        """Return the conditionals of some of the rows."""
        ...


class GibbsState(NamedTuple):
    """Where the chains are.

    Attributes
    ----------
    labels : (chains, n, d)
        Codes of the labels.
    order : (chains, n, d)
        The order in which a sweep visits the labels; chosen once, as in Algorithm 1.
    sweep : int
        Number of sweeps done, which is the position in the random streams.
    """

    labels: Codes
    order: Indices
    sweep: int


class GibbsInfo(NamedTuple):
    """What a sweep did.

    Attributes
    ----------
    flips : (chains, n)
        Number of labels that changed.
    """

    flips: Indices


class Evaluation(NamedTuple):
    """The conditionals at label vectors.

    Attributes
    ----------
    log_product : (chains, n)
        Sum of ``log p(y_i | x, y_-i)`` over the labels that are not known.
    columns : (chains, n, e)
        Conditional probability of each label column (`label_columns`); 0 or 1 for known labels.
    """

    log_product: Array
    columns: Array


def init(
    keys: Keys, model: Conditionals, evidence: Codes, order: Indices | None = None
) -> GibbsState:
    """Start chains at random label vectors.

    Parameters
    ----------
    keys : (chains, n)
        A random stream for every chain of every row.
    evidence : (n, d)
        Codes of known labels, MISSING elsewhere; known labels never change.
    order : (d,), optional
        Order of the labels for all chains and rows; by default each draws its own.
    """
    start = random_labels(keys, model.cardinalities)
    labels = np.where(evidence == MISSING, start, evidence).astype(np.int32)
    if order is None:
        return GibbsState(labels, random_orders(keys, labels.shape[2]), 0)
    return GibbsState(labels, np.broadcast_to(order, labels.shape), 0)


def step(
    keys: Keys, state: GibbsState, model: Conditionals, evidence: Codes
) -> tuple[GibbsState, GibbsInfo]:
    """Sweep once over all labels: draw each from its conditional, given the others as they are."""
    labels = state.labels.copy()
    n_labels = labels.shape[2]
    for place in range(n_labels):
        uniform = uniforms(keys, state.sweep * n_labels + place)
        due = state.order[..., place]
        # One label is due in all rows where they share their order.
        for i in np.unique(due):
            now = (due == i) & (evidence[:, i] == MISSING)
            if now.any():
                drawn = draw(model.log_prob(labels, int(i)), uniform)
                labels[..., i] = np.where(now, drawn, labels[..., i])
    flips = (labels != state.labels).sum(axis=2)
    return GibbsState(labels, state.order, state.sweep + 1), GibbsInfo(flips)


def draw(log_prob: Array, uniform: Array) -> Indices:
    """Draw values from log_prob (..., K) with uniform numbers (...).

    Two values are drawn as in Algorithm 1, 1 if u < p(y = 1); more by the distribution function.
    """
    if log_prob.shape[-1] == 2:
        return (uniform < np.exp(log_prob[..., 1])).astype(np.intp)
    cumulated = np.exp(log_prob).cumsum(axis=-1)
    drawn: Indices = (uniform[..., None] >= cumulated[..., :-1]).sum(axis=-1)
    return drawn


def evaluate(labels: Codes, model: Conditionals, evidence: Codes) -> Evaluation:
    """Evaluate every conditional at label vectors (chains, n, d)."""
    log_product = np.zeros(labels.shape[:2])
    columns = []
    for i, size in enumerate(model.cardinalities):
        log_prob = model.log_prob(labels, i)
        known = evidence[:, i] != MISSING
        of_label = np.take_along_axis(log_prob, labels[..., i, None].astype(np.intp), axis=2)
        log_product += np.where(known, 0.0, of_label[..., 0])
        values = np.array([1]) if size == 2 else np.arange(size)
        certain = evidence[:, i, None] == values
        columns.append(np.where(known[:, None], certain, np.exp(log_prob[..., values])))
    return Evaluation(log_product, np.concatenate(columns, axis=2))


def log_transition(
    state: GibbsState, model: Conditionals, evidence: Codes, queries: Codes
) -> Array:
    """Log-probability that one more sweep ends at given label vectors.

    The sweep visits the observed labels of a query only. Its probability is the product, in
    the order of the sweep, of the conditionals of the query's values given what the sweep has
    already set to the query and what it has not reached yet.

    Parameters
    ----------
    queries : (n, q, d)
        Codes, MISSING for labels that are not observed.

    Returns
    -------
    (chains, n, q)
    """
    n_chains, n_rows, n_labels = state.labels.shape
    n_queries = queries.shape[1]
    wanted = np.tile(np.moveaxis(queries, 1, 0), (n_chains, 1, 1))  # (chains q, n, d)
    labels = np.repeat(state.labels, n_queries, axis=0)
    order = np.repeat(state.order, n_queries, axis=0)
    total = np.zeros(labels.shape[:2])
    asked = (wanted != MISSING) & (evidence == MISSING)
    contradicted = (wanted != MISSING) & (evidence != MISSING) & (wanted != evidence)
    for place in range(n_labels):
        due = order[..., place]
        for i in np.unique(due):
            now = (due == i) & asked[..., i]
            if now.any():
                log_prob = model.log_prob(labels, int(i))
                value = np.maximum(wanted[..., i, None], 0).astype(np.intp)
                of_query = np.take_along_axis(log_prob, value, axis=2)[..., 0]
                total += np.where(now, of_query, 0.0)
                labels[..., i] = np.where(now, wanted[..., i], labels[..., i])
    total[contradicted.any(axis=2)] = -np.inf
    return np.moveaxis(total.reshape(n_chains, n_queries, n_rows), 1, 2)


# Share of weights that are not zero up to which going through them one by one pays.
_SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class LinearConditionals:
    r"""Conditionals whose scores are linear in the other labels.

    .. math:: s = b(x) + c(y) W, \qquad p(y_i \mid x, y_{-i}) = \sigma(s_i)

    where c(y) writes the labels as e columns of 0 and 1 (`label_columns`): one for a label of two
    values, whose score is the log-odds of the second, and K for a label of K values, whose K
    scores go through a softmax. A label never counts in its own scores.

    Parameters
    ----------
    base : (n, e) array
        The part b(x) of the scores that depends on the row, intercept included.
    weights : (e, e) array
        Entry [c, s]: what label column c adds to score s. Entries within a label are ignored.
    cardinalities : sequence of d int
        Number of values of each label.
    floor : (e,) array, optional
        Probability kept for values of multi-valued labels that were never seen: their
        probabilities are floor + (1 - sum of floor) softmax. Zero by default.

    Examples
    --------
    >>> import numpy as np
    >>> two = LinearConditionals(np.zeros((1, 2)), np.array([[0.0, 3.0], [3.0, 0.0]]), (2, 2))
    >>> np.exp(two.log_prob(np.array([[[0, 1]]]), 0)).round(2)  # y1 = 1 makes y0 = 1 likely
    array([[[0.05, 0.95]]])
    """

    base: Array
    weights: Array
    cardinalities: tuple[int, ...]
    floor: Array = field(default_factory=lambda: np.zeros(0))

    def __init__(
        self,
        base: Array,
        weights: Array,
        cardinalities: Sequence[int],
        floor: Array | None = None,
    ) -> None:
        owner = column_owner(cardinalities)
        base = np.require(base, np.float64, ["C", "W"])
        if base.ndim != 2 or base.shape[1] != len(owner):
            raise ValueError(
                f"base has shape {base.shape}, but labels with {tuple(cardinalities)} values have"
                f" {len(owner)} scores: give an array (n, {len(owner)})."
            )
        if np.shape(weights) != (len(owner), len(owner)):
            raise ValueError(
                f"weights has shape {np.shape(weights)} but must have ({len(owner)}, {len(owner)}):"
                " what each label column adds to each score."
            )
        # A label that pushed its own score would not be a conditional given the others.
        others = np.where(owner[:, None] == owner, 0.0, np.asarray(weights, dtype=np.float64))
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "weights", np.ascontiguousarray(others))
        object.__setattr__(self, "cardinalities", tuple(int(size) for size in cardinalities))
        absent = np.zeros(len(owner)) if floor is None else np.array(floor, dtype=np.float64)
        object.__setattr__(self, "floor", absent)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.base)

    @property
    def network(self) -> Network:
        """What the compiled sampler needs besides the rows."""
        owner = column_owner(self.cardinalities)
        first = np.searchsorted(owner, np.arange(len(self.cardinalities)))
        size = np.array(self.cardinalities, dtype=np.intp)
        column, reached = np.nonzero(self.weights)
        start = np.searchsorted(column, np.arange(len(owner) + 1))
        if len(reached) > _SPARSE * self.weights.size:
            start, reached = start[:0], reached[:0]
        return Network(
            self.weights, first.astype(np.intp), size, self.floor, start.astype(np.intp), reached
        )

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return ``log p(y_i = v | x, y_-i)``, (m, n, K_i), for label vectors (m, n, d)."""
        own = np.flatnonzero(column_owner(self.cardinalities) == i)
        columns = label_columns(labels.reshape(-1, labels.shape[2]), self.cardinalities)
        added = (columns @ self.weights[:, own]).reshape(*labels.shape[:2], len(own))
        scores = self.base[:, own] + added
        if self.cardinalities[i] == 2:
            return np.concatenate([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)], axis=2)
        log_prob: Array = log_softmax(scores, axis=2)
        floor = self.floor[own]
        if not floor.any():
            return log_prob
        mixed: Array = np.log(np.exp(log_prob) * (1.0 - floor.sum()) + floor)
        return mixed

    def rows(self, index: Rows) -> LinearConditionals:
        """Return the conditionals of some of the rows."""
        return LinearConditionals(self.base[index], self.weights, self.cardinalities, self.floor)


# Blocks of rows a thread is given: enough of them to even out rows that flip more than others.
_BLOCKS_PER_THREAD = 4


@dataclass(frozen=True)
class GibbsOptions:
    """How long to sample, and what to keep.

    Attributes
    ----------
    burn_in : int
        Sweeps that are thrown away first.
    n_sweeps : int
        Sweeps that are kept.
    n_best : int
        Number of samples with the highest product of conditionals that decide.
    n_chains : int
        Independent chains a row; the samples of all count.
    """

    burn_in: int = 100
    n_sweeps: int = 500
    n_best: int = 100
    n_chains: int = 1

    def __post_init__(self) -> None:
        for name, least in (("burn_in", 0), ("n_sweeps", 1), ("n_best", 1), ("n_chains", 1)):
            check_integer(name, getattr(self, name), least)


class Run(NamedTuple):
    """What a run gives.

    Attributes
    ----------
    best : (n, e)
        Share of the best samples in which each label column is 1.
    plain : (n, e)
        The same over all samples.
    smooth : (n, e)
        Mean over all samples of each column's probability given the other labels
        (Rao-Blackwell): the same expectation as `plain`, with less noise.
    samples : (n, chains, sweeps, d) or None
        The samples, if asked for.
    reached : (n, q)
        Estimated log-probabilities of the queries.
    """

    best: Array
    plain: Array
    smooth: Array
    samples: NDArray[np.int16] | None
    reached: Array


def run(
    model: Conditionals,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    *,
    order: Indices | None = None,
    queries: Codes | None = None,
    keep_samples: bool = False,
    n_jobs: int | None = None,
) -> Run:
    r"""Run Algorithm 1 on every row, compiled where the conditionals are linear.

    Parameters
    ----------
    keys : (chains, n)
        Random streams.
    evidence : (n, d)
        Known labels, MISSING elsewhere.
    order : (d,), optional
        One order of the labels for all; by default every chain of every row draws its own.
    queries : (n, q, d), optional
        Label vectors whose probability is wanted, MISSING for labels that are not observed.
        With samples y' and K(y' -> y) the probability that a sweep from y' ends at y,

        .. math:: \hat p(y) = \frac1T \sum_{t=1}^{T} K(y^{(t)} \to y)

        (Ritter & Tanner, 1992): never zero, it sums to one over all y, and it converges to the
        distribution the sampler converges to.
    """
    if queries is None:
        queries = np.empty((model.n_rows, 0, len(model.cardinalities)), dtype=np.int32)
    # Two algorithms, not two kinds of one: compiled loops read the arrays of linear conditionals,
    # label by label; others are objects, asked about one label of all rows at once.
    if isinstance(model, LinearConditionals):
        return _run_linear(model, plan, keys, evidence, order, queries, keep_samples, n_jobs)
    return run_reference(model, plan, keys, evidence, order, queries, keep_samples)


def _run_linear(
    model: LinearConditionals,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    order: Indices | None,
    queries: Codes,
    keep_samples: bool,
    n_jobs: int | None,
) -> Run:
    start = init(keys, model, evidence, order)
    n_rows, n_columns = model.base.shape
    n_labels = len(model.cardinalities)
    # Rows come first, so that a block of rows is contiguous.
    labels = np.ascontiguousarray(start.labels.transpose(1, 0, 2))
    orders = np.ascontiguousarray(start.order.transpose(1, 0, 2))
    row_keys = np.ascontiguousarray(keys.T)
    # Writeable too, even if never written: a read-only array would be compiled for anew.
    known = np.require(evidence, np.int32, ["C", "W"])
    queries = np.require(queries, np.int32, ["C", "W"])
    shares = np.empty((n_rows, 3, n_columns))
    kept = plan.n_chains if keep_samples else 0
    samples = np.empty((n_rows, kept, plan.n_sweeps, n_labels), dtype=np.int16)
    reached = np.empty(queries.shape[:2])
    counts = (int(plan.burn_in), int(plan.n_sweeps), int(plan.n_best))
    net = model.network

    def work(part: slice) -> None:
        run_rows(
            model.base[part],
            labels[part],
            orders[part],
            known[part],
            row_keys[part],
            net,
            counts,
            shares[part],
            samples[part],
            queries[part],
            reached[part],
        )

    map_threads(work, _row_blocks(n_rows, n_jobs), n_jobs, lambda: None)
    best, plain, smooth = shares[:, 0], shares[:, 1], shares[:, 2]
    return Run(best, plain, smooth, samples if keep_samples else None, reached)


def _row_blocks(n_rows: int, n_jobs: int | None) -> Sequence[slice]:
    n_blocks = max(1, min(n_rows, n_threads(n_jobs) * _BLOCKS_PER_THREAD))
    edges = np.linspace(0, n_rows, n_blocks + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


class BestSamples:
    """The n samples of highest score seen so far, for each row: the end of Algorithm 1.

    Parameters
    ----------
    n_rows, n_best, n_labels : int
        Rows n, samples to keep, labels d.
    """

    def __init__(self, n_rows: int, n_best: int, n_labels: int) -> None:
        self.scores = np.empty((n_rows, n_best))
        self.labels = np.empty((n_rows, n_best, n_labels), dtype=np.int32)
        self.filled = 0

    def offer(self, score: Array, labels: Codes) -> None:
        """Offer every row a sample: score (n,) and labels (n, d)."""
        if self.filled < self.scores.shape[1]:
            self.scores[:, self.filled] = score
            self.labels[:, self.filled] = labels
            self.filled += 1
            return
        lowest = self.scores.argmin(axis=1)
        rows = np.flatnonzero(self.scores[np.arange(len(score)), lowest] < score)
        self.scores[rows, lowest[rows]] = score[rows]
        self.labels[rows, lowest[rows]] = labels[rows]

    def column_shares(self, cardinalities: Sequence[int]) -> Array:
        """Share (n, e) of the kept samples in which each label column is 1."""
        kept = self.labels[:, : self.filled]
        columns = label_columns(kept.reshape(-1, kept.shape[2]), cardinalities)
        shares: Array = columns.reshape(len(kept), self.filled, -1).mean(axis=1)
        return shares


def run_reference(
    model: Conditionals,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    order: Indices | None,
    queries: Codes,
    keep_samples: bool,
) -> Run:
    """Run conditionals of any kind; for linear ones, the same samples as the compiled path."""
    n_rows, n_labels = evidence.shape
    n_columns = len(column_owner(model.cardinalities))
    state = init(keys, model, evidence, order)
    plain, smooth = np.zeros((n_rows, n_columns)), np.zeros((n_rows, n_columns))
    shape = (plan.n_sweeps, plan.n_chains, n_rows)
    # Chain by chain in the end, as the compiled path meets them: so ties fall the same way.
    scores = np.empty(shape)
    samples = np.empty((*shape, n_labels), dtype=np.int16)
    reached = np.empty((*shape, queries.shape[1]))
    for number in range(plan.burn_in + plan.n_sweeps):
        state, _ = step(keys, state, model, evidence)
        if number < plan.burn_in:
            continue
        kept = number - plan.burn_in
        found = evaluate(state.labels, model, evidence)
        scores[kept], samples[kept] = found.log_product, state.labels
        smooth += found.columns.sum(axis=0)
        for labels in state.labels:
            plain += label_columns(labels, model.cardinalities)
        if queries.shape[1]:
            reached[kept] = log_transition(state, model, evidence, queries)
    best = BestSamples(n_rows, plan.n_best, n_labels)
    for chain in range(plan.n_chains):
        for kept in range(plan.n_sweeps):
            best.offer(scores[kept, chain], samples[kept, chain].astype(np.int32))
    n_samples = plan.n_chains * plan.n_sweeps
    every = reached.reshape(n_samples, n_rows, queries.shape[1])
    log_mean: Array = log_sum_exp(every, axis=0) - np.log(n_samples)
    return Run(
        best.column_shares(model.cardinalities),
        plain / n_samples,
        smooth / n_samples,
        np.ascontiguousarray(samples.transpose(2, 1, 0, 3)) if keep_samples else None,
        log_mean,
    )
