"""Candidate edges: pairs of labels that independent regressions leave dependent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.learn.crf.layout import all_pairs


def residual_dependence(log_prob: Sequence[Array], codes: Codes, weight: Array) -> Array:
    r"""How strongly each pair of labels depends beyond what the features explain, (d, d).

    With residuals :math:`r_{ia} = [y_i = a] - P(y_i = a \mid x)` of independent models,

    .. math:: D_{ij}^2 = \sum_{ab} \Bigl(\sum_n \omega_n r_{ia}^n r_{jb}^n\Bigr)^2 \Big/
              \sum_{ab} \sum_n \omega_n^2 (r_{ia}^n r_{jb}^n)^2 ,

    about one for independent labels. The numerator is the gradient of the pseudo-likelihood by
    the constant table of the edge, where all edges are absent.

    Parameters
    ----------
    log_prob : sequence of d arrays (n, K_i)
    codes : (n, d)
    weight : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> half = np.full((4, 2), np.log(0.5))
    >>> codes = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> residual_dependence([half] * 3, codes, np.ones(4))[0]
    array([0., 2., 0.])
    """
    residuals = [
        (codes[:, [i]] == np.arange(table.shape[1])) - np.exp(table)
        for i, table in enumerate(log_prob)
    ]
    joined = np.hstack(residuals)
    start = np.concatenate([[0], np.cumsum([table.shape[1] for table in log_prob])[:-1]])
    signal = _block_sums(((joined * weight[:, None]).T @ joined) ** 2, start)
    squares = (joined * weight[:, None]) ** 2
    noise = _block_sums(squares.T @ joined**2, start)
    dependence = np.sqrt(signal / np.maximum(noise, 1e-300))
    np.fill_diagonal(dependence, 0.0)
    return np.asarray(dependence)


def _block_sums(matrix: Array, start: Indices) -> Array:
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, start, axis=0), start, axis=1))


def candidate_edges(log_prob: Sequence[Array], codes: Codes, weight: Array, most: int) -> Indices:
    """Return at most `most` pairs (E, 2), the most dependent ones; constant labels have none."""
    counted = codes[weight > 0]
    pairs: Indices = all_pairs(codes.shape[1])
    varied = (counted != counted[:1]).any(axis=0)
    pairs = pairs[varied[pairs].all(axis=1)]
    if len(pairs) <= most:
        return pairs
    dependence = residual_dependence(log_prob, codes, weight)[pairs[:, 0], pairs[:, 1]]
    return pairs[np.sort(np.argsort(-dependence, kind="stable")[:most])]
