"""Models on the same folds of a table: the record that commands, notebooks and reports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from colabel.comparing.coverage import CoveredSets
from colabel.comparing.held_out import Task
from colabel.comparing.measures import COMPARED, DECIDED_MEASURES
from colabel.comparing.recommending import BASELINE, is_better
from colabel.comparing.request import DEFAULT_MODELS, STACK, ComparisonRequest
from colabel.comparing.result import ModelResult
from colabel.comparing.views import (
    comparison_notebook_html,
    frame_or_records,
    ordered,
    plot,
)
from colabel.core.wrapping import model_inside
from colabel.models.thresholds import thresholded
from colabel.models.wrapped import with_model_inside
from colabel.tables import TableData, TableError, TableModel, TableSummary, summarise

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class TableComparison:
    """Models on the same folds of a table.

    Attributes
    ----------
    data : TableData
        The whole table.
    request : ComparisonRequest
    task : Task
        The rows compared on and their labels: all of them, or a sample.
    results : {name: ModelResult}
        In the order asked for, the baseline last.
    failed : {name: why}
    left_out : str
        A sentence on the models that cannot learn from missing labels; else nothing.
    n_folds : int
    recommended : str
        Name of the model to take.
    reason : str
        Why, in a sentence or two.
    warnings : tuple of str
        Sentences about labels that the recommended model hardly ever announces.
    graph : mapping or None
        Which labels depend on each other, measured in the joint of the recommended model fitted
        to all rows compared on, see `dependence_graph`; None where it was not asked for.
    calibrated : ModelResult or None
        The recommended model with ``calibrate=True``, on the same folds, where asked for.
    sets : CoveredSets or None
        How many label sets the recommended model lists for a coverage, where asked for.
    """

    data: TableData
    request: ComparisonRequest
    task: Task
    results: Mapping[str, ModelResult]
    failed: Mapping[str, str]
    left_out: str
    n_folds: int
    recommended: str
    reason: str
    warnings: tuple[str, ...] = ()
    graph: Mapping[str, Any] | None = None
    calibrated: ModelResult | None = None
    sets: CoveredSets | None = None

    @property
    def measure(self) -> str:
        """The measure that decides."""
        return self.request.measure

    @property
    def best(self) -> ModelResult:
        """The result of the recommended model."""
        return self.results[self.recommended]

    @property
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
            "Not tried: stack, which joins models like these by what they say of rows held out, "
            "and takes several times as long as all of them. --models default,stack tries it too."
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
        before, after = (
            COMPARED["joint_log_loss"].written(own.mean("joint_log_loss"))
            for own in (self.best, self.calibrated)
        )
        how = COMPARED[self.measure]
        more = ""
        if self.measure != "joint_log_loss":
            more = (
                f", {how.title} {how.written(self.best.mean(self.measure))} becomes "
                f"{how.written(self.calibrated.mean(self.measure))}"
            )
        verdict = "" if self.calibration_helps else " It does not help here."
        return f"Calibrated, its joint log-loss {before} becomes {after}{more}.{verdict}"

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
        return frame_or_records(records, ["model"])

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
        return frame_or_records(records, ["model", "decision"])

    def estimator(self, name: str | None = None) -> Any:
        """Return a model as it would be fitted, not fitted; by default the recommended one.

        With `thresholds` it is inside a `ThresholdedClassifier`, and it calibrates itself where
        that was asked for and helped.
        """
        name = self.recommended if name is None else name
        if name not in self.request.estimators:
            raise TableError(
                f"There is no model {name!r} here: choose from "
                f"{', '.join(self.request.estimators)}."
            )
        model = self.request.estimators[name]
        inner = model_inside(model)
        if self.calibration_helps and name == self.recommended:
            inner = clone(inner).set_params(calibrate=True)
        made = with_model_inside(model, inner)
        return thresholded(made, self.request.seed) if self.request.thresholds else made

    def fit(self, name: str | None = None) -> TableModel:
        """Fit a model to all rows of the table, by default the recommended one.

        Returns
        -------
        TableModel
            Takes rows as the comparison did, and can be saved with `colabel.save`.
        """
        data = self.data
        return TableModel.fit(self.estimator(name), data.features, data.choice, data.labels)

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
        titles = {how.title: name for name, how in COMPARED.items()}
        name = titles.get(measure or "", measure) or self.measure
        if name not in COMPARED:
            raise TableError(f"There is no measure {measure!r}: choose from {[*titles]}.")
        return plot(self.results, name, self.recommended, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "folds": self.n_folds,
            "rows": len(self.task.codes),
            "measure": COMPARED[self.measure].title,
            "decision": self.request.decided_by,
            "recommended": self.recommended,
            "reason": self.reason,
            "warnings": list(self.warnings),
            "failed": dict(self.failed),
            "left_out": self.left_out,
            "models": {name: _plain(result) for name, result in self.results.items()},
            "calibrated": None if self.calibrated is None else _plain(self.calibrated),
            "sets": None if self.sets is None else self.sets.to_dict(),
        }

    def __repr__(self) -> str:
        models = len(self.results) - (BASELINE in self.results)
        how = COMPARED[self.measure]
        return (
            f"TableComparison({models} model{'s' * (models != 1)} on {self.n_folds} folds: take "
            f"{self.recommended}, {how.title} {how.written(self.best.mean(self.measure))})"
        )

    def _repr_html_(self) -> str:
        sets = "" if self.sets is None else self.sets.sentence
        sentences = (self.sampled, self.left_out, *self.warnings, sets)
        heading = f"Take {self.recommended}."
        return comparison_notebook_html(
            self.results, self.measure, self.recommended, heading, (self.reason, *sentences)
        )


def _plain(result: ModelResult) -> dict[str, Any]:
    return {
        "title": result.title,
        **{
            measure.title: {
                "mean": _finite(result.mean(key)),
                "standard_error": _finite(result.standard_error(key)),
                "folds": [_finite(v) for v in result.scores[key].tolist()],
            }
            for key, measure in COMPARED.items()
        },
        "decisions": {
            loss: {COMPARED[m].title: _finite(result.decided_mean(loss, m)) for m in scores}
            for loss, scores in result.decisions.items()
        },
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None  # JSON has no infinity
