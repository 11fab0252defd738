"""Which of several cross-validated models to take, why, and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colabel.comparing.measures import COMPARED
from colabel.comparing.result import THRESHOLDS, ModelResult, Seldom

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
    if chosen.split("+")[-1] == "br" and any(name.split("+")[-1] != "br" for name in models):
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
