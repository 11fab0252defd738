"""Labels that are not known: weights of single labels, columns of positives and blanks."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData, covering
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    CompletedData,
    can_hold_out,
    choose,
    linear_learner,
)

_DRAWS = 4  # completions of a row with blanks


def layered(data: TrainingData, weights: Array) -> TrainingData:
    r"""Return rows whose labels have weights (n, d) of their own, zero where they are missing.

    A row with the weights :math:`w_{(1)} > w_{(2)} > \dots` among its labels stands there once for
    each of them, with the weight :math:`w_{(k)} - w_{(k+1)}` and the labels of weight
    :math:`w_{(k)}` and more. So every label counts by its weight, and a pair of labels by the
    smaller of two.
    """
    levels = np.sort(weights, axis=1)[:, ::-1]
    steps = -np.diff(levels, axis=1, append=0.0)
    source, place = np.nonzero(steps > 0)
    if len(np.unique(source)) == len(source):  # the weight of the row, or zero
        return data
    known = weights[source] >= levels[source, place][:, None]
    codes = np.where(known, data.codes[source], MISSING).astype(data.codes.dtype)
    weight = steps[source, place]
    rows = data.X[source], codes, data.cardinalities, weight
    return CompletedData(*rows, origin=data, source=source)


def with_draws(data: TrainingData, rows: Indices, drawn: Codes) -> CompletedData:
    """Return the rows, some of them replaced by draws (m, r, d) in their place.

    A row counts as much as before: each of its different completions by the share of its draws.
    Rows without any known label are left out.
    """
    n_draws, n_rows, n_labels = drawn.shape
    place = np.tile(np.arange(n_rows), n_draws)
    keyed = np.column_stack([place, drawn.reshape(-1, n_labels)])
    unique, counts = np.unique(keyed, axis=0, return_counts=True)
    others = np.setdiff1d(np.flatnonzero((data.codes != MISSING).any(axis=1)), rows)
    source = np.concatenate([others, rows[unique[:, 0]]])
    share = np.concatenate([np.ones(len(others)), counts / n_draws])
    return CompletedData(
        data.X[source],
        np.concatenate([data.codes[others], unique[:, 1:].astype(np.int32)]),
        data.cardinalities,
        data.row_weights[source] * share,
        None if data.extra is None else data.extra[source],
        origin=data,
        source=source,
    )


def positive_only(codes: Codes) -> Flags:
    """Which labels (d,) are 1 or missing, and sometimes missing."""
    known = codes != MISSING
    positive: Flags = ~known.all(axis=0) & known.any(axis=0) & (known <= (codes == 1)).all(axis=0)
    return positive


def unlabelled_positives(
    data: TrainingData, labels: Indices, seed: int, n_jobs: int | None
) -> tuple[CompletedData, Array]:
    r"""Draw the blanks of columns in which rows are marked as positive or not at all.

    Rows are taken to be marked at random among those that have the label (Elkan & Noto, 2008),

    .. math:: P(\text{marked} \mid x) = c \, P(y = 1 \mid x), \qquad
        P(y = 1 \mid x) = \frac{1}{1 + e^{-(a s(x) + b)}}

    with s(x) the held-out log-odds of a regression of the marks. The constants a, b and c maximise
    the likelihood of the marks: c shows where the share of marked rows stops to rise. A blank is a
    1 with probability :math:`(1 - c) P / (1 - c P)`.

    Returns
    -------
    completed : CompletedData
        Rows with blanks stand there once for each of their different draws.
    priors : (m,) array
        Estimated share of the rows that have each label.
    """
    marked = data.codes[:, labels] == 1
    marks = TrainingData(data.X, marked.astype(np.int32), (2,) * len(labels), data.weight)
    learning = linear_learner(DEFAULT_GRID, DEFAULT_TOLERANCE, 1000, n_jobs, 0).on(marks)
    folds = data.random_folds(5, seed)
    if not can_hold_out(folds):
        raise ValueError(
            f'blank="unlabelled" cannot estimate how many of {data.n_rows} rows have a label: give'
            ' more rows, or blank="missing".'
        )
    scores = learning.cross_fitted_scores(covering(folds, marks), choose(learning, folds))
    weight = data.row_weights
    prob = np.empty(marked.shape)
    for i, own in enumerate(scores):
        prob[:, i] = _prob_of_blanks(own[0], marked[:, i], weight)
    prob[marked] = 1.0
    rows = np.flatnonzero(~marked.all(axis=1))
    drawn = np.repeat(data.codes[None, rows], _DRAWS, axis=0)
    chance = np.random.default_rng(seed).random((_DRAWS, len(rows), len(labels)))
    drawn[:, :, labels] = chance < prob[rows]
    return with_draws(data, rows, drawn), weight @ prob / weight.sum()


def _prob_of_blanks(score: Array, marked: Flags, weight: Array) -> Array:
    """P(y = 1) of each row (n,) if it is not marked, from the log-odds of being marked."""

    def loss(point: Array) -> float:
        slope, shift, share = point
        prob = np.clip(expit(share) * expit(slope * score + shift), 1e-12, 1.0 - 1e-12)
        log_prob = np.log(np.where(marked, prob, 1.0 - prob))
        # few rows hardly tell slope from share: weak priors on both
        return float(0.5 * np.log(slope) ** 2 + share**2 / 8.0 - weight @ log_prob)

    bounds = [(0.1, 10.0), (-20.0, 20.0), (-6.0, 6.0)]
    starts = [(1.0, shift, share) for shift in (0.0, 1.0) for share in (-1.0, 1.0, 3.0)]
    found = [minimize(loss, start, method="L-BFGS-B", bounds=bounds) for start in starts]
    slope, shift, share = min(found, key=lambda each: float(each.fun)).x
    prob, c = expit(slope * score + shift), expit(share)
    blank: Array = (1.0 - c) * prob / (1.0 - c * prob)
    return blank
