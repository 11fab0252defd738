"""What is compared, and how: asked for in words, checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

from colabel.comparing.held_out import HeldOut
from colabel.comparing.measures import COMPARED
from colabel.comparing.result import BASELINE, THRESHOLDS, ModelResult
from colabel.core.arrays import Codes, Indices
from colabel.core.wrapping import model_inside
from colabel.decide import resolve_decision
from colabel.model_selection import LabelKFold, TimeFolds
from colabel.models import JointStack
from colabel.tables import MODEL_NAMES, ModelName, TableError, make_model

STACK = JointStack.short_name
_BENT = ("forest+pcc", "kernel+pcc")  # a model behind features that bend straight lines
DEFAULT_MODELS = ("br", "ctbn", "pcc", "cdn", "mlknn", "iblr", "forest", *_BENT)
"""What is compared unless models are named. A stack takes several times as long as all of these."""
MOST_ROWS = 5_000
"""Rows of a table that are compared on unless said otherwise: more are sampled.

With 30 features and 10 labels the default models take about two minutes on two cores then.
"""
_MOST_STRATIFIED = 20_000  # rows; stratifying more takes longer than it is worth

Models: TypeAlias = (
    str | BaseEstimator | Iterable[str | BaseEstimator] | Mapping[str, str | BaseEstimator]
)


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare and how.

    Attributes
    ----------
    models : str, estimator, sequence or mapping of them
        Short or class names, as `make_model` takes them; "default" stands for `DEFAULT_MODELS`,
        "all" for these and every other model. Or estimators, of colabel or of scikit-learn, which
        are cloned; a mapping names them.
    cv : int, splitter or iterable
        Number of folds, in which every label is about equally common; or a splitter of
        scikit-learn, or pairs of training and test rows.
    seed : int
    measure : str
        The one that decides, by its title or its name in `MEASURES`; by default exact match, and
        macro F1 with `thresholds`, which are tuned for it.
    decision : str
        Loss that predictions minimise.
    thresholds : bool
        Whether labels are announced by thresholds of their own instead, tuned for the macro F1.
    calibrate : bool
        Whether the recommended model is also cross-validated with ``calibrate=True``.
    coverage : float or None
        Probability with which the recommended model's label sets shall hold the true one: how many
        it takes is measured on rows held out.
    max_rows : int or None
        Rows of a sample that larger tables are compared on; None for all rows.
    n_jobs : int
        Processes; each model uses all cores by itself where it can.
    graph : bool
        Whether to fit the recommended model to all rows compared, and to measure which labels
        depend on each other.
    groups : (n,), optional
        Rows of equal value, such as one patient's, are never in training and test at once.
    times : (n,), optional
        When each row was taken: training rows are older than all test rows.
    """

    models: Models = DEFAULT_MODELS
    cv: Any = 5
    seed: int = 0
    measure: str = ""
    decision: str = "subset"
    thresholds: bool = False
    calibrate: bool = False
    coverage: float | None = None
    max_rows: int | None = MOST_ROWS
    n_jobs: int = 1
    graph: bool = True
    groups: Any = None
    times: Any = None
    estimators: Mapping[str, BaseEstimator] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        titles = {m.title: name for name, m in COMPARED.items() if name != "seconds"}
        wanted = self.measure or ("macro F1" if self.thresholds else "exact match")
        measure = titles.get(wanted, wanted)
        if measure not in titles.values():
            raise TableError(
                f"There is no measure {self.measure!r}: choose from {', '.join(titles)}."
            )
        object.__setattr__(self, "measure", measure)
        resolve_decision(self.decision)
        if self.groups is not None and self.times is not None:
            raise TableError("Folds are made by groups or by time: give one of them.")
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise TableError(f"coverage is {self.coverage:g}: give a probability, such as 0.9.")
        if self.max_rows is not None and self.max_rows < 2:
            raise TableError(f"max_rows is {self.max_rows}: give at least 2, or None for all rows.")
        if isinstance(self.cv, Integral) and self.cv < 2:
            raise TableError(f"cv is {self.cv}: give at least 2 folds.")
        object.__setattr__(self, "estimators", self._made())

    @property
    def decided_by(self) -> str:
        """The decision, or "thresholds"."""
        return THRESHOLDS if self.thresholds else self.decision

    def result(self, title: str, folds: Sequence[HeldOut]) -> ModelResult:
        """Take the measures of a model's answers, decided as asked."""
        return ModelResult.of(title, folds, self.decision, thresholds=self.thresholds)

    def folds(self, codes: Codes, rows: Indices | None = None) -> list[tuple[Indices, Indices]]:
        """Return the folds of rows (all by default) of the table, with labels in codes (n, d)."""
        rows = np.arange(len(codes)) if rows is None else rows
        is_count = isinstance(self.cv, Integral)
        if is_count or self.groups is not None or self.times is not None:
            n_splits = int(self.cv) if is_count else 5
            groups = None if self.groups is None else np.asarray(self.groups)[rows]
            try:
                if self.times is not None:
                    return list(TimeFolds(np.asarray(self.times)[rows], n_splits).split())
                if groups is None and len(codes) > _MOST_STRATIFIED:
                    return list(KFold(n_splits, shuffle=True, random_state=self.seed).split(codes))
                splitter = LabelKFold(n_splits, random_state=self.seed)
                return list(splitter.split(None, codes, groups))
            except ValueError as error:
                raise TableError(str(error)) from error
        split = getattr(self.cv, "split", None)
        folds = list(self.cv if split is None else split(codes, codes))
        if not folds:
            raise TableError("cv gives no fold: give at least one pair of training and test rows.")
        return folds

    def _made(self) -> dict[str, BaseEstimator]:
        """Make the models, each under its name, deciding as asked."""
        made: dict[str, BaseEstimator] = {}
        for name, model in _named(self.models):
            own = clone(model) if isinstance(model, BaseEstimator) else make_model(model, self.seed)
            inner = model_inside(own)
            if "decision" in inner.get_params(deep=False) and isinstance(model, str):
                inner.set_params(decision=self.decision)
            made.setdefault(name, own)
        if not made:
            raise TableError("No model is named: name at least one.")
        if BASELINE in made:
            raise TableError(f"A model cannot be called {BASELINE!r}: give it another name.")
        return made


def _named(models: Models) -> Iterable[tuple[str, str | BaseEstimator]]:
    """Yield every model wanted with its name, several for a name that stands for several."""
    groups: Mapping[str, Sequence[str]] = {
        "default": DEFAULT_MODELS,
        "all": (*MODEL_NAMES, *_BENT),
    }
    if isinstance(models, Mapping):
        yield from models.items()
        return
    taken: set[str] = set()
    for model in [models] if isinstance(models, str | BaseEstimator) else models:
        if isinstance(model, str):
            for part in filter(None, map(str.strip, model.split(","))):
                for name in groups.get(part.lower(), (part,)):
                    short = str(ModelName.read(name))
                    yield short, short
            continue
        if not isinstance(model, BaseEstimator):
            raise TableError(
                f"A model is a name or an estimator, not {model!r}: choose from "
                f"{', '.join(MODEL_NAMES)}."
            )
        name = plain = type(model_inside(model)).__name__
        for number in range(2, 2 + len(taken)):
            if name in taken:
                name = f"{plain} {number}"
        taken.add(name)
        yield name, model
