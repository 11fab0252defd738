"""A user's own table: reading it, choosing its labels, preparing its columns, predicting it."""

from colabel.tables.answers import AnswerFolder, answers_written, texts_of
from colabel.tables.checking import TableSummary, summarise
from colabel.tables.columns import Column, ColumnChoice, choose_columns
from colabel.tables.frame import Frame
from colabel.tables.loading import TableData, TableRequest, load_table, table_of
from colabel.tables.model import TableModel
from colabel.tables.model_names import (
    ESTIMATOR_NAMES,
    FEATURE_NAMES,
    MODEL_NAMES,
    ModelName,
    make_model,
)
from colabel.tables.predicting import Asker, PredictionRequest, Predictor
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.reading import find_parts, open_table, read_chunks, read_frame
from colabel.tables.streaming import PreparedTable, prepare_parts
from colabel.tables.table_labels import Labels, LabelSource, match_columns, read_labels
from colabel.tables.text import ReadingOptions, TableError

__all__ = [
    "ESTIMATOR_NAMES",
    "FEATURE_NAMES",
    "MODEL_NAMES",
    "AnswerFolder",
    "Asker",
    "Column",
    "ColumnChoice",
    "Frame",
    "LabelSource",
    "Labels",
    "ModelName",
    "PredictionRequest",
    "Predictor",
    "PreparedTable",
    "Preprocessor",
    "ReadingOptions",
    "TableData",
    "TableError",
    "TableModel",
    "TableRequest",
    "TableSummary",
    "answers_written",
    "choose_columns",
    "find_parts",
    "load_table",
    "make_model",
    "match_columns",
    "open_table",
    "prepare_parts",
    "read_chunks",
    "read_frame",
    "read_labels",
    "summarise",
    "table_of",
    "texts_of",
]
