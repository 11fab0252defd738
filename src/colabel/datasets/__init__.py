"""Data sets: readers of the field's file formats, a catalogue, generators, and splits."""

from colabel.datasets.catalogue import CatalogueEntry, describe, list_datasets
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.digit_traits import load_digit_traits
from colabel.datasets.loading import load
from colabel.datasets.readers import read_arff, read_csv, read_meka, read_mulan, read_parquet
from colabel.datasets.splits import (
    first_label_folds,
    iterative_stratification,
    kfold,
    random_splits,
)
from colabel.datasets.synthetic import SYNTHETIC_GRAPHS, make_synthetic

__all__ = [
    "SYNTHETIC_GRAPHS",
    "CatalogueEntry",
    "Dataset",
    "DatasetError",
    "describe",
    "first_label_folds",
    "iterative_stratification",
    "kfold",
    "list_datasets",
    "load",
    "load_digit_traits",
    "make_synthetic",
    "random_splits",
    "read_arff",
    "read_csv",
    "read_meka",
    "read_mulan",
    "read_parquet",
]
