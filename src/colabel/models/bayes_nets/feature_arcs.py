"""Which labels are the parents of a feature, when features are independent given the labels.

Then the parents of different features do not constrain each other and no cycle can arise, so the
best set of labels of every feature is found by scoring them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.special import gammaln

from colabel.core.arrays import Array, Codes, Indices
from colabel.joint.lds.sets import FeatureColumns, sums_by_state

__all__ = ["ArcScore", "choose_label_parents", "label_state"]

ArcScore = Literal["bdeu", "bic"]

# Another parent must gain more than rounding errors.
_GAIN = 1e-9


def choose_label_parents(
    vectors: Codes,
    values: Array,
    columns: FeatureColumns,
    cardinalities: tuple[int, ...],
    *,
    max_parents: int = 2,
    score: ArcScore = "bic",
    equivalent_sample_size: float = 1.0,
) -> tuple[tuple[int, ...], ...]:
    r"""Find the set of at most `max_parents` labels with the best score for every feature.

    With :math:`n_{sv}` rows in state s of the parents and with value v of the feature, of S states
    and V values,

    .. math::
        BDeu &= \sum_s \log \frac{\Gamma(a / S)}{\Gamma(a / S + n_s)}
            + \sum_{sv} \log \frac{\Gamma(a / SV + n_{sv})}{\Gamma(a / SV)} \\
        BIC &= \sum_{sv} n_{sv} \log \frac{n_{sv}}{n_s} - \frac{S (V - 1)}{2} \log n

    Parameters
    ----------
    vectors : (U, d) array of int
        Distinct label vectors.
    values : (U, C) array
        Weight of the rows with each label vector and each value of each feature.
    columns : FeatureColumns
    cardinalities : tuple of d int
    max_parents : int
    score : {"bdeu", "bic"}
    equivalent_sample_size : float
        a, the weight of BDeu's prior.

    Returns
    -------
    tuple of p tuples of int
        Parents of every feature, ascending; of sets with the same score, the first by size.

    Examples
    --------
    >>> import numpy as np
    >>> vectors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> values = np.array([[9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [1.0, 9.0]])
    >>> choose_label_parents(vectors, values, FeatureColumns((2,)), (2, 2))
    ((0,),)
    """
    best = np.full(columns.n_features, -np.inf)
    chosen: list[tuple[int, ...]] = [()] * columns.n_features
    for parents in _label_sets(len(cardinalities), max_parents):
        state, n_states = label_state(vectors, parents, cardinalities)
        counts = sums_by_state(state, n_states, values)
        if score == "bdeu":
            found = _bdeu(counts, columns, equivalent_sample_size)
        else:
            found = _bic(counts, columns)
        for j in np.flatnonzero(found > best + _GAIN):
            best[j], chosen[j] = found[j], parents
    return tuple(chosen)


def label_state(
    codes: Codes, labels: tuple[int, ...], cardinalities: tuple[int, ...]
) -> tuple[Indices, int]:
    """State (m,) of some labels together in codes (m, d), the last changing fastest; states."""
    state, n_states = np.zeros(len(codes), dtype=np.intp), 1
    for i in labels:
        state = state * cardinalities[i] + codes[:, i]
        n_states *= cardinalities[i]
    return state, n_states


def _label_sets(n_labels: int, max_parents: int) -> Iterator[tuple[int, ...]]:
    """Sets of labels, the smaller ones first."""
    for size in range(min(n_labels, max_parents) + 1):
        yield from itertools.combinations(range(n_labels), size)


def _per_feature(table: Array, columns: FeatureColumns) -> Array:
    """Sum columns (m, C) over each feature's values: (m, p)."""
    found: Array = np.add.reduceat(table, columns.first[:-1], axis=1)
    return found


def _bdeu(counts: Array, columns: FeatureColumns, weight: float) -> Array:
    """BDeu of every feature, (p,)."""
    n_states = len(counts)
    of_state = weight / n_states
    of_cell = np.repeat(of_state / np.array(columns.n_values), columns.n_values)
    cells = _per_feature(gammaln(of_cell + counts) - gammaln(of_cell), columns)
    totals = _per_feature(counts, columns)
    found: Array = (cells + gammaln(of_state) - gammaln(of_state + totals)).sum(axis=0)
    return found


def _bic(counts: Array, columns: FeatureColumns) -> Array:
    """BIC of every feature, (p,)."""
    totals = _per_feature(counts, columns)
    shares = counts / np.repeat(np.where(totals > 0, totals, 1.0), columns.n_values, axis=1)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    fit = _per_feature(counts * logs, columns).sum(axis=0)
    n_free = len(counts) * (np.array(columns.n_values) - 1)
    penalty: Array = 0.5 * n_free * np.log(totals.sum(axis=0))
    return np.asarray(fit - penalty, dtype=np.float64)
