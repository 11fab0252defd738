"""Weights of a label's values, in scikit-learn's meaning of `class_weight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import few, lookup
from colabel.learn.conditional import TrainingData

BALANCED = "balanced"
_FORMS = 'give None, "balanced", {value: weight} for every label alike, or {label: {value: weight}}'


def check_class_weight(class_weight: Any) -> None:
    """Raise ValueError unless weights of classes have one of their forms."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight={class_weight!r} is not understood: {_FORMS}.")
    nested = [each is None or isinstance(each, Mapping | str) for each in class_weight.values()]
    if not any(nested):
        _check_values(class_weight)
        return
    if not all(nested):
        raise ValueError(
            f"class_weight={class_weight!r} mixes weights of values with those of labels: {_FORMS}."
        )
    for own in class_weight.values():
        if isinstance(own, Mapping):
            _check_values(own)
        else:
            check_class_weight(own)


def _check_values(weights: Mapping[Any, Any]) -> None:
    for value, weight in weights.items():
        number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not (number and 0 < float(weight) < np.inf):
            raise ValueError(
                f"class_weight gives the value {value!r} the weight {weight!r}, which must be a"
                " positive number."
            )


def class_weights(
    class_weight: Any, space: LabelSpace, counts: Sequence[Array]
) -> tuple[Array, ...]:
    r"""Return the weights (K_i,) of the values of each label.

    "balanced" is what scikit-learn means by it: a value that rows of weight :math:`n_k` have of
    :math:`n` in all, one of K values, has the weight :math:`n / (K n_k)`.

    Parameters
    ----------
    class_weight : None, "balanced", {value: weight} or {label: {value: weight} or "balanced"}
        Values and labels that are not named have the weight one.
    counts : d arrays (K_i,)
        Weight of the rows with each value.
    """
    mapped = isinstance(class_weight, Mapping)
    if mapped and any(not isinstance(each, Real) for each in class_weight.values()):
        asked = dict.fromkeys(range(space.n_labels))
        for name, own in class_weight.items():
            asked[_position(space, name)] = own
    else:
        asked = dict.fromkeys(range(space.n_labels), class_weight)
    return tuple(_weights(asked[i], space, i, own) for i, own in enumerate(counts))


def _position(space: LabelSpace, name: Any) -> int:
    try:
        return space.index(name)
    except KeyError as error:
        raise ValueError(f"class_weight: {error.args[0]}") from None


def _weights(asked: Any, space: LabelSpace, label: int, counts: Array) -> Array:
    values = space.classes[label]
    weights = np.ones(len(values))
    if asked is None:
        return weights
    if isinstance(asked, str):
        balanced: Array = counts.sum() / (len(values) * np.maximum(counts, np.finfo(float).tiny))
        return np.where(counts > 0, balanced, 1.0)
    for value, weight in asked.items():
        code = int(lookup(values, np.array([value]))[0])
        if code < 0:
            raise ValueError(
                f"class_weight names the value {value!r}, which the label {space.names[label]!r}"
                f" never has: its values are {few(values)}."
            )
        weights[code] = float(weight)
    return weights


def one_label(data: TrainingData, label: int, weights: Array) -> TrainingData:
    """Return the data of a label alone, its rows weighted by the values (K,) that they have."""
    codes = data.codes[:, label]
    of_row = np.where(codes == MISSING, 1.0, weights[codes]) * data.row_weights
    return TrainingData(data.X, codes[:, None], data.cardinalities[label : label + 1], of_row)
