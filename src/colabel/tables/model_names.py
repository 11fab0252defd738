"""Models by the names a user types."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline

from colabel import models
from colabel.models import ConformalSets, JointClassifier
from colabel.preprocess import BoostedFeatures, ForestFeatures, KernelFeatures, SplineFeatures
from colabel.tables.source import TableError

_FEW_KINDS = 6  # at most this many are all listed after a mistyped name
_KINDS = [getattr(models, name) for name in models.__all__]
MODEL_NAMES: Mapping[str, type[JointClassifier]] = MappingProxyType(
    dict(
        sorted(
            (kind.short_name or kind.__name__.lower(), kind)
            for kind in _KINDS
            if issubclass(kind, JointClassifier)
            and kind is not JointClassifier
            and not issubclass(kind, MetaEstimatorMixin)
        )
    )
)
"""Every probabilistic model except meta-estimators, by its short or lower-case class name."""

FEATURE_NAMES: Mapping[str, type[BaseEstimator]] = MappingProxyType(
    {
        "boosted": BoostedFeatures,
        "forest": ForestFeatures,
        "kernel": KernelFeatures,
        "spline": SplineFeatures,
    }
)
"""Features that a model can be fitted on, by the prefix of its name: "kernel+ctbn"."""


ESTIMATOR_NAMES: Mapping[str, type[BaseEstimator]] = MappingProxyType(
    {
        "forest": RandomForestClassifier,
        "boosting": HistGradientBoostingClassifier,
        "nb": BernoulliNB,
        "gaussian": GaussianNB,
    }
)
"""Estimators by the names that the parameter `estimator` of a model accepts.

"nb" is Bernoulli naive Bayes for every kind of column: a number counts as above or below its mean,
a category or a word as present or absent. "gaussian" is naive Bayes for numbers alone.
"""


def short_name(text: str) -> str:
    """Return the short name of a model, with its prefix, from any spelling.

    Examples
    --------
    >>> from colabel.tables import short_name
    >>> short_name("KernelFeatures+CTBN"), short_name("MLkNN")
    ('kernel+ctbn', 'mlknn')
    """
    features, plus, model = text.rpartition("+")
    name = _known(model.strip(), MODEL_NAMES, "model")
    before = _known(features.strip(), FEATURE_NAMES, "kind of features") if plus else ""
    return f"{before}{plus}{name}"


def _known(name: str, kinds: Mapping[str, type], what: str) -> str:
    """Return the short name of a kind, or raise an error with the closest name."""
    short = {**{kind.__name__.lower(): key for key, kind in kinds.items()}, **{k: k for k in kinds}}
    known = short.get(name.lower())
    if known is None:
        close = get_close_matches(name.lower(), short, n=1)
        every = f"choose from {', '.join(kinds)}."
        hint = f"did you mean {close[0]}?" if close else every
        if close and len(kinds) <= _FEW_KINDS:
            hint += f" Or {every}"
        raise TableError(f"There is no {what} {name!r}: {hint}")
    return known


def make_model(
    name: str,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    conformal: bool = False,
) -> Any:
    """Make a model by its short or its class name, in any case.

    Parameters
    ----------
    name : str
        "ctbn"; or "spline+ctbn", "forest+ctbn", "boosted+ctbn" and "kernel+ctbn", for a pipeline
        of `SplineFeatures`, `ForestFeatures`, `BoostedFeatures` or `KernelFeatures` and the model.
    seed : int, optional
        Seed of the model and of the features.
    settings : {name: value}, optional
        Parameters of the model; those of the features have their prefix, as in "kernel.width", and
        those of `ConformalSets` "conformal.". An `estimator` may be one of `ESTIMATOR_NAMES`.
    conformal : bool
        Whether to wrap the model in `ConformalSets`.

    Returns
    -------
    JointClassifier, or a pipeline that ends in one

    Examples
    --------
    >>> from colabel.tables import make_model
    >>> make_model("ctbn", seed=0, settings={"C": 0.1})
    CTBN(C=0.1, random_state=0)
    >>> make_model("br", settings={"estimator": "forest"})
    BinaryRelevance(estimator=RandomForestClassifier())
    >>> model = make_model("kernel+ctbn", settings={"C": 0.1, "kernel.width": 2.0})
    >>> model[0]
    KernelFeatures(width=2.0)
    """
    features, _, kind = short_name(name).rpartition("+")
    values = dict(settings or {})
    of_features = _taken(values, f"{features}.") if features else {}
    of_sets = _taken(values, "conformal.") if conformal else {}
    base = values.get("estimator")
    if isinstance(base, str):
        values["estimator"] = ESTIMATOR_NAMES[_known(base, ESTIMATOR_NAMES, "estimator")]()
    elif base is not None and not hasattr(base, "fit"):
        raise TableError(
            f"estimator is {base!r}: give a classifier, or one of {', '.join(ESTIMATOR_NAMES)}."
        )
    model = _made(MODEL_NAMES[kind](), seed, values)
    decision = model.get_params(deep=False).get("decision", "subset")
    if features:
        model = make_pipeline(_made(FEATURE_NAMES[features](), seed, of_features), model)
    if not conformal:
        return model
    return _made(ConformalSets(model, decision=decision), seed, of_sets)


def _taken(settings: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Remove the settings with a prefix, and return them without it."""
    return {
        key.removeprefix(prefix): settings.pop(key)
        for key in list(settings)
        if key.startswith(prefix)
    }


def _made(made: BaseEstimator, seed: int | None, settings: Mapping[str, Any]) -> BaseEstimator:
    """Set the seed and parameters of an estimator, or raise an error for unknown ones."""
    known = made.get_params(deep=False)
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise TableError(
            f"{type(made).__name__} has no parameter {unknown[0]!r}: it has {', '.join(known)}."
        )
    seeded = {"random_state": seed} if "random_state" in known else {}
    return made.set_params(**{**seeded, **settings})


def parse_setting(text: str) -> tuple[str, Any]:
    """Read "C=0.1", "C=(0.1, 1)" or "order=random" as a name and a value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise TableError(f"A setting is written name=value, not {text!r}.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value.strip()
