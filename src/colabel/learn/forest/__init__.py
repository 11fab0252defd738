"""Forests grown by scikit-learn, kept as plain arrays and walked by compiled loops."""

from colabel.learn.forest.boosting import BoostedTrees, boost
from colabel.learn.forest.contents import LeafCounts
from colabel.learn.forest.forest import Forest
from colabel.learn.forest.growing import Grown, grow
from colabel.learn.forest.label_forest import LabelForest, label_targets
from colabel.learn.forest.plain_forest import PlainForest

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
