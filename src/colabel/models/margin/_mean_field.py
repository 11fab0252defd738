r"""Decoding by mean field: the independent labels nearest to the distribution of the code.

Errors of the code and classifiers together say

.. math:: \log P(y) = -\tfrac12 (y - \hat y)^\top P (y - \hat y) + \langle o, y \rangle + const,

and independent labels with :math:`q_j = Q(y_j = 1)` that have the least Kullback-Leibler divergence
to it satisfy, each given the others,

.. math:: \log \frac{q_j}{1 - q_j} = o_j - \tfrac12 P_{jj} + P_{jj} \hat y_j
          - \sum_{l \ne j} P_{jl} (q_l - \hat y_l).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from colabel.core.arrays import Array

__all__ = ["mean_field"]

_MOST_SWEEPS = 200
_CHANGE = 1e-6


def mean_field(
    precision: Array, fitted: Array, log_odds: Array, max_sweeps: int = _MOST_SWEEPS
) -> Array:
    """Probability (n, q) of each label, from the classifiers' by sweeps over the labels.

    No step raises the divergence; where it ends depends on where it began.

    Parameters
    ----------
    precision : (q, q)
        P, positive semidefinite.
    fitted, log_odds : (n, q)
        Regressions of the label vectors, and the classifiers' log-odds o.
    max_sweeps : int

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.models.margin._mean_field import mean_field
    >>> mean_field(np.eye(1), np.array([[0.5]]), np.array([[0.0]]))
    array([[0.5]])
    """
    prob: Array = expit(log_odds)
    diagonal = np.diag(precision)
    alone = log_odds + diagonal * (fitted - 0.5)
    for _ in range(max_sweeps):
        change = 0.0
        for j in range(precision.shape[0]):
            away = prob - fitted
            others = away @ precision[:, j] - diagonal[j] * away[:, j]
            own = expit(alone[:, j] - others)
            change = max(change, float(np.abs(own - prob[:, j]).max(initial=0.0)))
            prob[:, j] = own
        if change < _CHANGE:
            break
    return prob
