"""The scores; `colabel.metrics` says where each comes from."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics as sklearn_metrics

from colabel.core.arrays import Array, Codes, Flags
from colabel.core.parameters import checked_weights
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import distinct, few, lookup, object_array, tidy
from colabel.labels.inputs import Lists, default_names, read
from colabel.labels.space import infer_space

__all__ = [
    "exact_match",
    "f1_label",
    "f1_of_means",
    "f1_score",
    "hamming_accuracy",
    "joint_log_loss",
    "multilabel_accuracy",
]

Average = Literal["micro", "macro", "samples"]

_ROUNDING = 1e-4  # a log-probability may exceed 0 by this much, in single precision


def exact_match(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Share of rows whose labels are all predicted right (subset accuracy, EMA).

    .. math:: \frac{1}{n} \sum_i [M_i = \hat M_i]

    Parameters
    ----------
    Y_true, Y_pred : labels of n rows and d variables
        Without missing entries.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    share : float in [0, 1]

    Examples
    --------
    >>> from colabel.metrics import exact_match
    >>> exact_match([["low", 1], ["high", 2]], [["low", 1], ["high", 3]])
    0.5
    """
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "exact_match")
    return float(np.average((pair.true == pair.pred).all(axis=1), weights=weights))


def hamming_accuracy(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Share of labels predicted right, over all rows and variables.

    .. math:: 1 - \frac{1}{n d} \sum_i |\{j : y_{ij} \ne \hat y_{ij}\}|

    which is one minus `sklearn.metrics.hamming_loss` for 0/1 labels.

    Parameters
    ----------
    Y_true : labels of n rows and d variables
        Missing entries (NaN, None) were not observed and are left out of the mean, which then is
        over the observed entries of all rows together.
    Y_pred : labels of n rows and d variables
        Without missing entries.
    sample_weight : array of shape (n,), optional
        Weight of every observed entry of a row.

    Returns
    -------
    share : float in [0, 1]

    Examples
    --------
    >>> from colabel.metrics import hamming_accuracy
    >>> hamming_accuracy([[0, 1], [1, None]], [[0, 0], [1, 1]])
    0.666...
    """
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "hamming_accuracy", missing_truth=True)
    known = pair.true != MISSING
    _require_some(known, "hamming_accuracy")
    weights = weights[:, None] * known
    return float(np.average(pair.true == pair.pred, weights=weights))


def _require_some(known: Flags, metric: str) -> None:
    if not known.any():
        raise ValueError(
            f"Y_true has no observed entry with a positive weight: {metric} needs one."
        )


def multilabel_accuracy(
    Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Overlap of the true and the predicted label sets (Jaccard), averaged over rows.

    .. math:: \frac{1}{n} \sum_i \frac{|M_i \cap \hat M_i|}{|M_i \cup \hat M_i|}

    as ML_acc of Simha and Shatkay. Their paper does not say what 0/0 is; here a row without labels
    for which none is predicted counts as 1. For class variables, where M is the d pairs of the row,
    a row with a right values counts a / (2d - a).

    Parameters
    ----------
    Y_true, Y_pred : labels of n rows and d variables
        Without missing entries.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    accuracy : float in [0, 1]

    Examples
    --------
    >>> from colabel.metrics import multilabel_accuracy
    >>> multilabel_accuracy([{"a", "b"}, set()], [{"b", "c", "a"}, set()])
    0.833...
    """
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "multilabel_accuracy")
    true, pred = indicators(pair)
    score = sklearn_metrics.jaccard_score(
        at_least_two(true),
        at_least_two(pred),
        average="samples",
        sample_weight=weights,
        zero_division=1.0,
    )
    return float(score)


