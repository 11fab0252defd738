"""Data sets as arrays: a reader of the field's files, sets of OpenML, and a bundled one."""

from colabel.datasets.dataset import Dataset
from colabel.datasets.loading import OPENML, load, load_digit_traits, read_dataset

__all__ = ["OPENML", "Dataset", "load", "load_digit_traits", "read_dataset"]
