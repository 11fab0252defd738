"""Stacked binary relevance: a second layer that sees what the first says of every label."""

from colabel.models.stacking.stacked import StackedBinaryRelevance

__all__ = ["StackedBinaryRelevance"]
