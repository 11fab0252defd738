"""Models cross-validated on a user's table, and which of them to take."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.datasets import iterative_stratification, kfold
from colabel.decide import decide, resolve_decision
from colabel.labels import MISSING, LabelSpace
from colabel.tables._baseline import LabelFrequencies
from colabel.tables.frame import TableError
from colabel.tables.label_columns import Labels
from colabel.tables.loading import TableData
from colabel.tables.measures import MEASURES, label_scores
from colabel.tables.model import TableModel
from colabel.tables.model_names import MODEL_NAMES, make_model

BASELINE = "baseline"
DEFAULT_MODELS = ("br", "ctbn", "pcc", "cdn", "mlknn", "iblr")
_MOST_STRATIFIED = 20_000  # rows; stratifying more takes longer than it is worth


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """What a model said about rows it had not seen, each row once.

    Attributes
    ----------
    codes : (n, d)
        Predicted codes in the space of all rows.
    marginals : (n, d)
        Probability of each label's predicted value, or, for 0/1 labels, of 1.
    confidence : (n,)
        Joint probability of the most probable label vector.
    """

    codes: Codes
    marginals: Array
    confidence: Array


@dataclass(frozen=True, eq=False)
class ModelResult:
    """One model, cross-validated.

    Attributes
    ----------
    name : str
        Short name.
    title : str
        Class name.
    scores : {measure: (n_folds,)}
    held_out : HeldOutAnswers
    """

    name: str
    title: str
    scores: Mapping[str, Array]
    held_out: HeldOutAnswers

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
class Comparison:
    """Models on the same folds of a table.

    Attributes
    ----------
    space : LabelSpace
        Of all rows.
    codes : (n, d)
        The true labels, MISSING where not known.
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
    """

    space: LabelSpace
    codes: Codes
    results: Mapping[str, ModelResult]
    failed: Mapping[str, str]
    n_folds: int
    measure: str
    recommended: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "folds": self.n_folds,
            "measure": self.measure,
            "recommended": self.recommended,
            "reason": self.reason,
            "failed": dict(self.failed),
            "models": {
                name: {
                    "title": result.title,
                    **{
                        measure.name: {
                            "mean": _finite(result.mean(measure.name)),
                            "standard_error": _finite(result.standard_error(measure.name)),
                            "folds": [_finite(v) for v in result.scores[measure.name].tolist()],
                        }
                        for measure in MEASURES
                    },
                }
                for name, result in self.results.items()
            },
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None  # JSON has no infinity


@dataclass(frozen=True)
class ComparisonPlan:
    """What to compare and how.

    Attributes
    ----------
    models : sequence of str
        Short or class names.
    n_folds : int
    seed : int
    measure : str
        Name of the measure that decides.
    decision : str
        Loss that predictions minimise.
    """

    models: Sequence[str] = DEFAULT_MODELS
    n_folds: int = 5
    seed: int = 0
    measure: str = "exact match"
    decision: str = "subset"
    short_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        known = [measure.name for measure in MEASURES if measure.name != "seconds"]
        if self.measure not in known:
            raise TableError(f"There is no measure {self.measure!r}: choose from {known}.")
        resolve_decision(self.decision)
        names = [_short_name(name) for name in self.models]
        if not names:
            raise TableError("No model is named: name at least one.")
        object.__setattr__(self, "short_names", tuple(dict.fromkeys(names)))


def _short_name(name: str) -> str:
    kind = type(make_model(name))
    return next(short for short, other in MODEL_NAMES.items() if other is kind)


def compare(
    data: TableData, plan: ComparisonPlan, advance: Callable[[str], None] = lambda name: None
) -> Comparison:
    r"""Cross-validate models on a table; preprocessing is learned anew from each training fold.

    Parameters
    ----------
    data : TableData
    plan : ComparisonPlan
    advance : callable, optional
        Called with the name of the model after each fold.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table
    >>> from colabel.tables.comparing import ComparisonPlan, compare
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> lines = [f"{i % 7},{int(i % 7 > 2)},{int(i % 7 > 4)}" for i in range(70)]
    >>> _ = file.write_text("\n".join(["size,a,b", *lines]))
    >>> found = compare(load_table(TableRequest(file, ["a", "b"])), ComparisonPlan(["mlknn"], 3))
    >>> found.recommended, round(found.results["mlknn"].mean("exact match"), 2)
    ('mlknn', 0.83)
    >>> folder.cleanup()
    """
    space, codes = LabelSpace.infer(data.labels.Y, list(data.labels.names))
    if data.features.n_rows <= _MOST_STRATIFIED:
        folds = iterative_stratification(codes, plan.n_folds, plan.seed)
    else:
        folds = kfold(data.features.n_rows, plan.n_folds, plan.seed)
    makers: dict[str, Any] = {name: make_model(name, plan.seed) for name in plan.short_names}
    makers[BASELINE] = LabelFrequencies()
    results: dict[str, ModelResult] = {}
    failed: dict[str, str] = {}
    for name, model in makers.items():
        try:
            model.set_params(decision=plan.decision)
            results[name] = _cross_validated(name, model, data, space, codes, folds, advance)
        except (ValueError, NotImplementedError, MemoryError) as error:
            failed[name] = " ".join(str(error).split()) or type(error).__name__
    if not results or set(results) == {BASELINE}:
        raise TableError(f"Every model failed; the first said: {next(iter(failed.values()))}")
    recommended, reason = recommend(results, plan.measure)
    return Comparison(
        space, codes, results, failed, plan.n_folds, plan.measure, recommended, reason
    )


def _cross_validated(
    name: str,
    model: Any,
    data: TableData,
    space: LabelSpace,
    codes: Codes,
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
    advance: Callable[[str], None],
) -> ModelResult:
    held_out = HeldOutAnswers(np.zeros_like(codes), np.zeros(codes.shape), np.zeros(codes.shape[0]))
    scores = []
    for train, test in folds:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a solver that stops early shows in the scores
            labels = Labels(data.labels.names, data.labels.Y[train], data.labels.source)
            fitted = TableModel.fit(model, data.features.rows(train), data.choice, labels)
            joint = fitted.joint(data.features.rows(test))
            predicted = decide(joint, model.decision)
            seconds = time.perf_counter() - started
        translate = _Translation(space, fitted.space)
        held_out.codes[test] = translate.to_all(predicted)
        held_out.marginals[test] = translate.marginals(joint.marginal_tables(), predicted)
        held_out.confidence[test] = np.exp(joint.log_prob_codes(joint.mode_codes()))
        true, seen = translate.to_fold(codes[test])
        log_prob = np.where(seen, joint.log_prob_codes(true), -np.inf)
        complete = test[(codes[test] != MISSING).all(axis=1)]
        shown = (_plain(space, codes[complete]), _plain(space, held_out.codes[complete]))
        scores.append([*label_scores(*shown, np.minimum(log_prob, 0.0)), seconds])
        advance(name)
    columns = np.array(scores, dtype=np.float64).T
    named = dict(zip([measure.name for measure in MEASURES], columns, strict=True))
    title = "label frequencies" if name == BASELINE else type(model).__name__
    return ModelResult(name, title, named, held_out)


def _plain(space: LabelSpace, codes: Codes) -> NDArray[Any]:
    """Values for the metrics: 0/1 codes, or texts, so that 0 and 1 are not taken for labels."""
    return codes if space.is_indicator else space.values(codes).astype(str)


class _Translation:
    """Between the codes of all rows and those of a fold, which may lack rare values."""

    def __init__(self, every: LabelSpace, fold: LabelSpace) -> None:
        self._to_fold, self._to_all = [], []
        for of_all, of_fold in zip(every.classes, fold.classes, strict=True):
            position = {value: i for i, value in enumerate(of_fold.tolist())}
            forward = [position.get(value, MISSING) for value in of_all.tolist()]
            self._to_fold.append(np.array([*forward, MISSING], dtype=np.int32))
            position = {value: i for i, value in enumerate(of_all.tolist())}
            self._to_all.append(np.array([position[v] for v in of_fold.tolist()], dtype=np.int32))
        self._binary = every.is_indicator

    def to_fold(self, codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
        """Codes of the fold, and which rows hold only values it knows."""
        found = np.stack([t[c] for t, c in zip(self._to_fold, codes.T, strict=True)], axis=1)
        unseen = (found == MISSING) & (codes != MISSING)
        return found, ~unseen.any(axis=1)

    def to_all(self, codes: Codes) -> Codes:
        """Codes in the space of all rows."""
        return np.stack([t[c] for t, c in zip(self._to_all, codes.T, strict=True)], axis=1)

    def marginals(self, tables: Sequence[Array], predicted: Codes) -> Array:
        """P(1) for 0/1 labels, P(predicted value) for others, (n, d)."""
        if self._binary:
            return np.stack([table[:, 1] for table in tables], axis=1)
        rows = np.arange(len(predicted))
        each = [table[rows, c] for table, c in zip(tables, predicted.T, strict=True)]
        return np.stack(each, axis=1)


def recommend(results: Mapping[str, ModelResult], measure: str) -> tuple[str, str]:
    """Choose a model: the best by the measure, or one as good with better probabilities.

    Two models are as good if their scores on the same folds differ by no more than one standard
    error of the difference, which is widened because training folds overlap (Nadeau and Bengio,
    2003).
    """
    sign = next(m.sign for m in MEASURES if m.name == measure)
    digits = next(m.digits for m in MEASURES if m.name == measure)
    models = {name: result for name, result in results.items() if name != BASELINE}

    def goodness(name: str) -> float:
        mean = sign * models[name].mean(measure)
        return mean if np.isfinite(mean) else -np.inf

    best = max(models, key=goodness)
    ties = [name for name in models if _as_good(models[name], models[best], measure)]
    chosen = min({*ties, best}, key=lambda name: (models[name].mean("joint log-loss"), name))
    title, score = models[chosen].title, models[chosen].mean(measure)
    if chosen == best:
        reason = f"{title} has the best {measure}, {score:.{digits}f}"
        others = [models[name].title for name in ties if name != best]
        if others and measure != "joint log-loss":
            reason += (
                f"; within one standard error of it, but with no better joint probabilities, "
                f"{'is' if len(others) == 1 else 'are'} {_listed(others)}"
            )
    else:
        reason = (
            f"{title} has {measure} {score:.{digits}f}, within one standard error of the best "
            f"({models[best].title}, {models[best].mean(measure):.{digits}f}), and better joint "
            f"probabilities: log-loss {models[chosen].mean('joint log-loss'):.3f} against "
            f"{models[best].mean('joint log-loss'):.3f}"
        )
    return chosen, f"{reason}.{_against_baseline(results, chosen, measure, sign, digits)}"


def _against_baseline(
    results: Mapping[str, ModelResult], chosen: str, measure: str, sign: int, digits: int
) -> str:
    baseline = results.get(BASELINE)
    if baseline is None:
        return ""
    ahead = sign * (results[chosen].mean(measure) - baseline.mean(measure))
    without = f"{baseline.mean(measure):.{digits}f}"
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
