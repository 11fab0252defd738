"""How good a fitted model is on rows that it has not seen."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from colabel.comparing.held_out import HeldOut, Task, answer
from colabel.comparing.result import MEASURES, plain
from colabel.core.arrays import Array, Codes
from colabel.labels import MISSING, LabelSpace
from colabel.models.wrapped import model_inside, unwrapped
from colabel.tables import Frame, TableError, TableModel, read_chunks
from colabel.tables.source import Source
from colabel.tables.table_labels import LabelStatistics

if TYPE_CHECKING:
    import pandas as pd

_PARTS = 20  # of the rows, each of which is left out once for standard errors


class Value(NamedTuple):
    """A measure and its standard error over rows; NaN where it is not defined."""

    value: float
    error: float


class LabelScores(NamedTuple):
    """What became of one label, or of one value of a class variable.

    Of a value, `mean_probability` and `calibration_error` are about the rows it is predicted for.
    """

    name: str
    n_true: int
    precision: float
    recall: float
    f1: float
    mean_probability: float
    calibration_error: float


class Confusion(NamedTuple):
    """How often one label was predicted in the place of another."""

    missed: str
    predicted: str
    n_rows: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of a fitted model on rows with known labels.

    Attributes
    ----------
    measures : {name: Value}
        Exact match, joint log-loss, Hamming accuracy, F1; for 0/1 labels also how well the labels
        of a row are ranked (coverage error, ranking loss, precision at 1, 3 and 5). The log-loss
        is over rows whose values all occur in training.
    labels : list of LabelScores
    confusions : list of Confusion
        The most frequent first.
    n_rows : int
    n_unseen : int
        Rows with a value that the model never saw in training, which has probability zero.
    coverage : Value or None
        How often the sets of `ConformalSets` hold the true labels.
    """

    measures: dict[str, Value]
    labels: list[LabelScores]
    confusions: list[Confusion]
    n_rows: int
    n_unseen: int
    coverage: Value | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the scores of the labels as a data frame (needs pandas)."""
        from colabel.joint.base import require_pandas

        require_pandas()
        import pandas as pd

        return pd.DataFrame(self.labels).set_index("name")

    def to_json(self) -> str:
        """Return everything as JSON; what is not defined is null."""
        names = ("n_rows", "n_unseen", "coverage", "measures", "labels", "confusions")
        return json.dumps(plain({name: getattr(self, name) for name in names}), indent=1)

    def __str__(self) -> str:
        lines = [f"{self.n_rows:,} rows"]
        for name, (value, error) in self.measures.items():
            title = MEASURES[name].title if name in MEASURES else name.replace("_", " ")
            if not math.isnan(value):
                spread = "" if math.isnan(error) else f" ± {error:.3f}"
                lines.append(f"{title:>24} {value:8.3f}{spread}")
        if self.coverage is not None:
            value, error = self.coverage
            lines.append(f"{'coverage of the sets':>24} {value:8.3f} ± {error:.3f}")
        if self.n_unseen:
            lines.append(
                f"{self.n_unseen:,} rows hold a value that was never seen in training. They have "
                "probability zero, and the log-loss is that of the others."
            )
        return "\n".join(lines)


def evaluate(model: Any, X: Any, Y: Any, *, label_names: Sequence[str] | None = None) -> Evaluation:
    """Measure a fitted model on rows that it has not seen.

    Parameters
    ----------
    model : fitted estimator
        A model of colabel, a pipeline or search around one, or any multi-label classifier.
    X : (n, p)
    Y : (n, d)
        True labels in any form; NaN or None where not known, which counts neither way.
    label_names : sequence of d str, optional
        By default those of the model.

    Returns
    -------
    Evaluation
        `print` it, or see `measures`, `labels`, `confusions`, `to_frame()` and `to_json()`.

    Examples
    --------
    >>> from colabel import CTBN, evaluate
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0).fit(data.X[:900], data.Y[:900])
    >>> scores = evaluate(model, data.X[900:], data.Y[900:], label_names=data.label_names)
    >>> round(scores.measures["exact_match"].value, 2)
    0.8
    """
    inner = model_inside(model)
    space = getattr(inner, "label_space_", None)
    task = Task(X, Y, *_every_value(space, Y, label_names))
    held_out = answer(model, task, np.arange(len(task.codes)))
    n_unseen = 0 if held_out.log_prob is None else int(np.isneginf(held_out.log_prob).sum())
    # standard errors by the jackknife: all measures again without each of some parts of the rows
    values = _measured(held_out)
    parts = np.random.default_rng(0).integers(0, _PARTS, size=len(task.codes))
    left = [np.flatnonzero(parts != part) for part in np.unique(parts)]
    again = [_measured(held_out.some(rows)) for rows in left if len(rows)]
    measures = {}
    for name, value in values.items():
        each = np.array([own[name] for own in again])
        error = each.std() * (len(each) - 1) ** 0.5 if len(each) > 1 else math.nan
        measures[name] = Value(value, float(error))
    coverage = None
    if hasattr(inner, "p_values"):
        inner, rows = unwrapped(model, X)
        covered = (inner.p_values(rows, Y) > 1.0 - inner.coverage).astype(float)
        coverage = Value(float(covered.mean()), float(covered.std() / len(covered) ** 0.5))
    labels, confusions = _label_scores(held_out), _confusions(held_out)
    return Evaluation(measures, labels, confusions, len(task.codes), n_unseen, coverage)


def evaluate_table(model: TableModel, source: Source) -> Evaluation:
    """Measure a fitted table model on a table that has its label columns, too."""
    frame, Y = labelled_rows(model, source)
    X = model.preprocessor.transform(frame)
    return evaluate(model.model, X, Y, label_names=model.space.names)


def labelled_rows(model: TableModel, source: Source) -> tuple[Frame, Any]:
    """Read the columns that a table model takes, and the labels beside them."""
    columns, separator = model.label_source.columns, model.label_source.separator
    lacking = [name for name in columns if name not in source.names]
    if lacking:
        raise TableError(
            f"{source.path} lacks the label columns {', '.join(lacking)}: give rows whose labels "
            "are known."
        )
    read = source.storage()
    storage = {**{name: read[name] for name in columns}, **model.storage}
    frame = Frame.stacked(list(read_chunks(source, storage)))
    counted = LabelStatistics.of(frame, columns, source.path)
    labels = counted.reader(columns, separator).read(frame)
    Y: Any = labels.Y
    if separator:  # tags that the table lacks are in none of its rows
        at = {name: i for i, name in enumerate(labels.names)}
        absent = np.zeros(len(Y), dtype=int)
        Y = np.stack([Y[:, at[n]] if n in at else absent for n in model.space.names], axis=1)
    return frame, Y


def _every_value(
    own: LabelSpace | None, Y: Any, names: Sequence[str] | None
) -> tuple[LabelSpace, Codes]:
    """Return the space of a model's values and of those in Y, and the codes of Y in it."""
    if own is None:
        return LabelSpace.infer(Y, names)
    space = replace(own, names=tuple(names)) if names else own
    try:
        return space, space.encode(Y)
    except ValueError:  # a value that the model never saw
        given, _ = LabelSpace.infer(Y, names or own.names)
    pairs = zip(own.classes, given.classes, strict=True)
    space = replace(space, classes=tuple(np.union1d(mine, theirs) for mine, theirs in pairs))
    return space, space.encode(Y)


