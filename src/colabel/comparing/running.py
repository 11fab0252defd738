"""Models cross-validated on a user's table, part by part, and what became of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.comparing.baseline import LabelFrequencies
from colabel.comparing.comparison import TableComparison
from colabel.comparing.coverage import CoveredSets
from colabel.comparing.cross_validation import Part, answers_by_part, cross_validate, parts_of
from colabel.comparing.graphs import dependence_graph
from colabel.comparing.held_out import Ask, HeldOut, Method, Task, learn
from colabel.comparing.kept import KeptAnswers
from colabel.comparing.measures import COMPARED
from colabel.comparing.recommending import BASELINE, recommend, warnings_about
from colabel.comparing.request import ComparisonRequest
from colabel.comparing.result import ModelResult
from colabel.core.wrapping import model_inside
from colabel.labels import MISSING, MissingLabelsError
from colabel.models.wrapped import title_of, with_model_inside
from colabel.tables import Preprocessor, TableData, TableError

_PROBED = 8  # rows that a model is shown to see whether it takes missing labels


@dataclass(frozen=True)
class Progress:
    """How far a comparison is.

    Attributes
    ----------
    n_done, n_parts : int
        Folds of models that are done, and in all.
    at_work : Part or None
        What is worked on now.
    seconds_left : float
        As far as can be told from what each model has taken; NaN before anything is known.
    answers : {name: answers of the folds done}
    n_folds : int
    titles : {name: title}
    request : ComparisonRequest
    """

    n_done: int
    n_parts: int
    at_work: Part | None
    seconds_left: float
    answers: Mapping[str, Mapping[int, HeldOut]]
    n_folds: int
    titles: Mapping[str, str]
    request: ComparisonRequest

    @property
    def measure(self) -> str:
        """The measure that decides."""
        return self.request.measure

    @property
    def finished(self) -> list[str]:
        """Names of the models that are done with every fold."""
        return [name for name, own in self.answers.items() if len(own) == self.n_folds]

    def line(self, name: str) -> str:
        """Return the most important figures of a model in the folds that are done."""
        result = self.result(name)
        shown = dict.fromkeys((self.measure, "joint_log_loss"))
        figures = [_written(result, measure) for measure in shown]
        return f"{name}: {', '.join(figures)}, {result.mean('seconds'):.1f} s a fold"

    def result(self, name: str) -> ModelResult:
        """Return the figures of a model in the folds that are done."""
        own = self.answers[name]
        folds = [own[fold] for fold in sorted(own)]
        return self.request.result(self.titles[name], folds)


def _written(result: ModelResult, measure: str) -> str:
    how, error = COMPARED[measure], result.standard_error(measure)
    spread = f" ± {error:.{how.digits}f}" if np.isfinite(error) else ""
    return f"{how.title} {how.written(result.mean(measure))}{spread}"


Watch = Callable[[Progress], None]


def run_comparison(
    data: TableData,
    request: ComparisonRequest,
    watch: Watch = lambda progress: None,
    store: Path | None = None,
) -> TableComparison:
    r"""Cross-validate models on a table; preprocessing is learned anew from each training fold.

    Parameters
    ----------
    data : TableData
    request : ComparisonRequest
    watch : callable, optional
        Called with a `Progress` at the beginning and after each fold of a model.
    store : path, optional
        File in which answers are kept until the comparison is done: one that was stopped goes on
        from there.

    Returns
    -------
    TableComparison

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table
    >>> from colabel.comparing import ComparisonRequest, run_comparison
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> lines = [f"{i % 7},{int(i % 7 > 2)},{int(i % 7 > 4)}" for i in range(70)]
    >>> _ = file.write_text("\n".join(["size,a,b", *lines]))
    >>> data = load_table(TableRequest(file, ["a", "b"]))
    >>> found = run_comparison(data, ComparisonRequest(["mlknn"], 3))
    >>> found.recommended, round(found.results["mlknn"].mean("exact_match"), 2)
    ('mlknn', 0.83)
    >>> folder.cleanup()
    """
    task = _task(data, request)
    if request.thresholds and not task.space.is_indicator:
        raise TableError("Thresholds are for labels that are 0 or 1: leave them out here.")
    refused = [name for name, model in request.estimators.items() if _refuses(model, task)]
    models: dict[str, BaseEstimator] = {
        name: model for name, model in request.estimators.items() if name not in refused
    }
    if not models:
        raise TableError(_left_out(refused, task))
    models[BASELINE] = LabelFrequencies(decision=request.decision)
    prepare = Preprocessor(data.choice.used)
    methods = {name: Method(model, (prepare,)) for name, model in models.items()}
    folds = request.folds(task.codes)
    ask = Ask(decisions=_other_decisions(task, request))
    kept = KeptAnswers(store, task, folds, ask)
    loop = _Loop(methods, task, folds, ask, request, kept, watch)
    loop.run()
    results = {name: loop.result(name) for name in methods if name not in loop.failed}
    if not results or set(results) == {BASELINE}:
        raise TableError(f"Every model failed; the first said: {next(iter(loop.failed.values()))}")
    recommended, reason = recommend(results, request.measure)
    comparison = TableComparison(
        data,
        request,
        task,
        results,
        loop.failed,
        _left_out(refused, task),
        len(folds),
        recommended,
        reason,
        tuple(warnings_about(results[recommended], request.decided_by)),
    )
    if request.calibrate:
        calibrated = _calibrated(methods[recommended], task, folds, ask, request)
        comparison = replace(comparison, calibrated=calibrated)
    if request.coverage is not None:
        found = CoveredSets.of(methods[recommended], task, folds, request.coverage)
        comparison = replace(comparison, sets=found)
    if request.graph:
        comparison = replace(comparison, graph=_graph(methods[recommended], task))
    kept.forget(loop.keys.values())
    return comparison


class _Loop:
    """The parts of a comparison, those already answered taken from the store."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        task: Task,
        folds: Any,
        ask: Ask,
        request: ComparisonRequest,
        kept: KeptAnswers,
        watch: Watch,
    ) -> None:
        self.methods, self.task, self.folds, self.ask = methods, task, folds, ask
        self.request, self.kept, self.watch = request, kept, watch
        self.titles = {name: title_of(method.model) for name, method in methods.items()}
        self.titles[BASELINE] = BASELINE
        self.parts = parts_of(methods, len(folds))
        self.keys = {}
        if kept.path is not None:
            self.keys = {part: kept.key(part, methods[part.name]) for part in self.parts}
        self.answers: dict[str, dict[int, HeldOut]] = {name: {} for name in methods}
        self.seconds: dict[str, list[float]] = {name: [] for name in methods}
        self.failed: dict[str, str] = {}

    def run(self) -> None:
        """Work out what is missing."""
        for part, kept in self.kept.load(self.keys).items():
            self.answers[part.name][part.fold] = kept
            self.seconds[part.name].append(sum(kept.seconds))
        self.watch(self.progress())
        for part, found, seconds in answers_by_part(
            self.methods, self.task, self.folds, self._left(), self.ask, self.request.n_jobs
        ):
            self.seconds[part.name].append(seconds)
            if isinstance(found, Exception):
                self.failed[part.name] = " ".join(str(found).split()) or type(found).__name__
                self.answers.pop(part.name)
            else:
                self.answers[part.name][part.fold] = found
                if self.keys:
                    self.kept.save(self.keys[part], found)
            self.watch(self.progress())

    def result(self, name: str) -> ModelResult:
        """Return the figures of a model."""
        return self.progress().result(name)

    def progress(self) -> Progress:
        """Say how far the work is."""
        left = self._left()
        known = [min(own) for own in self.seconds.values() if own]
        usual = float(np.mean(known)) if known else float("nan")
        each = [min(self.seconds[part.name]) if self.seconds[part.name] else usual for part in left]
        n_jobs = int(joblib.effective_n_jobs(self.request.n_jobs))
        return Progress(
            len(self.parts) - len(left),
            len(self.parts),
            left[0] if left else None,
            sum(each) / n_jobs,
            {name: dict(own) for name, own in self.answers.items() if own},
            len(self.folds),
            self.titles,
            self.request,
        )

    def _left(self) -> list[Part]:
        return [
            part
            for part in self.parts
            if part.name not in self.failed and part.fold not in self.answers[part.name]
        ]


