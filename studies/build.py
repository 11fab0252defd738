"""Estimators and preprocessing from the tables of a plan.

A table with the key "model" is an estimator; the other keys are its parameters, which may be such
tables again. Under the key "search" stand values to choose parameters from, by three folds of the
training rows and the estimator's own score (exact match), or by what "scoring" names; under "none"
the parameters that are None, which TOML cannot say (nor pairs: lists stand for them). Only classes
listed here can be named: a plan never runs code of its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from inspect import isclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold

from colabel.metrics import f1_score

_OTHERS = {
    "sklearn.ensemble": ("RandomForestClassifier",),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.linear_model": ("LogisticRegression", "LogisticRegressionCV", "SGDClassifier"),
    "sklearn.naive_bayes": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "sklearn.neighbors": ("KNeighborsClassifier",),
    "sklearn.preprocessing": ("MaxAbsScaler", "MinMaxScaler", "Normalizer", "StandardScaler"),
    "sklearn.svm": ("LinearSVC", "SVC"),
    "sklearn.tree": ("DecisionTreeClassifier",),
}
_OWN = ("colabel", "colabel.models", "colabel.preprocess", "studies.methods")
_SEARCH_FOLDS = 3
# Parameters of scikit-learn that must be tuples.
_TUPLES = frozenset({"feature_range"})
_SCORINGS = {"micro_f1": "micro", "macro_f1": "macro"}


class BuildError(ValueError):
    """A plan names a class or a parameter that does not exist; the message says which."""


@lru_cache(maxsize=1)
def known_classes() -> Mapping[str, Callable[..., Any]]:
    """Return the estimators and transformers that plans can name."""
    found: dict[str, Callable[..., Any]] = {}
    for module, names in _OTHERS.items():
        found.update({name: getattr(import_module(module), name) for name in names})
    for module in _OWN:
        home = import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            if isclass(value) and issubclass(value, BaseEstimator) and value is not BaseEstimator:
                found[name] = value
    return found


def build(description: Any) -> Any:
    """Make an estimator, or a parameter, from what a plan says.

    Examples
    --------
    >>> build({"model": "CTBN", "C": [0.1, 1.0]})
    CTBN(C=[0.1, 1.0])
    """
    if isinstance(description, Mapping):
        parameters = {key: build(value) for key, value in description.items()}
        pairs = {key: parameters[key] for key in _TUPLES & parameters.keys()}
        parameters.update({k: tuple(own) for k, own in pairs.items() if isinstance(own, list)})
        if "model" not in parameters:
            return parameters
        grid, scoring = parameters.pop("search", None), parameters.pop("scoring", None)
        parameters.update(dict.fromkeys(parameters.pop("none", ())))
        model = _make(parameters.pop("model"), parameters)
        return model if grid is None else _searched(model, grid, scoring)
    if isinstance(description, list | tuple):
        return [build(entry) for entry in description]
    return description


def build_steps(steps: Sequence[Any]) -> list[Any]:
    """Make transformers from names of classes or tables."""
    return [build({"model": step} if isinstance(step, str) else step) for step in steps]


def _searched(model: Any, grid: Mapping[str, Any], scoring: str | None) -> GridSearchCV:
    unknown = sorted(set(grid) - set(model.get_params()))
    if unknown:
        raise BuildError(f"{type(model).__name__} has no parameter {unknown[0]!r} to search over.")
    if scoring is not None and scoring not in _SCORINGS:
        known = ", ".join(_SCORINGS)
        raise BuildError(f"scoring is {scoring!r}; leave it out for exact match, or give {known}.")
    scorer = None
    if scoring is not None:
        scorer = make_scorer(f1_score, average=_SCORINGS[scoring])
    folds = KFold(_SEARCH_FOLDS, shuffle=True, random_state=0)
    return GridSearchCV(model, dict(grid), cv=folds, scoring=scorer, error_score="raise")


def _make(name: str, parameters: Mapping[str, Any]) -> Any:
    classes = known_classes()
    if name not in classes:
        raise BuildError(f"There is no model {name!r}; choose from {', '.join(sorted(classes))}.")
    try:
        return classes[name](**parameters)
    except TypeError as error:
        raise BuildError(f"{name} cannot be made from {dict(parameters)}: {error}.") from error
