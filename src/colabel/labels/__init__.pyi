from colabel.labels.columns import MISSING as MISSING
from colabel.labels.columns import SEPARATORS as SEPARATORS
from colabel.labels.columns import MissingLabelsError as MissingLabelsError
from colabel.labels.columns import all_vectors as all_vectors
from colabel.labels.space import EncodedLabels as EncodedLabels
from colabel.labels.space import Kind as Kind
from colabel.labels.space import LabelSpace as LabelSpace

__all__ = [
    "MISSING",
    "EncodedLabels",
    "LabelSpace",
    "MissingLabelsError",
]
