"""Any Y a user has, as integer codes, and back."""

from colabel.labels.columns import MISSING, SEPARATORS, MissingLabelsError, all_vectors
from colabel.labels.space import EncodedLabels, Kind, LabelSpace

__all__ = [
    "MISSING",
    "SEPARATORS",
    "EncodedLabels",
    "Kind",
    "LabelSpace",
    "MissingLabelsError",
    "all_vectors",
]
