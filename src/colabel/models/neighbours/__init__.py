"""Labels from the labels of the nearest rows."""

from colabel.models.neighbours.iblr import IBLR
from colabel.models.neighbours.mlknn import MLkNN

__all__ = ["IBLR", "MLkNN"]
