"""Candidate edges: pairs of labels that independent regressions leave dependent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.learn.crf.layout import all_pairs
from colabel.learn.structure.screening import label_residuals, score_tests


def candidate_edges(log_prob: Sequence[Array], codes: Codes, weight: Array, most: int) -> Indices:
    """Return at most `most` pairs (E, 2), the most dependent ones; constant labels have none.

    The numerator of the test (`score_tests`) is the gradient of the pseudo-likelihood by the
    constant table of the edge, where all edges are absent.

    Parameters
    ----------
    log_prob : sequence of d arrays (n, K_i)
        Log-probabilities by independent models.
    codes : (n, d)
    weight : (n,)
    most : int
    """
    counted = codes[weight > 0]
    pairs: Indices = all_pairs(codes.shape[1])
    varied = (counted != counted[:1]).any(axis=0)
    pairs = pairs[varied[pairs].all(axis=1)]
    if len(pairs) <= most:
        return pairs
    sizes = [table.shape[1] for table in log_prob]
    scores = [(np.diff(table) if table.shape[1] == 2 else table).T for table in log_prob]
    dependence = score_tests(label_residuals(scores, codes, sizes), sizes, weight)
    of_pair = dependence[pairs[:, 0], pairs[:, 1]]
    return pairs[np.sort(np.argsort(-of_pair, kind="stable")[:most])]
