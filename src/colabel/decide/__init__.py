"""Deciding on a joint: what to predict, sets with guaranteed coverage, what to ask next."""

from colabel.decide.conformal import (
    CalibrationScores,
    CoverageCheck,
    conformal_sets,
    measured_coverage,
    p_value,
)
from colabel.decide.corrections import Audit, NoiseRate, corrections, log_conditionals
from colabel.decide.decisions import (
    DECISIONS,
    Decision,
    Hamming,
    RiskMinimiser,
    Seen,
    Subset,
    Votes,
    decide,
    resolve_decision,
)
from colabel.decide.definite import RISKS, HeldOutErrors, RiskName, confident_codes, stated_words
from colabel.decide.label_sets import LabelSets
from colabel.decide.nonconformity import NONCONFORMITIES, Nonconformity, NonconformityName
from colabel.decide.overlap import F1, Jaccard
from colabel.decide.questions import Questions, next_question

__all__ = [
    "DECISIONS",
    "F1",
    "NONCONFORMITIES",
    "RISKS",
    "Audit",
    "CalibrationScores",
    "CoverageCheck",
    "Decision",
    "Hamming",
    "HeldOutErrors",
    "Jaccard",
    "LabelSets",
    "NoiseRate",
    "Nonconformity",
    "NonconformityName",
    "Questions",
    "RiskMinimiser",
    "RiskName",
    "Seen",
    "Subset",
    "Votes",
    "confident_codes",
    "conformal_sets",
    "corrections",
    "decide",
    "log_conditionals",
    "measured_coverage",
    "next_question",
    "p_value",
    "resolve_decision",
    "stated_words",
]
