"""A forest whose leaves hold label vectors."""

from colabel.models.forest.joint_forest import JointForest

__all__ = ["JointForest"]
