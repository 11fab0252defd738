"""Forests grown by scikit-learn, kept as plain arrays and walked by compiled loops."""

from colabel.learn.forest.boosting import BoostedTrees, boost
from colabel.learn.forest.contents import LabelForest, LeafCounts, PlainForest, label_targets
from colabel.learn.forest.forest import Forest, Grown, grow

__all__ = [
    "BoostedTrees",
    "Forest",
    "Grown",
    "LabelForest",
    "LeafCounts",
    "PlainForest",
    "boost",
    "grow",
    "label_targets",
]
