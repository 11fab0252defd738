"""Decisions: the label vector to announce, given a joint distribution and a loss."""

from colabel.decide._deciding import DECISIONS, decide, resolve_decision
from colabel.decide._f1 import F1
from colabel.decide._jaccard import Jaccard
from colabel.decide._rules import Decision, Hamming, Subset

__all__ = [
    "DECISIONS",
    "F1",
    "Decision",
    "Hamming",
    "Jaccard",
    "Subset",
    "decide",
    "resolve_decision",
]
