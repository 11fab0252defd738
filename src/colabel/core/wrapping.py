"""Walking through scikit-learn's pipelines and searches to the model inside."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model inside pipelines and searches, and rows X as it takes them."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X)
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model, X


def model_inside(model: Any) -> Any:
    """Return the model inside pipelines and fitted searches."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model
