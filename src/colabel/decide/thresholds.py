"""A threshold for each label: what it predicts, and where it is best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.decide.overlap import Decision
from colabel.joint import Joint
from colabel.labels import MISSING

_FEWEST_TRUE = 5.0  # rows held out that carry a label, from which on its threshold is tuned
_DEVIATIONS = 2.0


@dataclass(frozen=True)
class Above(Decision):
    """The decision for every label whose probability exceeds its threshold (d,)."""

    thresholds: Array

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d)."""
        prob = np.stack([table[:, 1] for table in joint.marginal_tables()], axis=1)
        return (prob > self.thresholds).astype(np.int32)


def best_threshold(
    prob: Array, truth: NDArray[Any], weight: Array | None = None
) -> tuple[float, float]:
    """Return the threshold of one label with the largest F1, and that F1.

    Parameters
    ----------
    prob : (n,)
        Probabilities of the label.
    truth : (n,)
        1 where the label is true, 0 where it is not; other entries do not count.
    weight : (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> threshold, f1 = best_threshold(np.array([0.1, 0.2, 0.4]), np.array([0, 1, 1]))
    >>> round(threshold, 2), f1
    (0.15, 1.0)
    """
    seen = truth != MISSING
    weight = np.ones(len(prob)) if weight is None else weight
    prob, truth, weight = prob[seen], truth[seen], weight[seen]
    order = np.argsort(-prob, kind="stable")
    prob, weight, positive = prob[order], weight[order], (truth * weight)[order]
    # cutting behind the j-th largest probability predicts j labels
    predicted = weight.cumsum() + positive.sum()
    f1 = 2 * positive.cumsum() / np.where(predicted > 0, predicted, 1.0)
    below = np.append(prob[1:], 0.0)
    cuts = (prob + below) / 2
    f1[prob <= below] = 0.0  # equal probabilities stay on one side, and zero below
    if not f1.any():
        return 0.5, 0.0
    # midway may round onto the upper of two neighbours, and then would leave it out
    cuts = np.where(cuts < prob, cuts, below)
    best = np.flatnonzero(f1 >= f1.max() * (1 - 1e-12))
    chosen = best[np.abs(cuts[best] - 0.5).argmin()]
    return float(cuts[chosen]), float(f1[chosen])


def tuned_threshold(prob: Array, truth: NDArray[Any], weight: Array) -> tuple[float, float]:
    r"""Return the best threshold of one label and its F1; 1/2 where there is no evidence for it.

    Of N rows (by weight) M carry the label, and the cut predicts it in A rows, of which H carry
    it. Were the predicted rows drawn by chance, H would be hypergeometric, with

    .. math:: \mathrm E H = A M / N, \qquad
        \mathrm{Var}\, H = \frac{A M (N - M) (N - A)}{N^2 (N - 1)}.

    A label that at most half of the rows carry needs H to exceed its mean by two deviations.

    Parameters
    ----------
    prob, truth, weight : (n,)
        See `best_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.arange(200) == 7
    >>> tuned_threshold(np.full(200, 0.005), truth.astype(int), np.ones(200))
    (0.5, 0.0)
    """
    threshold, f1 = best_threshold(prob, truth, weight)
    seen = truth != MISSING
    prob, weight = prob[seen], weight[seen]
    positive = weight * (truth[seen] == 1)
    n_rows, n_true = float(weight.sum()), float(positive.sum())
    predicted = prob > threshold
    n_predicted, n_hit = float(weight[predicted].sum()), float(positive[predicted].sum())
    by_chance = n_predicted * n_true / max(n_rows, 1e-300)
    spread = by_chance * (n_rows - n_true) * (n_rows - n_predicted) / max(n_rows, 1e-300)
    deviation = np.sqrt(max(spread, 0.0) / max(n_rows - 1.0, 1.0))
    informed = n_hit > by_chance + _DEVIATIONS * deviation
    if n_true >= _FEWEST_TRUE and (informed or 2 * n_true > n_rows):
        return threshold, f1
    half = prob > 0.5
    total = float(weight[half].sum()) + n_true
    return 0.5, 2 * float(positive[half].sum()) / total if total > 0 else 0.0
