"""The papers' data: a catalogue of published files, their synthetic problems, and row splits."""

from colabel.datasets import Dataset, load_digit_traits
from studies.datasets.catalogue import CATALOGUE, CatalogueEntry, describe, load
from studies.datasets.splits import (
    first_label_folds,
    iterative_stratification,
    kfold,
    random_splits,
)
from studies.datasets.synthetic import SYNTHETIC_GRAPHS, make_synthetic

__all__ = [
    "CATALOGUE",
    "SYNTHETIC_GRAPHS",
    "CatalogueEntry",
    "Dataset",
    "describe",
    "first_label_folds",
    "iterative_stratification",
    "kfold",
    "load",
    "load_digit_traits",
    "make_synthetic",
    "random_splits",
]
