"""Candidate edges: pairs of labels that independent regressions leave dependent."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.learn.crf.layout import FieldLayout, all_pairs
from colabel.learn.crf.pseudo_likelihood import FieldData


def candidate_edges(data: FieldData, node: Array, layout: FieldLayout, most: int) -> Indices:
    """Return at most `most` pairs (E, 2), the most dependent ones; constant labels have none.

    The numerator of the test (`score_tests`) is the gradient of the pseudo-likelihood by the
    constant table of the edge, where all edges are absent.

    Parameters
    ----------
    data : FieldData
    node : (q_v, node columns)
        Parameters of independent models.
    layout : FieldLayout
        Without edges.
    most : int
    """
    pairs: Indices = all_pairs(len(layout.cardinalities))
    pairs = pairs[data.varied()[pairs].all(axis=1)]
    if len(pairs) <= most:
        return pairs
    of_pair = data.dependence(node, layout)[pairs[:, 0], pairs[:, 1]]
    return pairs[np.sort(np.argsort(-of_pair, kind="stable")[:most])]
