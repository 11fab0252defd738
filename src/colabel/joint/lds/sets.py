"""Label dependency sets, and how discrete features are laid out in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.schema import (
    Below,
    Between,
    Dims,
    Fields,
    Is,
    refuse_cycles,
    refuse_unless,
    stored,
)


@stored("label-sets")
@dataclass(frozen=True)
class DependencySets:
    """One set of labels per label: LS_k holds label k and its parents in the network.

    A set's *state* numbers the values of its labels, those of label k changing fastest, so that
    the K_k entries of a row of the table of P(L_k | parents) are neighbours.

    Attributes
    ----------
    parents : tuple of d tuples of int
        Parents of every label, ascending.
    cardinalities : tuple of d int
        Number of values of every label.

    Examples
    --------
    >>> import numpy as np
    >>> sets = DependencySets(((), (0,)), (2, 3))
    >>> sets.members
    ((0,), (0, 1))
    >>> sets.states(np.array([[1, 2]])).tolist()
    [[1, 5]]
    """

    parents: Annotated[tuple[tuple[int, ...], ...], "d _", Below("d")]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1, 2**31), Is("sizes")]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        sizes, parents = fields["cardinalities"], fields["parents"]
        for label, above in enumerate(parents):
            ascending = list(above) == sorted(set(above)) and label not in above
            refuse_unless(ascending, "parents are damaged")
        refuse_cycles(parents)
        dims["states"] = tuple(
            math.prod(sizes[i] for i in (*above, k)) for k, above in enumerate(parents)
        )

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]], cardinalities: Sequence[int]) -> DependencySets:
        """Make the sets from any sequences of parents."""
        ordered = tuple(tuple(sorted(int(p) for p in each)) for each in parents)
        return cls(ordered, tuple(int(k) for k in cardinalities))

    @property
    def n_labels(self) -> int:
        """Number of labels, and of sets."""
        return len(self.parents)

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Labels of each set: the parents, then the label itself."""
        return tuple((*above, k) for k, above in enumerate(self.parents))

    @cached_property
    def n_states(self) -> Indices:
        """Number of states of each set, shape (d,)."""
        sizes = [math.prod(self.cardinalities[i] for i in each) for each in self.members]
        return np.array(sizes, dtype=np.intp)

    @cached_property
    def strides(self) -> Indices:
        """What a step of label i adds to the state of set k, shape (d, d); zero outside a set."""
        strides = np.zeros((self.n_labels, self.n_labels), dtype=np.intp)
        for k, labels in enumerate(self.members):
            step = 1
            for i in reversed(labels):
                strides[k, i] = step
                step *= self.cardinalities[i]
        return strides

    def states(self, codes: Codes) -> Indices:
        """Return the state of every set in complete label vectors (m, d), shape (m, d)."""
        found: Indices = codes.astype(np.intp) @ self.strides.T
        return found

    def assignments(self, k: int) -> Codes:
        """Return all values of the labels of set k in the order of its states, (S_k, size)."""
        sizes = [self.cardinalities[i] for i in self.members[k]]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        return grid.T.astype(np.int32)


@stored("feature-columns")
@dataclass(frozen=True)
class FeatureColumns:
    """Discrete features as columns: value v of feature j has the column first[j] + v.

    Attributes
    ----------
    n_values : tuple of p int
        Number of values of every feature.

    Examples
    --------
    >>> import numpy as np
    >>> columns = FeatureColumns((2, 3))
    >>> columns.positions(np.array([[1, 2]])).tolist()
    [[1, 4]]
    """

    n_values: Annotated[tuple[int, ...], "p", Between(1, 2**31), Is("values")]

    @property
    def n_features(self) -> int:
        """Number of features p."""
        return len(self.n_values)

    @property
    def n_columns(self) -> int:
        """Number of columns C."""
        return sum(self.n_values)

    @cached_property
    def first(self) -> Indices:
        """First column of each feature, and the number of columns at the end, shape (p + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_values)]).astype(np.intp)

    def of(self, j: int) -> slice:
        """Columns of feature j."""
        return slice(int(self.first[j]), int(self.first[j + 1]))

    def positions(self, features: Codes) -> Indices:
        """Columns (n, p) of the values of feature codes (n, p)."""
        found: Indices = features.astype(np.intp) + self.first[:-1]
        return found

    def one_hot(self, features: Codes) -> Array:
        """Rows (n, C) with a one in the column of every feature's value."""
        rows = np.zeros((len(features), self.n_columns))
        rows[np.arange(len(features))[:, None], self.positions(features)] = 1.0
        return rows


def sums_by_state(state: Indices, n_states: int, values: Array) -> Array:
    """Sum the rows of values (n, C) that are in each state (n,): (n_states, C).

    Examples
    --------
    >>> import numpy as np
    >>> sums_by_state(np.array([2, 0, 2]), 3, np.array([[1.0], [2.0], [3.0]])).ravel().tolist()
    [2.0, 0.0, 4.0]
    """
    shape = (n_states, len(state))
    is_in = sp.csr_array((np.ones(len(state)), (state, np.arange(len(state)))), shape=shape)
    return np.asarray(is_in @ values, dtype=np.float64)
