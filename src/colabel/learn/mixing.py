"""Weights of a mixture that maximise the likelihood of rows that its parts have not seen."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array

_LEAST = 1e-4  # a share below this is none: the part could as well not be there


def mixture_weights(
    log_prob: Array, sample_weight: Array | None = None, *, tol: float = 1e-7, max_iter: int = 2000
) -> Array:
    r"""Weights w (M,) on the simplex that maximise ``sum_r s_r log sum_m w_m P_m(y_r | x_r)``.

    The objective is concave. EM climbs it, since the mean responsibility is the next weight:

    .. math:: w_m \leftarrow \sum_r s_r \frac{w_m P_{rm}}{\sum_l w_l P_{rl}} \Big/ \sum_r s_r

    and ends when no weight could gain: by concavity the optimum is at most
    ``log max_m sum_r s_r P_rm / sum_l w_l P_rl`` nats per row away.

    Parameters
    ----------
    log_prob : (n, M)
        Log-probability of each row's label vector under each part. A row that no part thinks
        possible says nothing and is left out.
    sample_weight : (n,), optional
    tol : float
        Nats per row that the likelihood may be below its maximum.
    max_iter : int

    Returns
    -------
    weights : (M,)
        Sum to one; exactly zero for parts without use.

    Examples
    --------
    >>> import numpy as np
    >>> mixture_weights(np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.6]])).round(2)
    array([0.73, 0.27])
    """
    best = log_prob.max(axis=1)
    useful = best > -np.inf
    n_parts = log_prob.shape[1]
    share = np.ones(len(log_prob)) if sample_weight is None else sample_weight
    share = share[useful]
    weights = np.full(n_parts, 1.0 / n_parts)
    if not share.sum() > 0:
        return weights
    share = share / share.sum()
    relative = np.exp(log_prob[useful] - best[useful, None])
    for _ in range(max_iter):
        gain = (share / (relative @ weights)) @ relative  # mean of P_m / P
        if np.log(gain.max()) < tol:
            break
        weights = weights * gain
        weights /= weights.sum()
    weights[weights < _LEAST] = 0.0
    normed: Array = weights / weights.sum()
    return normed
