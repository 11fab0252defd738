"""What the models that are defined for labels of two values ask of their labels."""

from __future__ import annotations

from colabel.core.arrays import Flags
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.models._learning import refuse_missing


def two_valued(data: TrainingData, space: LabelSpace, model: str) -> Flags:
    """Return the codes (n, d) as booleans, or refuse them in a sentence that names the `model`.

    The second value of a label, 1 of 0/1 labels, is True.
    """
    for name, size in zip(space.names, space.cardinalities, strict=True):
        if size != 2:
            raise ValueError(
                f"Only binary classification is supported. {model} is defined for labels of two"
                f" values, but label {name!r} has {size} {'class' if size == 1 else 'classes'}."
                " Use BinaryRelevance or CTBN for class variables of other sizes."
            )
    refuse_missing(data, space, f"{model} learns from whole label vectors")
    return data.codes.astype(bool)
