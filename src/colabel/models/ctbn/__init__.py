"""Conditional tree-structured Bayesian networks."""

from colabel.models.ctbn._learned import LearnedTree
from colabel.models.ctbn._search import FittedTree, Search, fit_tree, most_parents, search_arcs
from colabel.models.ctbn.ctbn import CTBN

__all__ = ["CTBN", "FittedTree", "LearnedTree", "Search", "fit_tree", "most_parents", "search_arcs"]
