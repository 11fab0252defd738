"""One model, cross-validated: its figures, under its own decision and under others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from colabel.comparing.held_out import HeldOut
from colabel.comparing.measures import COMPARED, DECIDED_MEASURES
from colabel.core.arrays import Array, Codes
from colabel.decide.thresholds import tuned_threshold
from colabel.labels import MISSING

THRESHOLDS = "thresholds"
"""The decision by a threshold of each label's own, beside those of `colabel.decide`."""
_HARDLY = 0.1  # a label announced in less than this share of the rows that carry it


class Seldom(NamedTuple):
    """A label, or the value of a class variable, that is hardly ever announced.

    Attributes
    ----------
    name : str
    share : float
        Of the rows held out in which it is known, how many carry it.
    n_announced, n_true : int
        Rows in which it was announced, and rows that carry it.
    """

    name: str
    share: float
    n_announced: int
    n_true: int


@dataclass(frozen=True, eq=False)
class ModelResult:
    """One model, cross-validated.

    Attributes
    ----------
    title : str
        Class names of the model and of the features before it.
    scores : {measure: (n_folds,)}
        By the names in `MEASURES`.
    held_out : HeldOut
        Of all rows.
    decisions : {loss: {measure: (n_folds,)}}
        The measures that depend on the decision, under each that was tried. "thresholds" are
        those of `ThresholdedClassifier`; the ones of a fold are tuned on what was said about the
        rows of the other folds.
    """

    title: str
    scores: Mapping[str, Array]
    held_out: HeldOut
    decisions: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        title: str,
        folds: Sequence[HeldOut],
        decision: str = "",
        *,
        thresholds: bool = False,
    ) -> Self:
        """Take all measures of the answers in each fold.

        Parameters
        ----------
        title : str
        folds : sequence of HeldOut
        decision : str
            Name of the loss that the folds were decided by; without one, no other is tried.
        thresholds : bool
            Whether the folds are decided anew, by thresholds.
        """
        tried = {}
        if decision:
            tried[decision] = [own.codes for own in folds]
            tried |= {loss: [own.decided[loss] for own in folds] for loss in folds[0].decided}
            tuned = _by_thresholds(folds)
            if tuned is not None:
                tried[THRESHOLDS] = tuned
        if thresholds and THRESHOLDS in tried:  # a model without probabilities has none
            pairs = zip(folds, tried[THRESHOLDS], strict=True)
            folds = [replace(own, codes=codes) for own, codes in pairs]
        decisions = {
            loss: _scores(
                [replace(own, codes=c) for own, c in zip(folds, codes, strict=True)],
                DECIDED_MEASURES,
            )
            for loss, codes in tried.items()
        }
        whole = replace(folds[0].in_order(*folds[1:]), decided={})
        return cls(title, _scores(folds, tuple(COMPARED)), whole, decisions)

    def mean(self, measure: str) -> float:
        """Return the mean over folds."""
        return _mean(self.scores[measure])

    def standard_error(self, measure: str) -> float:
        """Return the standard error of the mean over folds."""
        scores = self.scores[measure]
        if len(scores) < 2 or not np.isfinite(scores).all():
            return float("nan")
        return float(scores.std(ddof=1) / np.sqrt(len(scores)))

    def decided_mean(self, loss: str, measure: str) -> float:
        """Return the mean over folds of a measure under a decision that was tried."""
        return _mean(self.decisions[loss][measure])

    def seldom(self) -> list[Seldom]:
        """Return what is never announced, or in less than a tenth of the rows that carry it."""
        found = []
        space, true, codes = self.held_out.space, self.held_out.true, self.held_out.codes
        for i, (name, classes) in enumerate(zip(space.names, space.classes, strict=True)):
            known = true[:, i] != MISSING
            for code in (1,) if space.is_indicator else range(len(classes)):
                n_true = int((true[known, i] == code).sum())
                n_announced = int((codes[known, i] == code).sum())
                if n_announced < _HARDLY * n_true:
                    of = name if space.is_indicator else f"{name}={classes[code]}"
                    found.append(Seldom(of, n_true / int(known.sum()), n_announced, n_true))
        return sorted(found, key=lambda own: -own.share)


def _scores(folds: Sequence[HeldOut], measures: Sequence[str]) -> dict[str, Array]:
    return {name: np.array([COMPARED[name].take(own) for own in folds]) for name in measures}


def _mean(scores: Array) -> float:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else float("nan")


def _by_thresholds(folds: Sequence[HeldOut]) -> list[Codes] | None:
    """Labels of each fold by thresholds tuned on the others; None without probabilities of 1."""
    tables = [own.marginals for own in folds if own.marginals is not None]
    if not folds[0].space.is_indicator or len(tables) < len(folds):
        return None
    decided = []
    for fold, own in enumerate(tables):
        others = [k for k in range(len(folds)) if k != fold]
        prob = np.concatenate([tables[k] for k in others] or [own[:0]])
        true = np.concatenate([folds[k].true for k in others] or [folds[fold].true[:0]])
        weight = np.ones(len(prob))
        cuts = [tuned_threshold(prob[:, i], true[:, i], weight)[0] for i in range(own.shape[1])]
        decided.append((own > np.array(cuts)).astype(np.int32))
    return decided
