"""Which labels depend on each other given the features: measured on a joint, pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.joint.base import Joint
from colabel.joint.sizes import N_DRAWS, draws_of


@dataclass(frozen=True, eq=False)
class LabelDependence:
    r"""How much two labels say about each other, given x, averaged over rows.

    Attributes
    ----------
    labels : (m,) array of int
        Positions of the labels that were looked at.
    nats : (m, m)
        Conditional mutual information

        .. math:: I(y_i; y_j \mid x) = \frac1n \sum_r \sum_{a, b} P_r(a, b)
            \log \frac{P_r(a, b)}{P_r(a) P_r(b)},

        P_r being the joint of row r; 0 on the diagonal.
    given_on, given_off : (m, m)
        For labels of two values, P(y_j = 1 | y_i = 1, x) and P(y_j = 1 | y_i = 0, x), averaged
        over rows with weights P_r(y_i = 0) P_r(y_i = 1): a row that is sure of label i says
        nothing about what it would mean for label j. Their difference is the slope of y_j over
        y_i within rows. NaN for other labels.
    """

    labels: Indices
    nats: Array
    given_on: Array
    given_off: Array


def label_dependence(joint: Joint, labels: Sequence[int] | None = None) -> LabelDependence:
    """Measure the dependence of every pair of labels in a joint.

    Where the joint's sums are exact, so is this. Otherwise pairs are counted in 1000 draws of each
    row, from a fixed seed, less what chance alone would give: (K_i - 1)(K_j - 1) / 2000 nats.

    Parameters
    ----------
    joint : Joint
        Of n rows.
    labels : sequence of m int, optional
        Positions of the labels to look at; by default all.

    Returns
    -------
    LabelDependence

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Tree, label_dependence
    >>> from colabel.labels import LabelSpace
    >>> zero_one = np.array([0, 1])
    >>> space = LabelSpace(("rain", "wet"), (zero_one, zero_one), "matrix")
    >>> rain = np.log([[[0.6, 0.4]]])
    >>> wet = np.log([[[0.8, 0.2], [0.1, 0.9]]])
    >>> found = label_dependence(Tree(space, parents=[-1, 0], log_tables=[rain, wet]))
    >>> found.nats.round(2)
    array([[0.  , 0.26],
           [0.26, 0.  ]])
    >>> [round(float(p[0, 1]), 2) for p in (found.given_on, found.given_off)]
    [0.9, 0.2]
    """
    chosen = np.arange(joint.space.n_labels) if labels is None else np.asarray(labels, np.intp)
    m, sizes = len(chosen), joint.space.cardinalities
    nats, on, off = np.zeros((m, m)), np.full((m, m), np.nan), np.full((m, m), np.nan)
    exact = "sums" in joint.exact
    table_of = None if exact else _counted(joint, chosen)
    for a, i in enumerate(chosen.tolist()):
        pairs = [(i, j) for j in chosen[:a].tolist()]
        tables = joint.pair_tables(pairs) if table_of is None else [table_of(*p) for p in pairs]
        for b, ((_, j), table) in enumerate(zip(pairs, tables, strict=True)):
            chance = 0.0 if exact else (sizes[i] - 1) * (sizes[j] - 1) / (2 * N_DRAWS)
            nats[a, b] = nats[b, a] = max(0.0, float(_information(table).mean()) - chance)
            if sizes[i] == sizes[j] == 2:
                on[a, b], off[a, b] = _conditional(table)
                on[b, a], off[b, a] = _conditional(table.transpose(0, 2, 1))
    return LabelDependence(chosen, nats, on, off)


def _information(table: Array) -> Array:
    """Mutual information (n,) of tables (n, K_i, K_j)."""
    independent = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = table * (np.log(table) - np.log(independent))
    information: Array = np.where(table > 0, terms, 0.0).sum(axis=(1, 2))
    return information


def _conditional(table: Array) -> tuple[float, float]:
    """P(second = 1 | first = 1) and P(second = 1 | first = 0), pooled over tables (n, 2, 2)."""
    first = table.sum(axis=2)
    # sum_r w_r P_r(1 | 1) with w_r = P_r(0) P_r(1): nothing is divided by a small probability
    weight = float((first[:, 0] * first[:, 1]).sum())
    if weight <= 0.0:
        return float("nan"), float("nan")
    on = float((first[:, 0] * table[:, 1, 1]).sum()) / weight
    off = float((first[:, 1] * table[:, 0, 1]).sum()) / weight
    return on, off


def _counted(joint: Joint, labels: Indices) -> Callable[[int, int], Array]:
    """Return a function from two labels to their frequencies (n, K_i, K_j) in one set of draws."""
    sizes = np.array(joint.space.cardinalities)[labels]
    ends = np.cumsum(sizes)
    starts = dict(zip(labels.tolist(), (ends - sizes).tolist(), strict=True))
    draws = draws_of(joint)[:, :, labels].transpose(1, 0, 2)  # (n, N, m)
    value = np.concatenate([np.arange(size) for size in sizes])
    of_label = np.repeat(np.arange(len(labels)), sizes)
    # counts of all pairs of values at once: the Gram matrix of the draws in one-hot form
    counts = np.empty((joint.n_rows, ends[-1], ends[-1]), dtype=np.float32)
    for row, drawn in enumerate(draws):
        one_hot = (drawn[:, of_label] == value).astype(np.float32)
        counts[row] = one_hot.T @ one_hot

    def frequencies(i: int, j: int) -> Array:
        first = slice(starts[i], starts[i] + joint.space.cardinalities[i])
        second = slice(starts[j], starts[j] + joint.space.cardinalities[j])
        return counts[:, first, second].astype(np.float64) / N_DRAWS

    return frequencies
