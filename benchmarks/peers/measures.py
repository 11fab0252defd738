"""The measures of a method over all held-out rows, and errors of differences between two methods.

Every measure is a smooth function of means over rows, so that its error has one form: with the
influence of row i, psi_i (the row's value for a mean, the linearised change for an F1), the paired
standard error of the difference of two methods on the same n rows is::

    s = sqrt( sum_i (d_i - mean d)^2 / (n - 1) ) / sqrt(n),    d_i = psi_i(one) - psi_i(other)

It says how far the difference may be off for other rows to be predicted, given the fitted models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.peers.store import FoldedData, Record
from colabel.core.arrays import Array, Codes


class Measured(NamedTuple):
    """An estimate, and the influence (n,) of each row on it."""

    value: float
    influence: Array


@dataclass(frozen=True, eq=False)
class Held:
    """What one method said of all n rows, each held out once.

    Attributes
    ----------
    measures : {name: Measured}
    n_zero : int
        Rows whose true vector had probability zero before it was given a share.
    cpu_seconds, peak_mb : float
        Mean over the folds, and largest.
    """

    measures: dict[str, Measured]
    n_zero: int
    cpu_seconds: float
    peak_mb: float


# In the order of the tables; of those in `LOWER` less is better.
MEASURES = (
    "exact match",
    "Hamming accuracy",
    "micro F1",
    "macro F1",
    "row F1",
    "log-loss",
)
LOWER = frozenset({"log-loss"})


def held_out(data: FoldedData, records: Sequence[Record]) -> Held:
    """Put some folds of a method together, in the order of the rows, and measure them."""
    rows = np.concatenate([record.rows for record in records])
    order = np.argsort(rows)

    def gathered(name: str) -> Array:
        found: Array = np.concatenate([getattr(record, name) for record in records])[order]
        return found

    true = data.codes[rows[order]]
    subset, hamming = gathered("subset"), gathered("hamming")
    cells, micro, macro = (
        f1_cells(true, gathered(name).astype(np.int32), data.cardinalities)
        for name in ("f1", "micro_f1", "macro_f1")
    )
    measures = {
        "exact match": _mean((subset == true).all(axis=1)),
        "Hamming accuracy": _mean((hamming == true).mean(axis=1)),
        "micro F1": micro_f1(*micro),
        "macro F1": macro_f1(*macro, data.cardinalities),
        "row F1": _mean(row_f1(*cells)),
        "log-loss": _mean(-gathered("log_prob")),
    }
    return Held(
        measures,
        int(gathered("zero").sum()),
        float(np.mean([record.cpu_seconds for record in records])),
        max(record.peak_mb for record in records),
    )


def paired_error(one: Measured, other: Measured) -> float:
    """Standard error of the difference of a measure between two methods on the same rows."""
    difference = one.influence - other.influence
    return float(difference.std(ddof=1) / np.sqrt(len(difference)))


def f1_cells(true: Codes, decided: Codes, cardinalities: Sequence[int]) -> tuple[Array, Array]:
    """2 tp and 2 tp + fp + fn of each row and label, (n, c) each.

    A 0/1 label is one column, a variable of more values (or any, among such) one for each value.
    """
    if set(cardinalities) == {2}:
        here, said = true.astype(np.float64), decided.astype(np.float64)
    else:
        here, said = (_one_hot(codes, cardinalities) for codes in (true, decided))
    return 2.0 * here * said, here + said


def micro_f1(shared: Array, total: Array) -> Measured:
    """F = sum shared / sum total over all cells."""
    return _ratio(shared.sum(axis=1), total.sum(axis=1))


def macro_f1(shared: Array, total: Array, cardinalities: Sequence[int]) -> Measured:
    """Mean F1 of the labels; of a variable with more values, the mean over those that occur."""
    zero_one = set(cardinalities) == {2}
    widths = [1 if zero_one else n_values for n_values in cardinalities]
    values, influences, start = [], [], 0
    for width in widths:
        columns = range(start, start + width)
        start += width
        # a 0/1 label that is neither there nor said counts 0, as in scikit-learn
        counted = [j for j in columns if zero_one or total[:, j].any()]
        parts = [_ratio(shared[:, j], total[:, j]) for j in counted]
        values.append(np.mean([part.value for part in parts]))
        influences.append(np.mean([part.influence for part in parts], axis=0))
    return Measured(float(np.mean(values)), np.mean(influences, axis=0))


def row_f1(shared: Array, total: Array) -> Array:
    """F1 of each row, (n,); no label there and none said is right, 1."""
    both = total.sum(axis=1)
    ratio: Array = np.where(both > 0, shared.sum(axis=1) / np.maximum(both, 1.0), 1.0)
    return ratio


def _mean(values: Array) -> Measured:
    values = np.asarray(values, dtype=np.float64)
    return Measured(float(values.mean()), values)


def _ratio(above: Array, below: Array) -> Measured:
    """A ratio of sums; a row changes it by (above_i - F below_i) / mean below."""
    if not below.any():
        return Measured(0.0, np.zeros(len(below)))
    value = float(above.sum() / below.sum())
    return Measured(value, (above - value * below) / below.mean())


def _one_hot(codes: Codes, cardinalities: Sequence[int]) -> Array:
    columns = [codes[:, [j]] == np.arange(k) for j, k in enumerate(cardinalities)]
    return np.concatenate(columns, axis=1).astype(np.float64)
