"""Structures over the labels: which label depends on which."""

from colabel.learn.structure.bayes_network import (
    BayesNetworkStructure,
    best_network,
    learn_bayes_network,
)
from colabel.learn.structure.branching import maximum_branching
from colabel.learn.structure.parent_scores import ParentScores, network_score, score_parent_sets
from colabel.learn.structure.screening import (
    Residuals,
    best_candidates,
    label_residuals,
    score_statistics,
    score_sums,
    score_tests,
)

__all__ = [
    "BayesNetworkStructure",
    "ParentScores",
    "Residuals",
    "best_candidates",
    "best_network",
    "label_residuals",
    "learn_bayes_network",
    "maximum_branching",
    "network_score",
    "score_parent_sets",
    "score_statistics",
    "score_sums",
    "score_tests",
]
