"""Models on the same folds of a table: what is asked for, and the record of what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.comparing import held_out
from colabel.comparing.result import (
    BASELINE,
    COMPARED,
    DECIDED_MEASURES,
    THRESHOLDS,
    ModelResult,
    is_better,
    plain,
)
from colabel.core.arrays import Array, Codes, Indices
from colabel.core.lazy import require
from colabel.decide import Nonconformity, measured_coverage, resolve_decision
from colabel.labels import MISSING
from colabel.model_selection import LabelKFold, TimeFolds
from colabel.models import JointStack, RuledClassifier
from colabel.models.around import thresholded
from colabel.models.wrapped import model_inside, with_model_inside
from colabel.rules import Rules
from colabel.tables import (
    MODEL_NAMES,
    ModelName,
    TableData,
    TableError,
    TableModel,
    TableSummary,
    make_model,
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
        Whether labels are predicted by thresholds of their own instead, tuned for the macro F1.
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
    weights : (n,), optional
        How many rows each row stands for, in learning and in measures.
    time_limit : float, optional
        Seconds. Models that would not be done within them are left out, the slowest first; a fold
        that has begun is finished.
    rules : Rules or str
        What is known about label sets: each model is compared twice, as it is and obeying them
        ("ctbn, ruled").
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
    weights: Any = None
    time_limit: float | None = None
    rules: Rules | str = ""
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
        if self.time_limit is not None and not self.time_limit > 0:
            raise TableError(f"time_limit is {self.time_limit}: give a number of seconds.")
        if self.thresholds and self.rules:
            raise TableError("Thresholds decide each label by itself, against rules: give one.")
        object.__setattr__(self, "estimators", self._made())

    @property
    def decided_by(self) -> str:
        """The decision, or "thresholds"."""
        return THRESHOLDS if self.thresholds else self.decision

    def result(self, title: str, folds: Sequence[held_out.HeldOut]) -> ModelResult:
        """Take the measures of a model's answers, decided as asked."""
        return ModelResult.of(title, folds, self.decision, thresholds=self.thresholds)

    def folds(self, codes: Codes, rows: Indices | None = None) -> held_out.Folds:
        """Return the folds of rows (all by default) of the table, with labels in codes (n, d)."""
        rows = np.arange(len(codes)) if rows is None else rows
        if self.groups is None and self.times is None:
            return held_out.folds_of(self.cv, codes, self.seed)
        n_splits = int(self.cv) if isinstance(self.cv, Integral) else 5
        try:
            if self.times is not None:
                return list(TimeFolds(np.asarray(self.times)[rows], n_splits).split())
            splitter = LabelKFold(n_splits, random_state=self.seed)
            return list(splitter.split(None, codes, np.asarray(self.groups)[rows]))
        except ValueError as error:
            raise TableError(str(error)) from error

    def _made(self) -> dict[str, BaseEstimator]:
        """Make the models, each under its name, deciding as asked."""
        made: dict[str, BaseEstimator] = {}
        for name, model in _named(self.models):
            own = clone(model) if isinstance(model, BaseEstimator) else make_model(model, self.seed)
            inner = model_inside(own)
            if "decision" in inner.get_params(deep=False) and isinstance(model, str):
                inner.set_params(decision=self.decision)
            made.setdefault(name, own)
            if self.rules and hasattr(inner, "joint"):
                decision = inner.get_params(deep=False).get("decision", self.decision)
                made.setdefault(
                    f"{name}, ruled",
                    RuledClassifier(clone(own), str(self.rules), decision=decision),
                )
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
    def of(
        cls, method: held_out.Method, task: held_out.Task, folds: Any, coverage: float
    ) -> Self | None:
        """Fit a method to each training fold and measure its sets; None if it cannot list any."""
        lines = []
        for train, test in folds:
            ask = held_out.Ask(marginals=False, confidence=False, joint=True)
            held = held_out.answer(held_out.learn(method, task, train), task, test, ask)
            if held.joint is None:
                return None
            own, seen = held_out.OwnCodes(task.space, held.joint.space).to_own(held.true)
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
        Sentences about labels that the recommended model hardly ever predicts.
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
    task: held_out.Task
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
        data, weights = self.data, self.request.weights
        own = None if weights is None else np.asarray(weights)[data.row_numbers]
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
        titles = {how.title: name for name, how in COMPARED.items()}
        key = titles.get(measure or "", measure) or self.measure
        if key not in COMPARED:
            raise TableError(f"There is no measure {measure!r}: choose from {', '.join(titles)}.")
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
            "sets": None if self.sets is None else plain(vars(self.sets)),
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
        sentences = filter(None, (self.reason, self.sampled, *self.warnings, sets))
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        models = [own for name, own in self.results.items() if name != BASELINE]
        best = {key: how.best([own.mean(key) for own in models]) for key, how in COMPARED.items()}
        rows = []
        for name in ordered(self.results, self.measure):
            cells = [f'<th style="text-align:left">{escape(name)}</th>']
            for key in COMPARED:
                mean, text = self.results[name].mean(key), self.results[name].written(key)
                marked = mean == best[key] and name != BASELINE
                cells.append(f"<td>{f'<b>{text}</b>' if marked else text}</td>")
            shade = ' style="background:rgba(127,127,127,.15)"' * (name == self.recommended)
            rows.append(f"<tr{shade}>{''.join(cells)}</tr>")
        head = "".join(f"<th>{escape(how.title)}</th>" for how in COMPARED.values())
        return (
            f"<div><p><b>Take {escape(self.recommended)}.</b></p>{said}"
            f'<div style="overflow-x:auto"><table><thead><tr><th style="text-align:left">model</th>'
            f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
        )


def _framed(records: list[dict[str, Any]], *index: str) -> pd.DataFrame | list[dict[str, Any]]:
    """Return a data frame with an index, or the records themselves where pandas is not there."""
    if find_spec("pandas") is None:
        return records
    import pandas as pd

    return pd.DataFrame(records).set_index(list(index))


def _plain(result: ModelResult) -> dict[str, Any]:
    scores = {
        measure.title: {
            "mean": result.mean(key),
            "standard_error": result.standard_error(key),
            "folds": result.scores[key],
        }
        for key, measure in COMPARED.items()
    }
    decisions = {
        loss: {COMPARED[m].title: result.decided_mean(loss, m) for m in own}
        for loss, own in result.decisions.items()
    }
    found: dict[str, Any] = plain({"title": result.title, **scores, "decisions": decisions})
    return found
