"""Deciding on a joint: what to announce, sets with guaranteed coverage, what to ask next."""

from colabel.decide.conformal import (
    CoverageCheck,
    HeldOutScores,
    checked_coverage,
    conformal_sets,
    p_value,
)
from colabel.decide.decisions import (
    DECISIONS,
    F1,
    Decision,
    Hamming,
    Jaccard,
    RiskMinimiser,
    Seen,
    Subset,
    decide,
    resolve_decision,
)
from colabel.decide.definite import RISKS, HeldOutErrors, RiskName, confident_codes
from colabel.decide.label_sets import LabelSets
from colabel.decide.questions import Questions, next_question
from colabel.decide.strangeness import SCORES, ScoreName, Strangeness

__all__ = [
    "DECISIONS",
    "F1",
    "RISKS",
    "SCORES",
    "CoverageCheck",
    "Decision",
    "Hamming",
    "HeldOutErrors",
    "HeldOutScores",
    "Jaccard",
    "LabelSets",
    "Questions",
    "RiskMinimiser",
    "RiskName",
    "ScoreName",
    "Seen",
    "Strangeness",
    "Subset",
    "checked_coverage",
    "confident_codes",
    "conformal_sets",
    "decide",
    "next_question",
    "p_value",
    "resolve_decision",
]
