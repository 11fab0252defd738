"""A fitted model on labelled rows: how good it is, which columns matter, which labels depend."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from colabel.comparing.held_out import HeldOut, Task, answer, rows_of
from colabel.comparing.result import MEASURES, plain
from colabel.core.arrays import Array, Codes, Flags, Indices, dense, is_sparse
from colabel.core.lazy import require
from colabel.joint import Joint, label_dependence
from colabel.labels import MISSING, LabelSpace
from colabel.models.wrapped import joint_of, model_inside, title_of, unwrapped
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
        require("pandas", "A data frame")
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
        each = np.array([own.get(name, math.nan) for own in again])
        error = each.std() * (len(each) - 1) ** 0.5 if len(each) > 1 else math.nan
        measures[name] = Value(value, float(error))
    coverage, whole = None, held_out.complete.rows
    if hasattr(inner, "p_values") and len(whole):
        inner, rows = unwrapped(model, rows_of(X, whole))
        known = task.space.values(task.codes[whole])
        covered = (inner.p_values(rows, known) > 1.0 - inner.coverage).astype(float)
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
        if not len(true):  # unknown in all rows
            scores.append(LabelScores(name, 0, *[math.nan] * 5))
            continue
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


def _gap(probability: Array, true: Flags, n_bins: int = 10) -> float:
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


# ------------------------------------------------------------- columns that matter, label pairs

# Of graphs that are measured: rows, labels, and what an edge must be worth.
_MEASURED_ROWS, _MOST_LABELS, _LEAST_NATS = 300, 40, 0.005


def dependence_graph(model: Any, X: Any) -> dict[str, Any] | None:
    """Measure which labels depend on each other given x, in the joints of a fitted model.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline or search around one
    X : (n, p)
        Rows, as the outermost estimator takes them.

    Returns
    -------
    dict or None
        "labels": names; "probability": P(y = 1) of each averaged over rows; "edges": list of dicts
        with "from" and "to" (positions), "nats", the conditional mutual information given x
        averaged over up to 300 rows, and "given_on", "given_off", "back_on", "back_off": the
        probability that the one is 1 given that the other is 1 or 0, see `label_dependence`; NaN
        for class variables. Edges below 0.005 nats, or a fiftieth of the strongest, are left out.
        "n_labels" counts all labels; of more than 40, the 40 least certain ones are looked at.
        None for models without probabilities.
    """
    model, X = unwrapped(model, X)
    if not hasattr(model, "joint"):
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_MEASURED_ROWS, X.shape[0])).astype(int)
    joint: Joint = model.joint(X[rows])
    try:
        tables = joint.marginal_tables()
    except NotImplementedError:  # of classifiers that only decide
        return None
    unsure = np.array([1.0 - float((table**2).sum(axis=1).mean()) for table in tables])
    labels = np.sort(np.argsort(-unsure, kind="stable")[:_MOST_LABELS])
    dependence = label_dependence(joint, labels.tolist())
    least = max(_LEAST_NATS, float(dependence.nats.max()) / 50)
    edges = [
        {
            "from": int(i),
            "to": int(j),
            "nats": float(dependence.nats[i, j]),
            "given_on": float(dependence.given_on[i, j]),
            "given_off": float(dependence.given_off[i, j]),
            "back_on": float(dependence.given_on[j, i]),
            "back_off": float(dependence.given_off[j, i]),
        }
        for i, j in np.argwhere(np.triu(dependence.nats >= least, 1))
    ]
    return {
        "labels": [joint.space.names[i] for i in labels],
        "probability": [float(tables[i][:, -1].mean()) for i in labels],
        "edges": sorted(edges, key=lambda edge: -float(edge["nats"])),
        "n_labels": joint.space.n_labels,
        "title": title_of(model),
    }


@dataclass(frozen=True, eq=False)
class Description:
    """Which columns matter to a fitted model, for which labels, and how its labels depend.

    Attributes
    ----------
    columns : tuple of p str
        Those measured, the most important first.
    labels : tuple of d str
    importance : (p,)
        By how much the joint log-loss grows, in nats per row, where a column is shuffled.
    errors : (p,)
        Standard errors over the shuffles.
    by_label : (p, d)
        The same of the log-loss of each label by itself.
    effects : (p, d)
        Average change of the log-odds of a label where a column grows by its standard deviation;
        of `BinaryRelevance` that is the coefficient. NaN for class variables, and for columns of
        categories or text.
    graph : dict or None
        Which labels depend on each other given the features, see `dependence_graph`.
    """

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    importance: Array
    errors: Array
    by_label: Array
    effects: Array
    graph: dict[str, Any] | None

    def to_frame(self) -> pd.DataFrame:
        """Return a line for each column and label (needs pandas)."""
        import pandas as pd

        index = pd.MultiIndex.from_product([self.columns, self.labels], names=["column", "label"])
        values = {"importance": self.by_label.ravel(), "effect": self.effects.ravel()}
        return pd.DataFrame(values, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not defined is None."""
        values: dict[str, Any] = plain(vars(self))
        return values

    def matters_for(self, column: int, most: int = 3) -> list[str]:
        """Name the labels that a column matters for, with the sign of its effect."""
        own = self.by_label[column]
        strong = [i for i in np.argsort(-own)[:most] if own[i] > max(0.001, 0.1 * own.max())]
        signs = {1.0: "+", -1.0: "−"}
        return [
            signs.get(float(np.sign(self.effects[column, i])), "") + self.labels[i] for i in strong
        ]


