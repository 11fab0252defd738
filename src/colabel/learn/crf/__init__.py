"""Learning pairwise conditional random fields: pseudo-likelihood, structure, penalties.

A field has node scores for every value of every label and a table of scores for every edge, each
linear in features. `PseudoLikelihood` is what is maximised, `ProximalGradient` finds the graph,
`Tuner` the parameters on it, `Selector` the penalties; `FieldLearner` puts them together.
"""

from colabel.learn.crf.curvature import StateLikelihood, Tuned, Tuner
from colabel.learn.crf.learner import FieldLearner, FittedField, LearnedField, candidate_edges
from colabel.learn.crf.proximal import (
    Penalty,
    ProximalGradient,
    Structure,
    project_cones,
    shrink_groups,
)
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    all_pairs,
)
from colabel.learn.crf.selection import Choice, FieldProblem, Selector

__all__ = [
    "Choice",
    "FieldData",
    "FieldLayout",
    "FieldLearner",
    "FieldProblem",
    "FittedField",
    "LearnedField",
    "Parameters",
    "Penalty",
    "ProximalGradient",
    "PseudoLikelihood",
    "Selector",
    "StateLikelihood",
    "Structure",
    "Tuned",
    "Tuner",
    "all_pairs",
    "candidate_edges",
    "project_cones",
    "shrink_groups",
]