def f1_score(
    Y_true: Any,
    Y_pred: Any,
    *,
    average: Average = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: float = 0.0,
) -> float:
    """F1 of 0/1 labels, as `sklearn.metrics.f1_score` has it, and of class variables.

    For class variables every pair (variable, value) is one label, true in the rows that have the
    value. "macro" is the mean over variables of the macro-F1 of that variable, so that a variable
    of many values weighs no more than the others. "micro" counts right and wrong pairs over all
    variables; as each row has one true and one predicted value per variable, it is the Hamming
    accuracy, and so is "samples".

    Parameters
    ----------
    Y_true : labels of n rows and d variables
        Missing entries (NaN, None) were not observed, and count neither way: every sum is over
        the observed entries, of a label or a row or of all together.
    Y_pred : labels of n rows and d variables
        Without missing entries.
    average : {"micro", "macro", "samples"}, default="micro"
        Over all entries at once, per label, or per row.
    sample_weight : array of shape (n,), optional
    zero_division : float, default=0.0
        F1 of a 0/1 label (or row) that is neither true nor predicted anywhere. 0.0 is what
        scikit-learn uses by default, with a warning, so that scores computed with it agree; 1.0
        agrees with `multilabel_accuracy`, `f1_label` and Mulan, and, for "micro", with papers that
        set a precision of 1 where nothing is predicted; NaN leaves it out of the mean.

    Returns
    -------
    score : float in [0, 1]

    Examples
    --------
    >>> from colabel.metrics import f1_score
    >>> f1_score([[1, 0], [1, 1]], [[1, 0], [0, 1]], average="macro")
    0.833...
    >>> f1_score([["low", 1], ["high", 2]], [["low", 1], ["low", 2]], average="macro")
    0.666...
    """
    if average not in ("micro", "macro", "samples"):
        raise ValueError(f"average is {average!r}: choose 'micro', 'macro' or 'samples'.")
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "f1_score", missing_truth=True)
    known = pair.true != MISSING
    _require_some(known, "f1_score")
    if pair.zero_one:
        some = known.any(axis=1)
        weights = weights[some]
        # an entry that is neither true nor predicted is in no sum
        score = sklearn_metrics.f1_score(
            at_least_two(np.where(known, pair.true, 0)[some]),
            at_least_two(np.where(known, pair.pred, 0)[some]),
            labels=np.arange(pair.true.shape[1]),
            average=average,
            sample_weight=weights,
            zero_division=zero_division,
        )
        return float(score)
    if average == "samples":
        right = ((pair.true == pair.pred) & known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return float(np.average(right, weights=weights * known.any(axis=1)))
    if average == "micro":
        return float(np.average(pair.true == pair.pred, weights=weights[:, None] * known))
    scores = [
        # only values that occur have a say, so nothing is divided by zero
        sklearn_metrics.f1_score(true[own], pred[own], average="macro", sample_weight=weights[own])
        for true, pred, own in zip(pair.true.T, pair.pred.T, known.T, strict=True)
        if own.any()
    ]
    return float(np.mean(scores))


def f1_of_means(
    Y_true: Any,
    Y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    zero_division: float = float("nan"),
) -> float:
    r"""F1 of the mean precision and the mean recall over labels, the other macro-F1.

    .. math:: F = \frac{2 P R}{P + R}, \quad
              P = \mathrm{mean}_c \, Pre_c, \quad R = \mathrm{mean}_c \, Rec_c

    Some papers print this under the name of macro-F1, which usually is the mean of the labels'
    own F1, as in `f1_score` (Opitz and Burst, Macro F1 and Macro F1, 2019). It is far larger
    where rare labels are never predicted: such a label has no precision and is left out of P, as
    one that is never true is left out of R. With ``zero_division=1`` they count as 1 instead, as in
    the tables of the CTBN and MLCRF papers. For class variables the labels c are the pairs
    (variable, value) that occur in the truth or in the prediction.

    Parameters
    ----------
    Y_true, Y_pred : labels of n rows and d variables
        Without missing entries.
    sample_weight : array of shape (n,), optional
    zero_division : float, default=NaN
        Precision of a label that is never predicted and recall of one that is never true; NaN
        leaves them out of the means.

    Returns
    -------
    score : float in [0, 1]
        1 if nothing is true and nothing predicted.

    Examples
    --------
    >>> from colabel.metrics import f1_of_means, f1_score
    >>> Y_true, Y_pred = [[1, 0], [1, 1]], [[1, 0], [1, 0]]
    >>> f1_of_means(Y_true, Y_pred), f1_score(Y_true, Y_pred, average="macro")
    (0.666..., 0.5)

    The second label is never predicted; a precision of 1 raises the mean:

    >>> Y_true, Y_pred = [[0, 0], [1, 1]], [[1, 0], [1, 0]]
    >>> f1_of_means(Y_true, Y_pred), f1_of_means(Y_true, Y_pred, zero_division=1.0)
    (0.5, 0.6)
    """
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "f1_of_means")
    true, pred = indicators(pair)
    right, said, held = (weights @ table for table in (true & pred, pred, true))
    if not said.any() and not held.any():
        return 1.0
    means = []
    for total in (said, held):
        ratios = np.divide(right, total, out=np.full(len(total), zero_division), where=total > 0)
        counted = ratios[~np.isnan(ratios)]
        means.append(float(counted.mean()) if counted.size else 0.0)
    precision, recall = means
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1_label(
    Y_true: Any,
    Y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    zero_division: float = 1.0,
) -> float:
    r"""F1-label score: per label, from the overlap of the whole label sets.

    As used by Briesemeister et al. and by Simha and Shatkay:

    .. math::
        Pre_c &= \mathrm{mean}_{i : c \in \hat M_i} |M_i \cap \hat M_i| / |\hat M_i| \\
        Rec_c &= \mathrm{mean}_{i : c \in M_i} |M_i \cap \hat M_i| / |M_i| \\
        F &= \mathrm{mean}_c \; 2 \, Pre_c \, Rec_c / (Pre_c + Rec_c)

    Unlike the macro-F1, a row gives label c credit for the other labels it got right. The papers
    do not say what a label without rows counts: here it is 0 if the label is true but never
    predicted or the reverse, and ``zero_division`` if it is neither. For class variables the
    labels c are the pairs (variable, value) that occur in the truth or in the prediction.

    Parameters
    ----------
    Y_true, Y_pred : labels of n rows and d variables
        Without missing entries.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the means of Pre and Rec.
    zero_division : float, default=1.0
        Score of a label that is neither true nor predicted in any row; NaN leaves it out.

    Returns
    -------
    score : float in [0, 1]

    Examples
    --------
    >>> from colabel.metrics import f1_label
    >>> f1_label([{"a", "b"}, {"b"}], [{"a"}, {"b"}])
    0.761...
    """
    pair, weights = aligned(Y_true, Y_pred, sample_weight, "f1_label")
    true, pred = indicators(pair)
    shared = (true & pred).sum(axis=1)
    precision = label_means(pred, shared / np.maximum(pred.sum(axis=1), 1), weights)
    recall = label_means(true, shared / np.maximum(true.sum(axis=1), 1), weights)
    total = precision + recall
    scores = np.where(total > 0, 2 * precision * recall / np.where(total > 0, total, 1), 0.0)
    scores[~(true | pred).any(axis=0)] = zero_division
    counted = scores[~np.isnan(scores)]
    return float(counted.mean()) if counted.size else float("nan")


