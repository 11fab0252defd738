"""Models cross-validated on a user's table, and which of them to take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from colabel.core.arrays import Array
from colabel.datasets import iterative_stratification, kfold
from colabel.decide import resolve_decision
from colabel.experiments.baseline import LabelFrequencies
from colabel.experiments.graphs import averaged_graph
from colabel.experiments.held_out import HeldOut, Method, Task, cross_validate, learn
from colabel.experiments.measures import COMPARED
from colabel.models import JointStack
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import model_inside, title_of
from colabel.tables import (
    MODEL_NAMES,
    ModelName,
    Preprocessor,
    TableData,
    TableError,
    make_model,
)

BASELINE, STACK = "baseline", JointStack.short_name
_BENT = ("forest+pcc", "kernel+pcc")  # a model behind features that bend straight lines
DEFAULT_MODELS = ("br", "ctbn", "pcc", "cdn", "mlknn", "iblr", "forest", *_BENT)
"""What is compared unless models are named. A stack takes several times as long as all of these."""
_MOST_STRATIFIED = 20_000  # rows; stratifying more takes longer than it is worth


@dataclass(frozen=True, eq=False)
class ModelResult:
    """One model, cross-validated.

    Attributes
    ----------
    title : str
        Class names of the model and of the features before it.
    scores : {measure: (n_folds,)}
        By the names in `MEASURES`.
    held_out : HeldOut
        Of all rows.
    """

    title: str
    scores: Mapping[str, Array]
    held_out: HeldOut

    @classmethod
    def of(cls, title: str, folds: Sequence[HeldOut]) -> Self:
        """Take all measures of the answers in each fold."""
        scores = {name: np.array([m.take(own) for own in folds]) for name, m in COMPARED.items()}
        return cls(title, scores, folds[0].in_order(*folds[1:]))

    def mean(self, measure: str) -> float:
        """Return the mean over folds."""
        return float(np.nanmean(self.scores[measure]))

    def standard_error(self, measure: str) -> float:
        """Return the standard error of the mean over folds."""
        scores = self.scores[measure]
        if not np.isfinite(scores).all():
            return float("nan")
        return float(scores.std(ddof=1) / np.sqrt(len(scores)))


@dataclass(frozen=True, eq=False)
class TableComparison:
    """Models on the same folds of a table.

    Attributes
    ----------
    task : Task
        The rows and their labels.
    results : {name: ModelResult}
        In the order asked for, the baseline last.
    failed : {name: why}
    n_folds : int
    measure : str
        The one that decides.
    recommended : str
        Short name of the model to take.
    reason : str
        Why, in a sentence or two.
    graph : LearnedGraph or None
        Which label depends on which, learned from all rows; None where it was not asked for.
    """

    task: Task
    results: Mapping[str, ModelResult]
    failed: Mapping[str, str]
    n_folds: int
    measure: str
    recommended: str
    reason: str
    graph: LearnedGraph | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "folds": self.n_folds,
            "measure": COMPARED[self.measure].title,
            "recommended": self.recommended,
            "reason": self.reason,
            "failed": dict(self.failed),
            "models": {
                name: {
                    "title": result.title,
                    **{
                        measure.title: {
                            "mean": _finite(result.mean(key)),
                            "standard_error": _finite(result.standard_error(key)),
                            "folds": [_finite(v) for v in result.scores[key].tolist()],
                        }
                        for key, measure in COMPARED.items()
                    },
                }
                for name, result in self.results.items()
            },
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None  # JSON has no infinity


class LearnedGraph(NamedTuple):
    """A label graph, of which model it is, and what its joints say of the edges.

    `averaged` is as described in `averaged_graph`; None for class variables, and where there are
    no edges: the graph's `meaning` then says why.
    """

    title: str
    graph: LabelGraph
    averaged: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare and how.

    Attributes
    ----------
    models : sequence of str
        Short or class names, as `make_model` takes them; "default" stands for `DEFAULT_MODELS`,
        "all" for these and every other model.
    n_folds : int
    seed : int
    measure : str
        The one that decides, by its title or its name in `MEASURES`.
    decision : str
        Loss that predictions minimise.
    graph : bool
        Whether to learn the label graph of the recommended model from all rows.
    """

    models: Sequence[str] = DEFAULT_MODELS
    n_folds: int = 5
    seed: int = 0
    measure: str = "exact match"
    decision: str = "subset"
    graph: bool = True
    short_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        titles = {m.title: name for name, m in COMPARED.items() if name != "seconds"}
        measure = titles.get(self.measure, self.measure)
        if measure not in titles.values():
            raise TableError(f"There is no measure {self.measure!r}: choose from {[*titles]}.")
        object.__setattr__(self, "measure", measure)
        resolve_decision(self.decision)
        groups = {"default": DEFAULT_MODELS, "all": (*MODEL_NAMES, *_BENT)}
        names = [
            str(ModelName.read(name))
            for given in self.models
            for name in groups.get(given.lower(), (given,))
        ]
        if not names:
            raise TableError("No model is named: name at least one.")
        object.__setattr__(self, "short_names", tuple(dict.fromkeys(names)))


