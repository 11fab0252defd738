"""From a grown forest to the parts of its mixture, all measured out of bag."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.hashing import row_keys
from colabel.core.numeric import log_sum_exp
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.learn.forest.forest import Grown
from colabel.learn.pool import mixture_weights
from colabel.learn.row_chance import copies
from colabel.learn.structure.branching import maximum_branching
from colabel.models.forest._evidence import Evidence
from colabel.models.forest._parts import PARTS, VectorPool, members, smooth_tables
from colabel.models.forest._row_vectors import RowVectors
from colabel.models.forest._vector_forest import VectorForest

LEAVES, INDEPENDENT, TREE, POOL = range(len(PARTS))
# of the tables of a tree's edges in all rows, several of which are in memory at once
_MOST_CELLS = 1e8


class Learned(NamedTuple):
    """What a forest has learned.

    Attributes
    ----------
    forest : VectorForest
    parents : (d,)
        Parent of each label in the tree, -1 for roots.
    gains : (d, d)
        What two labels gain by being taken together, nats per row out of bag.
    exponents : (5,)
        Of the pool.
    weights : (4,)
        Of the parts.
    log_loss : float or None
        Mean -log P(y | x) of rows out of bag; None if there are none.
    evidence : Evidence
        What its trees say of the rows, each by those that have not seen it.
    with_copies : Evidence
        The same, where of a row that stands for several only one is left out.
    """

    forest: VectorForest
    parents: Indices
    gains: Array
    exponents: Array
    weights: Array
    log_loss: float | None
    evidence: Evidence
    with_copies: Evidence


def learn(
    grown: Grown, data: TrainingData, rows: RowVectors, space: LabelSpace, n_jobs: int | None
) -> Learned:
    """Fill the leaves of a forest with label vectors, and learn its parts and their weights."""
    forest, evidence, with_copies, own = _filled(grown, data, rows, n_jobs)
    codes, weight = data.codes, data.row_weights
    gains = evidence.pair_gains(codes, weight, n_jobs)
    parents = maximum_branching(gains, np.zeros(data.n_labels))
    sizes = np.asarray(data.cardinalities)
    cells = float(sizes @ np.where(parents < 0, 0, sizes[parents]))
    if data.n_rows * cells > _MOST_CELLS:
        parents = np.full_like(parents, -1)
    pool = VectorPool(evidence, smooth_tables(evidence, parents), parents)
    exponents = pool.exponents(own, weight)
    there = available(parents)
    log_prob = np.full((data.n_rows, len(PARTS)), -np.inf)
    for part, joint in zip(
        np.flatnonzero(there),
        members(evidence, space, parents, exponents, there),
        strict=True,
    ):
        log_prob[:, part] = joint.log_prob_codes(codes)
    listed = evidence.listed
    weights = np.zeros(len(PARTS))
    weights[there] = _weights(log_prob[listed][:, there], weight[listed])
    log_loss = None
    if listed.any():
        with np.errstate(divide="ignore"):
            of_rows = log_sum_exp(log_prob[listed] + np.log(weights))
        log_loss = float(-(weight[listed] @ of_rows) / weight[listed].sum())
    return Learned(forest, parents, gains, exponents, weights, log_loss, evidence, with_copies)


def available(parents: Indices) -> Flags:
    """Which parts there are (4,): a tree without edges is the independent part again."""
    found = np.ones(len(PARTS), dtype=bool)
    found[TREE] = (parents >= 0).any()
    return found


def _weights(log_prob: Array, weight: Array) -> Array:
    """Weights of the available parts, of which the last but one thinks every vector possible.

    To this one counts one row more, so that no label vector is impossible.
    """
    if not len(log_prob):
        return np.full(log_prob.shape[1], 1.0 / log_prob.shape[1])
    total = weight.sum()
    found = total * mixture_weights(log_prob, weight)
    found[-2] += 1.0
    weights: Array = found / (total + 1.0)
    return weights


def _filled(
    grown: Grown, data: TrainingData, rows: RowVectors, n_jobs: int | None
) -> tuple[VectorForest, Evidence, Evidence, sp.csr_array]:
    """Return the filled forest, what its trees say of rows they have not seen, and rows' own part.

    The last (n, V) is what of the counts of vectors is the row itself, which is left out of its own
    leaves and counts. A row of weight w stands for w copies, all of which are left out; but for w
    rows, of which it is one, where rows of equal features have other labels too.
    Rows with missing labels are completed, then completed again as their own lists say.
    """
    leaves = grown.forest.leaves(data.X, n_jobs)
    weight = data.row_weights
    _, alike = copies(row_keys(data.X), data.codes)
    own_weight = np.where(alike, weight, np.minimum(weight, 1.0))

    def fill(rows: RowVectors) -> tuple[VectorForest, sp.csr_array]:
        forest = VectorForest.of(grown.forest, data.cardinalities, leaves, rows, weight)
        return forest, forest.out_of_bag_lists(grown, leaves, rows, own_weight, n_jobs)

    forest, lists = fill(rows)
    if (data.codes == MISSING).any():
        rows = rows.informed(lists)
        forest, lists = fill(rows)
    own = sp.csr_array(sp.diags_array(own_weight) @ rows.shares)
    evidence = Evidence(lists, forest.vectors, forest.counts, data.cardinalities, own)
    with_copies = evidence
    one = np.minimum(weight, 1.0)
    if (own_weight > one).any():
        # a tree that has seen a copy was grown as it would be without the row
        others = Grown(grown.forest, np.where(weight[:, None] >= 2.0, 0, grown.in_bag))
        lists = forest.out_of_bag_lists(others, leaves, rows, one, n_jobs)
        itself = sp.csr_array(sp.diags_array(one) @ rows.shares)
        with_copies = replace(evidence, lists=lists, own=itself)
    return forest, evidence, with_copies, own