def joint_log_loss(
    log_prob: ArrayLike, *, normalize: bool = True, sample_weight: ArrayLike | None = None
) -> float:
    r"""Negative log-likelihood of the true label vectors (the CLL-loss of the papers).

    .. math:: -\frac{1}{n} \sum_i \log P(y_i \mid x_i)

    Parameters
    ----------
    log_prob : array of shape (n,)
        Natural logarithms of the joint probabilities that a model gave to the true vectors, as
        from ``joint.log_prob(Y)``. Where one is -inf, the loss is inf.
    normalize : bool, default=True
        The mean over rows; otherwise the sum, as the papers' tables have it.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    loss : float, at least 0

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.metrics import joint_log_loss
    >>> joint_log_loss(np.log([0.5, 0.25]))
    1.039...
    """
    logs = np.asarray(log_prob, dtype=np.float64)
    if logs.ndim != 1 or logs.size == 0:
        raise ValueError(
            f"log_prob has shape {logs.shape}: give the log-probabilities of the n true label "
            "vectors, of shape (n,) with n at least 1."
        )
    if np.isnan(logs).any():
        row = int(np.flatnonzero(np.isnan(logs))[0])
        raise ValueError(
            f"log_prob is NaN at row {row}: a probability that could not be computed has no loss. "
            "Leave the row out, or see why the model gave NaN."
        )
    if logs.max() > _ROUNDING:
        raise ValueError(
            f"log_prob reaches {logs.max():.4g}, but logarithms of probabilities are at most 0: "
            "give log-probabilities, not probabilities."
        )
    weights = checked_weights(sample_weight, logs)
    counted = weights > 0  # 0 times -inf is no loss
    total = -float(np.sum(logs[counted] * weights[counted]))
    return max(total / float(weights.sum()) if normalize else total, 0.0)


# ------------------------------------------------------ truth and prediction side by side


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