def _task(data: TableData, request: ComparisonRequest) -> Task:
    """Return the rows to compare on: all, or a sample."""
    features, Y = data.features, data.labels.Y
    if request.max_rows is not None and features.n_rows > request.max_rows:
        rng = np.random.default_rng(request.seed)
        rows = np.sort(rng.choice(features.n_rows, request.max_rows, replace=False))
        features, Y = features[rows], Y[rows]
    return Task.of(features, Y, data.labels.names)


def _other_decisions(task: Task, request: ComparisonRequest) -> tuple[str, ...]:
    losses = ("subset", "hamming", "f1") if task.space.is_indicator else ("subset", "hamming")
    return tuple(loss for loss in losses if loss != request.decision)


def _refuses(model: BaseEstimator, task: Task) -> bool:
    """Whether a model cannot learn where labels are missing: a few rows without features tell."""
    incomplete = np.flatnonzero((task.codes == MISSING).any(axis=1))
    if not len(incomplete):
        return False
    complete = np.setdiff1d(np.arange(len(task.codes)), incomplete)[:_PROBED]
    rows = np.concatenate([incomplete[:_PROBED], complete])
    features = np.arange(len(rows), dtype=np.float64)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clone(model_inside(model)).fit(features, task.Y[rows])
        except MissingLabelsError:
            return True
        except Exception:
            return False  # so few rows say nothing else
    return False


def _left_out(refused: list[str], task: Task) -> str:
    if not refused:
        return ""
    n_missing = int((task.codes == MISSING).sum())
    return (
        f"Left out, as {'it needs' if len(refused) == 1 else 'they need'} all labels of a row and "
        f"{n_missing:,} {'is' if n_missing == 1 else 'are'} missing: {', '.join(refused)}."
    )


def _calibrated(
    method: Method, task: Task, folds: Any, ask: Ask, request: ComparisonRequest
) -> ModelResult | None:
    inner = model_inside(method.model)
    if "calibrate" not in inner.get_params(deep=False):
        return None
    model = with_model_inside(method.model, clone(inner).set_params(calibrate=True))
    again = {"": Method(model, method.steps)}
    found = cross_validate(again, task, folds, ask, n_jobs=request.n_jobs)[""]
    if isinstance(found, Exception):
        return None
    return request.result(f"{title_of(model)}, calibrated", found)


def _graph(method: Method, task: Task) -> Mapping[str, Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = learn(method, task, np.arange(len(task.codes)))
        return dependence_graph(fitted.model, fitted.prepared(task.X))