def _measured(held_out: HeldOut) -> dict[str, float]:
    """Take all measures; the log-loss of rows whose values all occur in training."""
    seen = held_out
    if held_out.log_prob is not None and np.isneginf(held_out.log_prob).any():
        seen = held_out.some(np.flatnonzero(np.isfinite(held_out.log_prob)))
    measures = {
        name: float(measure.take(seen if measure.needs_log_prob else held_out))
        for name, measure in MEASURES.items()
    }
    if held_out.space.is_indicator and held_out.marginals is not None:
        measures |= _rankings(held_out.complete)
    return measures


def _rankings(held_out: HeldOut) -> dict[str, float]:
    """How well the marginals rank the labels of each row, all of which are known."""
    true, scores = held_out.true == 1, held_out.marginals
    if scores is None or not len(true):
        return {}
    # labels that rank at least as high as each label of the row, and how many of them it lacks
    coverage, wrong = np.zeros(len(true)), np.zeros(len(true))
    for i in range(true.shape[1]):
        above = scores >= scores[:, [i]]
        coverage = np.maximum(coverage, np.where(true[:, i], above.sum(axis=1), 0))
        wrong += np.where(true[:, i], (above & ~true).sum(axis=1), 0)
    n_pairs = true.sum(axis=1) * (~true).sum(axis=1)
    measures = {
        "coverage_error": float(coverage.mean()),
        "ranking_loss": float((wrong / np.maximum(n_pairs, 1)).mean()),
    }
    order = np.argsort(-scores, axis=1, kind="stable")
    for k in (1, 3, 5):
        if k <= true.shape[1]:
            top = np.take_along_axis(true, order[:, :k], axis=1)
            measures[f"precision_at_{k}"] = float(top.mean())
    some = true.any(axis=0)
    measures["macro_average_precision"] = math.nan
    if some.any():
        precision = average_precision_score(true[:, some], scores[:, some], average="macro")
        measures["macro_average_precision"] = float(precision)
    return measures


