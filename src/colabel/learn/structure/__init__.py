"""Structures over the labels: which label depends on which."""

from colabel.learn.structure.bayes_network import (
    Parents,
    label_state,
    learn_bayes_network,
    parent_set_scores,
)
from colabel.learn.structure.branching import maximum_branching
from colabel.learn.structure.screening import (
    Residuals,
    best_candidates,
    label_residuals,
    score_statistics,
    score_sums,
    score_tests,
)

__all__ = [
    "Parents",
    "Residuals",
    "best_candidates",
    "label_residuals",
    "label_state",
    "learn_bayes_network",
    "maximum_branching",
    "parent_set_scores",
    "score_statistics",
    "score_sums",
    "score_tests",
]
