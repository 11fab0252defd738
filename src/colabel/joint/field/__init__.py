"""Random fields over pairs of labels, exactly where they are small or thin, else approximately."""

from colabel.joint.field.engine import Engine
from colabel.joint.field.pairwise_field import PairwiseField

__all__ = ["Engine", "PairwiseField"]