def _label_scores(held_out: HeldOut) -> list[LabelScores]:
    """Scores of each 0/1 label, or of each value of the class variables."""
    scores = []
    for name, true, decided, marginals in held_out.each_value():
        precision, recall, f1, _ = precision_recall_fscore_support(
            true, decided, average="binary", zero_division=np.nan
        )
        asked = np.full(len(true), True) if held_out.space.is_indicator else decided
        mean = error = math.nan
        if marginals is not None and asked.any():
            probability = marginals[asked]
            mean, error = float(probability.mean()), _gap(probability, true[asked])
        figures = float(precision), float(recall), float(f1), mean, error
        scores.append(LabelScores(name, int(true.sum()), *figures))
    return scores


def _gap(probability: Array, true: Array, n_bins: int = 10) -> float:
    """Expected calibration error over bins of equally many rows."""
    bins = np.array_split(np.argsort(probability, kind="stable"), min(n_bins, len(true)))
    gaps = [len(b) * abs(probability[b].mean() - true[b].mean()) for b in bins]
    return float(sum(gaps) / len(true))


def _confusions(held_out: HeldOut, most: int = 10) -> list[Confusion]:
    """Labels that were predicted where another was missed; of class variables, their values."""
    space = held_out.space
    true, said = held_out.true, held_out.codes
    pairs: list[Confusion] = []
    if space.is_indicator:
        missed = ((true == 1) & (said == 0)).astype(np.int64)
        added = ((true == 0) & (said == 1)).astype(np.int64)
        counts = missed.T @ added
        for i, j in np.argwhere(counts > 0):
            pairs.append(Confusion(space.names[i], space.names[j], int(counts[i, j])))
    else:
        for i, (name, values) in enumerate(zip(space.names, space.classes, strict=True)):
            wrong = (true[:, i] != said[:, i]) & (true[:, i] != MISSING)
            both = np.stack([true[wrong, i], said[wrong, i]])
            seen, counts = np.unique(both, axis=1, return_counts=True)
            for (a, b), n in zip(seen.T, counts, strict=True):
                pairs.append(Confusion(f"{name}={values[a]}", f"{name}={values[b]}", int(n)))
    return sorted(pairs, key=lambda pair: -pair.n_rows)[:most]
