"""What candidates add to given log-probabilities on rows held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.learn.conditional import HeldOutScores, RowGroup, TrainingData


class Gains(NamedTuple):
    """Held-out gains of a group's classifiers, (m,) each, and their choices.

    Attributes
    ----------
    gains : (m,)
        Sum of what the rows gain, by weight.
    noise : (m,)
        Its variance.
    choice : (m,)
        Chosen hyperparameters.
    """

    gains: Array
    noise: Array
    choice: Indices


@dataclass(frozen=True)
class GainOver:
    """Reduces the held-out scores of a group to what they add to the labels' own.

    Attributes
    ----------
    log_prob : (d, n)
        Held-out log-probabilities of the labels; zero where there is none.
    weight : (n,) or None
        Weights of the rows; None for rows in chunks, which have theirs with them.
    """

    log_prob: Any
    weight: Array | None

    @classmethod
    def on(cls, data: TrainingData, alone: HeldOutScores) -> GainOver:
        """Gains over labels alone, of the same rows."""
        return cls(alone.log_prob, data.row_weights if isinstance(data, TrainingData) else None)

    def __call__(self, group: RowGroup, scores: HeldOutScores) -> Gains:
        """Return the gains of the group's targets."""
        assert group.rows is not None
        assert self.weight is not None
        more = scores.log_prob - self.log_prob[np.ix_(group.targets, group.rows)]
        own = self.weight[group.rows]
        return Gains(more @ own, more**2 @ own**2, scores.choice)
