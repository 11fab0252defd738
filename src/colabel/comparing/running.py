"""Models cross-validated on a user's table, part by part, and what became of them."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from numbers import Integral
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from colabel.comparing import comparison, held_out
from colabel.comparing import result as records
from colabel.comparing.evaluating import dependence_graph
from colabel.core.files import written_whole
from colabel.core.journal import from_bytes, to_bytes
from colabel.decide import Decision, Nonconformity, measured_coverage, resolve_decision
from colabel.joint import Independent, Joint
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.models import JointClassifier
from colabel.models.wrapped import model_inside, title_of, with_model_inside
from colabel.rules import Rules
from colabel.tables import Preprocessor, TableData, TableError, TableRequest, load_table, table_of

_PACKAGES = ("colabel", "numpy", "scipy", "scikit-learn", "numba")


class LabelFrequencies(JointClassifier):
    """Every row gets the frequencies of the labels in the training rows.

    Attributes
    ----------
    frequencies_ : list of (K_i,) arrays

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.comparing.running import LabelFrequencies
    >>> model = LabelFrequencies().fit(np.zeros((3, 1)), [[0, 1], [1, 1], [0, 1]])
    >>> model.predict_proba(np.zeros((1, 1))).round(2)
    array([[0.4, 0.8]])
    """

    def __init__(self, decision: str | Decision = "subset") -> None:
        self.decision = decision

    def _learn(self, data: TrainingData) -> None:
        self.frequencies_ = [data.class_frequencies(i) for i in range(data.n_labels)]

    def _joint(self, X: Any) -> Joint:
        tables = [np.tile(np.log(f), (X.shape[0], 1)) for f in self.frequencies_]
        return Independent(self.label_space_, tables)


@dataclass(eq=False)
class Progress:
    """A comparison under way; what is finished is kept in a folder, if one is named.

    Attributes
    ----------
    models : {name: pipeline}
        A preparation of the columns, and the model.
    task : Task
    folds : list of (training rows, test rows)
    ask : Ask
    measure, decision, thresholds, n_jobs, time_limit, store
        As `compare` takes them; the measure by its name in `MEASURES`.
    answers : {name: {fold: HeldOut}}
        Of the folds that are done.
    failed : {name: why}
        Models that cannot be compared.
    """

    models: Mapping[str, Pipeline]
    task: held_out.Task
    folds: held_out.Folds
    ask: held_out.Ask
    measure: str
    decision: str = "subset"
    thresholds: bool = False
    n_jobs: int = 1
    time_limit: float | None = None
    store: Path | None = None

    def __post_init__(self) -> None:
        self.parts = held_out.parts_of(self.models, len(self.folds))
        self.answers: dict[str, dict[int, held_out.HeldOut]] = {name: {} for name in self.models}
        self.failed: dict[str, str] = {}
        self.told: set[str] = set()
        self.files: dict[held_out.Part, Path] = {}
        if self.store is not None:
            if self.store.exists() and not self.store.is_dir():
                raise TableError(f"{self.store} is no folder, which answers could be kept in.")
            self.files = {part: self.store / f"{self._key(*part)}.answers" for part in self.parts}

    def _key(self, name: str, fold: int) -> str:
        """Fingerprint of what an answer depends on: rows, labels, fold, model and versions."""
        X, task = self.task.X, self.task
        rows = (X.numbers, X.number_names, dict(X.texts), task.codes, task.space.names, task.weight)
        versions = (platform.python_version(), *map(metadata.version, _PACKAGES))
        asked = (self.folds[fold], self.models[name], self.ask)
        return str(joblib.hash((joblib.hash(rows), *asked, versions)))

    def run(self, watch: Callable[[Progress], None]) -> None:
        """Work out what is not kept."""
        started = time.monotonic()
        for (name, fold), file in self.files.items():
            with contextlib.suppress(Exception):  # damaged, in any of many ways: once more
                self.answers[name][fold] = self._read(file, self.folds[fold][1])
        watch(self)

        def left() -> Iterator[held_out.Part]:
            for part in self.left:
                self._leave_out(time.monotonic() - started)
                if part[0] not in self.failed:
                    yield part

        asked = (self.models, self.task, self.folds, self.ask, self.n_jobs, left())
        for (name, fold), answers in held_out.cross_validate(*asked):
            if isinstance(answers, Exception):
                self.failed[name] = " ".join(str(answers).split()) or type(answers).__name__
            elif name not in self.failed:
                self.answers[name][fold] = answers
                if self.files:
                    self._write(self.files[name, fold], answers)
            watch(self)

    def _leave_out(self, seconds: float) -> None:
        """Leave out models that would not be done within the time limit, the slowest first."""
        limit = self.time_limit
        while limit is not None:
            cost: dict[str, float] = {}  # of what is left of each model, as far as is known
            for name, _ in self.left:
                own = self.answers[name].values()
                each = min((one.seconds for one in own), default=0.0 if seconds < limit else np.inf)
                cost[name] = cost.get(name, 0.0) + each
            cost.pop(records.BASELINE, None)
            others = self.models.keys() - self.failed.keys() - {records.BASELINE}
            if len(others) < 2 or not cost or seconds + sum(cost.values()) <= limit:
                return
            slowest = max(cost, key=lambda name: cost[name])
            self.failed[slowest] = f"left out, for it would not be done within {limit:g} s"

    def _write(self, file: Path, answers: held_out.HeldOut) -> None:
        kept = {name: getattr(answers, name) for name in held_out.COLUMNS[2:]}
        with contextlib.suppress(OSError):  # a full disk costs the resumption, not the comparison
            file.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(file) as part:
                part.write_bytes(to_bytes((kept, dict(answers.decided), answers.seconds)))

    def _read(self, file: Path, rows: Any) -> held_out.HeldOut:
        kept, decided, seconds = from_bytes(file.read_bytes())
        true = self.task.codes[rows]
        for name, own in {**kept, **decided}.items():
            if own is not None and own.shape != true.shape[: own.ndim]:
                raise ValueError(f"{name} is about other rows")
        return held_out.HeldOut(
            rows, self.task.space, true, decided=decided, seconds=seconds, **kept
        )

    def forget(self) -> None:
        """Remove what is kept, and the folder if it holds nothing else."""
        for file in self.files.values():
            file.unlink(missing_ok=True)
        for folder in {file.parent for file in self.files.values()}:
            with contextlib.suppress(OSError):
                folder.rmdir()

    @property
    def left(self) -> list[held_out.Part]:
        """Models and folds that are still to be done."""
        return [
            (name, fold)
            for name, fold in self.parts
            if name not in self.failed and fold not in self.answers[name]
        ]

    @property
    def seconds_left(self) -> float:
        """Estimated from what each model has taken; NaN before anything is known."""
        known = {
            n: min(one.seconds for one in own.values()) for n, own in self.answers.items() if own
        }
        usual = float(np.mean(list(known.values()))) if known else float("nan")
        n_jobs = int(joblib.effective_n_jobs(self.n_jobs))
        return sum(known.get(name, usual) for name, _ in self.left) / n_jobs

    @property
    def finished(self) -> list[str]:
        """Names of the models that are done with every fold."""
        return [name for name, own in self.answers.items() if len(own) == len(self.folds)]

    def news(self) -> Iterator[str]:
        """Give the line of every model that is done with every fold since the last call."""
        for name in self.finished:
            if name not in self.told:
                self.told.add(name)
                yield self.line(name)

    def line(self, name: str) -> str:
        """Return the most important figures of a model in the folds that are done."""
        result = self.result(name)
        shown = dict.fromkeys((self.measure, "joint_log_loss"))
        figures = [f"{records.COMPARED[key].title} {result.written(key)}" for key in shown]
        return f"{name}: {', '.join(figures)}, {result.mean('seconds'):.1f} s per fold"

    def result(self, name: str) -> records.ModelResult:
        """Return the figures of a model in the folds that are done."""
        own = self.answers[name]
        title = name if name == records.BASELINE else title_of(self.models[name][-1])
        return self.taken(title, [own[fold] for fold in sorted(own)])

    def taken(self, title: str, answers: Sequence[held_out.HeldOut]) -> records.ModelResult:
        """Take the measures of answers, decided as asked."""
        return records.ModelResult.of(title, answers, self.decision, thresholds=self.thresholds)


def compare(
    data: Any,
    labels: Any = None,
    *,
    models: comparison.Models = "default",
    cv: Any = 5,
    measure: str = "",
    decision: str = "subset",
    thresholds: bool = False,
    calibrate: bool = False,
    coverage: float | None = None,
    max_rows: int | None = comparison.MOST_ROWS,
    groups: Any = None,
    times: Any = None,
    weights: Any = None,
    time_limit: float | None = None,
    rules: Rules | str = "",
    graph: bool = True,
    label_names: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    store: str | Path | None = None,
    verbose: bool | Callable[[Progress], None] = False,
) -> comparison.TableComparison:
    """Cross-validate models on the same folds, and recommend one.

    What `colabel compare` does on the command line. Numbers are scaled, categories encoded, texts
    counted and missing features filled in; all of that is learned from the training folds only.

    Parameters
    ----------
    data : data frame, mapping of names to columns, array of shape (n, p), path, or TableData
        The features; in a data frame or a file also the labels.
    labels : str, sequence of str, or labels of n rows
        Names, globs ("tag_*") or @lists of the label columns of `data`; or the labels themselves,
        as models take them. Where some are missing (NaN, None), models that cannot learn from such
        rows are left out, and Hamming accuracy, F1 and log-loss are of the labels that are known.
    models : str, estimator, sequence or mapping of them
        Names as on the command line ("ctbn", "br,kernel+pcc", "default", "all"), or estimators,
        which get the prepared features; a mapping names them.
    cv : int, splitter or iterable
        Number of folds, in which every label is about equally common; or a splitter of
        scikit-learn, or pairs of training and test rows.
    measure : str
        What decides: "exact match", "joint log-loss", "Hamming accuracy", "micro F1" or "macro F1";
        by default the first, the last with `thresholds`, and the joint log-loss where too few rows
        have all their labels.
    decision : str
        Loss that predictions minimise, see `decide`; of models given as estimators, their own.
    thresholds : bool
        Whether labels are predicted by thresholds of their own instead, see
        `ThresholdedClassifier`.
    calibrate : bool
        Whether the recommended model is cross-validated with ``calibrate=True`` too.
    coverage : float, optional
        Probability with which lists of label sets shall contain the true one: how many sets the
        recommended model lists for it is measured too, see `ConformalSets`.
    max_rows : int or None
        A larger table is compared on a sample of so many rows; None takes all.
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
        What is known about label sets: each model is compared twice, as it is and inside a
        `RuledClassifier` ("ctbn, ruled").
    graph : bool
        Whether to fit the recommended model to all rows compared, and to measure which labels
        depend on each other.
    label_names : sequence of str, optional
        Names of the labels, where they have none.
    random_state : int
        Seed of folds, sample and models.
    n_jobs : int
        Processes, -1 for all cores. Each model uses all cores by itself where it can.
    store : path, optional
        Folder in which answers are kept until all are there: a call that was stopped goes on.
    verbose : bool or callable
        Whether to print a line for each model that is done; or what to call with a `Progress` at
        the beginning and after each fold of a model.

    Returns
    -------
    TableComparison
        With `table`, `decisions`, `recommended`, `reason`, `warnings`, `plot()` and `fit()`.

    Examples
    --------
    >>> import colabel
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> found = colabel.compare(data.X[:300], data.Y[:300], models=["br", "mlknn"], cv=3)
    >>> found.recommended
    'mlknn'
    >>> model = found.fit()
    >>> model.predict(data.X[300:302]).shape
    (2, 7)
    """
    by = records.measure_named(measure or ("macro F1" if thresholds else "exact match"))
    resolve_decision(decision)
    if coverage is not None and not 0 < coverage < 1:
        raise TableError(f"coverage is {coverage:g}: give a probability, such as 0.9.")
    if max_rows is not None and max_rows < 2:
        raise TableError(f"max_rows is {max_rows}: give at least 2, or None for all rows.")
    if isinstance(cv, Integral) and cv < 2:
        raise TableError(f"cv is {cv}: give at least 2 folds.")
    if time_limit is not None and not time_limit > 0:
        raise TableError(f"time_limit is {time_limit}: give a number of seconds.")
    if thresholds and rules:
        raise TableError("Thresholds decide each label by itself, against rules: give one.")
    estimators = comparison.made_models(models, random_state, decision, rules)
    if isinstance(data, str | Path):
        patterns = [labels] if isinstance(labels, str) else list(labels)
        data = load_table(TableRequest(Path(data), patterns))
    table = data if isinstance(data, TableData) else table_of(data, labels, label_names)

    features, Y, rows = table.features, table.labels.Y, table.row_numbers
    if max_rows is not None and features.n_rows > max_rows:
        rng = np.random.default_rng(random_state)
        sample = np.sort(rng.choice(features.n_rows, max_rows, replace=False))
        features, Y, rows = features[sample], Y[sample], rows[sample]
    task = held_out.Task.of(features, Y, table.labels.names)
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if len(weights) <= rows.max() or not (weights >= 0).all():
            raise TableError("weights must be a number, zero or more, for every row of the table.")
        task = replace(task, weight=weights[rows])
    if thresholds and not task.space.is_indicator:
        raise TableError("Thresholds are for labels that are 0 or 1: leave them out here.")
    groups, times = (None if own is None else np.asarray(own)[rows] for own in (groups, times))
    folds = held_out.folds_of(cv, task.codes, random_state, None, groups, times)
    whole = (task.codes != MISSING).all(axis=1)
    if by == "exact_match" and not all(whole[test].any() for _, test in folds):
        if measure:
            raise TableError("Too few rows have all their labels for an exact match in each fold.")
        by = "joint_log_loss"
    every = {**estimators, records.BASELINE: LabelFrequencies(decision=decision)}
    prepare = Preprocessor(table.choice.used)
    prepared = {name: make_pipeline(prepare, model) for name, model in every.items()}
    losses = ("subset", "hamming", "f1" if task.space.is_indicator else "macro_f1")
    ask = held_out.Ask(decisions=tuple(loss for loss in losses if loss != decision))
    where = None if store is None else Path(store)
    limits = (n_jobs, time_limit, where)
    progress = Progress(prepared, task, folds, ask, by, decision, thresholds, *limits)

    def show(progress: Progress) -> None:
        for line in progress.news() if verbose else ():
            sys.stdout.write(f"{line}\n")

    progress.run(verbose if callable(verbose) else show)

    results = {name: progress.result(name) for name in prepared if name not in progress.failed}
    if not results or set(results) == {records.BASELINE}:
        first = next(iter(progress.failed.values()))
        raise TableError(f"Every model failed; the first said: {first}")
    recommended, reason = records.recommend(results, by)
    decided_by = records.THRESHOLDS if thresholds else decision
    model, measured = prepared[recommended], None
    if graph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted, _ = held_out.learn(model, task, np.arange(len(task.codes)))
            measured = dependence_graph(fitted, task.X)
    found = comparison.TableComparison(
        table,
        task,
        folds,
        estimators,
        by,
        decided_by,
        results,
        progress.failed,
        recommended,
        reason,
        tuple(records.warnings_about(results[recommended], decided_by)),
        measured,
        _calibrated(progress, model) if calibrate else None,
        None if coverage is None else _covered(progress, model, coverage),
        weights,
        random_state,
    )
    progress.forget()
    return found


def _calibrated(progress: Progress, model: Pipeline) -> records.ModelResult | None:
    """Cross-validate a model with its joint calibrated; None if it cannot be."""
    inner = model_inside(model)
    if "calibrate" not in inner.get_params(deep=False):
        return None
    own = with_model_inside(model[-1], clone(inner).set_params(calibrate=True))
    again = {"": make_pipeline(model[0], own)}
    asked = (again, progress.task, progress.folds, progress.ask, progress.n_jobs)
    answers: list[Any] = [one for _, one in held_out.cross_validate(*asked)]
    if any(isinstance(one, Exception) for one in answers):
        return None
    return progress.taken(f"{title_of(own)}, calibrated", answers)


def _covered(progress: Progress, model: Pipeline, coverage: float) -> comparison.CoveredSets | None:
    """Measure the sets of label vectors of a model; None if it cannot list any."""
    ask = held_out.Ask(marginals=False, confidence=False, joint=True)
    lines = []
    for _, held in held_out.cross_validate({"": model}, progress.task, progress.folds, ask):
        if isinstance(held, Exception) or held.joint is None:
            return None
        own = held_out.recoded(held.true, held.space, held.joint.space)
        complete = (held.true != MISSING).all(axis=1)
        rows = np.flatnonzero((own != MISSING).all(axis=1))  # with values of the training rows
        try:
            rule = Nonconformity("mass", comparison.MOST_LISTED)
            true = held.joint.space.values(own[rows])
            sets = measured_coverage(held.joint.rows(rows), true, coverage, rule)
        except (ValueError, NotImplementedError):  # too few rows, or a family without lists
            return None
        # a value that no training row has is in no set
        lines.append((sets.covered.sum() / complete.sum(), sets.size.mean(), sets.cut.mean()))
    return comparison.CoveredSets(coverage, *np.array(lines).T)
