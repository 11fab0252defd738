"""Log-odds that are linear in the features: what a model with such conditionals says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from colabel.core.arrays import Array


@dataclass(frozen=True)
class LinearLogOdds:
    r"""Log-odds of every label given the others, for labels of two values.

    .. math:: \log \frac{P(y_i = 1 \mid x, y_{-i})}{P(y_i = 0 \mid x, y_{-i})}
        = b_i + w_i \cdot x + \sum_j u_{ij}(x) \, (y_j - o_j)

    with b and w taken where the other labels are at a point of reference o, which may lie between
    their values.

    Attributes
    ----------
    coef : (d, p)
        w, for the others at the point of reference.
    intercept : (d,)
        b, likewise.
    weights : (d, d)
        u at one row x; the diagonal is zero.
    """

    coef: Array
    intercept: Array
    weights: Array
