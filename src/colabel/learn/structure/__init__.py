"""Structures over the labels: which label depends on which."""

from colabel.learn.structure.branching import maximum_branching

__all__ = ["maximum_branching"]
