"""Any Y a user has, as integer codes, and back."""

from colabel.labels.columns import MISSING, SEPARATORS, MissingLabelsError
from colabel.labels.space import EncodedLabels, Kind, LabelSpace
from colabel.labels.vectors import all_vectors

__all__ = [
    "MISSING",
    "SEPARATORS",
    "EncodedLabels",
    "Kind",
    "LabelSpace",
    "MissingLabelsError",
    "all_vectors",
]
