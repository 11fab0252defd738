"""What speaks for the labels of a row: its columns, its other labels, the label sets beside them.

Records that answer for themselves, each with the function that asks a model or a joint for it.
"""

from colabel.models.evidence.evidence import feature_evidence
from colabel.models.evidence.exploration import Exploration, ExploredRow, explored_rows
from colabel.models.evidence.record import FeatureEvidence, Term
from colabel.models.evidence.row_explanation import RowExplanation, explain_row
from colabel.models.evidence.terms import FeatureTerms

__all__ = [
    "Exploration",
    "ExploredRow",
    "FeatureEvidence",
    "FeatureTerms",
    "RowExplanation",
    "Term",
    "explain_row",
    "explored_rows",
    "feature_evidence",
]
