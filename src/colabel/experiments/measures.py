"""What is measured on test rows, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from colabel import metrics
from colabel.datasets import SYNTHETIC_GRAPHS


class Tested(NamedTuple):
    """A fitted model and its answers on test rows.

    Attributes
    ----------
    model : estimator
    X : (n, p)
        Test rows, preprocessed.
    Y_true, Y_pred : (n, d)
    dataset : str
    """

    model: Any
    X: Any
    Y_true: Any
    Y_pred: Any
    dataset: str


class Measure(NamedTuple):
    """A measure: its name for people, how it is taken, and whether more of it is better."""

    title: str
    take: Callable[[Tested], float]
    higher_is_better: bool = True


def _log_loss_sum(tested: Tested) -> float:
    """Sum of -log P(y | x); NaN for methods without probabilities."""
    if not hasattr(tested.model, "joint"):
        return math.nan
    return -float(np.sum(tested.model.joint(tested.X).log_prob(tested.Y_true)))


def _true_graph(tested: Tested) -> float:
    """1 where the learned graph of a synthetic problem is the true one.

    In SD3 an edge y1 - y2 may join: y1 and y2 are dependent once y3 is known.
    """
    edges = {(f"y{i + 1}", f"y{j + 1}") for i, j in tested.model.graph_}
    truth = set(SYNTHETIC_GRAPHS[tested.dataset])
    allowed = {("y1", "y2")} if tested.dataset == "SD3" else set()
    return float(truth <= edges <= truth | allowed)


def _of_labels(function: Callable[..., float], **options: Any) -> Callable[[Tested], float]:
    return lambda tested: float(function(tested.Y_true, tested.Y_pred, **options))


MEASURES: dict[str, Measure] = {
    "exact_match": Measure("exact match", _of_labels(metrics.exact_match)),
    "hamming_accuracy": Measure("Hamming accuracy", _of_labels(metrics.hamming_accuracy)),
    "multilabel_accuracy": Measure("multi-label accuracy", _of_labels(metrics.multilabel_accuracy)),
    "micro_f1": Measure("micro F1", _of_labels(metrics.f1_score, average="micro")),
    "macro_f1": Measure("macro F1", _of_labels(metrics.f1_score, average="macro")),
    "f1_of_means": Measure("F1 of mean precision and recall", _of_labels(metrics.f1_of_means)),
    "samples_f1": Measure("F1 of rows", _of_labels(metrics.f1_score, average="samples")),
    "f1_label": Measure("F1-label", _of_labels(metrics.f1_label)),
    "log_loss_sum_per_fold": Measure("log-loss a fold", _log_loss_sum, higher_is_better=False),
    "true_graph": Measure("true graph found", _true_graph),
}
"""Measures that a plan may name."""
