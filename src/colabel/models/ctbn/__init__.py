"""Conditional tree-structured Bayesian networks."""

from colabel.models.ctbn.ctbn import CTBN

__all__ = ["CTBN"]
