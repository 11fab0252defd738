"""Models cross-validated on a user's table, part by part, and what became of them."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.comparing import comparison, held_out
from colabel.comparing.describing import dependence_graph
from colabel.comparing.result import BASELINE, COMPARED, ModelResult, recommend, warnings_about
from colabel.core.files import written_whole
from colabel.decide import Decision
from colabel.joint import Independent, Joint
from colabel.learn.conditional import TrainingData
from colabel.models import JointClassifier
from colabel.models.wrapped import model_inside, title_of, with_model_inside
from colabel.rules import Rules
from colabel.tables import (
    Preprocessor,
    TableData,
    TableError,
    TableRequest,
    load_table,
    table_of,
)

_DECIDED = "decided "
_PACKAGES = ("colabel", "numpy", "scipy", "scikit-learn", "numba")


class LabelFrequencies(JointClassifier):
    """Every row gets the frequencies of the labels in the training rows.

    Parameters
    ----------
    decision : str or Decision
        Loss that `predict` minimises, see `decide`.

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


class Progress:
    """A comparison under way; what is finished is kept in a folder, if one is named.

    Attributes
    ----------
    n_folds, n_parts : int
        Folds, and folds of all models.
    answers : {name: {fold: answers}}
        Of the folds done.
    failed : {name: why}
        Of models that cannot be compared.
    request : ComparisonRequest
    """

    def __init__(
        self,
        methods: Mapping[str, held_out.Method],
        task: held_out.Task,
        folds: held_out.Folds,
        ask: held_out.Ask,
        request: comparison.ComparisonRequest,
        store: Path | None,
    ) -> None:
        self.methods, self.task, self.folds, self.ask = methods, task, folds, ask
        self.request, self.n_folds = request, len(folds)
        self.parts = held_out.parts_of(methods, len(folds))
        self.n_parts = len(self.parts)
        self.answers: dict[str, dict[int, held_out.HeldOut]] = {name: {} for name in methods}
        self.failed: dict[str, str] = {}
        self.files: dict[held_out.Part, Path] = {}
        if store is not None:
            if store.exists() and not store.is_dir():
                raise TableError(f"{store} is no folder, which answers could be kept in.")
            self.files = {part: store / f"{self._key(part)}.npz" for part in self.parts}

    def _key(self, part: held_out.Part) -> str:
        """Fingerprint of what an answer depends on: rows, labels, fold, method and versions."""
        X, task, method = self.task.X, self.task, self.methods[part.name]
        rows = (X.numbers, X.number_names, dict(X.texts), task.codes, task.space.names, task.weight)
        versions = (platform.python_version(), *map(metadata.version, _PACKAGES))
        asked = (self.folds[part.fold], method.model, method.steps, self.ask)
        return str(joblib.hash((joblib.hash(rows), *asked, versions)))

    def run(self, watch: Callable[[Progress], None]) -> None:
        """Work out what is not kept."""
        started = time.monotonic()
        for part, file in self.files.items():
            with contextlib.suppress(Exception):  # damaged, in any of many ways: once more
                self.answers[part.name][part.fold] = self._read(file, self.folds[part.fold][1])
        watch(self)

        def left() -> Iterator[held_out.Part]:
            for part in self.left:
                self._leave_out(time.monotonic() - started)
                if part.name not in self.failed:
                    yield part

        asked = (self.methods, self.task, self.folds, left(), self.ask, self.request.n_jobs)
        for part, found in held_out.answers_by_part(*asked):
            if isinstance(found, Exception):
                self.failed[part.name] = " ".join(str(found).split()) or type(found).__name__
            elif part.name not in self.failed:
                self.answers[part.name][part.fold] = found
                if part in self.files:
                    self._write(self.files[part], found)
            watch(self)

    def _leave_out(self, seconds: float) -> None:
        """Leave out models that would not be done within the time limit, the slowest first."""
        limit = self.request.time_limit
        if limit is None:
            return
        while True:
            cost: dict[str, float] = {}  # of what is left of each model, as far as is known
            for part in self.left:
                own = self.answers[part.name].values()
                each = min((one.felt for one in own), default=0.0 if seconds < limit else np.inf)
                cost[part.name] = cost.get(part.name, 0.0) + each
            cost.pop(BASELINE, None)
            others = self.methods.keys() - self.failed.keys() - {BASELINE}
            if len(others) < 2 or not cost or seconds + sum(cost.values()) <= limit:
                return
            slowest = max(cost, key=lambda name: cost[name])
            self.failed[slowest] = f"left out, for it would not be done within {limit:g} s"

    def _write(self, file: Path, found: held_out.HeldOut) -> None:
        columns = {name: getattr(found, name) for name in held_out.COLUMNS[2:]}
        columns |= {f"{_DECIDED}{loss}": codes for loss, codes in found.decided.items()}
        kept = {name: own for name, own in columns.items() if own is not None}
        numbers = {"n_train": found.n_train, "seconds": found.seconds, "felt": found.felt}
        with contextlib.suppress(OSError):  # a full disk costs the resumption, not the comparison
            file.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(file) as part:
                np.savez(part, **kept, **numbers)  # type: ignore[arg-type]

    def _read(self, file: Path, rows: Any) -> held_out.HeldOut:
        with np.load(file, allow_pickle=False) as content:
            arrays = dict(content)
        true = self.task.codes[rows]
        kept = {name: arrays[name] for name in held_out.COLUMNS[2:] if name in arrays}
        decided = {k.removeprefix(_DECIDED): v for k, v in arrays.items() if _DECIDED in k}
        for name, own in {**kept, **decided}.items():
            if own.shape != (true.shape if own.ndim > 1 else true.shape[:1]):
                raise ValueError(f"{name} is about other rows")
        n_train, seconds, felt = int(arrays["n_train"]), arrays["seconds"], float(arrays["felt"])
        more: Any = {"decided": decided, "seconds": tuple(seconds.tolist()), "felt": felt}
        return held_out.HeldOut(rows, self.task.space, true, n_train=n_train, **kept, **more)

    def forget(self) -> None:
        """Remove what is kept, and the folder if it holds nothing else."""
        for file in self.files.values():
            file.unlink(missing_ok=True)
        for folder in {file.parent for file in self.files.values()}:
            with contextlib.suppress(OSError):
                folder.rmdir()

    @property
    def left(self) -> list[held_out.Part]:
        """What is still to be done."""
        return [
            part
            for part in self.parts
            if part.name not in self.failed and part.fold not in self.answers[part.name]
        ]

    @property
    def seconds_left(self) -> float:
        """As far as can be told from what each model has taken; NaN before anything is known."""
        known = {n: min(one.felt for one in own.values()) for n, own in self.answers.items() if own}
        usual = float(np.mean(list(known.values()))) if known else float("nan")
        n_jobs = int(joblib.effective_n_jobs(self.request.n_jobs))
        return sum(known.get(part.name, usual) for part in self.left) / n_jobs

    @property
    def finished(self) -> list[str]:
        """Names of the models that are done with every fold."""
        return [name for name, own in self.answers.items() if len(own) == self.n_folds]

    def line(self, name: str) -> str:
        """Return the most important figures of a model in the folds that are done."""
        result = self.result(name)
        shown = dict.fromkeys((self.request.measure, "joint_log_loss"))
        figures = [f"{COMPARED[key].title} {result.written(key)}" for key in shown]
        return f"{name}: {', '.join(figures)}, {result.mean('seconds'):.1f} s a fold"

    def result(self, name: str) -> ModelResult:
        """Return the figures of a model in the folds that are done."""
        own = self.answers[name]
        title = BASELINE if name == BASELINE else title_of(self.methods[name].model)
        return self.request.result(title, [own[fold] for fold in sorted(own)])


