"""Learning pairwise conditional random fields: pseudo-likelihood, structure, penalties.

A field has node scores for every value of every label and a table of scores for every edge, each
linear in features. `PseudoLikelihood` is what is maximised, `ProximalGradient` finds the graph,
`Tuner` the parameters on it, `Selector` the penalties; `FieldLearner` puts them together.
"""

from colabel.learn.crf.layout import FieldLayout, all_pairs
from colabel.learn.crf.learner import FieldLearner, FittedField, LearnedField
from colabel.learn.crf.penalties import Penalty, project_cones, shrink_groups
from colabel.learn.crf.proximal import ProximalGradient, Structure
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters, PseudoLikelihood
from colabel.learn.crf.screening import candidate_edges
from colabel.learn.crf.selection import Choice, FieldProblem, Selector
from colabel.learn.crf.state_likelihood import StateLikelihood
from colabel.learn.crf.tuning import Tuned, Tuner

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
