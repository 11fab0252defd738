"""Mixtures of conditional trees, or of chains, by EM."""

from colabel.models.mixture_of_trees.mixture import MixtureOfTrees

__all__ = ["MixtureOfTrees"]
