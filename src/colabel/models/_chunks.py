"""Which models learn from rows in chunks, and when chunks are put together instead."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from colabel.learn.chunks import ChunkedData
from colabel.learn.design import LARGEST_ROTATION

# Parameters by which a model needs its rows in memory.
_IN_MEMORY = ("estimator", "calibrate", "class_weight")


def refuse_chunks(model: Any) -> None:
    """Raise unless a model, with its parameters, learns from Dask arrays."""
    name = type(model).__name__
    if not model.fits_chunks:
        raise TypeError(
            f"{name} does not learn from Dask arrays; {_fitting()} do. Give {name} a sample of the"
            " rows as NumPy arrays, such as X[rows].compute()."
        )
    if model.samples_chunks:  # what it learns from is in memory
        return
    for given, value in model.get_params(deep=False).items():
        if given in _IN_MEMORY and value is not None and value is not False:
            raise TypeError(
                f"{name}({given}=...) does not learn from Dask arrays: leave {given} out, or give a"
                " sample of the rows as NumPy arrays."
            )


def _fitting() -> str:
    """Name the models that say of themselves that they learn from chunks."""
    models = import_module("colabel.models")  # when asked: all of them import this file
    kinds = [getattr(models, name) for name in models.__all__]
    names = [
        f"{kind.__name__} (of a sample)" if kind.samples_chunks else kind.__name__
        for kind in kinds
        if getattr(kind, "fits_chunks", False)
    ]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def is_short(data: ChunkedData) -> bool:
    """Whether all rows are fewer than the features and are put together: they are few then.

    In memory such rows are solved in their own span.
    """
    return data.n_rows < data.n_features and data.n_rows <= LARGEST_ROTATION
