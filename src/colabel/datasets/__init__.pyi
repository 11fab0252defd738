from colabel.datasets.loading import OPENML as OPENML
from colabel.datasets.loading import Dataset as Dataset
from colabel.datasets.loading import load as load
from colabel.datasets.loading import load_digit_traits as load_digit_traits
from colabel.datasets.loading import read_dataset as read_dataset

__all__ = [
    "OPENML",
    "Dataset",
    "load",
    "load_digit_traits",
    "read_dataset",
]
