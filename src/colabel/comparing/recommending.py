"""Which of several cross-validated models to take, why, and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from colabel.comparing.measures import COMPARED
from colabel.comparing.result import THRESHOLDS, ModelResult, Seldom

BASELINE = "baseline"
_LISTED = 5


def recommend(results: Mapping[str, ModelResult], measure: str) -> tuple[str, str]:
    """Choose a model: the best by the measure, or one as good with better probabilities.

    Two models are as good if their scores on the same folds differ by no more than one standard
    error of the difference, which is widened because training folds overlap (Nadeau and Bengio,
    2003).

    Returns
    -------
    name, reason : str
    """
    how = COMPARED[measure]
    models = {name: result for name, result in results.items() if name != BASELINE}

    def goodness(name: str) -> float:
        mean = how.sign * models[name].mean(measure)
        return mean if np.isfinite(mean) else -np.inf

    best = max(models, key=goodness)
    ties = [name for name in models if _as_good(models[name], models[best], measure)]

    def log_loss(name: str) -> float:
        return float(np.nan_to_num(models[name].mean("joint_log_loss"), nan=np.inf))

    chosen = min({*ties, best}, key=lambda name: (log_loss(name), name))
    title, score = models[chosen].title, how.written(models[chosen].mean(measure))
    if chosen == best:
        reason = f"{title} has the best {how.title}, {score}"
        others = [models[name].title for name in ties if name != best]
        if others and measure != "joint_log_loss":
            reason += (
                f"; within one standard error of it, but with no better joint probabilities, "
                f"{'is' if len(others) == 1 else 'are'} {_listed(others)}"
            )
    else:
        reason = (
            f"{title} has {how.title} {score}, within one standard error of the best "
            f"({models[best].title}, {how.written(models[best].mean(measure))}), and better joint "
            f"probabilities: log-loss {models[chosen].mean('joint_log_loss'):.3f} against "
            f"{models[best].mean('joint_log_loss'):.3f}"
        )
    return chosen, f"{reason}.{_against_baseline(results, chosen, measure)}"


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


def _as_good(one: ModelResult, best: ModelResult, measure: str) -> bool:
    difference = np.abs(one.scores[measure] - best.scores[measure])
    if not np.isfinite(difference).all():
        return False
    signed = one.scores[measure] - best.scores[measure]
    n_folds = len(signed)
    if n_folds < 2:
        return bool(one is best)
    # 1/k for the folds, and 1/(k - 1), the ratio of test to training rows, for their overlap
    spread = np.sqrt((1 / n_folds + 1 / max(1, n_folds - 1)) * signed.var(ddof=1))
    return bool(abs(signed.mean()) <= spread)


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
