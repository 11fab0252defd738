"""A second fit that knows nothing of the first."""

from __future__ import annotations

from typing import Any

from colabel.core.schema import declared_for


def forget_fit(estimator: Any) -> None:
    """Remove what an earlier `fit` has learned.

    That is what has a name that ends in an underscore, or is declared to be stored with a model
    (other private attributes may be scikit-learn's own). Attributes that only some fits set (``C_``
    of the built-in regressions, the classifiers of an `estimator`, a calibration) would otherwise
    stay there after other parameters were set, and be told, saved and used as if they belonged to
    the new fit.

    Examples
    --------
    >>> from colabel import BinaryRelevance
    >>> model = BinaryRelevance(C=1.0).fit([[0.0], [1.0]], [[0], [1]])
    >>> forget_fit(model)
    >>> hasattr(model, "C_"), model.C
    (False, 1.0)
    """
    declared = declared_for(estimator)
    known = declared.fields if declared is not None else {}
    parameters = estimator.get_params(deep=False)
    for name in vars(estimator).keys() - parameters.keys():
        if name in known or (name.endswith("_") and not name.startswith("__")):
            delattr(estimator, name)
