"""Rows in chunks: which models learn from them, and answers computed when Dask asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from colabel.core.arrays import row_slices
from colabel.joint import Joint
from colabel.labels import LabelSpace
from colabel.learn.chunks.chunked_data import Blocks, ChunkedData, same_chunks
from colabel.learn.design import LARGEST_ROTATION

# Rows whose joints are held at once while predicting.
_ROWS_AT_ONCE = 1 << 14
# of tables over pairs of labels, which trees and fields have for every row
_NUMBERS_AT_ONCE = 1 << 26


def row_chunks(X: Any, space: LabelSpace, numbers: int = _NUMBERS_AT_ONCE) -> Iterator[Any]:
    """Rows of X, as many at once as may have joints of so many numbers at the same time."""
    sizes = space.cardinalities
    at_once = min(_ROWS_AT_ONCE, max(1, numbers // (sum(sizes) * max(sizes))))
    for chunk in row_slices(_num_samples(X), at_once):
        yield X[chunk]


# Parameters by which a model needs its rows in memory.
_IN_MEMORY = ("estimator", "calibrate", "class_weight", "blank")


def check_takes_chunks(model: Any) -> None:
    """Raise unless a model, with its parameters, learns from Dask arrays."""
    name = type(model).__name__
    if not model.fits_chunks:
        models = import_module("colabel.models")  # when asked: all of them import this file
        fitting = [
            f"{kind.__name__} (of a sample)" if kind.samples_chunks else kind.__name__
            for kind in (getattr(models, each) for each in models.__all__)
            if getattr(kind, "fits_chunks", False)
        ]
        raise TypeError(
            f"{name} does not learn from Dask arrays; {', '.join(fitting[:-1])} and {fitting[-1]}"
            f" do. Give {name} a sample of the rows as NumPy arrays, such as X[rows].compute()."
        )
    if model.samples_chunks:  # what it learns from is in memory
        return
    for given, value in model.get_params(deep=False).items():
        if given in _IN_MEMORY and value != getattr(type(model), given, None):
            raise TypeError(
                f"{name}({given}=...) does not learn from Dask arrays: leave {given} out, or give a"
                " sample of the rows as NumPy arrays."
            )


def is_short(data: ChunkedData) -> bool:
    """Whether all rows are fewer than the features and are put together: they are few then.

    In memory such rows are solved in their own span.
    """
    return data.n_rows < data.n_features and data.n_rows <= LARGEST_ROTATION


def lazy_rows(
    function: Callable[..., Any], X: Any, shape: tuple[int, ...], meta: Any, *others: Any
) -> Any:
    """Return the Dask array of ``function(block, *blocks of others)``, of `shape` for each row.

    `meta` is an empty answer: an array, or a sparse one.
    """
    import dask.array as da
    from dask import delayed

    blocks = Blocks.of(X)
    call = delayed(function, pure=False, traverse=False)
    lengths = blocks.lengths or (np.nan,) * len(blocks.chunks)
    parts = [
        da.from_delayed(call(*row), (length, *shape), meta=meta)
        for length, *row in zip(lengths, blocks.chunks, *(o.chunks for o in others), strict=True)
    ]
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)


@dataclass(frozen=True)
class LazyJoint:
    """The joint distribution of rows in chunks: questions are Dask arrays, answered by chunk.

    Attributes
    ----------
    space : LabelSpace
    X : Dask array or data frame
        The rows.
    of_rows : callable
        Returns the `Joint` of a block of them.
    """

    space: LabelSpace
    X: Any
    of_rows: Callable[[Any], Joint]

    def __repr__(self) -> str:
        n_chunks = len(Blocks.of(self.X).chunks)
        return f"<LazyJoint: {n_chunks} chunks of rows, {self.space.n_labels} labels>"

    def ask(
        self, question: Callable[[Joint], Any], shape: tuple[int, ...] = (), dtype: Any = float
    ) -> Any:
        """Return any question's answers: a Dask array of ``question(joint)`` of each chunk.

        Parameters
        ----------
        question : callable
            Gives an array of shape (m, ...) for a `Joint` of m rows.
        shape : tuple of int
            Shape of the answer for one row.
        dtype : dtype
        """
        of_rows = self.of_rows
        return lazy_rows(
            lambda block: question(of_rows(block)), self.X, shape, np.empty((0, *shape), dtype)
        )

    def mode(self) -> Any:
        """Most probable labels, (n, d); see `Joint.mode`."""
        empty = self.space.values(np.empty((0, self.space.n_labels), dtype=np.int32))
        return self.ask(lambda joint: joint.mode(), (self.space.n_labels,), empty.dtype)

    def marginals(self) -> Any:
        """Probabilities of each label alone, (n, d) or d arrays (n, K_i); see `Joint.marginals`."""
        if self.space.is_binary:
            return self.ask(lambda joint: joint.marginals(), (self.space.n_labels,))
        return [
            self.ask(lambda joint, i=i: joint.marginal_tables()[i], (size,))  # type: ignore[misc]
            for i, size in enumerate(self.space.cardinalities)
        ]

    def log_prob(self, Y: Any) -> Any:
        """Log-probability (n,) of labels with the same chunks of rows; see `Joint.log_prob`."""
        of_rows = self.of_rows
        return lazy_rows(
            lambda block, labels: of_rows(block).log_prob(labels),
            self.X,
            (),
            np.empty(0),
            same_chunks(self.X, Y, "Y"),
        )

    def entropy(self) -> Any:
        """Entropy (n,) of the label vectors in nats; see `Joint.entropy`."""
        return self.ask(lambda joint: joint.entropy())

    def given(self, evidence: Mapping[str | int, Any]) -> LazyJoint:
        """Return the distribution given the values of some labels; see `Joint.given`."""
        of_rows = self.of_rows
        return LazyJoint(self.space, self.X, lambda block: of_rows(block).given(evidence))
