"""What studies measure on rows held out: the library's measures, and those of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from colabel import metrics
from colabel.comparing import MEASURES as COMMON
from colabel.comparing import HeldOut, Measure
from colabel.joint import Chain
from colabel.joint.chain import BeamSearch
from colabel.labels import MISSING
from studies.datasets import SYNTHETIC_GRAPHS


def _of_vectors(function: Callable[..., float]) -> Callable[[HeldOut], float]:
    """Take a metric of whole label vectors; NaN without a row whose labels are all known."""

    def take(held_out: HeldOut) -> float:
        true, predicted = held_out.complete.labels
        return float(function(true, predicted)) if len(true) else math.nan

    return take


def _log_loss_sum(held_out: HeldOut) -> float:
    """Sum of -log P(y | x)."""
    return math.nan if held_out.log_prob is None else -float(np.sum(held_out.log_prob))


def _path_log_loss_sum(held_out: HeldOut) -> float:
    """Sum of -log P(y | x); of a greedy chain, of each label given x and the labels it predicts."""
    joint = held_out.joint
    if not isinstance(joint, Chain) or joint.inference != BeamSearch(1):
        return _log_loss_sum(held_out)
    rows, total = np.arange(len(held_out.true)), 0.0
    for table, codes in zip(joint.path_tables(), held_out.true.T, strict=True):
        known = codes != MISSING
        with np.errstate(divide="ignore"):
            total -= float(np.log(table[rows[known], codes[known]]).sum())
    return total


def true_graph(held_out: HeldOut, dataset: str) -> float:
    """1 where the learned graph of a synthetic problem is the true one.

    In SD3 an edge y1 - y2 may join: y1 and y2 are dependent once y3 is known.
    """
    if held_out.graph is None or dataset not in SYNTHETIC_GRAPHS:
        return math.nan
    edges = {(f"y{i + 1}", f"y{j + 1}") for i, j in held_out.graph.ends}
    truth = set(SYNTHETIC_GRAPHS[dataset])
    allowed = {("y1", "y2")} if dataset == "SD3" else set()
    return float(truth <= edges <= truth | allowed)


PATH, TRUE_GRAPH, CPU = "path_log_loss_sum_per_fold", "true_graph", "cpu_seconds"
"""The measure that needs the joint itself, and those that `evaluate` fills in."""

MEASURES: dict[str, Measure] = {
    **COMMON,
    "f1_of_means": Measure("F1 of mean precision and recall", _of_vectors(metrics.f1_of_means)),
    "f1_of_means_filled": Measure(
        "F1 of mean precision and recall, 1 where empty",
        _of_vectors(partial(metrics.f1_of_means, zero_division=1.0)),
        meaning="precision 1 for a label never predicted, recall 1 for one never true",
    ),
    "f1_label": Measure("F1-label", _of_vectors(metrics.f1_label)),
    "log_loss_sum_per_fold": Measure(
        "log-loss per fold", _log_loss_sum, False, needs_log_prob=True
    ),
    PATH: Measure(
        "log-loss per fold, CC by its predicted labels",
        _path_log_loss_sum,
        False,
        meaning="a greedy chain's by P(y_i given x and the predicted earlier labels)",
        needs_log_prob=True,
    ),
    TRUE_GRAPH: Measure("true graph found", lambda held_out: math.nan),
    CPU: Measure("CPU seconds of learning and answering", lambda held_out: math.nan, False),
}
"""Measures by the names that plans use."""
