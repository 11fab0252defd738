"""Gibbs sampling of label vectors: `init` and `step` for conditionals of any kind.

This is the reference: plain NumPy, vectorised over chains and rows. Linear conditionals have a
compiled twin (`kernels`) that draws the same samples from the same streams.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Codes, Indices, Keys, Rows
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
