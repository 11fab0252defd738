"""Labels along a tree, a forest, or alone: closed forms and two passes."""

from colabel.joint.tree.independent import Independent
from colabel.joint.tree.tree import Tree

__all__ = ["Independent", "Tree"]