def compare(
    data: TableData, request: ComparisonRequest, advance: Callable[[str], None] = lambda name: None
) -> TableComparison:
    r"""Cross-validate models on a table; preprocessing is learned anew from each training fold.

    Parameters
    ----------
    data : TableData
    request : ComparisonRequest
    advance : callable, optional
        Called with the name of the model after each fold.

    Returns
    -------
    TableComparison

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table
    >>> from colabel.experiments.comparing import ComparisonRequest, compare
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> lines = [f"{i % 7},{int(i % 7 > 2)},{int(i % 7 > 4)}" for i in range(70)]
    >>> _ = file.write_text("\n".join(["size,a,b", *lines]))
    >>> data = load_table(TableRequest(file, ["a", "b"]))
    >>> found = compare(data, ComparisonRequest(["mlknn"], 3))
    >>> found.recommended, round(found.results["mlknn"].mean("exact_match"), 2)
    ('mlknn', 0.83)
    >>> folder.cleanup()
    """
    task = Task.of(data.features, data.labels.Y, data.labels.names, data.path.name)
    if data.features.n_rows <= _MOST_STRATIFIED:
        folds = iterative_stratification(task.codes, request.n_folds, request.seed)
    else:
        folds = kfold(data.features.n_rows, request.n_folds, request.seed)
    models = {name: make_model(name, request.seed) for name in request.short_names}
    models[BASELINE] = LabelFrequencies()
    for model in models.values():
        model_inside(model).set_params(decision=request.decision)
    prepare = Preprocessor(data.choice.used)
    methods = {name: Method(model, (prepare,)) for name, model in models.items()}
    results: dict[str, ModelResult] = {}
    failed: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early shows in the scores
        for name, found in cross_validate(methods, task, folds, advance=advance):
            if isinstance(found, Exception):
                failed[name] = " ".join(str(found).split()) or type(found).__name__
            else:
                title = "label frequencies" if name == BASELINE else title_of(models[name])
                results[name] = ModelResult.of(title, found)
        if not results or set(results) == {BASELINE}:
            raise TableError(f"Every model failed; the first said: {next(iter(failed.values()))}")
        recommended, reason = recommend(results, request.measure)
        graph = _graph(methods, recommended, task) if request.graph else None
    return TableComparison(
        task, results, failed, request.n_folds, request.measure, recommended, reason, graph
    )


def _graph(methods: Mapping[str, Method], recommended: str, task: Task) -> LearnedGraph:
    """Learn the label graph of the recommended model from all rows, or of a tree instead."""
    every = np.arange(len(task.codes))
    title = title_of(methods[recommended].model)
    fitted = learn(methods[recommended], task, every)
    graph: LabelGraph = fitted.chosen.label_graph()
    if not len(graph.ends) and "ctbn" in methods:
        fitted = learn(methods["ctbn"], task, every)
        graph = fitted.chosen.label_graph()
        title = f"CTBN, since {title} learns no graph"
    averaged = averaged_graph(fitted.model, fitted.prepared(task.X)) if len(graph.ends) else None
    return LearnedGraph(title, graph, averaged)


def recommend(results: Mapping[str, ModelResult], measure: str) -> tuple[str, str]:
    """Choose a model: the best by the measure, or one as good with better probabilities.

    Two models are as good if their scores on the same folds differ by no more than one standard
    error of the difference, which is widened because training folds overlap (Nadeau and Bengio,
    2003).
    """
    how = COMPARED[measure]
    models = {name: result for name, result in results.items() if name != BASELINE}

    def goodness(name: str) -> float:
        mean = how.sign * models[name].mean(measure)
        return mean if np.isfinite(mean) else -np.inf

    best = max(models, key=goodness)
    ties = [name for name in models if _as_good(models[name], models[best], measure)]
    chosen = min({*ties, best}, key=lambda name: (models[name].mean("joint_log_loss"), name))
    title, score = models[chosen].title, how.written(models[chosen].mean(measure))
    if chosen == best:
        reason = f"{title} has the best {how.title}, {score}"
        others = [models[name].title for name in ties if name != best]
        if others and measure != "joint_log_loss":
            reason += (
                f"; within one standard error of it, but with no better joint probabilities, "
                f"{'is' if len(others) == 1 else 'are'} {_listed(others)}"
            )
    else:
        reason = (
            f"{title} has {how.title} {score}, within one standard error of the best "
            f"({models[best].title}, {how.written(models[best].mean(measure))}), and better joint "
            f"probabilities: log-loss {models[chosen].mean('joint_log_loss'):.3f} against "
            f"{models[best].mean('joint_log_loss'):.3f}"
        )
    return chosen, f"{reason}.{_against_baseline(results, chosen, measure)}"


def _against_baseline(results: Mapping[str, ModelResult], chosen: str, measure: str) -> str:
    how = COMPARED[measure]
    baseline = results.get(BASELINE)
    if baseline is None:
        return ""
    ahead = how.sign * (results[chosen].mean(measure) - baseline.mean(measure))
    without = how.written(baseline.mean(measure))
    if ahead > 0 and not _as_good(baseline, results[chosen], measure):
        return f" Without the features it would be {without}."
    return (
        f" That is no better than without the features ({without}): they may say little about the "
        "labels."
    )


def _as_good(one: ModelResult, best: ModelResult, measure: str) -> bool:
    difference = np.abs(one.scores[measure] - best.scores[measure])
    if not np.isfinite(difference).all():
        return False
    signed = one.scores[measure] - best.scores[measure]
    n_folds = len(signed)
    # 1/k for the folds, and 1/(k - 1), the ratio of test to training rows, for their overlap
    spread = np.sqrt((1 / n_folds + 1 / max(1, n_folds - 1)) * signed.var(ddof=1))
    return bool(abs(signed.mean()) <= spread)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
