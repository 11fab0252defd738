"""Fitted models as files that are safe to load."""

from colabel.saving.model_files import ModelFileError, describe_model, load, save, types_to_trust

__all__ = ["ModelFileError", "describe_model", "load", "save", "types_to_trust"]
