"""Readers of data files, one module a format."""

from colabel.datasets.readers.arff import read_arff
from colabel.datasets.readers.csv_files import read_csv
from colabel.datasets.readers.meka import read_meka
from colabel.datasets.readers.mulan import read_mulan
from colabel.datasets.readers.parquet import read_parquet

__all__ = ["read_arff", "read_csv", "read_meka", "read_mulan", "read_parquet"]
