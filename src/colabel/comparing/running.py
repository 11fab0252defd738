"""Models cross-validated on a user's table, part by part, and what became of them."""

from __future__ import annotations

import contextlib
import io
import platform
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.comparing.comparison import CoveredSets, TableComparison
from colabel.comparing.cross_validation import Part, answers_by_part, cross_validate, parts_of
from colabel.comparing.graphs import dependence_graph
from colabel.comparing.held_out import Ask, HeldOut, Method, Task, learn
from colabel.comparing.measures import COMPARED
from colabel.comparing.request import ComparisonRequest
from colabel.comparing.result import BASELINE, ModelResult, recommend, warnings_about
from colabel.core.arrays import Indices
from colabel.core.wrapping import model_inside
from colabel.decide import Decision
from colabel.joint import Independent, Joint
from colabel.learn.conditional import TrainingData
from colabel.models import JointClassifier
from colabel.models.wrapped import title_of, with_model_inside
from colabel.tables import Preprocessor, TableData, TableError


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


_ARRAYS = ("codes", "log_prob", "marginals", "confidence", "mode_right")
_DECIDED = "decided "
_PACKAGES = ("colabel", "numpy", "scipy", "scikit-learn", "numba")


class StoreError(RuntimeError):
    """The file of answers cannot be used; the message says why and what to do."""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file and make it if need be; what was written is there whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(path, timeout=30.0)) as store, store:
            tables = {n for (n,) in store.execute("SELECT name FROM sqlite_master")}
            if tables and "answers" not in tables:  # it would be added to, and removed when emptied
                raise StoreError(f"{path} is a database of something else: name another file.")
            store.execute("CREATE TABLE IF NOT EXISTS answers (key PRIMARY KEY, content)")
            yield store
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"Cannot use {path} as a file of answers: {error}. Name another file."
        ) from error


@dataclass(frozen=True)
class KeptAnswers:
    """A store, and what the answers in it depend on.

    Attributes
    ----------
    path : Path or None
        The file; None keeps nothing.
    task : Task
    folds : list of (training rows, test rows)
    ask : Ask
    """

    path: Path | None
    task: Task
    folds: Any
    ask: Ask

    def key(self, part: Part, method: Method) -> str:
        """Fingerprint of what an answer depends on: rows, labels, fold, method and versions."""
        said = (self._of_rows, self.folds[part.fold], method.model, method.steps, self.ask)
        versions = (platform.python_version(), *map(metadata.version, _PACKAGES))
        return str(joblib.hash((*said, versions)))

    @cached_property
    def _of_rows(self) -> str:
        X = self.task.X
        parts = (X.numbers, X.number_names, dict(X.texts), self.task.codes, self.task.space.names)
        return str(joblib.hash(parts))

    def load(self, keys: dict[Part, str]) -> dict[Part, HeldOut]:
        """Return the answers that are there already."""
        if self.path is None or not self.path.is_file():
            return {}
        with _opened(self.path) as store:
            query = "SELECT content FROM answers WHERE key = ?"
            found = {k: c for k in keys.values() for (c,) in store.execute(query, (k,))}
        answers = {}
        for part, key in keys.items():
            if key in found:
                try:
                    answers[part] = self._read(found[key], self.folds[part.fold][1])
                except Exception:  # damaged, in any of many ways: it is worked out again
                    continue
        return answers

    def save(self, key: str, found: HeldOut) -> None:
        """Keep an answer."""
        if self.path is None:
            return
        content: dict[str, Any] = {
            name: getattr(found, name) for name in _ARRAYS if getattr(found, name) is not None
        }
        content |= {f"{_DECIDED}{loss}": codes for loss, codes in found.decided.items()}
        written = io.BytesIO()
        np.savez(written, seconds=np.array(found.seconds), n_train=found.n_train, **content)
        # a full disk costs the resumption, not the comparison
        with contextlib.suppress(StoreError), _opened(self.path) as store:
            store.execute("REPLACE INTO answers VALUES (?, ?)", (key, written.getvalue()))

    def forget(self, keys: Iterable[str]) -> None:
        """Remove answers, and the file if it holds no others."""
        if self.path is None or not self.path.is_file():
            return
        with _opened(self.path) as store:
            store.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            ((left,),) = store.execute("SELECT EXISTS (SELECT 1 FROM answers)")
        if not left:
            self.path.unlink(missing_ok=True)

    def _read(self, content: bytes, rows: Any) -> HeldOut:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        shapes = [arrays[name].shape[: 1 + (name == "codes")] for name in arrays.keys() & _ARRAYS]
        wanted = self.task.codes[rows].shape
        if "codes" not in arrays or any(shape != wanted[: len(shape)] for shape in shapes):
            raise ValueError("an answer about other rows")
        seconds = tuple(arrays.pop("seconds").tolist())
        n_train = int(arrays.pop("n_train"))
        decided = {
            name.removeprefix(_DECIDED): arrays.pop(name)
            for name in list(arrays)
            if name.startswith(_DECIDED)
        }
        return HeldOut(
            rows,
            self.task.space,
            self.task.codes[rows],
            decided=decided,
            seconds=seconds,
            n_train=n_train,
            **arrays,
        )


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
    task, rows = _task(data, request)
    if request.thresholds and not task.space.is_indicator:
        raise TableError("Thresholds are for labels that are 0 or 1: leave them out here.")
    models: dict[str, BaseEstimator] = dict(request.estimators)
    models[BASELINE] = LabelFrequencies(decision=request.decision)
    prepare = Preprocessor(data.choice.used)
    methods = {name: Method(model, (prepare,)) for name, model in models.items()}
    folds = request.folds(task.codes, rows)
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


def _task(data: TableData, request: ComparisonRequest) -> tuple[Task, Indices]:
    """Return the rows to compare on, all or a sample, and which rows of the table they are."""
    features, Y, rows = data.features, data.labels.Y, np.arange(data.features.n_rows)
    if request.max_rows is not None and features.n_rows > request.max_rows:
        rng = np.random.default_rng(request.seed)
        rows = np.sort(rng.choice(features.n_rows, request.max_rows, replace=False))
        features, Y = features[rows], Y[rows]
    return Task.of(features, Y, data.labels.names), data.row_numbers[rows]


def _other_decisions(task: Task, request: ComparisonRequest) -> tuple[str, ...]:
    losses = ("subset", "hamming", "f1") if task.space.is_indicator else ("subset", "hamming")
    return tuple(loss for loss in losses if loss != request.decision)


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
