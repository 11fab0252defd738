"""The estimators, one file per published method."""

from colabel.models.base import JointClassifier
from colabel.models.binary_relevance import BinaryRelevance
from colabel.models.ctbn import CTBN

__all__ = ["CTBN", "BinaryRelevance", "JointClassifier"]
