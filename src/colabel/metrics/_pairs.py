"""Truth and prediction side by side, as the metrics compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags
from colabel.core.parameters import checked_weights
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import distinct, few, lookup, object_array, tidy
from colabel.labels.inputs import Lists, default_names, read
from colabel.labels.space import infer_space


class Pair(NamedTuple):
    """Codes of truth and prediction, over the same values."""

    true: Codes  # (n, d)
    pred: Codes  # (n, d), codes of the same values
    cardinalities: tuple[int, ...]
    zero_one: bool  # 0/1 labels, not class variables


def aligned(
    Y_true: Any,
    Y_pred: Any,
    sample_weight: ArrayLike | None,
    metric: str,
    *,
    missing_truth: bool = False,
) -> tuple[Pair, Array]:
    """Codes of both over the union of their values, and the weights, of the rows that count."""
    lists = _lists_are(Y_true, Y_pred)
    space, true = _inferred(Y_true, "Y_true", lists)
    other, pred = _inferred(Y_pred, "Y_pred", "sets" if space.kind == "sets" else lists)
    if other.kind == "sets" and space.kind != "sets":
        space, true = _inferred(Y_true, "Y_true", "sets")
    if space.kind == "sets" and other.kind == "sets":
        names = tuple(sorted({*space.names, *other.names}))
        true, pred = _over(names, space, true), _over(names, other, pred)
        pair = Pair(true, pred, (2,) * len(names), True)
    else:
        pred, other = _matched(space, other, pred)
        pair = _recoded(space, true, other, pred)
    _require_comparable(pair, metric, missing_truth)
    weights = checked_weights(sample_weight, pair.true)
    counts = weights > 0
    return pair._replace(true=pair.true[counts], pred=pair.pred[counts]), weights[counts]


def _lists_are(*sides: Any) -> Lists:
    """How to read equally long lists of strings: like the first side that is unambiguous."""
    for Y in sides:
        try:
            return "sets" if isinstance(read(Y), list) else "table"
        except ValueError:
            continue
    return "asked"


def _inferred(Y: Any, what: str, lists: Lists) -> tuple[LabelSpace, Codes]:
    try:
        return infer_space(Y, allow_unobserved=True, lists=lists)
    except ValueError as error:
        raise ValueError(f"{what} cannot be read: {error}") from None


def _over(names: tuple[str, ...], space: LabelSpace, codes: Codes) -> Codes:
    """Codes of sets over more labels, which none of the sets contains."""
    wide = np.zeros((len(codes), len(names)), dtype=np.int32)
    position = {name: i for i, name in enumerate(names)}
    wide[:, [position[name] for name in space.names]] = codes
    if space.n_labels:
        wide[(codes == MISSING).all(axis=1)] = MISSING
    return wide


def _matched(space: LabelSpace, other: LabelSpace, pred: Codes) -> tuple[Codes, LabelSpace]:
    """Prediction with its variables in the order of the truth, by name where both have names."""
    d, width = space.n_labels, other.n_labels
    if d != width:
        raise ValueError(
            f"Y_true has {d} label variable{'s' * (d != 1)} and Y_pred has {width}: give both the "
            "same variables."
        )
    unnamed = default_names(d)
    vector = "vector" in (space.kind, other.kind)  # the name of a series means nothing here
    if vector or unnamed in (space.names, other.names) or space.names == other.names:
        return pred, other
    if set(space.names) != set(other.names):
        strange = few(name for name in other.names if name not in space.names)
        raise ValueError(
            f"Y_pred has the variables {strange}, which Y_true ({few(space.names)}) has not: "
            "rename the columns, or give arrays."
        )
    position = {name: i for i, name in enumerate(other.names)}
    order = [position[name] for name in space.names]
    classes = tuple(other.classes[i] for i in order)
    return pred[:, order], LabelSpace(space.names, classes, other.kind)


def _recoded(space: LabelSpace, true: Codes, other: LabelSpace, pred: Codes) -> Pair:
    """Both over the union of the values of each variable."""
    vector = "vector" in (space.kind, other.kind)
    if space.is_indicator and other.is_indicator and not vector:
        return Pair(true, pred, (2,) * space.n_labels, True)
    true, pred, cardinalities = true.copy(), pred.copy(), []
    for i, (name, ours, theirs) in enumerate(
        zip(space.names, space.classes, other.classes, strict=True)
    ):
        both = object_array([*ours, *theirs])
        union, _ = distinct(tidy(both, name)[0], name)
        for codes, classes in ((true, ours), (pred, theirs)):
            # the last entry serves the code -1
            table = np.append(lookup(union, classes), np.int32(MISSING))
            codes[:, i] = table[codes[:, i]]
        cardinalities.append(len(union))
    return Pair(true, pred, tuple(cardinalities), False)


def _require_comparable(pair: Pair, metric: str, missing_truth: bool) -> None:
    if len(pair.true) != len(pair.pred):
        raise ValueError(
            f"Y_true has {len(pair.true)} rows and Y_pred has {len(pair.pred)}: give one "
            "prediction per row."
        )
    if pair.true.shape[1] == 0:
        raise ValueError(
            f"No set of Y_true or Y_pred holds a label: {metric} needs at least one label. Give "
            "0/1 matrices instead, which say how many labels there are."
        )
    if (pair.pred == MISSING).any():
        raise ValueError(
            f"Y_pred has missing entries (NaN or None): {metric} needs every label predicted."
        )
    if not missing_truth and (pair.true == MISSING).any():
        rows = int((pair.true == MISSING).any(axis=1).sum())
        raise ValueError(
            f"Y_true has missing entries (NaN or None) in {rows} row{'s' * (rows != 1)}: {metric} "
            "needs whole label vectors. Leave these rows out, or use hamming_accuracy or "
            "f1_score, which skip the missing entries."
        )


def indicators(pair: Pair) -> tuple[Flags, Flags]:
    """Rows as sets: (n, d) booleans for 0/1 labels, else (n, number of pairs that occur)."""
    if pair.zero_one:
        return pair.true == 1, pair.pred == 1
    true, pred = (
        np.concatenate(
            [codes[:, [i]] == np.arange(k) for i, k in enumerate(pair.cardinalities)], axis=1
        )
        for codes in (pair.true, pair.pred)
    )
    # 0/1 columns on one side may bring a value that occurs on neither
    occurs = (true | pred).any(axis=0)
    return true[:, occurs], pred[:, occurs]


def at_least_two(indicator: NDArray[Any]) -> NDArray[Any]:
    # scikit-learn reads one column as a 1-d target; a label that never occurs changes nothing
    empty = np.zeros((len(indicator), 1), dtype=indicator.dtype)
    return indicator if indicator.shape[1] > 1 else np.hstack([indicator, empty])


def label_means(rows: Flags, values: Array, weights: Array) -> Array:
    """For each label, the weighted mean of values (n,) over the rows that have it; 0 if none."""
    counts = weights @ rows
    means: Array = (weights * values) @ rows / np.where(counts > 0, counts, 1.0)
    return means
