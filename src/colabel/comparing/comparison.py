"""Models on the same folds of a table: the record that commands, notebooks and reports show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from colabel.comparing.held_out import Ask, Method, OwnCodes, Task, answer, learn
from colabel.comparing.measures import COMPARED, DECIDED_MEASURES
from colabel.comparing.request import DEFAULT_MODELS, STACK, ComparisonRequest
from colabel.comparing.result import BASELINE, ModelResult, is_better
from colabel.core.arrays import Array
from colabel.core.optional import require
from colabel.core.wrapping import model_inside
from colabel.decide import Nonconformity, measured_coverage
from colabel.labels import MISSING
from colabel.models.thresholds import thresholded
from colabel.models.wrapped import with_model_inside
from colabel.tables import TableData, TableError, TableModel, TableSummary, summarise

if TYPE_CHECKING:
    import pandas as pd

_MOST = 1000


@dataclass(frozen=True)
class CoveredSets:
    """Sets of label vectors of rows held out, see `colabel.decide.measured_coverage`.

    Attributes
    ----------
    coverage : float
        Asked for.
    covered, size, cut : (n_folds,) array
        Share of the rows whose set has the true vector, vectors a row, share of the rows whose set
        has more than are listed.
    """

    coverage: float
    covered: Array
    size: Array
    cut: Array

    @classmethod
    def of(cls, method: Method, task: Task, folds: Any, coverage: float) -> Self | None:
        """Fit a method to each training fold and measure its sets; None if it cannot list any."""
        lines = []
        for train, test in folds:
            ask = Ask(marginals=False, confidence=False, joint=True)
            held = answer(learn(method, task, train), task, test, ask)
            if held.joint is None:
                return None
            own, seen = OwnCodes(task.space, held.joint.space).to_own(held.true)
            complete = (held.true != MISSING).all(axis=1)
            rows = np.flatnonzero(seen & complete)
            try:
                rule = Nonconformity("mass", _MOST)
                true = held.joint.space.values(own[rows])
                found = measured_coverage(held.joint.rows(rows), true, coverage, rule)
            except (ValueError, NotImplementedError):  # too few rows, or a family without lists
                return None
            # a value that no training row has is in no set
            covered = found.covered.sum() / complete.sum()
            lines.append((covered, found.size.mean(), found.cut.mean()))
        return cls(coverage, *np.array(lines).T)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "coverage": self.coverage,
            "covered": self.covered.tolist(),
            "size": self.size.tolist(),
            "cut": self.cut.tolist(),
        }

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        error = ""
        if len(self.covered) > 1:
            error = f" ± {self.covered.std(ddof=1) / np.sqrt(len(self.covered)):.3f}"
        cut = f" In {self.cut.mean():.0%} of the rows more than {_MOST} would be needed."
        return (
            f"Fitted with --conformal, for a coverage of {self.coverage:g} it lists "
            f"{self.size.mean():.1f} label sets a row; of the rows held out "
            f"{self.covered.mean():.3f}{error} have the true one among them."
            f"{cut * bool(self.cut.any())}"
        )


def frame_or_records(
    records: list[dict[str, Any]], index: list[str]
) -> pd.DataFrame | list[dict[str, Any]]:
    """Return a data frame with an index, or the records themselves where pandas is not there."""
    if find_spec("pandas") is None:
        return records
    import pandas as pd

    return pd.DataFrame(records).set_index(index)


def ordered(results: Mapping[str, ModelResult], measure: str) -> list[str]:
    """Names of the models, best first by a measure; those without it last."""
    sign = COMPARED[measure].sign
    means = {name: own.mean(measure) for name, own in results.items()}
    return sorted(means, key=lambda n: -sign * means[n] if np.isfinite(means[n]) else np.inf)


def comparison_notebook_html(
    results: Mapping[str, ModelResult],
    measure: str,
    recommended: str,
    heading: str,
    sentences: Sequence[str],
) -> str:
    """Return a table of all measures, best first, below what is to be said about it."""
    models = [own for name, own in results.items() if name != BASELINE]
    best = {key: how.best([own.mean(key) for own in models]) for key, how in COMPARED.items()}
    rows = []
    for name in ordered(results, measure):
        cells = [f'<th style="text-align:left">{escape(name)}</th>']
        for key, how in COMPARED.items():
            mean, error = results[name].mean(key), results[name].standard_error(key)
            text = how.written(mean)
            if key != "seconds" and np.isfinite(error):
                text += f" ± {error:.{how.digits}f}"
            marked = mean == best[key] and name != BASELINE
            cells.append(f"<td>{f'<b>{text}</b>' if marked else text}</td>")
        weight = ' style="background:rgba(127,127,127,.15)"' if name == recommended else ""
        rows.append(f"<tr{weight}>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(how.title)}</th>" for how in COMPARED.values())
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    return (
        f"<div><p><b>{escape(heading)}</b></p>{said}"
        f'<div style="overflow-x:auto"><table><thead><tr><th style="text-align:left">model</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def plot(results: Mapping[str, ModelResult], measure: str, recommended: str, ax: Any) -> Any:
    """Draw means as dots and standard errors as lines, best model on top."""
    require("matplotlib", "A figure")
    from matplotlib import pyplot as plt

    how = COMPARED[measure]
    names = [n for n in ordered(results, measure) if np.isfinite(results[n].mean(measure))]
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, 0.6 + 0.32 * len(names)), layout="constrained")
    for place, name in enumerate(names):
        error = float(np.nan_to_num(results[name].standard_error(measure)))
        colour = "C1" if name == recommended else "0.6" if name == BASELINE else "C0"
        ax.errorbar(results[name].mean(measure), place, xerr=error, fmt="o", color=colour)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    better = "more" if how.higher_is_better else "less"
    ax.set_xlabel(f"{how.title} ({better} is better; mean ± standard error over folds)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


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
            raise TableError(f"There is no measure {measure!r}: choose from {', '.join(titles)}.")
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
        sentences = (self.sampled, *self.warnings, sets)
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