def run_comparison(
    data: TableData,
    request: comparison.ComparisonRequest,
    watch: Callable[[Progress], None] = lambda progress: None,
    store: Path | None = None,
) -> comparison.TableComparison:
    r"""Cross-validate models on a table; preprocessing is learned anew from each training fold.

    Parameters
    ----------
    data : TableData
    request : ComparisonRequest
    watch : callable, optional
        Called with a `Progress` at the beginning and after each fold of a model.
    store : path, optional
        Folder in which answers are kept until the comparison is done: one that was stopped goes on
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
    features, Y, rows = data.features, data.labels.Y, np.arange(data.features.n_rows)
    if request.max_rows is not None and features.n_rows > request.max_rows:
        rng = np.random.default_rng(request.seed)
        rows = np.sort(rng.choice(features.n_rows, request.max_rows, replace=False))
        features, Y = features[rows], Y[rows]
    rows = data.row_numbers[rows]
    task = held_out.Task.of(features, Y, data.labels.names)
    if request.weights is not None:
        weights = np.asarray(request.weights, dtype=np.float64)
        if len(weights) <= rows.max() or not (weights >= 0).all():
            raise TableError("weights must be a number, zero or more, for every row of the table.")
        task = replace(task, weight=weights[rows])
    if request.thresholds and not task.space.is_indicator:
        raise TableError("Thresholds are for labels that are 0 or 1: leave them out here.")
    models: dict[str, BaseEstimator] = dict(request.estimators)
    models[BASELINE] = LabelFrequencies(decision=request.decision)
    prepare = Preprocessor(data.choice.used)
    methods = {name: held_out.Method(model, (prepare,)) for name, model in models.items()}
    folds = request.folds(task.codes, rows)
    losses = ("subset", "hamming", "f1") if task.space.is_indicator else ("subset", "hamming")
    ask = held_out.Ask(decisions=tuple(loss for loss in losses if loss != request.decision))
    progress = Progress(methods, task, folds, ask, request, store)
    progress.run(watch)
    results = {name: progress.result(name) for name in methods if name not in progress.failed}
    if not results or set(results) == {BASELINE}:
        first = next(iter(progress.failed.values()))
        raise TableError(f"Every model failed; the first said: {first}")
    recommended, reason = recommend(results, request.measure)
    method, calibrated, sets, graph = methods[recommended], None, None, None
    if request.calibrate:
        calibrated = _calibrated(method, task, folds, ask, request)
    if request.coverage is not None:
        sets = comparison.CoveredSets.of(method, task, folds, request.coverage)
    if request.graph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = held_out.learn(method, task, np.arange(len(task.codes)))
            graph = dependence_graph(fitted.model, fitted.prepared(task.X))
    progress.forget()
    return comparison.TableComparison(
        data,
        request,
        task,
        results,
        progress.failed,
        len(folds),
        recommended,
        reason,
        tuple(warnings_about(results[recommended], request.decided_by)),
        graph,
        calibrated,
        sets,
    )


def _calibrated(
    method: held_out.Method,
    task: held_out.Task,
    folds: Any,
    ask: held_out.Ask,
    request: comparison.ComparisonRequest,
) -> ModelResult | None:
    inner = model_inside(method.model)
    if "calibrate" not in inner.get_params(deep=False):
        return None
    model = with_model_inside(method.model, clone(inner).set_params(calibrate=True))
    again = {"": held_out.Method(model, method.steps)}
    found = held_out.cross_validate(again, task, folds, ask, n_jobs=request.n_jobs)[""]
    if isinstance(found, Exception):
        return None
    return request.result(f"{title_of(model)}, calibrated", found)


def compare(
    data: Any,
    labels: Any,
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
    label_names: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    store: str | Path | None = None,
    verbose: bool = False,
) -> comparison.TableComparison:
    """Cross-validate models on the same folds, and recommend one.

    What `colabel compare` does on the command line. Numbers are scaled, categories encoded, texts
    counted and missing features filled in; all of that is learned from the training folds only.

    Parameters
    ----------
    data : data frame, mapping of names to columns, array of shape (n, p), or path of a file
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
        by default the first, and the last with `thresholds`.
    decision : str
        Loss that predictions minimise, see `decide`; of models given as estimators, their own.
    thresholds : bool
        Whether labels are predicted by thresholds of their own instead, see
        `ThresholdedClassifier`.
    calibrate : bool
        Whether the recommended model is cross-validated with ``calibrate=True`` too.
    coverage : float, optional
        Probability with which lists of label sets shall hold the true one: how many sets the
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
        `RuledClassifier`.
    label_names : sequence of str, optional
        Names of the labels, where they have none.
    random_state : int
        Seed of folds, sample and models.
    n_jobs : int
        Processes, -1 for all cores. Each model uses all cores by itself where it can.
    store : path, optional
        Folder in which answers are kept until all are there: a call that was stopped goes on.
    verbose : bool
        Whether to print a line for each model that is done.

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
    request = comparison.ComparisonRequest(
        models,
        cv,
        random_state,
        measure,
        decision,
        thresholds,
        calibrate,
        coverage,
        max_rows,
        n_jobs,
        groups=groups,
        times=times,
        weights=weights,
        time_limit=time_limit,
        rules=rules,
    )
    if isinstance(data, str | Path):
        patterns = [labels] if isinstance(labels, str) else list(labels)
        table = load_table(TableRequest(Path(data), patterns))
    else:
        table = table_of(data, labels, label_names)
    told: set[str] = set()

    def watch(progress: Progress) -> None:
        for name in progress.finished if verbose else ():
            if name not in told:
                told.add(name)
                sys.stdout.write(f"{progress.line(name)}\n")

    return run_comparison(table, request, watch, None if store is None else Path(store))
