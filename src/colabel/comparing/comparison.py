"""Models on the same folds of a table: which are compared, and the record of the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.comparing.held_out import Folds, Task
from colabel.comparing.result import (
    BASELINE,
    COMPARED,
    DECIDED_MEASURES,
    THRESHOLDS,
    ModelResult,
    is_better,
    measure_named,
    plain,
)
from colabel.core.arrays import Array
from colabel.core.lazy import require
from colabel.models import JointStack, RuledClassifier
from colabel.models.around import thresholded
from colabel.models.wrapped import model_inside, with_model_inside
from colabel.rules import Rules
from colabel.tables import (
    MODEL_NAMES,
    TableData,
    TableError,
    TableModel,
    TableSummary,
    make_model,
    short_name,
    summarise,
)

if TYPE_CHECKING:
    import pandas as pd

STACK = JointStack.short_name
_BENT = ("forest+pcc", "kernel+pcc")  # a model behind features that bend straight lines
DEFAULT_MODELS = ("br", "ctbn", "pcc", "cdn", "mlknn", "iblr", "forest", *_BENT)
"""What is compared unless models are named. A stack takes several times as long as all of these."""
MOST_ROWS = 5_000
"""Rows of a table that are compared on unless said otherwise: more are sampled.

With 30 features and 10 labels the default models take about two minutes on two cores then.
"""

Models: TypeAlias = (
    str | BaseEstimator | Iterable[str | BaseEstimator] | Mapping[str, str | BaseEstimator]
)


def made_models(
    models: Models, seed: int, decision: str = "subset", rules: Rules | str = ""
) -> dict[str, BaseEstimator]:
    """Make the models that are to be compared, each under its name.

    Models given by name decide as asked. With rules, each model with a joint is there twice, as it
    is and obeying them ("ctbn, ruled").
    """
    made: dict[str, BaseEstimator] = {}
    for name, model in _named(models):
        own = clone(model) if isinstance(model, BaseEstimator) else make_model(model, seed)
        inner = model_inside(own)
        if "decision" in inner.get_params(deep=False) and isinstance(model, str):
            inner.set_params(decision=decision)
        made.setdefault(name, own)
        if rules and hasattr(inner, "joint"):
            by = inner.get_params(deep=False).get("decision", decision)
            ruled = RuledClassifier(clone(own), str(rules), decision=by)
            made.setdefault(f"{name}, ruled", ruled)
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
                    short = short_name(name)
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


MOST_LISTED = 1000
"""Label vectors in a set, at most."""


@dataclass(frozen=True)
class CoveredSets:
    """Sets of label vectors of rows held out, see `colabel.decide.measured_coverage`.

    Attributes
    ----------
    coverage : float
        Asked for.
    covered, size, cut : (n_folds,) array
        Share of the rows whose set has the true vector, vectors per row, share of the rows whose
        set would have more than `MOST_LISTED`.
    """

    coverage: float
    covered: Array
    size: Array
    cut: Array

    @property
    def sentence(self) -> str:
        """What was measured, for people."""
        error = ""
        if len(self.covered) > 1:
            error = f" ± {self.covered.std(ddof=1) / np.sqrt(len(self.covered)):.3f}"
        cut = f" In {self.cut.mean():.0%} of the rows more than {MOST_LISTED} would be needed."
        return (
            f"Fitted with --conformal, for a coverage of {self.coverage:g} it lists "
            f"{self.size.mean():.1f} label sets per row; they contain the true one in "
            f"{self.covered.mean():.3f}{error} of the held-out rows.{cut * bool(self.cut.any())}"
        )


def ordered(results: Mapping[str, ModelResult], measure: str) -> list[str]:
    """Names of the models, best first by a measure; those without it last."""
    sign = COMPARED[measure].sign
    means = {name: own.mean(measure) for name, own in results.items()}
    return sorted(means, key=lambda n: -sign * means[n] if np.isfinite(means[n]) else np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class TableComparison:
    """Models on the same folds of a table.

    Attributes
    ----------
    data : TableData
        The whole table.
    task : Task
        The rows compared on and their labels: all of them, or a sample.
    folds : list of (training rows, test rows)
        Positions in `task`.
    estimators : {name: estimator}
        The models, not fitted.
    measure : str
        The one that decides, by its name in `MEASURES`.
    decided_by : str
        The loss that predictions minimise, or "thresholds".
    results : {name: ModelResult}
        In the order asked for, the baseline last.
    failed : {name: why}
    recommended : str
        Name of the model to take.
    reason : str
        Why, in a sentence or two.
    warnings : tuple of str
        Sentences about labels that the recommended model hardly ever predicts.
    graph : mapping or None
        Which labels depend on each other, measured in the joint of the recommended model fitted
        to all rows compared on, see `dependence_graph`; None where it was not asked for.
    calibrated : ModelResult or None
        The recommended model with ``calibrate=True``, on the same folds, where asked for.
    sets : CoveredSets or None
        How many label sets the recommended model lists for a coverage, where asked for.
    weights : (n,) or None
        How many rows each row of the table stands for.
    random_state : int
    """

    data: TableData
    task: Task
    folds: Folds
    estimators: Mapping[str, BaseEstimator]
    measure: str
    decided_by: str
    results: Mapping[str, ModelResult]
    failed: Mapping[str, str]
    recommended: str
    reason: str
    warnings: tuple[str, ...] = ()
    graph: Mapping[str, Any] | None = None
    calibrated: ModelResult | None = None
    sets: CoveredSets | None = None
    weights: Any = None
    random_state: int = 0

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    @property
    def best(self) -> ModelResult:
        """The result of the recommended model."""
        return self.results[self.recommended]

    @cached_property
    def summary(self) -> TableSummary:
        """What was seen in the table."""
        return summarise(self.data)

    @property
    def sampled(self) -> str:
        """A sentence on the sample, where not all rows were compared on; else nothing."""
        n_rows, n_all = len(self.task.codes), self.data.features.n_rows
        if n_rows == n_all:
            return ""
        return f"Compared on {n_rows:,} of the {n_all:,} rows, drawn at random."

    @property
    def untried(self) -> str:
        """A sentence on the stack, where all but it were asked for; else nothing."""
        tried = {*self.results, *self.failed}
        if STACK in tried or not tried >= set(DEFAULT_MODELS):
            return ""
        return (
            "Not tried: stack, which pools models like these with weights learned from held-out "
            "rows and takes several times as long. --models default,stack includes it."
        )

    @property
    def calibration_helps(self) -> bool:
        """Whether the calibrated model has a smaller log-loss, by more than a standard error."""
        if self.calibrated is None:
            return False
        return is_better(self.calibrated, self.best, "joint_log_loss")

    @property
    def calibration(self) -> str:
        """A sentence on what calibration does, where it was tried; else nothing."""
        if self.calibrated is None:
            return ""

        changes = []
        for measure in dict.fromkeys(("joint_log_loss", self.measure)):
            how = COMPARED[measure]
            pair = (own.mean(measure) for own in (self.best, self.calibrated))
            before, after = map(how.written, pair)
            changes.append(f"{how.title} {before} becomes {after}")
        verdict = "" if self.calibration_helps else " It does not help here."
        return f"Calibrated, its {', '.join(changes)}.{verdict}"

    @property
    def table(self) -> pd.DataFrame | list[dict[str, Any]]:
        """The figures, best model first: a data frame if pandas is there, else records.

        For every measure the mean over folds, and its standard error beside it.
        """
        records = []
        for name in ordered(self.results, self.measure):
            own = self.results[name]
            record: dict[str, Any] = {"model": name}
            for measure, how in COMPARED.items():
                record[how.title] = own.mean(measure)
                if measure != "seconds":
                    record[f"{how.title} ±"] = own.standard_error(measure)
            records.append(record)
        return _framed(records, "model")

    @property
    def decisions(self) -> pd.DataFrame | list[dict[str, Any]]:
        """The figures under each decision, for every model: a data frame, or records."""
        records = [
            {
                "model": name,
                "decision": loss,
                **{COMPARED[m].title: result.decided_mean(loss, m) for m in DECIDED_MEASURES},
            }
            for name, result in self.results.items()
            for loss in result.decisions
        ]
        return _framed(records, "model", "decision")

    def estimator(self, name: str | None = None) -> Any:
        """Return a model as it would be fitted, not fitted; by default the recommended one.

        With `thresholds` it is inside a `ThresholdedClassifier`, and it calibrates itself where
        that was asked for and helped.
        """
        name = self.recommended if name is None else name
        if name not in self.estimators:
            raise TableError(
                f"There is no model {name!r} here: choose from {', '.join(self.estimators)}."
            )
        model = self.estimators[name]
        inner = model_inside(model)
        if self.calibration_helps and name == self.recommended:
            inner = clone(inner).set_params(calibrate=True)
        made = with_model_inside(model, inner)
        return thresholded(made, self.random_state) if self.decided_by == THRESHOLDS else made

    def fit(self, name: str | None = None) -> TableModel:
        """Fit a model to all rows of the table, by default the recommended one.

        Returns
        -------
        TableModel
            Takes rows as the comparison did, and can be saved with `colabel.save`.
        """
        data = self.data
        own = None if self.weights is None else np.asarray(self.weights)[data.row_numbers]
        return TableModel.fit(self.estimator(name), data.features, data.choice, data.labels, own)

    def plot(self, measure: str | None = None, ax: Any = None) -> Any:
        """Draw a measure of all models, mean and standard error (needs matplotlib).

        Parameters
        ----------
        measure : str, optional
            By its title or its name in `MEASURES`; by default the one that decides.
        ax : matplotlib axes, optional

        Returns
        -------
        matplotlib axes
        """
        key = measure_named(measure or self.measure)
        require("matplotlib", "A figure")
        from matplotlib import pyplot as plt

        results, how = self.results, COMPARED[key]
        names = [n for n in ordered(results, key) if np.isfinite(results[n].mean(key))]
        if ax is None:
            _, ax = plt.subplots(figsize=(6.0, 0.6 + 0.32 * len(names)), layout="constrained")
        for place, name in enumerate(names):
            error = float(np.nan_to_num(results[name].standard_error(key)))
            colour = "C1" if name == self.recommended else "0.6" if name == BASELINE else "C0"
            ax.errorbar(results[name].mean(key), place, xerr=error, fmt="o", color=colour)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        better = "more" if how.higher_is_better else "less"
        ax.set_xlabel(f"{how.title} ({better} is better; mean ± standard error over folds)")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values: dict[str, Any] = {
            "folds": self.n_folds,
            "rows": len(self.task.codes),
            "measure": COMPARED[self.measure].title,
            "decision": self.decided_by,
            "recommended": self.recommended,
            "reason": self.reason,
            "warnings": list(self.warnings),
            "failed": dict(self.failed),
            "models": {name: _values(result) for name, result in self.results.items()},
            "calibrated": None if self.calibrated is None else _values(self.calibrated),
            "sets": None if self.sets is None else vars(self.sets),
        }
        known: dict[str, Any] = plain(values)
        return known

    def __repr__(self) -> str:
        models = len(self.results) - (BASELINE in self.results)
        how = COMPARED[self.measure]
        return (
            f"TableComparison({models} model{'s' * (models != 1)} on {self.n_folds} folds: take "
            f"{self.recommended}, {how.title} {how.written(self.best.mean(self.measure))})"
        )

    def _repr_html_(self) -> str:
        sets = "" if self.sets is None else self.sets.sentence
        sentences = filter(None, (self.reason, self.sampled, *self.warnings, sets))
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        rows = []
        for name in ordered(self.results, self.measure):
            cells = "".join(f"<td>{self.results[name].written(key)}</td>" for key in COMPARED)
            shade = ' style="background:rgba(127,127,127,.15)"' * (name == self.recommended)
            rows.append(f"<tr{shade}><th>{escape(name)}</th>{cells}</tr>")
        head = "".join(f"<th>{escape(how.title)}</th>" for how in COMPARED.values())
        return (
            f"<div><p><b>Take {escape(self.recommended)}.</b></p>{said}"
            f'<div style="overflow-x:auto"><table><thead><tr><th>model</th>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div></div>"
        )


def _framed(records: list[dict[str, Any]], *index: str) -> pd.DataFrame | list[dict[str, Any]]:
    """Return a data frame with an index, or the records themselves where pandas is not there."""
    if find_spec("pandas") is None:
        return records
    import pandas as pd

    return pd.DataFrame(records).set_index(list(index))


def _values(result: ModelResult) -> dict[str, Any]:
    means, errors = result.mean, result.standard_error
    scores = {
        measure.title: {"mean": means(k), "standard_error": errors(k), "folds": result.scores[k]}
        for k, measure in COMPARED.items()
    }
    decisions = {
        loss: {COMPARED[m].title: result.decided_mean(loss, m) for m in own}
        for loss, own in result.decisions.items()
    }
    return {"title": result.title, **scores, "decisions": decisions}
