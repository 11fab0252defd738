"""A tree for any rows: its arcs, its classifiers, and where those of each table are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Indices
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Part,
    Positions,
    Whole,
    bind,
    refuse_cycles,
    refuse_unless,
    stored,
)
from colabel.joint import Tree
from colabel.joint.tree.wiring import ROOT
from colabel.labels import LabelSpace
from colabel.learn.conditional import ConditionalModels


def check_slots(
    tree: Indices,
    slots: Sequence[Sequence[int]],
    model_sizes: Sequence[int],
    dims: Dims,
    name: str = "slots",
) -> None:
    """Refuse stored parents (d,) that are no tree, and slots that do not fit them."""
    sizes = dims["sizes"]
    refuse_cycles([[int(parent)] if parent != ROOT else [] for parent in tree])
    for label, (parent, own) in enumerate(zip(tree, slots, strict=True)):
        bind(dims, 1 if parent == ROOT else sizes[parent], len(own), f"{name}[{label}]")
        known = all(slot < len(model_sizes) for slot in own)
        refuse_unless(known, f"{name}[{label}] names a model that is not there")
        fits = all(model_sizes[slot] == sizes[label] for slot in own)
        refuse_unless(fits, f"{name}[{label}] names a model of other values")


def _check_learned(fields: Fields, dims: Dims) -> None:
    dims["sizes"] = tuple(fields["cardinalities"])
    check_slots(fields["parents"], fields["slots"], fields["models"].dims["sizes"], dims)
    if "q" in dims:
        dims["p"] = dims["q"] - 1


@stored(
    "tree",
    check=_check_learned,
    parents=Positions("d", below="d", least=ROOT),
    slots=Many(Many(Whole()), "d"),
    models=Part("linear-models", "estimator-models", q="q"),
    cardinalities=Many(Whole(1, 2**31), "d"),
)
@dataclass(frozen=True)
class LearnedTree:
    """A conditional tree-structured Bayesian network for any rows.

    Attributes
    ----------
    parents : (d,)
        Parent of every label, -1 for roots.
    slots : d lists
        For each label and each value of its parent (one for a root) the position of its model.
    models : ConditionalModels
    cardinalities : (d,)
        Number of values of each label.
    """

    parents: Indices
    slots: list[list[int]]
    models: ConditionalModels
    cardinalities: tuple[int, ...]

    def joint(self, space: LabelSpace, X: Any) -> Tree:
        """Return the joint for rows X (n, p)."""
        log_prob = self.models.log_prob(X)
        tables = [np.stack([log_prob[slot] for slot in own], axis=1) for own in self.slots]
        return Tree(space, self.parents, tables)
