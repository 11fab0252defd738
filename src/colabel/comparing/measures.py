"""What is measured on rows held out: one table for the demo and for comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from colabel import metrics
from colabel.comparing.held_out import HeldOut


@dataclass(frozen=True)
class Measure:
    """A measure of held-out answers.

    Attributes
    ----------
    title : str
        Its name for people.
    take : callable
        From a `HeldOut` to a number; NaN where the method does not define it.
    higher_is_better : bool
    meaning : str
        What it says, in a few words.
    digits : int
        How many are shown after the point.
    needs_log_prob : bool
    """

    title: str
    take: Callable[[HeldOut], float]
    higher_is_better: bool = True
    meaning: str = ""
    digits: int = 3
    needs_log_prob: bool = False

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return 1 if self.higher_is_better else -1

    def best(self, values: Sequence[float]) -> float:
        """Return the best of some values; NaN where none is defined."""
        known = [value for value in values if not math.isnan(value)]
        return (max if self.higher_is_better else min)(known, default=math.nan)

    def written(self, value: float) -> str:
        """Write a value with its digits."""
        if math.isnan(value):
            return "–"
        return f"{value:.{self.digits}f}" if math.isfinite(value) else "∞"


def _of_vectors(function: Callable[..., float]) -> Callable[[HeldOut], float]:
    """Take a metric of whole label vectors; NaN without a row whose labels are all known."""

    def take(held_out: HeldOut) -> float:
        true, predicted = held_out.complete
        return float(function(true, predicted)) if len(true) else math.nan

    return take


def _of_labels(function: Callable[..., float], **options: Any) -> Callable[[HeldOut], float]:
    """Take a metric of the labels that are known."""

    def take(held_out: HeldOut) -> float:
        return float(function(*held_out.labels, **options))

    return take


def _joint_log_loss(held_out: HeldOut) -> float:
    return math.nan if held_out.log_prob is None else metrics.joint_log_loss(held_out.log_prob)


def _seconds(held_out: HeldOut) -> float:
    return sum(held_out.seconds)


MEASURES: dict[str, Measure] = {
    "exact_match": Measure(
        "exact match", _of_vectors(metrics.exact_match), meaning="all labels of a row right"
    ),
    "joint_log_loss": Measure(
        "joint log-loss", _joint_log_loss, False, "per row; lower is better", needs_log_prob=True
    ),
    "hamming_accuracy": Measure(
        "Hamming accuracy", _of_labels(metrics.hamming_accuracy), meaning="single labels right"
    ),
    "multilabel_accuracy": Measure(
        "multi-label accuracy", _of_vectors(metrics.multilabel_accuracy)
    ),
    "micro_f1": Measure(
        "micro F1",
        _of_labels(metrics.f1_score, average="micro"),
        meaning="over all labels together",
    ),
    "macro_f1": Measure(
        "macro F1",
        _of_labels(metrics.f1_score, average="macro"),
        meaning="label by label, averaged",
    ),
    "samples_f1": Measure("F1 of rows", _of_labels(metrics.f1_score, average="samples")),
}
"""Measures of held-out answers by name."""

COMPARED: dict[str, Measure] = {
    **{
        name: MEASURES[name]
        for name in ("exact_match", "joint_log_loss", "hamming_accuracy", "micro_f1", "macro_f1")
    },
    "seconds": Measure("seconds", _seconds, False, "per fold, fit and answer", digits=2),
}
"""The measures of the demo and of comparisons, in the order of their tables."""

DECIDED_MEASURES = ("exact_match", "hamming_accuracy", "micro_f1", "macro_f1")
"""Those of them that depend on the decision."""
