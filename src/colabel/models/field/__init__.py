"""Conditional random fields of pairs of labels: with a learned graph, and with all pairs."""

from colabel.models.field.collective_crf import CollectiveCRF
from colabel.models.field.pairwise_crf import PairwiseCRF

__all__ = ["CollectiveCRF", "PairwiseCRF"]
