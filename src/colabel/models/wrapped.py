"""The joint of a model that stands inside scikit-learn's own tools."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from colabel.joint import Joint


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
    outermost = model
    while not hasattr(model, "joint"):
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X)
            model = model[-1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise TypeError(
                f"{type(model).__name__} has no joint"
                + ("" if model is outermost else f" (it is inside {type(outermost).__name__})")
                + ": give a fitted model of colabel that has probabilities, or a pipeline or a"
                " search with one at its end."
            )
    joint: Joint = model.joint(X)
    return joint
