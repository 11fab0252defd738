"""Random fields over pairs of labels: exact where they are small or sparse, else approximate."""

from colabel.joint.field.engine import Engine
from colabel.joint.field.pairwise_field import PairwiseField

__all__ = ["Engine", "PairwiseField"]
