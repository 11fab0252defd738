"""Gibbs sampling of label vectors, for conditionals of any kind.

Linear conditionals, and those of pairwise fields, which are linear too, are sampled by compiled
code (`kernels`); others, which are objects, by plain NumPy over all chains and rows at once. Both
draw the same samples from the same streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from colabel.core.arrays import (
    Array,
    Codes,
    Flags,
    Indices,
    Keys,
    Rows,
    column_owner,
    label_columns,
    row_slices,
)
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_integer
from colabel.core.threads import map_threads, n_threads
from colabel.joint.gibbs.kernels import Network, random_labels, random_orders, run_rows, uniforms
from colabel.labels import MISSING

# Blocks of rows a thread is given: enough of them to even out rows that flip more than others.
_BLOCKS_PER_THREAD = 4
# Share of weights that are not zero up to which going through them one by one pays.
_SPARSE = 0.25


class Conditionals(Protocol):
    """The conditionals ``p(y_i | x, y_-i)`` of d labels for each of n rows; enough for Gibbs."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of each label."""

    @property
    def n_rows(self) -> int:
        """Number of rows n."""

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return ``log p(y_i = v | x, y_-i)``, (m, n, K_i), for m label vectors (m, n, d) per row.

        The entry of label i itself must not matter.
        """

    def rows(self, index: Rows) -> Conditionals:
        """Return the conditionals of some of the rows."""


class Compiled(NamedTuple):
    """Linear conditionals as the compiled sampler reads them.

    Attributes
    ----------
    cardinalities : (d,)
    base : (n, e)
        Scores without labels.
    weights : (n, N) or (1, N)
        What columns add, see `Network`.
    net : Network
    """

    cardinalities: tuple[int, ...]
    base: Array
    weights: Array
    net: Network

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.base)

    def rows(self, index: Rows) -> Compiled:
        """Return some of the rows."""
        weights = self.weights if len(self.weights) == 1 else self.weights[index]
        return self._replace(base=self.base[index], weights=weights)


def network_of(
    cardinalities: Sequence[int], start: Indices, targets: Indices, floor: Array
) -> Network:
    """Return a network of labels with these numbers of values."""
    owner = column_owner(cardinalities)
    first = np.searchsorted(owner, np.arange(len(cardinalities)))
    sizes = np.array(cardinalities, dtype=np.intp)
    return Network(first.astype(np.intp), sizes, floor, start.astype(np.intp), targets)


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
        self.base, self.weights = base, np.ascontiguousarray(others)
        self.cardinalities = tuple(int(size) for size in cardinalities)
        self.floor = np.zeros(len(owner)) if floor is None else np.array(floor, dtype=np.float64)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.base)

    @property
    def compiled(self) -> Compiled:
        """The arrays of the compiled sampler."""
        n_columns = len(self.weights)
        column, targets = np.nonzero(self.weights)
        start = np.searchsorted(column, np.arange(n_columns + 1))
        flat = self.weights[column, targets]
        if len(targets) > _SPARSE * self.weights.size:
            flat, targets = self.weights.ravel(), targets[:0]
            start = n_columns * np.arange(n_columns + 1)
        net = network_of(self.cardinalities, start, targets, self.floor)
        return Compiled(self.cardinalities, self.base, flat[None], net)

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
        Independent chains per row; the samples of all chains count.
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
    log_prob : (n, q)
        Estimated log-probabilities of the queries.
    samples : (n, chains, sweeps, d), or (n, 0, ...)
        The samples, if asked for.
    """

    best: Array
    plain: Array
    smooth: Array
    log_prob: Array
    samples: NDArray[np.int16]


