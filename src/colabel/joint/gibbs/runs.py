"""Runs of the Gibbs sampler: Algorithm 1 of Guo & Gu (2011) and estimates from its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Indices, Keys
from colabel.core.label_features import column_owner, label_columns
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_integer
from colabel.core.threads import map_threads, n_threads
from colabel.joint.gibbs._linear import LinearConditionals
from colabel.joint.gibbs.kernels import run_rows
from colabel.joint.gibbs.sampler import Conditionals, evaluate, init, log_transition, step

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
