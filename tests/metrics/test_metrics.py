"""Metrics by hand, against scikit-learn, and against the papers' formulas written out."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn import metrics as sk
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from colabel import CTBN, joint_of
from colabel.metrics import (
    SCORERS,
    exact_match,
    f1_label,
    f1_of_means,
    f1_score,
    hamming_accuracy,
    joint_log_loss,
    joint_log_loss_scorer,
    multilabel_accuracy,
)

pd = pytest.importorskip("pandas")

NAN = float("nan")
METRICS = [exact_match, hamming_accuracy, multilabel_accuracy, f1_score, f1_label, f1_of_means]

# three rows; the last is empty in truth and prediction
TRUE = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
PRED = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])

# class variables: 4 of 6 values right, one row of three wholly right
TRUE_VALUES = np.array([["a", 1], ["b", 2], ["c", 2]], dtype=object)
PRED_VALUES = np.array([["a", 1], ["b", 3], ["a", 2]], dtype=object)

# known in part
GAPS = np.array([[0, 1, NAN], [NAN, 0, NAN]])
KNOWN = [[1, None, 0], [0, 1, None], [1, 1, 1], [None, None, None]]
SAID = [[1, 1, 1], [0, 0, 1], [1, 1, 0], [1, 1, 1]]
KNOWN_VALUES = [["a", 2], ["b", None], [None, 3], ["a", 3]]
SAID_VALUES = [["a", 2], ["a", 2], ["a", 3], ["b", 3]]
DATES = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")


@pytest.fixture
def rng():
    return np.random.default_rng(20)


# ------------------------------------------------------------------------------------- by hand


SCORES = {metric.__name__: metric for metric in METRICS} | {
    f"{average} f1": partial(f1_score, average=average) for average in ("micro", "macro", "samples")
}


@pytest.mark.parametrize(
    ("name", "of_labels", "of_values"),
    [
        ("exact_match", 2 / 3, 1 / 3),
        ("hamming_accuracy", 7 / 9, 4 / 6),
        ("multilabel_accuracy", (1 / 3 + 1 + 1) / 3, (1 + 1 / 3 + 1 / 3) / 3),
        ("f1_score", 2 * 2 / (2 * 2 + 1 + 1), 4 / 6),
        ("micro f1", 2 * 2 / (2 * 2 + 1 + 1), 4 / 6),
        # label by label: tp 1 | tp 1, fn 1 | fp 1; a: one right, one false; b right; c missed,
        # and 1 right; 2: one right, one missed; 3 false
        ("macro f1", (1 + 2 / 3 + 0) / 3, ((2 / 3 + 1 + 0) / 3 + (1 + 2 / 3 + 0) / 3) / 2),
        # nothing to find and nothing found in the last row: 0 by default, as in scikit-learn
        ("samples f1", (1 / 2 + 1 + 0) / 3, 4 / 6),
    ],
)
def test_by_hand(name, of_labels, of_values):
    assert SCORES[name](TRUE, PRED) == pytest.approx(of_labels)
    assert SCORES[name](TRUE_VALUES, PRED_VALUES) == pytest.approx(of_values)


def test_f1_label_by_hand():
    # row 0 has half of its prediction right and half of its truth found, row 1 all of both
    first = 1 / 2  # Pre 1/2, Rec 1/2, both from row 0
    second = 2 * 1 * 0.75 / 1.75  # predicted in row 1 only: Pre 1; true in both: Rec 3/4
    third = 0.0  # predicted in row 0, true nowhere
    assert f1_label(TRUE, PRED) == pytest.approx((first + second + third) / 3)


def test_f1_of_means_by_hand():
    Y_true = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    Y_pred = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    # The third label has no precision, the fourth neither precision nor recall.
    precision, recall = np.mean([2 / 3, 1 / 2]), np.mean([2 / 3, 1 / 2, 0])
    expected = 2 * precision * recall / (precision + recall)
    assert f1_of_means(Y_true, Y_pred) == pytest.approx(expected)
    doubled = f1_of_means(Y_true, Y_pred, sample_weight=[1, 2, 1, 0])
    rows = [0, 1, 1, 2]
    assert doubled == pytest.approx(f1_of_means(Y_true[rows], Y_pred[rows]))


NOTHING, SOMETHING = np.zeros((3, 2), dtype=int), np.eye(3, 2, dtype=int)


@pytest.mark.parametrize(
    ("score", "true", "pred", "expected"),
    [
        (f1_of_means, NOTHING, NOTHING, 1.0),
        (f1_of_means, NOTHING, SOMETHING, 0.0),
        (f1_of_means, SOMETHING, NOTHING, 0.0),
        (f1_of_means, SOMETHING, 1 - SOMETHING, 0.0),
        (f1_of_means, [["a", 1], ["b", 2]], [["a", 1], ["b", 2]], 1.0),
        # with a precision of one where nothing is predicted: that and recall 0, and that and 1
        (partial(f1_score, zero_division=1.0), SOMETHING, NOTHING, 0.0),
        (partial(f1_score, zero_division=1.0), NOTHING, NOTHING, 1.0),
        (partial(f1_score, average="samples", zero_division=1.0), TRUE, PRED, (1 / 2 + 1 + 1) / 3),
        # one 0/1 label is a label
        (partial(f1_score, average="micro"), [[1], [0], [1]], [[1], [0], [0]], 2 / 3),
        (partial(f1_score, average="macro"), [[1], [0], [1]], [[1], [0], [0]], 2 / 3),
        (multilabel_accuracy, [[1], [0], [1]], [[1], [0], [0]], 2 / 3),
        # sets over the labels of either
        (hamming_accuracy, [{"a"}, {"b"}], [{"a"}, {"z"}], 4 / 6),
        (hamming_accuracy, [{"a"}, {"b"}], [set(), set()], 2 / 4),
        # equally long lists of strings are label sets, or a table, once the other side is
        (exact_match, [["a", "b"], ["b", "c"]], [{"b", "a"}, {"c"}], 0.5),
        (exact_match, [{"b", "a"}, {"c"}], [["a", "b"], ["b", "c"]], 0.5),
        (hamming_accuracy, [["a", None], ["b", None]], [["a", "x"], ["c", "x"]], 0.5),
        # values unseen in the truth
        (exact_match, [[0, 1], [1, 1]], [[0, 1], [2, 1]], 0.5),
        (exact_match, ["a", "b"], np.array(["a", "zebra"], dtype=object), 0.5),
        (exact_match, [1, 2], ["1", 2], 0.5),
        (exact_match, DATES, DATES[[0, 0]], 0.5),
        # the truth alone would be a 0/1 label, with a value 1 that occurs nowhere
        # c = 0: Pre 1, Rec 1/2; c = 2: never true
        (f1_label, [[0], [0]], [[0], [2]], (2 * 1 * 0.5 / 1.5 + 0) / 2),
        # missing truth
        (hamming_accuracy, GAPS, [[0, 0, 1], [1, 0, 1]], 2 / 3),
        (partial(hamming_accuracy, sample_weight=[3, 1]), GAPS, [[0, 0, 1], [1, 0, 1]], 4 / 7),
        (hamming_accuracy, [{"a"}, None], [{"a", "b"}, {"a"}], 0.5),
        # label by label: 2 of 2 and 2 predicted; 1 of 2 and 1 predicted; 0 of 1 and 1 predicted
        (f1_score, KNOWN, SAID, 2 * 3 / (4 + 5)),
        (partial(f1_score, average="macro"), KNOWN, SAID, (1 + 2 / 3 + 0) / 3),
        (partial(f1_score, average="samples"), KNOWN, SAID, (2 / 3 + 0 + 4 / 5) / 3),
        (f1_score, KNOWN_VALUES, SAID_VALUES, 4 / 6),
        (partial(f1_score, average="samples"), KNOWN_VALUES, SAID_VALUES, (1 + 0 + 1 + 0.5) / 4),
        # a: one right, one false, one missed; b: one false, one missed
        (partial(f1_score, average="macro"), KNOWN_VALUES, SAID_VALUES, ((1 / 2 + 0) / 2 + 1) / 2),
    ],
)
def test_special_cases(score, true, pred, expected):
    assert score(true, pred) == pytest.approx(expected)


def f1_of_means_transcribed(true, pred, empty):
    """Label by label; `empty` is what has no denominator, None for leaving it out."""
    precisions, recalls = [], []
    for t, p in zip(true.T.tolist(), pred.T.tolist(), strict=True):
        both = sum(a and b for a, b in zip(t, p, strict=True))
        for ratios, whole in ((precisions, sum(p)), (recalls, sum(t))):
            if whole:
                ratios.append(both / whole)
            elif empty is not None:
                ratios.append(empty)
    if not true.any() and not pred.any():
        return 1.0
    P = sum(precisions) / len(precisions) if precisions else 0.0
    R = sum(recalls) / len(recalls) if recalls else 0.0
    return 2 * P * R / (P + R) if P + R else 0.0


@pytest.mark.parametrize("empty", [None, 0.0, 1.0])
def test_f1_of_means_of_labels_never_predicted_or_never_true(rng, empty):
    option = {} if empty is None else {"zero_division": empty}
    for _ in range(50):
        true, pred = (rng.random((2, 6, 4)) < rng.random((2, 1, 4)) ** 3).astype(int)
        expected = f1_of_means_transcribed(true, pred, empty)
        assert f1_of_means(true, pred, **option) == pytest.approx(expected)


def test_joint_log_loss():
    logs = np.log([0.5, 0.25, 1.0])
    assert joint_log_loss(logs) == pytest.approx(np.log(8) / 3)
    assert joint_log_loss(logs, normalize=False) == pytest.approx(np.log(8))
    assert joint_log_loss(logs, sample_weight=[1, 0, 1]) == pytest.approx(np.log(2) / 2)
    assert joint_log_loss([0.0, -np.inf]) == np.inf
    assert joint_log_loss([0.0, -np.inf], sample_weight=[1, 0]) == 0.0
    assert joint_log_loss([1e-9]) == 0.0


# ------------------------------------------------------------------------- formulas written out


def f1_label_transcribed(true_sets, pred_sets, labels, zero_division=1.0):
    """Section 4.1 of the paper, symbol by symbol."""
    rows = list(zip(true_sets, pred_sets, strict=True))
    scores = []
    for c in labels:
        predicted = [len(m & p) / len(p) for m, p in rows if c in p]
        actual = [len(m & p) / len(m) for m, p in rows if c in m]
        if not predicted and not actual:
            scores.append(zero_division)
        elif not predicted or not actual:
            scores.append(0.0)
        else:
            pre, rec = np.mean(predicted), np.mean(actual)
            scores.append(2 * pre * rec / (pre + rec) if pre + rec else 0.0)
    return np.mean(scores)


def as_sets(Y):
    return [set(np.flatnonzero(row)) for row in Y]


def as_pairs(Y):
    return [set(enumerate(row)) for row in Y.tolist()]


def tables(low, high):
    """Truth and prediction of the same shape."""
    shapes = st.tuples(st.just(2), st.integers(1, 7), st.integers(1, 4))
    return hnp.arrays(np.int8, shapes, elements=st.integers(low, high))


@settings(max_examples=60, deadline=None)
@given(tables(0, 1))
def test_zero_one_formulas(pair):
    true, pred = pair
    labels = range(true.shape[1])
    sets = list(zip(as_sets(true), as_sets(pred), strict=True))
    assert exact_match(true, pred) == pytest.approx(np.mean([m == p for m, p in sets]))
    differences = np.mean([len(m ^ p) / len(labels) for m, p in sets])
    assert hamming_accuracy(true, pred) == pytest.approx(1 - differences)
    overlap = np.mean([len(m & p) / len(m | p) if m | p else 1.0 for m, p in sets])
    assert multilabel_accuracy(true, pred) == pytest.approx(overlap)
    for empty in (0.0, 1.0):
        per_row = [2 * len(m & p) / (len(m) + len(p)) if m | p else empty for m, p in sets]
        score = f1_score(true, pred, average="samples", zero_division=empty)
        assert score == pytest.approx(np.mean(per_row))
    expected = f1_label_transcribed(as_sets(true), as_sets(pred), labels)
    assert f1_label(true, pred) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(tables(5, 8))  # which never are 0/1 labels
def test_class_variable_formulas(pair):
    true, pred = pair
    rows = list(zip(as_pairs(true), as_pairs(pred), strict=True))
    overlap = np.mean([len(m & p) / len(m | p) for m, p in rows])
    assert multilabel_accuracy(true, pred) == pytest.approx(overlap)
    labels = set().union(*as_pairs(true), *as_pairs(pred))
    expected = f1_label_transcribed(as_pairs(true), as_pairs(pred), labels)
    assert f1_label(true, pred) == pytest.approx(expected)
    assert exact_match(true, pred) == pytest.approx(np.mean([m == p for m, p in rows]))
    assert hamming_accuracy(true, pred) == pytest.approx((true == pred).mean())
    pairs = zip(true.T, pred.T, strict=True)
    macro = np.mean([sk.f1_score(t, p, average="macro") for t, p in pairs])
    assert f1_score(true, pred, average="macro") == pytest.approx(macro)
    assert f1_score(true, pred, average="micro") == pytest.approx(np.mean(true == pred))


# --------------------------------------------------------------------------- against scikit-learn


def test_zero_one_agrees_with_sklearn_also_by_weights(rng):
    true, pred = rng.integers(0, 2, size=(2, 40, 5))
    weight = rng.random(40)
    for name, theirs in {
        "exact_match": sk.accuracy_score,
        "hamming_accuracy": lambda *a, **o: 1 - sk.hamming_loss(*a, **o),
        "multilabel_accuracy": partial(sk.jaccard_score, average="samples", zero_division=1.0),
        **{
            f"{average} f1": partial(sk.f1_score, average=average, zero_division=0.0)
            for average in ("micro", "macro", "samples")
        },
    }.items():
        expected = theirs(true, pred, sample_weight=weight)
        assert SCORES[name](true, pred, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("classes", [[0, 1], [2, 5, 7], ["a", "b", "c"]])
def test_vectors_are_ordinary_targets(rng, classes, average):
    true, pred = rng.choice(classes, size=(2, 30))
    assert exact_match(true, pred) == pytest.approx(sk.accuracy_score(true, pred))
    expected = sk.f1_score(true, pred, average=average)
    for own in (true, true[:, None]):
        assert f1_score(own, pred, average=average) == pytest.approx(expected)


@pytest.mark.parametrize(("zero_division", "expected"), [(1.0, 1.0), (0.0, 0.5), (NAN, 1.0)])
def test_zero_division(zero_division, expected):
    true = pred = np.array([[1, 0], [1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for score in (
            f1_label(true, pred, zero_division=zero_division),
            f1_score(true, pred, average="macro", zero_division=zero_division),
        ):
            assert score == pytest.approx(expected)
    assert np.isnan(f1_label([[0, 0]], [[0, 0]], zero_division=NAN))


def test_f1_of_absent_labels_is_that_of_sklearn_by_default():
    true = pred = np.array([[1, 0], [1, 0], [0, 0]])
    for average, expected in (("micro", 1.0), ("macro", 0.5), ("samples", 2 / 3)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            score = f1_score(true, pred, average=average)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns where it divides by zero
            assert score == pytest.approx(sk.f1_score(true, pred, average=average))
        assert score == pytest.approx(expected)
    assert f1_label(true, pred) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------ containers


def test_all_containers_agree():
    names = np.array(["a", "b", "c"])
    sets_true, sets_pred = ([set(names[row == 1]) for row in Y] for Y in (TRUE, PRED))
    frames = [pd.DataFrame(Y, columns=names) for Y in (TRUE, PRED)]
    pairs = [
        (TRUE.tolist(), PRED.tolist()),
        (TRUE.astype(bool), PRED.astype(float)),
        (sparse.csr_array(TRUE), sparse.csr_matrix(PRED)),
        (sparse.csr_array(TRUE), PRED),
        (frames[0], frames[1][["c", "a", "b"]]),
        (frames[0], PRED),
        (TRUE, frames[1]),
        (sets_true, sets_pred),
        ([sorted(s) for s in sets_true], [tuple(s) for s in sets_pred]),
        ([*sets_true, {"c"}], np.vstack([PRED, [0, 0, 1]])),
    ]
    for metric in METRICS:
        for true, pred in pairs[:-1]:
            assert metric(true, pred) == pytest.approx(metric(TRUE, PRED))
        longer = [np.vstack([Y, [0, 0, 1]]) for Y in (TRUE, PRED)]
        assert metric(*pairs[-1]) == pytest.approx(metric(*longer))


# -------------------------------------------------------------------------------- missing labels


@pytest.mark.parametrize("metric", [m for m in METRICS if m not in (hamming_accuracy, f1_score)])
def test_others_refuse_missing_truth(metric):
    with pytest.raises(ValueError, match=r"Y_true has missing.*1 row:.*hamming_accuracy"):
        metric([[0, NAN], [1, 1]], [[0, 1], [1, 1]])


@pytest.mark.parametrize("metric", METRICS)
def test_all_refuse_missing_predictions(metric):
    with pytest.raises(ValueError, match=rf"Y_pred has missing.*{metric.__name__}"):
        metric([[0, 1], [1, 1]], [[0, NAN], [1, 1]])


@pytest.mark.parametrize(
    ("metric", "true", "pred", "words"),
    [
        (hamming_accuracy, [[NAN, NAN]], [[0, 1]], "no observed entry"),
        (f1_score, [[None, None], [NAN, NAN]], [[0, 1], [1, 0]], "f1_score needs one"),
        (hamming_accuracy, [["a", "x"]] * 2, [["a", "x"], ["c", "x"]], "sets or class variables"),
        (partial(f1_score, average="weighted"), TRUE, PRED, r"average is 'weighted'.*'samples'"),
    ],
)
def test_refusals_of_one_metric(metric, true, pred, words):
    with pytest.raises(ValueError, match=words):
        metric(true, pred)


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("true", "pred", "words"),
    [
        (TRUE, PRED[:2], r"Y_true has 3 rows and Y_pred has 2"),
        (TRUE, PRED[:, :2], r"Y_true has 3 label variables and Y_pred has 2"),
        (TRUE, PRED[:, 0], r"Y_pred has 1"),
        (TRUE, PRED * 0.3, r"Y_pred cannot be read: Unknown label type: continuous"),
        ([], PRED, r"Y_true cannot be read: Y is empty"),
        ([set()], [set()], r"holds a label.*0/1 matrices"),
        (
            pd.DataFrame({"a": [0], "b": [1]}),
            pd.DataFrame({"a": [0], "z": [1]}),
            r"'z'.*Y_true \('a', 'b'\)",
        ),
    ],
)
def test_refusals(metric, true, pred, words):
    with pytest.raises(ValueError, match=words):
        metric(true, pred)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, 2], r"sample_weight has the shape \(2,\), but there are 3 rows"),
        ([1, 2, -1], r"Negative values in .*sample_weight"),
        ([0, 0, 0], r"one row a positive weight|non-zero"),
        ([1, 2, NAN], r"sample_weight contains NaN"),
    ],
)
def test_sample_weight_refusals(weight, words):
    with pytest.raises(ValueError, match=words):
        exact_match(TRUE, PRED, sample_weight=weight)
    with pytest.raises(ValueError, match=words):
        joint_log_loss([-1.0, -1.0, -1.0], sample_weight=weight)


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        ([[-1.0]], r"shape \(1, 1\)"),
        ([], r"shape \(0,\)"),
        ([-1.0, NAN], r"NaN at row 1"),
        ([0.3, 0.5], r"reaches 0\.5.*not probabilities"),
    ],
)
def test_joint_log_loss_refusals(logs, words):
    with pytest.raises(ValueError, match=words):
        joint_log_loss(logs)


def test_weights_count_as_repeated_rows(rng):
    repeats = np.array([1, 3, 2, 0, 1])
    for high in (2, 4):
        true, pred = rng.integers(0, high, size=(2, 5, 3))
        if high == 4:
            true, pred = true + 5, pred + 5
        for metric in METRICS:
            repeated = metric(true.repeat(repeats, axis=0), pred.repeat(repeats, axis=0))
            assert metric(true, pred, sample_weight=repeats) == pytest.approx(repeated)


# ------------------------------------------------------------------------------------ scorers


def test_scorers_are_the_metrics_of_what_is_predicted(rng):
    X = rng.normal(size=(90, 2))
    Y = (X + rng.normal(size=(90, 2)) > 0).astype(int)
    model = make_pipeline(StandardScaler(), CTBN(C=1.0, random_state=0))
    found = cross_validate(model, X, Y, cv=KFold(2), scoring=dict(SCORERS))
    for fold, (train, test) in enumerate(KFold(2).split(X)):
        fitted = clone(model).fit(X[train], Y[train])
        predicted, truth = fitted.predict(X[test]), Y[test]
        log_loss = joint_log_loss(joint_of(fitted, X[test]).log_prob(truth))
        for name, expected in {
            "exact_match": exact_match(truth, predicted),
            "neg_joint_log_loss": -log_loss,
            "hamming_accuracy": hamming_accuracy(truth, predicted),
            "multilabel_accuracy": multilabel_accuracy(truth, predicted),
            "micro_f1": f1_score(truth, predicted),
            "macro_f1": f1_score(truth, predicted, average="macro"),
        }.items():
            assert found[f"test_{name}"][fold] == pytest.approx(expected)


def test_a_search_by_joint_log_loss(rng):
    X = rng.normal(size=(80, 20))
    Y = (X[:, :2] + rng.normal(size=(80, 2)) > 0).astype(int)
    grid = {"C": [0.01, 1e4]}
    search = GridSearchCV(CTBN(random_state=0), grid, cv=3, scoring=joint_log_loss_scorer)
    assert search.fit(X, Y).best_params_ == {"C": 0.01}
    weight = np.r_[np.ones(40), np.zeros(40)]
    assert joint_log_loss_scorer(search, X, Y, sample_weight=weight) == pytest.approx(
        joint_log_loss_scorer(search, X[:40], Y[:40])
    )


def test_what_has_no_joint_has_no_joint_log_loss(rng):
    X, Y = rng.normal(size=(30, 2)), rng.integers(0, 2, (30, 2))
    with pytest.raises(TypeError, match="DecisionTreeClassifier has no joint distribution"):
        joint_log_loss_scorer(DecisionTreeClassifier().fit(X, Y), X, Y)
