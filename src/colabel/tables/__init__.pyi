from colabel.tables.columns import Column as Column
from colabel.tables.columns import ColumnChoice as ColumnChoice
from colabel.tables.columns import choose_columns as choose_columns
from colabel.tables.loading import TableData as TableData
from colabel.tables.loading import TableRequest as TableRequest
from colabel.tables.loading import TableSummary as TableSummary
from colabel.tables.loading import load_table as load_table
from colabel.tables.loading import summarise as summarise
from colabel.tables.loading import table_of as table_of
from colabel.tables.model import Preprocessor as Preprocessor
from colabel.tables.model import TableModel as TableModel
from colabel.tables.model_names import ESTIMATOR_NAMES as ESTIMATOR_NAMES
from colabel.tables.model_names import FEATURE_NAMES as FEATURE_NAMES
from colabel.tables.model_names import MODEL_NAMES as MODEL_NAMES
from colabel.tables.model_names import make_model as make_model
from colabel.tables.model_names import short_name as short_name
from colabel.tables.predicting import AnswerFolder as AnswerFolder
from colabel.tables.predicting import Asker as Asker
from colabel.tables.predicting import PredictionRequest as PredictionRequest
from colabel.tables.predicting import Predictor as Predictor
from colabel.tables.predicting import answers_written as answers_written
from colabel.tables.predicting import texts_of as texts_of
from colabel.tables.reading import find_parts as find_parts
from colabel.tables.reading import open_table as open_table
from colabel.tables.reading import read_chunks as read_chunks
from colabel.tables.reading import read_frame as read_frame
from colabel.tables.source import Frame as Frame
from colabel.tables.source import ReadingOptions as ReadingOptions
from colabel.tables.source import TableError as TableError
from colabel.tables.streaming import PreparedTable as PreparedTable
from colabel.tables.streaming import prepare_parts as prepare_parts
from colabel.tables.table_labels import Labels as Labels
from colabel.tables.table_labels import LabelSource as LabelSource
from colabel.tables.table_labels import match_columns as match_columns
from colabel.tables.table_labels import read_labels as read_labels

__all__ = [
    "Frame",
    "LabelSource",
    "TableData",
    "TableError",
    "TableModel",
    "load_table",
    "make_model",
    "read_frame",
]
