"""The families of Joint: distributions over label vectors, one per row of a batch."""

from colabel.joint.base import Joint, TopK
from colabel.joint.independent import Independent
from colabel.joint.tree import Tree

__all__ = ["Independent", "Joint", "TopK", "Tree"]
