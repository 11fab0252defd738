"""How well labels were predicted: the measures that tables of results share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.metrics import exact_match, f1_score, hamming_accuracy, joint_log_loss


@dataclass(frozen=True)
class Measure:
    """A row of the table: what is measured, what it means, and what counts as best."""

    name: str
    meaning: str
    best: Callable[[Sequence[float]], float]
    digits: int = 3

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return 1 if self.best is max else -1


MEASURES = (
    Measure("exact match", "all labels of a row right", max),
    Measure("joint log-loss", "per row; lower is better", min),
    Measure("Hamming accuracy", "single labels right", max),
    Measure("micro F1", "over all labels together", max),
    Measure("macro F1", "label by label, averaged", max),
    Measure("seconds", "per fold, fit and answer", min, digits=2),
)


def label_scores(true: NDArray[Any], predicted: NDArray[Any], log_prob: ArrayLike) -> list[float]:
    """All measures but the time, in the order of MEASURES.

    Parameters
    ----------
    true, predicted : (n, d)
        Label values, none missing.
    log_prob : (m,)
        Log-probabilities of the true label vectors, as from `Joint.log_prob`.
    """
    if not len(true):
        return [np.nan, joint_log_loss(log_prob), np.nan, np.nan, np.nan]
    return [
        exact_match(true, predicted),
        joint_log_loss(log_prob),
        hamming_accuracy(true, predicted),
        f1_score(true, predicted, average="micro"),
        f1_score(true, predicted, average="macro"),
    ]