def run(
    model: Conditionals | Compiled,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    *,
    order: Indices | None = None,
    queries: Codes | None = None,
    keep_samples: bool = False,
    n_jobs: int | None = None,
    numbers_at_once: int = 1 << 25,
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
    numbers_at_once : int
        Labels in the samples of the rows that are sampled together.
    """
    n_rows, n_labels = evidence.shape
    if queries is None:
        queries = np.empty((n_rows, 0, n_labels), dtype=np.int32)
    # Two algorithms, not two kinds of one: compiled loops read the arrays of linear conditionals,
    # label by label; others are objects, evaluated for one label of all rows at once.
    linear = model.compiled if isinstance(model, LinearConditionals) else model
    parts = []
    for part in row_slices(n_rows, numbers_at_once, plan.n_chains * plan.n_sweeps * n_labels):
        own = linear if part == slice(0, n_rows) else linear.rows(part)
        given = keys[:, part], evidence[part], order, queries[part]
        if isinstance(own, Compiled):
            samples, products, smooth, log_prob = _sampled(own, plan, *given, n_jobs)
        else:
            samples, products, smooth, log_prob = reference(own, plan, *given)
        flat = samples.reshape(len(samples), plan.n_chains * plan.n_sweeps, n_labels)
        # the n samples of highest score, as the end of Algorithm 1 keeps them: the first of equals
        best = np.argsort(-products.reshape(flat.shape[:2]), axis=1, kind="stable")
        chosen = np.take_along_axis(flat, best[:, : plan.n_best, None], axis=1)
        shares = (column_shares(some, linear.cardinalities) for some in (chosen, flat))
        kept = samples if keep_samples else samples[:, :0]
        parts.append((*shares, smooth, log_prob, kept))
    return Run(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def interleaved(found: Run, size: int) -> Codes:
    """Return the first samples of all chains as draws (size, n, d)."""
    drawn = found.samples.transpose(2, 1, 0, 3)  # (sweeps, chains, n, d)
    n_draws = drawn.shape[0] * drawn.shape[1]
    return drawn.reshape(n_draws, *drawn.shape[2:])[:size].astype(np.int32)


def column_shares(labels: NDArray[np.int16], cardinalities: Sequence[int]) -> Array:
    """Share (n, e) of label vectors (n, m, d) in which each column is 1."""
    columns = [
        (labels[:, :, i] == value).mean(axis=1)
        for i, size in enumerate(cardinalities)
        for value in ((1,) if size == 2 else range(size))
    ]
    return np.stack(columns, axis=1)


def start(
    keys: Keys, cardinalities: tuple[int, ...], evidence: Codes, order: Indices | None
) -> tuple[Codes, Indices]:
    """Draw label vectors to start from, and orders of the sweeps, both (chains, n, d)."""
    labels = np.where(evidence == MISSING, random_labels(keys, cardinalities), evidence)
    if order is None:
        return labels.astype(np.int32), random_orders(keys, labels.shape[2])
    return labels.astype(np.int32), np.broadcast_to(order, labels.shape)


def _sampled(
    model: Compiled,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    order: Indices | None,
    queries: Codes,
    n_jobs: int | None,
) -> tuple[NDArray[np.int16], Array, Array, Array]:
    """Samples (n, chains, sweeps, d), log-products, mean conditionals (n, e), queries (n, q)."""
    n_rows, n_labels = evidence.shape
    # Rows come first, so that a block of rows is contiguous.
    first, way = start(keys, model.cardinalities, evidence, order)
    labels = np.ascontiguousarray(first.transpose(1, 0, 2))
    orders = np.ascontiguousarray(way.transpose(1, 0, 2))
    row_keys = np.ascontiguousarray(keys.T)
    # Writeable too, even if never written: a read-only array would be compiled for anew.
    base, weights = (np.require(a, np.float64, ["C", "W"]) for a in (model.base, model.weights))
    known, asked = (np.require(codes, np.int32, ["C", "W"]) for codes in (evidence, queries))
    shape = (n_rows, plan.n_chains, plan.n_sweeps)
    samples, products = np.empty((*shape, n_labels), dtype=np.int16), np.empty(shape)
    smooth, log_prob = np.empty(base.shape), np.empty(asked.shape[:2])

    def work(rows: slice) -> None:
        run_rows(
            base[rows],
            weights if len(weights) == 1 else weights[rows],
            labels[rows],
            orders[rows],
            known[rows],
            row_keys[rows],
            model.net,
            int(plan.burn_in),
            samples[rows],
            products[rows],
            smooth[rows],
            asked[rows],
            log_prob[rows],
        )

    n_blocks = max(1, min(n_rows, n_threads(n_jobs) * _BLOCKS_PER_THREAD))
    edges = np.linspace(0, n_rows, n_blocks + 1).astype(int).tolist()
    map_threads(work, [slice(a, b) for a, b in pairwise(edges)], n_jobs, lambda: None)
    return samples, products, smooth, log_prob


# Conditionals of any kind


def _visits(
    model: Conditionals, labels: Codes, order: Indices, free: Flags
) -> Iterator[tuple[int, int, Flags, Array]]:
    """Yield the labels (m, n, d) that a sweep draws: place, label, where it is due, log_prob.

    One label is due in all rows where they share their order.
    """
    for place in range(labels.shape[2]):
        due = order[..., place]
        for i in np.unique(due).tolist():
            now = (due == i) & free[..., i]
            if now.any():
                yield place, i, now, model.log_prob(labels, i)


def draw(log_prob: Array, uniform: Array) -> Indices:
    """Draw values from log_prob (..., K) with uniform numbers (...).

    Two values are drawn as in Algorithm 1, 1 if u < p(y = 1); more by the distribution function.
    """
    if log_prob.shape[-1] == 2:
        return (uniform < np.exp(log_prob[..., 1])).astype(np.intp)
    cumulated = np.exp(log_prob).cumsum(axis=-1)
    drawn: Indices = (uniform[..., None] >= cumulated[..., :-1]).sum(axis=-1)
    return drawn


def evaluate(labels: Codes, model: Conditionals, evidence: Codes) -> tuple[Array, Array]:
    """Evaluate every conditional at label vectors (m, n, d).

    Returns
    -------
    log_product : (m, n)
        Sum of ``log p(y_i | x, y_-i)`` over the labels that are not known.
    columns : (m, n, e)
        Conditional probability of each label column (`label_columns`); 0 or 1 for known labels.
    """
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
    return log_product, np.concatenate(columns, axis=2)


def transition(
    labels: Codes, order: Indices, model: Conditionals, evidence: Codes, queries: Codes
) -> Array:
    """Log-probability (chains, n, q) that one more sweep ends at given label vectors (n, q, d).

    The sweep visits the observed labels of a query only. Its probability is the product, in the
    order of the sweep, of the conditionals of the query's values given what the sweep has already
    set to the query and what it has not reached yet.
    """
    n_chains, n_rows, _ = labels.shape
    n_queries = queries.shape[1]
    wanted = np.tile(np.moveaxis(queries, 1, 0), (n_chains, 1, 1))  # (chains q, n, d)
    labels, order = np.repeat(labels, n_queries, axis=0), np.repeat(order, n_queries, axis=0)
    asked, known = wanted != MISSING, evidence != MISSING
    total = np.where((asked & known & (wanted != evidence)).any(axis=2), -np.inf, 0.0)
    for _, i, now, log_prob in _visits(model, labels, order, asked & ~known):
        value = np.maximum(wanted[..., i, None], 0).astype(np.intp)
        total += np.where(now, np.take_along_axis(log_prob, value, axis=2)[..., 0], 0.0)
        labels[..., i] = np.where(now, wanted[..., i], labels[..., i])
    return np.moveaxis(total.reshape(n_chains, n_queries, n_rows), 1, 2)


def reference(
    model: Conditionals,
    plan: GibbsOptions,
    keys: Keys,
    evidence: Codes,
    order: Indices | None,
    queries: Codes,
) -> tuple[NDArray[np.int16], Array, Array, Array]:
    """Do what `_sampled` does, for conditionals of any kind."""
    labels, orders = start(keys, model.cardinalities, evidence, order)
    free = np.broadcast_to(evidence == MISSING, labels.shape)
    shape = (plan.n_sweeps, *labels.shape[:2])
    products, samples = np.empty(shape), np.empty((*shape, labels.shape[2]), dtype=np.int16)
    found = np.empty((*shape, queries.shape[1]))
    smooth = np.zeros((len(evidence), len(column_owner(model.cardinalities))))
    for number in range(-plan.burn_in, plan.n_sweeps):
        at = (number + plan.burn_in) * labels.shape[2]
        for place, i, now, log_prob in _visits(model, labels, orders, free):
            drawn = draw(log_prob, uniforms(keys, at + place))
            labels[..., i] = np.where(now, drawn, labels[..., i])
        if number >= 0:
            products[number], columns = evaluate(labels, model, evidence)
            samples[number] = labels
            smooth += columns.sum(axis=0)
            if queries.shape[1]:
                found[number] = transition(labels, orders, model, evidence, queries)
    n_samples = plan.n_chains * plan.n_sweeps
    every = found.reshape(n_samples, len(evidence), queries.shape[1])
    return (
        np.ascontiguousarray(samples.transpose(2, 1, 0, 3)),
        np.ascontiguousarray(products.transpose(2, 1, 0)),
        smooth / n_samples,
        log_sum_exp(every, axis=0) - np.log(n_samples),
    )
