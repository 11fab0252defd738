"""A user's own table: reading it, choosing its labels, preparing its columns, predicting it."""

from colabel.tables.columns import Column, ColumnChoice, choose_columns
from colabel.tables.frame import Frame, TableError
from colabel.tables.label_columns import Labels, LabelSource, match_columns, read_labels
from colabel.tables.model import TableModel
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.reading import ReadingOptions, open_table, read_chunks, read_frame

__all__ = [
    "Column",
    "ColumnChoice",
    "Frame",
    "LabelSource",
    "Labels",
    "Preprocessor",
    "ReadingOptions",
    "TableError",
    "TableModel",
    "choose_columns",
    "match_columns",
    "open_table",
    "read_chunks",
    "read_frame",
    "read_labels",
]
