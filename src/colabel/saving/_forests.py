"""Forests and trees of scikit-learn in a model file: as plain arrays, checked when loaded.

Fitted ones come back as a `PlainForest`, which answers as they did; an unfitted one, the parameter
of a model, comes back as itself.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from colabel.core.schema import Anything, Fields, Kind, Setting, declare, declared_by_tag
from colabel.learn.forest.plain_forest import PlainForest
from colabel.saving._tree import CannotBeWrittenError

_FORESTS = (
    RandomForestClassifier,
    ExtraTreesClassifier,
    DecisionTreeClassifier,
    ExtraTreeClassifier,
)
PLAIN_FIELDS = declared_by_tag("plain-forest").fields


def _declare_forest(cls: type) -> None:
    def take(value: Any) -> Fields:
        parameters = value.get_params(deep=False)
        if not hasattr(value, "classes_"):
            return dict(parameters)
        if value.n_outputs_ != 1:
            raise CannotBeWrittenError(
                f"its {cls.__name__} has {value.n_outputs_} outputs, where one is expected"
            )
        plain = PlainForest.of(value)
        return {**parameters, **{name: getattr(plain, name) for name in PLAIN_FIELDS}}

    def make(fields: Fields) -> Any:
        if "forest_" not in fields:
            return cls(**fields)
        made = PlainForest()
        for name in PLAIN_FIELDS:
            setattr(made, name, fields[name])
        return made

    others = ("class_weight", "monotonic_cst")
    accepted = inspect.signature(cls).parameters
    wider: dict[str, Kind] = {name: Anything() for name in others if name in accepted}
    fields: dict[str, Kind] = {**PLAIN_FIELDS, **wider}
    declare(cls, f"sklearn.{cls.__name__}", fields, take=take, make=make, others=Setting())


for _cls in _FORESTS:
    _declare_forest(_cls)
