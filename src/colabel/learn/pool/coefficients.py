"""Log-linear pools: several opinions about a few listed vectors, joined by learned exponents."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from colabel.core.arrays import Array, Indices
from colabel.joint.vectors.lists import row_log_sum

_LARGEST = 8.0  # of a coefficient: a list is not sharpened without end


def pool_coefficients(
    features: Array,
    indptr: Indices,
    truth: Indices,
    prior: Array,
    sample_weight: Array | None = None,
    *,
    penalty: float = 1.0,
    least: ArrayLike = -np.inf,
) -> Array:
    r"""Exponents a (F,) of a log-linear pool, by penalised conditional likelihood.

    .. math::
        Q(y \mid x) \propto e^{a^\top f(x, y)}, \quad y \in L(x) \qquad
        \max_a \sum_r s_r \log Q(y_r \mid x_r) - \tfrac{\lambda}{2} \lVert a - a_0 \rVert^2

    With the members' log-probabilities as features this is the logarithmic opinion pool
    ``prod_m P_m(y | x)^{a_m}``, normalised over the list: a concave problem of a few numbers.

    Parameters
    ----------
    features : (N, F)
        Of the listed vectors, lists end to end.
    indptr : (n + 1,)
        List r has the entries ``indptr[r]`` to ``indptr[r + 1]``, at least one.
    truth : (n,)
        Entry of the true vector of each list.
    prior : (F,)
        The coefficients a_0 that little evidence leaves.
    sample_weight : (n,), optional
    penalty : float
        The weight of a row's evidence that the prior is worth.
    least : float or (F,)
        Lower bounds of the coefficients.

    Returns
    -------
    coef : (F,)
    """
    weight = np.ones(len(truth)) if sample_weight is None else sample_weight
    lengths = np.diff(indptr)
    entry_weight = np.repeat(weight, lengths)
    of_truth = weight @ features[truth]

    def negative(coef: Array) -> tuple[float, Array]:
        scores = features @ coef
        log_sums = row_log_sum(scores, indptr)
        prob = np.exp(scores - np.repeat(log_sums, lengths))
        gradient = of_truth - (prob * entry_weight) @ features
        value = weight @ (scores[truth] - log_sums)
        difference = coef - prior
        return (
            float(0.5 * penalty * difference @ difference - value),
            penalty * difference - gradient,
        )

    lower = np.broadcast_to(np.maximum(least, -_LARGEST), prior.shape)
    bounds = [(bound, _LARGEST) for bound in lower.tolist()]
    start = np.maximum(prior, lower)
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds)
    coef: Array = found.x
    return coef
