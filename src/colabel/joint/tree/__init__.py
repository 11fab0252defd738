"""Labels along a tree, a forest, or alone: closed forms and two passes."""

from colabel.joint.tree.tree import Independent, Tree

__all__ = ["Independent", "Tree"]
