"""A second fit that knows nothing of the first, and replaces it only when it is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from colabel.core.schema import declared_for

Method = TypeVar("Method", bound=Callable[..., Any])
Estimator = TypeVar("Estimator")


def unfitted_copy(estimator: Estimator) -> Estimator:
    """Return an object with the same parameters (not copies of them) and nothing learned.

    Fitting it, and then handing its attributes over at once (``model.__dict__ = vars(fresh)``),
    leaves the model as it was until then: a fit that is interrupted loses nothing.

    What is learned has a name that ends in an underscore, or is declared to be stored with a model
    (other private attributes may be scikit-learn's own). Attributes that only some fits set (``C_``
    of the built-in regressions, the classifiers of an `estimator`, a calibration) would otherwise
    survive a change of parameters, and be shown, saved and used as if they belonged to the new fit.

    Examples
    --------
    >>> from colabel import BinaryRelevance
    >>> model = BinaryRelevance(C=1.0).fit([[0.0], [1.0]], [[0], [1]])
    >>> fresh = unfitted_copy(model)
    >>> hasattr(fresh, "C_"), fresh.C, hasattr(model, "C_")
    (False, 1.0, True)
    """
    declared = declared_for(estimator)
    known = declared.fields if declared is not None else {}
    parameters = estimator.get_params(deep=False)  # type: ignore[attr-defined]
    fresh = object.__new__(type(estimator))
    for name, value in vars(estimator).items():
        learned = name in known or (name.endswith("_") and not name.startswith("__"))
        if name in parameters or name.startswith("_sklearn") or not learned:
            vars(fresh)[name] = value
    return fresh


def fits_afresh(fit: Method) -> Method:
    """Let a method learn into an `unfitted_copy`, which replaces the estimator when it returns."""

    @wraps(fit)
    def swapping(self: Any, *args: Any, **kwargs: Any) -> Any:
        fresh = unfitted_copy(self)
        result = fit(fresh, *args, **kwargs)
        self.__dict__ = fresh.__dict__
        return self if result is fresh else result

    return swapping  # type: ignore[return-value]
