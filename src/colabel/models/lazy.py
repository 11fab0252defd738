"""Answers about rows in chunks, computed when Dask is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.joint import Joint
from colabel.labels import LabelSpace
from colabel.learn.chunks.reading import Blocks, same_chunks


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
