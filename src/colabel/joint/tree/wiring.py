"""Wiring: the shape of a forest, checked and put in order once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROOT = -1  # the parent of a variable that has none; also the virtual node above all roots


@dataclass(frozen=True)
class Wiring:
    """A directed forest over d variables, as plain index tuples.

    A virtual node `ROOT` with a single state stands above all the roots, so a forest is a tree
    to every pass that runs over it, and the parent of a root has one state.

    Attributes
    ----------
    parents : tuple of int, length d
        Parent of each variable, -1 for a root.
    order : tuple of int, length d
        The variables, parents before children; among siblings the smaller index first.
    children : tuple of d + 1 tuples of int
        Children of each variable, ascending; the last entry, which is also entry -1, holds the
        roots.

    Examples
    --------
    >>> wiring = Wiring.from_parents([1, -1, 1])
    >>> wiring.order, wiring.children[1], wiring.children[-1]
    ((1, 0, 2), (0, 2), (1,))
    """

    parents: tuple[int, ...]
    order: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def from_parents(cls, parents: ArrayLike) -> Wiring:
        """Check that `parents` (d,) describes a forest, and sort it."""
        checked = _as_parents(parents)
        children: list[list[int]] = [[] for _ in range(len(checked) + 1)]
        for i, parent in enumerate(checked):
            children[parent].append(i)  # parent -1 lands in the last list, that of the roots
        order: list[int] = []
        stack = list(reversed(children[ROOT]))
        while stack:
            i = stack.pop()
            order.append(i)
            stack.extend(reversed(children[i]))
        if len(order) < len(checked):
            # what no root reaches hangs below a cycle or lies on it
            lost = sorted(set(range(len(checked))) - set(order))
            raise ValueError(
                f"parents must describe a forest, but following them from variables {lost} never "
                f"reaches a root (parents = {list(checked)}). Give each tree one variable with "
                "parent -1."
            )
        return cls(checked, tuple(order), tuple(map(tuple, children)))

    def path_up(self, i: int) -> list[int]:
        """Return the variables from i to the virtual root, both included."""
        path = [i]
        while path[-1] != ROOT:
            path.append(self.parents[path[-1]])
        return path


def _as_parents(parents: ArrayLike) -> tuple[int, ...]:
    """Return the parents as integers in -1..d-1, or raise ValueError."""
    array: NDArray[Any] = np.asarray(parents)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "parents must be a vector of integers, one per label, but it has shape "
            f"{array.shape} and type {array.dtype}."
        )
    if array.size == 0:
        raise ValueError("parents is empty: a tree needs at least one label.")
    outside = np.flatnonzero((array < ROOT) | (array >= array.size))
    if outside.size:
        i = int(outside[0])
        raise ValueError(
            f"parents[{i}] is {array[i]}, which is no variable: use -1 for a root or an index "
            f"from 0 to {array.size - 1}."
        )
    return tuple(array.tolist())
