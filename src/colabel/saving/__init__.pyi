from colabel.saving.model_files import ModelFileError as ModelFileError
from colabel.saving.model_files import describe_model as describe_model
from colabel.saving.model_files import load as load
from colabel.saving.model_files import save as save
from colabel.saving.model_files import types_to_trust as types_to_trust

__all__ = [
    "ModelFileError",
    "describe_model",
    "load",
    "save",
    "types_to_trust",
]
