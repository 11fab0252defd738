"""What speaks for the labels of a row: its columns, its other labels, the label sets beside them.

Records that answer for themselves, each with the function that asks a model or a joint for it.
"""

from colabel.models.evidence.evidence import FeatureTerms, evidence_of_row, feature_evidence
from colabel.models.evidence.record import FeatureEvidence, Term
from colabel.models.evidence.rows import (
    Exploration,
    ExploredRow,
    RowExplanation,
    explain_row,
    explored_rows,
)

__all__ = [
    "Exploration",
    "ExploredRow",
    "FeatureEvidence",
    "FeatureTerms",
    "RowExplanation",
    "Term",
    "evidence_of_row",
    "explain_row",
    "explored_rows",
    "feature_evidence",
]
