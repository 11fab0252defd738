"""What is measured on rows held out, the figures of one model, and which model to take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from colabel import metrics
from colabel.comparing.held_out import HeldOut
from colabel.core.arrays import Array, Codes
from colabel.decide.decisions import tuned_threshold
from colabel.labels import MISSING
from colabel.tables import TableError


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


def _take(function: Callable[..., float], *, whole: bool = False, **options: Any) -> Any:
    """Take a metric of the labels that are known, or of rows that lack none, NaN without any."""

    def take(held_out: HeldOut) -> float:
        asked = held_out.complete if whole else held_out
        if whole and not len(asked.rows):
            return math.nan
        return float(function(*asked.labels, sample_weight=asked.weight, **options))

    return take


def _joint_log_loss(held_out: HeldOut) -> float:
    known = (held_out.true != MISSING).any(axis=1)
    if held_out.log_prob is None or not known.any():
        return math.nan
    weight = None if held_out.weight is None else held_out.weight[known]
    return metrics.joint_log_loss(held_out.log_prob[known], sample_weight=weight)


MEASURES: dict[str, Measure] = {
    "exact_match": Measure(
        "exact match", _take(metrics.exact_match, whole=True), meaning="all labels of a row right"
    ),
    "joint_log_loss": Measure(
        "joint log-loss", _joint_log_loss, False, "per row; lower is better", needs_log_prob=True
    ),
    "hamming_accuracy": Measure(
        "Hamming accuracy", _take(metrics.hamming_accuracy), meaning="single labels right"
    ),
    "multilabel_accuracy": Measure(
        "multi-label accuracy", _take(metrics.multilabel_accuracy, whole=True)
    ),
    "micro_f1": Measure(
        "micro F1",
        _take(metrics.f1_score, average="micro"),
        meaning="over all labels together",
    ),
    "macro_f1": Measure(
        "macro F1",
        _take(metrics.f1_score, average="macro"),
        meaning="label by label, averaged",
    ),
    "samples_f1": Measure("F1 of rows", _take(metrics.f1_score, average="samples")),
}
"""Measures of held-out answers by name."""

COMPARED: dict[str, Measure] = {
    **{
        name: MEASURES[name]
        for name in ("exact_match", "joint_log_loss", "hamming_accuracy", "micro_f1", "macro_f1")
    },
    "seconds": Measure(
        "seconds", lambda own: own.seconds, False, "per fold, fit and answer", digits=2
    ),
}
"""The measures of the demo and of comparisons, in the order of their tables."""


def measure_named(name: str) -> str:
    """Return the name in `COMPARED` of a measure given by that name or by its title."""
    titles = {how.title: key for key, how in COMPARED.items()}
    if titles.get(name, name) not in COMPARED:
        raise TableError(f"There is no measure {name!r}: choose from {', '.join(titles)}.")
    return titles.get(name, name)


DECIDED_MEASURES = ("exact_match", "hamming_accuracy", "micro_f1", "macro_f1")
"""Those of them that depend on the decision."""

THRESHOLDS = "thresholds"
"""The decision by a threshold of each label's own, beside those of `colabel.decide`."""
_HARDLY = 0.1  # a label predicted in less than this share of the rows that carry it


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
        tried: dict[str, Sequence[Codes]] = {}
        if decision:
            tried[decision] = [own.codes for own in folds]
            tried |= {loss: [own.decided[loss] for own in folds] for loss in folds[0].decided}
            tuned = _by_thresholds(folds)
            if tuned is not None:  # a model without probabilities has none
                tried[THRESHOLDS] = tuned
        anew = {
            loss: [replace(own, codes=c) for own, c in zip(folds, codes, strict=True)]
            for loss, codes in tried.items()
        }
        decisions = {loss: _scores(own, DECIDED_MEASURES) for loss, own in anew.items()}
        folds = anew.get(THRESHOLDS, folds) if thresholds else folds
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

    def written(self, measure: str) -> str:
        """Write the mean with its standard error, for people."""
        how, error = COMPARED[measure], self.standard_error(measure)
        spread = measure != "seconds" and np.isfinite(error)
        return how.written(self.mean(measure)) + (f" ± {error:.{how.digits}f}" if spread else "")

    def decided_mean(self, loss: str, measure: str) -> float:
        """Return the mean over folds of a measure under a decision that was tried."""
        return _mean(self.decisions[loss][measure])

    def under_predicted(self) -> list[tuple[str, float, float]]:
        """Return what is predicted in less than a tenth of the rows that carry it, if at all.

        Its name, the share of the rows held out that carry it, and of those that got it.
        """
        named = []
        for name, true, decided, _ in self.held_out.each_value():
            if decided.mean() < _HARDLY * true.mean():
                named.append((name, float(true.mean()), float(decided.mean())))
        return sorted(named, key=lambda own: -own[1])


def plain(value: Any) -> Any:
    """Return records, arrays and numbers as what JSON has; None for what is not finite."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        prob = np.concatenate([own[:0], *(tables[k] for k in others)])
        true = np.concatenate([folds[k].true for k in others] or [folds[fold].true[:0]])
        weight = np.ones(len(prob))
        cuts = [tuned_threshold(prob[:, i], true[:, i], weight)[0] for i in range(own.shape[1])]
        decided.append((own > np.array(cuts)).astype(np.int32))
    return decided


BASELINE = "baseline"
_LISTED = 5
_HARDLY_ANY = 0.05  # rows right as a whole, below which they do not distinguish models


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
    if BASELINE in results:
        without = how.written(results[BASELINE].mean(measure))
        if is_better(models[chosen], results[BASELINE], measure):
            reason += f". The baseline, which knows only how often labels occur, has {without}"
        else:
            reason += (
                f". That is no better than without the features ({without}): they may say little "
                "about the labels"
            )
    return chosen, f"{prefix}{reason}."


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
    """Return sentences about labels that a model hardly ever predicts, and what would help."""
    named = result.under_predicted()
    sentences = []
    for what, own in (
        ("Never predicted", [one for one in named if not one[2]]),
        ("Hardly ever predicted", [one for one in named if one[2]]),
    ):
        if own:
            said = [
                f"{name} (in {100 * share:.1f} % of the rows"
                + (f"; predicted in {100 * predicted:.1f} %)" if predicted else ")")
                for name, share, predicted in own[:_LISTED]
            ]
            more = f" and {len(own) - _LISTED:,} more" if len(own) > _LISTED else ""
            sentences.append(f"{what}: {', '.join(said)}{more}.")
    if not sentences or decision not in result.decisions:
        return sentences
    now = result.decided_mean(decision, "macro_f1")
    better = {
        loss: result.decided_mean(loss, "macro_f1")
        for loss in result.decisions
        if loss != decision and result.decided_mean(loss, "macro_f1") > now + 0.01
    }
    if better:
        best = max(better, key=lambda loss: better[loss])
        how = "tuned thresholds (--thresholds)"
        if best != THRESHOLDS:
            how = f"the decision {best} (--decision {best})"
        sentences.append(
            f"With {how} the macro F1 would be {better[best]:.3f}, not {now:.3f} (exact match "
            f"{result.decided_mean(best, 'exact_match'):.3f}, not "
            f"{result.decided_mean(decision, 'exact_match'):.3f})."
        )
    return sentences
