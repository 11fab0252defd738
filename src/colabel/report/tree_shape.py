"""The shape of a label tree: where its labels go, and the tree as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array
from colabel.joint.tree.wiring import ROOT, Wiring

__all__ = ["ROOT", "Forest", "tree_layout", "tree_text"]


@dataclass(frozen=True)
class Forest:
    """A forest in the order in which it is read: larger trees and subtrees first.

    Attributes
    ----------
    parents : tuple of int, length d
        Parent of each label, -1 for roots.
    children : tuple of d + 1 tuples of int
        Children of each label, in reading order; the last entry holds the roots.
    order : tuple of int, length d
        The labels in reading order: each label directly before the trees below it.
    """

    parents: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    @classmethod
    def from_parents(cls, parents: ArrayLike) -> Forest:
        """Check and sort a forest given as parents (d,)."""
        wiring = Wiring.from_parents(parents)
        sizes = [1] * (len(wiring.parents) + 1)  # the last one gathers the roots
        for i in reversed(wiring.order):
            sizes[wiring.parents[i]] += sizes[i]
        children = tuple(
            tuple(sorted(siblings, key=lambda i: (-sizes[i], i))) for siblings in wiring.children
        )
        order: list[int] = []
        stack = list(reversed(children[ROOT]))
        while stack:
            order.append(stack.pop())
            stack.extend(reversed(children[order[-1]]))
        return cls(wiring.parents, children, tuple(order))

    def is_lone(self, i: int) -> bool:
        """Whether label i has neither parent nor children."""
        return self.parents[i] == ROOT and not self.children[i]


def tree_layout(parents: ArrayLike) -> Array:
    """Place the labels of a forest: depth in one direction, leaves evenly spaced in the other.

    Parameters
    ----------
    parents : int array of shape (d,)
        Parent of each label, -1 for roots.

    Returns
    -------
    positions : array of shape (d, 2)
        ``positions[i, 0]`` is the depth of label i, 0 for roots. ``positions[i, 1]`` is its place
        across: leaves are at 0, 1, 2, …, every other label is halfway between its first and its
        last child. So no two labels are at the same place, and no two arcs cross.

    Notes
    -----
    Larger trees come first, and so do larger subtrees among siblings; equally large ones keep the
    order of their indices. Labels without parent and children therefore come last.

    Examples
    --------
    >>> from colabel.report import tree_layout
    >>> tree_layout([-1, 0, 0, 2])
    array([[0. , 0.5],
           [1. , 1. ],
           [1. , 0. ],
           [2. , 0. ]])
    """
    forest = Forest.from_parents(parents)
    positions = np.zeros((len(forest.order), 2))
    n_leaves = 0
    for i in forest.order:
        parent = forest.parents[i]
        positions[i, 0] = 0.0 if parent == ROOT else positions[parent, 0] + 1.0
        if not forest.children[i]:
            positions[i, 1] = n_leaves
            n_leaves += 1
    for i in reversed(forest.order):
        if forest.children[i]:
            first, last = forest.children[i][0], forest.children[i][-1]
            positions[i, 1] = (positions[first, 1] + positions[last, 1]) / 2.0
    return positions


def tree_text(parents: ArrayLike, names: Sequence[str], strengths: ArrayLike | None = None) -> str:
    """Write a label tree with box-drawing characters, one label per line.

    Parameters
    ----------
    parents : int array of shape (d,)
        Parent of each label, -1 for roots.
    names : sequence of d str
    strengths : array of shape (d,), optional
        Strength of the arc into each label, for instance the gain in held-out log-likelihood per
        row in nats; NaN for unknown. What stands at the roots is ignored.

    Returns
    -------
    text : str
        Without a final line break. Labels are in the order of :func:`tree_layout`.

    Examples
    --------
    >>> from colabel.report import tree_text
    >>> print(tree_text([-1, 0, 0, 2], ["calm", "sad", "quiet", "slow"], [0, 0.25, 0.031, 0.5]))
    calm
    ├── quiet     0.031
    │   └── slow  0.500
    └── sad       0.250
    """
    forest = Forest.from_parents(parents)
    labels = checked_names(names, len(forest.parents))
    notes = [strength_note(s) for s in arc_values(strengths, forest, "strengths")]
    indents = {ROOT: ""}  # what the lines below a label begin with
    lines = {}
    for i in forest.order:
        parent = forest.parents[i]
        last = i == forest.children[parent][-1]
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if parent == ROOT:
            branch, below = "", ""
        lines[i] = indents[parent] + branch + labels[i]
        indents[i] = indents[parent] + below
    width = max(map(len, lines.values()))
    note_width = max(map(len, notes))
    return "\n".join(
        f"{lines[i]:<{width}}  {notes[i]:>{note_width}}" if notes[i] else lines[i]
        for i in forest.order
    )


# ---------------------------------------------------------------------- names and values of arcs


def checked_names(names: Sequence[str], n_labels: int) -> list[str]:
    """Return one name per label, as strings on a single line."""
    if isinstance(names, str) or len(names) != n_labels:
        raise ValueError(
            f"names is {names!r}, but there are {n_labels} labels in parents: give a sequence of "
            f"{n_labels} names."
        )
    return [" ".join(str(name).split()) for name in names]


def arc_values(values: ArrayLike | None, forest: Forest, what: str) -> Array:
    """Return the values of the arcs into each label (d,), NaN at roots and where unknown."""
    d = len(forest.parents)
    if values is None:
        return np.full(d, np.nan)
    array = np.array(values, dtype=np.float64)
    if array.shape != (d,):
        raise ValueError(
            f"{what} has shape {array.shape}, but parents has {d} labels: give one value per "
            f"label, for the arc into it, of shape ({d},)."
        )
    array[np.array(forest.parents) == ROOT] = np.nan
    if np.isinf(array).any():
        i = int(np.flatnonzero(np.isinf(array))[0])
        raise ValueError(f"{what}[{i}] is {array[i]}: give a finite value, or NaN for unknown.")
    return array


def strength_note(strength: float) -> str:
    """Write a strength with three decimals; nothing if it is unknown."""
    if np.isnan(strength):
        return ""
    if 0 < strength < 0.0005:
        return "<0.001"  # "0.000" would read as none at all
    return f"{strength + 0.0:.3f}".replace("-", "−")
