"""Walking through scikit-learn's pipelines and searches to the model inside."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model inside pipelines and searches, and rows X as it takes them."""
    while True:
        if isinstance(model, Pipeline):
            X, model = model[:-1].transform(X), model[-1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model, X


def model_inside(model: Any) -> Any:
    """Return the model inside pipelines and fitted searches."""
    while True:
        if isinstance(model, Pipeline):
            model = model[-1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model
