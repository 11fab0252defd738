"""Models by the names a user types."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from colabel import models
from colabel.datasets.frame import TableError
from colabel.models import JointClassifier

_KINDS = [getattr(models, name) for name in models.__all__]
MODEL_NAMES: Mapping[str, type[JointClassifier]] = MappingProxyType(
    dict(
        sorted(
            (kind.short_name or kind.__name__.lower(), kind)
            for kind in _KINDS
            if issubclass(kind, JointClassifier) and kind is not JointClassifier
        )
    )
)
"""Every probabilistic model under its short name, or its class name in lower case."""


def make_model(
    name: str, seed: int | None = None, settings: Mapping[str, Any] | None = None
) -> JointClassifier:
    """Make a model by its short or its class name, in any case.

    Examples
    --------
    >>> from colabel.tables import make_model
    >>> make_model("ctbn", seed=0, settings={"C": 0.1})
    CTBN(C=0.1, random_state=0)
    """
    by_name = {**MODEL_NAMES, **{kind.__name__.lower(): kind for kind in MODEL_NAMES.values()}}
    kind = by_name.get(name.lower())
    if kind is None:
        close = get_close_matches(name.lower(), by_name, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(MODEL_NAMES)}."
        raise TableError(f"There is no model {name!r}: {hint}")
    model: JointClassifier = kind()
    known = model.get_params(deep=False)
    values = dict(settings or {})
    if "random_state" in known:
        values.setdefault("random_state", seed)
    unknown = [key for key in values if key not in known]
    if unknown:
        raise TableError(
            f"{kind.__name__} has no parameter {unknown[0]!r}: it has {', '.join(known)}."
        )
    model.set_params(**values)
    return model


def parse_setting(text: str) -> tuple[str, Any]:
    """Read "C=0.1", "C=(0.1, 1)" or "order=random" as a name and a value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise TableError(f"A setting is written name=value, not {text!r}.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value.strip()
