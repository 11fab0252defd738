"""Any Y a user has, as integer codes, and back."""

from colabel.labels.columns import MISSING
from colabel.labels.space import Kind, LabelSpace

__all__ = ["MISSING", "Kind", "LabelSpace"]
