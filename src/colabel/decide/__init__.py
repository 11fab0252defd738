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
    Decision,
    Hamming,
    RiskMinimiser,
    Seen,
    Subset,
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
    "CoverageCheck",
    "Decision",
    "Hamming",
    "HeldOutErrors",
    "HeldOutScores",
    "Jaccard",
    "LabelSets",
    "Nonconformity",
    "NonconformityName",
    "Questions",
    "RiskMinimiser",
    "RiskName",
    "Seen",
    "Subset",
    "checked_coverage",
    "confident_codes",
    "conformal_sets",
    "decide",
    "next_question",
    "p_value",
    "resolve_decision",
    "stated_words",
]
