"""Parts of all estimators: inherited parameters, fits that start afresh, models inside others."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from sklearn.pipeline import Pipeline

from colabel.core.schema import declared_for

Method = TypeVar("Method", bound=Callable[..., Any])
Estimator = TypeVar("Estimator")

_SECTION = re.compile(r"\n\n(\w[\w ]*)\n-{3,}\n")


def attribute(*, init: Literal[False] = False) -> Any:
    """Return the field of an attribute that `fit` sets; it is not a parameter."""
    return field(init=init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field, attribute))
class Parameters:
    """Base of estimators that declare parameters as a dataclass does, and inherit them.

    The annotated fields of a class and of its bases are the parameters of its constructor, but
    for those marked by `attribute`. The sections "Parameters" and "Attributes" of a docstring
    describe what is new or different; what the bases say of the others is added to them.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> class Penalised(Parameters, BaseEstimator):
    ...     '''A base.
    ...
    ...     Parameters
    ...     ----------
    ...     C : float
    ...         Inverse strength of the penalty.
    ...     '''
    ...     C: float = 1.0
    >>> class Model(Penalised):
    ...     '''A model.'''
    ...     k: int = 3
    ...     coef_: Any = attribute()
    >>> Model(C=0.1)
    Model(C=0.1)
    >>> Model.__doc__.splitlines()[-2:]
    ['C : float', '    Inverse strength of the penalty.']
    >>> Model(q=2)
    Traceback (most recent call last):
    TypeError: Model has no parameter 'q'. It has k, C.
    """

    _described: ClassVar[dict[str, dict[str, str]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False, repr=False, kw_only=True, match_args=False)(cls)
        if "__init__" in vars(cls):
            cls.__init__ = _naming_unknown(cls)  # type: ignore[method-assign]
        _describe(cls)


def _naming_unknown(cls: Any) -> Callable[..., None]:
    """Let a constructor that is given an unknown parameter list those that it has."""
    init: Callable[..., None] = cls.__init__
    signature = inspect.signature(init)

    def place(parameter: inspect.Parameter) -> tuple[Any, int]:
        """Sort positional parameters first, then those of the class before those of its bases."""
        named = [parameter.name in vars(c).get("__annotations__", ()) for c in cls.__mro__]
        by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY and any(named)
        return parameter.kind, named.index(True) if by_name else 0

    ordered = sorted(signature.parameters.values(), key=place)
    known = [parameter.name for parameter in ordered][1:]

    @wraps(init)
    def checking(self: Any, *args: Any, **kwargs: Any) -> None:
        if unknown := kwargs.keys() - set(known):
            raise TypeError(
                f"{type(self).__name__} has no parameter {min(unknown)!r}. It has"
                f" {', '.join(known)}."
                + (
                    " BinaryRelevance takes class_weight; every model can predict rare labels more"
                    " often by ThresholdedClassifier or another decision."
                    if "class_weight" in unknown
                    else ""
                )
            )
        init(self, *args, **kwargs)

    vars(checking)["__signature__"] = signature.replace(parameters=ordered)
    return checking


def _describe(cls: Any) -> None:
    """Complete the sections of a docstring by what the docstrings of the bases say."""
    described: dict[str, dict[str, str]] = {}
    text, place = inspect.cleandoc(cls.__doc__ or ""), 0
    fields = [name for name in cls.__dataclass_fields__ if name[-1] == "_"]
    for title, wanted in (
        ("Parameters", list(inspect.signature(cls).parameters)),
        ("Attributes", fields),
    ):
        heading = re.search(rf"\n\n{title}\n-+\n", text)
        begin = heading.end() if heading else place
        following = _SECTION.search(text, begin)
        end = following.start() if following else len(text)
        described[title] = own = _entries(text[begin:end]) if heading else {}
        inherited: dict[str, str] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= vars(base).get("_described", {}).get(title, {})
        more = {inherited[name]: None for name in wanted if name in inherited and name not in own}
        before = "" if heading or not more else f"\n\n{title}\n{'-' * len(title)}"
        added = "\n".join([before, *more])
        text, place = text[:end] + added + text[end:], end + len(added)
    cls._described, cls.__doc__ = described, text


def _entries(section: str) -> dict[str, str]:
    """Return the description of each name; names that are described together share it."""
    entries = {}
    for entry in re.split(r"\n(?=\w)", section):
        for name in entry.partition(" :")[0].partition("\n")[0].split(", "):
            entries[name] = entry
    return entries


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


def unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model inside pipelines and searches, and rows X (or None) as it takes them."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if isinstance(model, Pipeline) and len(model) > 1 and X is not None:
            X = model[:-1].transform(X)
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model, X


def model_inside(model: Any) -> Any:
    """Return the model inside pipelines and fitted searches."""
    return unwrapped(model, None)[0]
