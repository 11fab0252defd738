"""One model, cross-validated: its figures, under its own decision and under others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from colabel.comparing.held_out import HeldOut
from colabel.comparing.measures import COMPARED, DECIDED_MEASURES
from colabel.core.arrays import Array, Codes
from colabel.decide.decisions import tuned_threshold
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


BASELINE = "baseline"
_LISTED = 5
_HARDLY_ANY = 0.05  # rows right as a whole, below which nothing is told apart by them


def recommend(results: Mapping[str, ModelResult], measure: str) -> tuple[str, str]:
    """Choose a model: among those as good as the best, the one that costs least.

    Two models are as good if their scores on the same folds differ by no more than one standard
    error of the difference, which is widened because training folds overlap (Nadeau and Bengio,
    2003). First by the measure, then by the joint log-loss; of what is left, the fastest, where
    times within a factor of two are alike. Where hardly any row is right as a whole, the joint
    log-loss decides in place of the exact match.

    Returns
    -------
    name, reason : str
    """
    models = {name: result for name, result in results.items() if name != BASELINE}
    prefix = ""
    rows_right = COMPARED["exact_match"].best([one.mean("exact_match") for one in models.values()])
    losses = [one.mean("joint_log_loss") for one in models.values()]
    if measure == "exact_match" and rows_right < _HARDLY_ANY and np.isfinite(losses).any():
        measure = "joint_log_loss"
        prefix = (
            f"Hardly any row is right as a whole (at best {rows_right:.3f} of them), so the joint "
            "log-loss decides. "
        )
    how = COMPARED[measure]

    def goodness(name: str, by: str) -> float:
        mean = COMPARED[by].sign * models[name].mean(by)
        return mean if np.isfinite(mean) else -np.inf

    best = max(models, key=lambda name: goodness(name, measure))
    ties = [name for name in models if _as_good(models[name], models[best], measure)]
    ties = ties if best in ties else [best, *ties]
    likeliest = max(ties, key=lambda name: goodness(name, "joint_log_loss"))
    equal = [
        name
        for name in ties
        if name == likeliest or _as_good(models[name], models[likeliest], "joint_log_loss")
    ]

    def cost(name: str) -> tuple[int, float, str]:
        seconds = max(models[name].mean("seconds"), 1e-3)
        return round(np.log2(seconds)), -goodness(name, "joint_log_loss"), name

    chosen = min(equal, key=cost)
    title, score = models[chosen].title, how.written(models[chosen].mean(measure))
    if chosen == best:
        reason = f"{title} has the best {how.title}, {score}"
        others = [models[name].title for name in ties if name != best]
        if others:
            reason += (
                f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} within one standard "
                "error of it, and neither faster nor better in joint probabilities"
            )
    else:
        lead, error = _difference(models[best], models[chosen], measure)
        reason = (
            f"{title} has {how.title} {score}, within one standard error of the best "
            f"({models[best].title}, {how.written(models[best].mean(measure))}; the difference is "
            f"{abs(lead):.3f} ± {error:.3f})"
        )
        gains = []
        if not _as_good(models[chosen], models[best], "joint_log_loss"):
            own, other = (models[name].mean("joint_log_loss") for name in (chosen, best))
            gains.append(f"better joint probabilities (log-loss {own:.3f} against {other:.3f})")
        own, other = (models[name].mean("seconds") for name in (chosen, best))
        if cost(chosen)[0] < cost(best)[0]:
            gains.append(f"less time ({own:.2g} s per fold instead of {other:.2g})")
        reason += f", with {_listed(gains)}" if gains else ""
    joint = [one.mean("joint_log_loss") for n, one in models.items() if n.split("+")[-1] != "br"]
    nothing_gained = models[chosen].mean("joint_log_loss") <= 1.01 * np.nanmin([np.inf, *joint])
    if chosen.split("+")[-1] == "br" and joint and nothing_gained:
        reason += (
            ". As far as these rows show, the labels are independent given the features: models of "
            "their dependence gain nothing"
        )
    return chosen, f"{prefix}{reason}.{_against_baseline(results, chosen, measure)}"


def _against_baseline(results: Mapping[str, ModelResult], chosen: str, measure: str) -> str:
    how = COMPARED[measure]
    baseline = results.get(BASELINE)
    if baseline is None:
        return ""
    without = how.written(baseline.mean(measure))
    if is_better(results[chosen], baseline, measure):
        return f" How often label sets occur, and nothing else, gives {without}."
    return (
        f" That is no better than without the features ({without}): they may say little about the "
        "labels."
    )


def is_better(one: ModelResult, other: ModelResult, measure: str) -> bool:
    """Whether one model is better than another by more than one standard error, as above."""
    ahead = COMPARED[measure].sign * (one.mean(measure) - other.mean(measure))
    return ahead > 0 and not _as_good(one, other, measure)


def _difference(one: ModelResult, other: ModelResult, measure: str) -> tuple[float, float]:
    """Return the mean difference of two models over folds, and its standard error."""
    signed = one.scores[measure] - other.scores[measure]
    n_folds = len(signed)
    if n_folds < 2:
        return float(signed.mean()), float("nan")
    # 1/k for the folds, and 1/(k - 1), the ratio of test to training rows, for their overlap
    error = np.sqrt((1 / n_folds + 1 / max(1, n_folds - 1)) * signed.var(ddof=1))
    return float(signed.mean()), float(error)


def _as_good(one: ModelResult, best: ModelResult, measure: str) -> bool:
    if one is best:
        return True
    if not np.isfinite(one.scores[measure] - best.scores[measure]).all():
        return False
    difference, error = _difference(one, best, measure)
    return abs(difference) <= error


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def warnings_about(result: ModelResult, decision: str) -> list[str]:
    """Return sentences about labels that a model hardly ever announces, and what would help."""
    seldom = result.seldom()
    never = [own for own in seldom if not own.n_announced]
    hardly = [own for own in seldom if own.n_announced]
    found = []
    if never:
        found.append(f"Never announced: {_shares(never)}.")
    if hardly:
        found.append(f"Hardly ever announced: {_shares(hardly)}.")
    if not found or decision not in result.decisions:
        return found
    now = result.decided_mean(decision, "macro_f1")
    better = {
        loss: result.decided_mean(loss, "macro_f1")
        for loss in result.decisions
        if loss != decision and result.decided_mean(loss, "macro_f1") > now
    }
    if better:
        best = max(better, key=lambda loss: better[loss])
        how = "tuned thresholds (--thresholds)"
        if best != THRESHOLDS:
            how = f"the decision {best} (--decision {best})"
        found.append(
            f"With {how} the macro F1 would be {better[best]:.3f}, not {now:.3f} (exact match "
            f"{result.decided_mean(best, 'exact_match'):.3f}, not "
            f"{result.decided_mean(decision, 'exact_match'):.3f})."
        )
    return found


def _shares(seldom: Sequence[Seldom]) -> str:
    named = []
    for own in seldom[:_LISTED]:
        said = 100 * own.share * own.n_announced / own.n_true
        but = f", announced in {said:.1f} %" if own.n_announced else ""
        named.append(f"{own.name} (in {100 * own.share:.1f} % of the rows{but})")
    more = f" and {len(seldom) - _LISTED:,} more" if len(seldom) > _LISTED else ""
    return ", ".join(named) + more