def describe(
    model: Any,
    X: Any,
    Y: Any,
    *,
    n_repeats: int = 5,
    max_rows: int = 500,
    max_columns: int = 100,
    random_state: int = 0,
) -> Description:
    """Say which columns matter to a fitted model, for which labels, and how its labels depend.

    Parameters
    ----------
    model : fitted model with a joint, a pipeline or search around one, or a `TableModel`
    X : (n, p) array or sparse matrix; for a `TableModel` a frame
        Rows that the model has not seen, if what matters beyond training is asked for.
    Y : (n, d)
        Their labels; NaN or None where not known.
    n_repeats : int, default=5
        How often each column is shuffled.
    max_rows, max_columns : int
        Of more rows a sample is taken, and of more columns those that go most with the labels.
    random_state : int, default=0

    Returns
    -------
    Description

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import BinaryRelevance, describe
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> Y = (X[:, [2, 0]] > 0).astype(int)
    >>> model = BinaryRelevance(C=1.0).fit(X, Y, label_names=["a", "b"])
    >>> found = describe(model, X, Y)
    >>> found.columns[2], found.matters_for(found.columns.index("x0"))
    ('x1', ['+b'])
    """
    rng = np.random.default_rng(random_state)
    if isinstance(model, TableModel):
        owner, X = model.preprocessor.column_of_feature(), model.preprocessor.transform(Frame.of(X))
        names, model = [column.name for column in model.columns], model.model
    else:
        names = [str(name) for name in getattr(X, "columns", ())]
        X = X.to_numpy() if names else X if is_sparse(X) else np.asarray(X, dtype=np.float64)
        owner = np.arange(X.shape[1])
        names = names or [f"x{i}" for i in range(X.shape[1])]
    chosen = np.sort(rng.permutation(X.shape[0])[:max_rows])
    rows = X[chosen]
    joint = joint_of(model, rows)
    codes = joint.space.encode(Y)[chosen]
    losses = _losses(joint, codes)
    columns = _screened(rows, owner, codes, max_columns)
    grown = np.zeros((len(columns), n_repeats, 1 + codes.shape[1]))
    effects = np.full((len(columns), codes.shape[1]), np.nan)
    for k, column in enumerate(columns):
        own = np.flatnonzero(owner == column)
        for repeat in range(n_repeats):
            other = rows[rng.permutation(len(chosen))]
            grown[k, repeat] = _losses(joint_of(model, _mixed(rows, other, own)), codes) - losses
        spread = float(dense(rows[:, own]).std()) if len(own) == 1 else 0.0
        if spread > 0.0 and joint.space.is_indicator:
            step = np.zeros(rows.shape[1])
            step[own] = spread
            moved = (
                rows + sp.csr_array(np.tile(step, (len(chosen), 1)))
                if is_sparse(rows)
                else rows + step
            )
            after, before = (_log_odds(one) for one in (joint_of(model, moved), joint))
            effects[k] = (after - before).mean(axis=0)
    means = grown.mean(axis=1)
    errors = (
        grown[..., 0].std(axis=1, ddof=1) / n_repeats**0.5
        if n_repeats > 1
        else means[:, 0] * np.nan
    )
    order = np.argsort(-means[:, 0], kind="stable")
    return Description(
        tuple(names[columns[k]] for k in order),
        joint.space.names,
        means[order, 0],
        errors[order],
        means[order, 1:],
        effects[order],
        dependence_graph(model, rows),
    )


def _mixed(rows: Any, other: Any, own: Indices) -> Any:
    """Rows with some features of other rows."""
    if is_sparse(rows):
        taken = np.isin(np.arange(rows.shape[1]), own).astype(np.float64)
        return sp.csr_array(rows @ sp.diags_array(1.0 - taken) + other @ sp.diags_array(taken))
    mixed = rows.copy()
    mixed[:, own] = other[:, own]
    return mixed


def _losses(joint: Joint, codes: Any) -> Array:
    """Mean joint log-loss, and that of each label by itself where it is known, (1 + d,)."""
    means = [np.maximum(joint.log_prob_codes(codes), -700.0).mean()]
    for table, own in zip(joint.marginal_tables(), codes.T, strict=True):
        known = np.flatnonzero(own != MISSING)
        log_prob = np.log(np.maximum(table[known, own[known]], 1e-300))
        means.append(log_prob.mean() if len(known) else 0.0)
    return -np.array(means)


def _log_odds(joint: Joint) -> Array:
    prob = np.clip(joint.marginals(), 1e-9, 1 - 1e-9)
    return np.log(prob / (1.0 - prob))


def _screened(rows: Any, owner: Indices, codes: Any, most: int) -> Indices:
    """Columns whose features go most with the labels, by their correlations."""
    columns = np.unique(owner)
    if len(columns) <= most:
        return columns
    centred = np.where(codes == MISSING, 0.0, codes - codes.mean(axis=0))
    squares = (
        np.asarray((rows * rows).mean(axis=0)).ravel() - np.asarray(rows.mean(axis=0)).ravel() ** 2
    )
    shares = np.abs(np.asarray(rows.T @ centred)).sum(axis=1) / np.sqrt(np.maximum(squares, 1e-12))
    best = np.zeros(int(owner.max()) + 1)
    np.maximum.at(best, owner, shares)
    return np.sort(np.argsort(-best, kind="stable")[:most])
