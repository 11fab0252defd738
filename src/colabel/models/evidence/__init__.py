"""What speaks for and against each label of a row: its columns, and its other labels."""

from colabel.models.evidence.evidence import feature_evidence
from colabel.models.evidence.record import FeatureEvidence, Term
from colabel.models.evidence.terms import FeatureTerms

__all__ = ["FeatureEvidence", "FeatureTerms", "Term", "feature_evidence"]
