"""A model file, opened for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colabel.tables import TableModel


def load_table_model(path: Path, *, trust: bool = False) -> TableModel:
    """Load a model that `colabel fit` has saved; with `trust` also what cannot be checked."""
    from colabel.saving import ModelFileError, load, types_to_trust
    from colabel.tables import TableModel

    model = load(path, trusted=types_to_trust(path) if trust else ())
    if not isinstance(model, TableModel):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__} without the columns of a table: use it with "
            "colabel.load in Python, or make a file with colabel fit."
        )
    return model
