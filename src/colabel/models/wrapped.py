"""A model that stands inside scikit-learn's own tools: its joint, its name, its labels' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from colabel.core.estimators import model_inside, unwrapped
from colabel.joint import Joint

__all__ = [
    "fit_arguments",
    "joint_of",
    "model_inside",
    "parts_of",
    "title_of",
    "unwrapped",
    "with_model_inside",
    "without_search",
]


def joint_of(model: Any, X: Any) -> Joint:
    """Return P(y | x) of a fitted model, also from inside a pipeline or a search.

    scikit-learn's `Pipeline` and `GridSearchCV` pass on `predict` and `predict_proba`, but know
    nothing of `joint`. This walks down to the model: through the best estimator of a search, and
    through the steps of a pipeline, which transform X on the way.

    Parameters
    ----------
    model : fitted estimator
        One of colabel's, or a pipeline or search around one.
    X : (n, p)
        Rows, as the outermost estimator takes them.

    Returns
    -------
    Joint

    Raises
    ------
    TypeError
        When there is no model with a joint inside.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from colabel import CTBN, joint_of
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = make_pipeline(StandardScaler(), CTBN(C=0.01, random_state=0))
    >>> model = model.fit(data.X[:300], data.Y[:300])
    >>> joint_of(model, data.X[300:302]).mode().shape
    (2, 7)
    """
    inner, X = unwrapped(model, X)
    if not hasattr(inner, "joint"):
        raise TypeError(
            f"{type(inner).__name__} has no joint"
            + ("" if inner is model else f" (it is inside {type(model).__name__})")
            + ": give a fitted model of colabel that has probabilities, or a pipeline or a"
            " search with one at its end."
        )
    joint: Joint = inner.joint(X)
    return joint


def parts_of(model: Any) -> list[BaseEstimator]:
    """Return the steps of a pipeline, or a model alone."""
    return [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]


def with_model_inside(model: Any, inner: Any) -> Any:
    """Return clones of an unfitted model's steps, with another model in the place of its last."""
    if not isinstance(model, Pipeline):
        return clone(inner)
    *steps, (name, _) = model.steps
    return Pipeline([*((own, clone(step)) for own, step in steps), (name, clone(inner))])


def without_search(model: Any) -> Any:
    """Return the model that a search would fit, in the place of the search."""
    if isinstance(model, Pipeline):
        return with_model_inside(model, without_search(model[-1]))
    return model.estimator if isinstance(model, GridSearchCV | RandomizedSearchCV) else model


def title_of(model: Any) -> str:
    """Return the names of the classes of a model and the steps before it.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from colabel import CTBN, KernelFeatures
    >>> from colabel.models.wrapped import title_of
    >>> title_of(make_pipeline(KernelFeatures(), CTBN()))
    'KernelFeatures + CTBN'
    >>> from colabel import ConformalSets
    >>> title_of(ConformalSets(CTBN()))
    'ConformalSets(CTBN)'
    """
    return " + ".join(map(_title, parts_of(model)))


def _title(part: Any) -> str:
    inner = getattr(part, "estimator", None) if isinstance(part, MetaEstimatorMixin) else None
    own = type(part).__name__
    return own if inner is None else f"{own}({title_of(inner)})"


def fit_arguments(model: Any, names: Sequence[str], weight: Any = None) -> dict[str, Any]:
    """Return the arguments of ``model.fit`` that name the labels and weigh the rows, if it can.

    A model that takes no weights is refused, where there are any.
    """
    prefix = ""
    while isinstance(model, Pipeline | GridSearchCV | RandomizedSearchCV):
        if isinstance(model, Pipeline):
            name, model = model.steps[-1]
            prefix += f"{name}__"
        else:
            model = model.estimator  # to which a search passes on what it is given
    given = {"label_names": list(names), "sample_weight": weight}
    known = {name: value for name, value in given.items() if has_fit_parameter(model, name)}
    if weight is not None and "sample_weight" not in known:
        raise ValueError(f"{type(model).__name__} takes no weights of rows.")
    return {f"{prefix}{name}": value for name, value in known.items() if value is not None}
