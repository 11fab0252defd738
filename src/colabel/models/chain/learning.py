"""Learning the links of a chain: order, scales of the label columns, regressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import (
    Array,
    Codes,
    Flags,
    Indices,
    column_owner,
    label_columns,
    n_label_columns,
)
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import checked_grid
from colabel.core.schema import UNIQUE, Below, Between, Is, bind, check_that, stored
from colabel.joint import chain as chains
from colabel.joint.elimination import draw
from colabel.labels import MISSING, LabelSpace
from colabel.learn.chunks.chunked_data import added
from colabel.learn.conditional import (
    ConditionalLearner,
    Folds,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    is_chunked,
    random_folds,
)
from colabel.learn.design import linear_scores
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearLearner, LinearLearning, LinearModels
from colabel.learn.structure.screening import best_candidates
from colabel.models.learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    CompletedData,
    Grid,
    can_hold_out,
    check_observed,
    choose,
    dependence,
    everything,
    linear_learner,
    with_draws,
    with_label_columns,
)


def linear_links(
    models: LinearModels, X: Any, order: Indices, cardinalities: Sequence[int]
) -> chains.LinearLinks:
    """Links of models learned in label order, with the columns of all labels as extra."""
    links: list[chains.LinearLink | None] = [None] * len(order)
    position_of = np.argsort(order)
    for targets, n_classes, fitted in models.parts:
        base = linear_scores(X, fitted.coef)
        for i, target in enumerate(targets):
            position = position_of[target]
            of_labels = fitted.coef[i, :, X.shape[1] : -1].astype(np.float64)
            gain = _label_gain(of_labels, order[:position], cardinalities)
            links[position] = chains.LinearLink(
                np.ascontiguousarray(base[i].T), gain, n_classes, fitted.floor[i]
            )
    return chains.LinearLinks(tuple(link for link in links if link is not None))


def _label_gain(coef: Array, before: Indices, cardinalities: Sequence[int]) -> Array:
    """Turn the weights (S, e) of label columns into gains (k, V, S) of the labels `before`."""
    gain = np.zeros((len(before), max(cardinalities), coef.shape[0]))
    if max(cardinalities) == min(cardinalities) == 2:  # one column a label
        gain[:, 1] = coef[:, before].T
        return gain
    owner = column_owner(cardinalities)
    for position, label in enumerate(before):
        columns = np.flatnonzero(owner == label)
        first = 1 if cardinalities[label] == 2 else 0  # two values share the column of the second
        gain[position, first : first + len(columns)] = coef[:, columns].T
    return gain


# completions of a row: more of them change held-out log-likelihoods in the third digit
DRAWS = 2
DEFAULT_SCALES = (1.0, 10.0, 100.0)


def resolve_scales(
    label_scale: Grid | None,
    C: Grid,
    estimator: BaseEstimator | None,
) -> tuple[float, ...]:
    """Return the scales to choose from, after checking them."""
    if label_scale is None:
        return DEFAULT_SCALES if estimator is None and np.size(C) > 1 else (1.0,)
    scales = checked_grid("label_scale", label_scale)
    if estimator is not None and any(scale != 1.0 for scale in scales):
        raise ValueError(
            f"label_scale={label_scale!r} is of the built-in regression only: leave it out when "
            "you give an estimator."
        )
    return scales


def choose_with_scale(
    learning: Learning, group: RowGroup, scales: Sequence[float], folds: Folds
) -> tuple[Indices, Array]:
    """Choose hyperparameter (m,), by position in its grid, and scale (m,) of each target.

    Every target is there once for each scale: one batch holds them all.
    """
    n_targets = len(group.targets)
    needed = len(scales) > 1 or learning.needs_choice
    if not needed or not can_hold_out(folds):
        return np.zeros(n_targets, dtype=np.intp), np.full(n_targets, scales[0])

    def keep(_: RowGroup, scores: HeldOutScores) -> tuple[Array, Indices]:
        return scores.total, scores.choice

    every = group.take(np.tile(np.arange(n_targets), len(scales)))
    every = replace(every, extra_scale=np.repeat(np.asarray(scales), n_targets))
    found = learning.cross_validate([every], folds, keep, "choosing C and label scale")[0]
    total, choice = (part.reshape(len(scales), n_targets) for part in found)
    best = total.argmax(axis=0)
    return choice[best, np.arange(n_targets)], np.asarray(scales)[best]


def resolve_order(order: Any, space: LabelSpace, data: TrainingData, seed: int) -> Indices:
    """Return the order (d,) that an estimator's parameter asks for."""
    if order is None:
        return np.arange(space.n_labels)
    if isinstance(order, str):
        if order == "random":
            return np.random.default_rng(seed).permutation(space.n_labels)
        if order == "correlation":
            return order_by_dependence(mutual_information(data))
        raise ValueError(
            f'order={order!r} is unknown: choose None (the order of the labels in y), "random", '
            '"correlation", or a sequence of label names or positions.'
        )
    return chains.as_order(order, space)


def mutual_information(data: TrainingData) -> Array:
    """Mutual information (d, d) of every pair of labels in nats, without regard to x."""
    sizes = np.asarray(data.cardinalities)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    member = (owner[:, None] == np.arange(len(sizes))).astype(np.float64)
    weights = data.sum(_pair_weights, combine=added)
    known = data.total_weight  # of the rows that have both labels
    if data.missing_labels[0]:
        known = np.maximum((member.T @ weights @ member)[np.ix_(owner, owner)], 1e-300)
    joint = weights / known  # P(y_i = u, y_j = v)
    alone = np.diag(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log(joint / np.outer(alone, alone))
    found: Array = member.T @ np.where(joint > 0, terms, 0.0) @ member
    return found


def _pair_weights(data: TrainingData) -> Array:
    """Weight of the rows with each pair of values, (K, K) for K values of all labels."""
    sizes = np.asarray(data.cardinalities)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    value = np.arange(len(owner)) - np.searchsorted(owner, owner)
    is_value = (data.codes[:, owner] == value).astype(np.float64)
    return np.asarray((is_value * data.row_weights[:, None]).T @ is_value)


def order_by_dependence(information: Array, first: int | None = None) -> Indices:
    """Begin with the label that tells most of all others; go on with what the chosen tell most of.

    The order may be told to begin with another label.

    Each next label is the one with the largest sum of mutual information with those already
    chosen, so that a link finds the labels it can use before it. Ties go to the first label.
    """
    between = information - np.diag(np.diag(information))
    # sums of the same terms in another order differ by rounding, which must not break ties
    in_all = np.round(between.sum(axis=0), 12)
    chosen: list[int] = [] if first is None else [first]
    gain = in_all if first is None else np.round(between[first], 12)
    while len(chosen) < len(between):
        free = np.setdiff1d(np.arange(len(between)), chosen)
        chosen.append(int(free[np.argmax(gain[free])]))
        gain = np.round(between[chosen].sum(axis=0), 12)
    return np.array(chosen, dtype=np.intp)


Models = LinearModels | EstimatorModels


@stored("chain")
@dataclass(frozen=True)
class LearnedChain:
    """A chain for any rows.

    Attributes
    ----------
    order : (d,)
        Labels in the order of the chain.
    models : LinearModels or EstimatorModels
        One conditional per label, in the order of the labels; the columns of the earlier labels
        follow the features.
    choice : (d,)
        Position of each label's C in the grid.
    scale : (d,)
        Scale of the label columns each link was taught with.
    cardinalities : (d,)
        Number of values of each label.
    share : float
        How far the links went from regressions without labels to those with labels.
    """

    order: Annotated[Indices, "d", Below("d"), UNIQUE]
    models: Annotated[Models, "m=d sizes q"]
    choice: Annotated[Indices, "d"]
    scale: Annotated[Array, "d"]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1, 2**31), Is("sizes")]
    share: Annotated[float, Between(0.0, 1.0)] = 1.0

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        n_columns = n_label_columns(dims["sizes"])
        extra = fields["models"].dims.get("extra", n_columns)
        bind(dims, n_columns, extra, "allowed")
        if "q" in dims:  # features, label columns, and the intercept
            dims["p"] = dims["q"] - n_columns - 1
            check_that(dims["p"] >= 0, "the regressions have too few coefficients")

    def links(self, X: Any) -> chains.Links:
        """Return the links for rows X (n, p)."""
        if isinstance(self.models, LinearModels):
            return linear_links(self.models, X, self.order, self.cardinalities)
        return chains.EstimatorLinks(self.models.models, X, self.order, self.cardinalities)

    def joint(
        self, space: LabelSpace, X: Any, search: chains.ChainSearch | str, n_samples: int, seed: int
    ) -> chains.Chain:
        """Return the joint for rows X (n, p)."""
        return chains.Chain(
            space, self.order, self.links(X), inference=search, n_samples=n_samples, seed=seed
        )


def learn_chain(
    learner: ConditionalLearner,
    data: TrainingData,
    order: Indices,
    folds: Folds,
    scales: Sequence[float] = (1.0,),
    max_parents: int | None = None,
    chosen: LearnedChain | None = None,
    em: bool = True,
) -> LearnedChain:
    """Learn all links from true labels: they are independent then, and solved together.

    Where labels are missing, a link is learned from the rows that have its label. The earlier
    labels that these lack are features as expected from x. Scales are by default those of
    `scale_of_labels`, and links are held back towards regressions that use no labels, see
    `share_of_labels`. A step of EM follows: missing labels are drawn from the chain's posterior
    given all labels of the row. `chosen` is a chain of the same labels whose choices of C, scale
    and share are taken over, those of its links also for the labels alone.
    """
    missing = bool(data.missing_labels[0])
    if missing and is_chunked(data):
        check_observed(data, "a link of a chain needs all labels before it in Dask arrays")
    every = np.arange(data.n_labels)
    if missing:
        of_x = learner.on(data)
        alone = choose(of_x, folds) if chosen is None else chosen.choice
        inputs, single = with_expected_labels(of_x, alone)
    else:
        inputs = with_label_columns(data)
    learning = learner.on(inputs)
    if chosen is not None:
        allowed = earlier_columns(order, data.cardinalities)
        if max_parents is not None and chosen.models.coef is not None:
            own = [(coef[:, data.n_features : -1] != 0).any(axis=0) for coef in chosen.models.coef]
            allowed &= np.stack(own)
        choice, scale = chosen.choice, chosen.scale
    else:
        allowed = _screened(learner, data, order, folds, max_parents)
        group = RowGroup(None, every, allowed)
        if missing and tuple(scales) == DEFAULT_SCALES and isinstance(learner, LinearLearner):
            choice, scale = alone, scale_of_labels(learner.values(alone))
        else:
            choice, scale = choose_with_scale(learning, group, scales, folds)
    # scales of a chosen chain are zero where no labels are used
    group = RowGroup(None, every, allowed, np.where(scale > 0, scale, 1.0))
    share = 1.0 if chosen is None else chosen.share
    # other classifiers are too dear to fit for each fold
    hold_back = missing and chosen is None and can_hold_out(folds)
    if hold_back and isinstance(learning, LinearLearning):

        def log_prob(models: LinearModels, rows: Indices, seed: int) -> Array:
            chain = LearnedChain(order, models, choice, scale, data.cardinalities)
            known = data.X[rows], data.codes[rows]
            return log_sum_exp(proposals(chain, *known, np.random.default_rng(seed))[1])

        share = share_of_labels(learning, group, choice, of_x, alone, folds, log_prob)
    if share == 0.0:
        choice, scale = alone, np.zeros(len(every))

    def learned(learning: Any) -> LearnedChain:
        models = learning.fit([group], [choice])
        models = models if share == 1.0 else models.shrunk(share, single)
        return LearnedChain(order, models, choice, scale, data.cardinalities, share)

    chain = learned(learning)
    if not (missing and em and share):
        return chain
    return learned(learner.on(with_label_columns(completed(data, chain, 0).known_targets())))


# Chosen on generated data, digits, image, medical, solar_flare and genbase.
_PRIOR_VARIANCE = 20.0  # of a weight of a label, in squared log-odds
SHARES = (0.25, 0.5, 0.75, 1.0)
_LEAST_ERRORS = 0.5  # that a share must gain over none


def scale_of_labels(C: Array) -> Array:
    """Return the scales (m,) by which weights of labels have one prior variance, whatever C is.

    To choose them from the few pairs of labels that rows have would be to learn from chance.
    """
    return np.asarray(np.sqrt(_PRIOR_VARIANCE / C))


def share_of_labels(
    learning: LinearLearning,
    group: RowGroup,
    choice: Indices,
    of_x: Learning,
    alone: Indices,
    folds: Folds,
    log_prob: Callable[[LinearModels, Indices, int], Array],
) -> float:
    r"""Choose how far regressions go from not using labels to using them.

    Coefficients of share s are :math:`(1 - s) w_0 + s w`, where :math:`w_0` is learned `of_x`, by
    the choice `alone`. The share is that of the largest gain over :math:`s = 0` on rows held out,
    less half its standard error; 0 if no share gains more than that.

    Parameters
    ----------
    log_prob : callable
        What models say of the known labels of some rows, (m,), up to a constant; from the models,
        the rows, and a seed.
    """
    data = learning.data
    numbers = np.unique(folds.of_row[folds.of_row >= 0])
    outside = [replace(group, rows=folds.rows_outside(fold)) for fold in numbers]
    linked = learning.fit(outside, [choice] * len(outside))
    without = [RowGroup(own.rows, own.targets) for own in outside]
    single: Any = of_x.fit(without, [alone] * len(outside))
    found = np.zeros((len(SHARES) + 1, data.n_rows))
    for k, fold in enumerate(numbers):
        rows, own = folds.rows_inside(fold), k * data.n_labels + group.targets
        for s, share in enumerate((0.0, *SHARES)):
            found[s, rows] = log_prob(linked.take(own).shrunk(share, single.take(own)), rows, k)
    return chosen_share(found, data.row_weights)


def chosen_share(log_prob: Array, weight: Array) -> float:
    """Choose from what each share, 0 and those of `SHARES`, says of rows held out, (1 + S, n)."""
    gains = (log_prob[1:] - log_prob[0]) * weight
    sure = gains.sum(axis=1) - _LEAST_ERRORS * np.sqrt((gains**2).sum(axis=1))
    best = int(sure.argmax())
    return SHARES[best] if sure[best] > 0 else 0.0


def completed(
    data: TrainingData, chain: LearnedChain, seed: int, n_draws: int = DRAWS
) -> CompletedData:
    """Return the rows with draws from a chain in the place of those that lack labels."""
    missing = data.codes == MISSING
    rows = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    known = data.X[rows], data.codes[rows]
    drawn = posterior_draws(chain, *known, n_draws, seed, n_proposals=10 * n_draws)
    return with_draws(data, rows, drawn)


def posterior_draws(
    chain: LearnedChain, X: Any, codes: Codes, n_draws: int, seed: int, n_proposals: int = 20
) -> Codes:
    """Draw vectors (n_draws, n, d) from a chain given the known labels (n, d) of each row.

    By importance resampling: proposals draw missing labels link by link, given those before them,
    and count by the probability that the links give to the known labels.
    """
    rng = np.random.default_rng(seed)
    by_row, log_weight = proposals(chain, X, codes, rng, n_proposals)
    n_rows = len(codes)
    chosen = draw(np.repeat(log_weight, n_draws, axis=0), rng.random(n_rows * n_draws))
    picked = by_row[np.arange(n_rows)[:, None], chosen.reshape(n_rows, n_draws)]
    return picked.transpose(1, 0, 2)


def proposals(
    chain: LearnedChain, X: Any, codes: Codes, rng: np.random.Generator, n_proposals: int = 20
) -> tuple[Codes, Array]:
    """Complete each row (n, d) link by link, drawing missing labels given those before them.

    Returns
    -------
    vectors : (n, m, d) array
    log_weight : (n, m) array
        Log-probability that the links give to the known labels; the mean of its exponentials
        estimates the probability of these.
    """
    links, n_rows = chain.links(X), len(codes)
    rows = np.repeat(np.arange(n_rows), n_proposals)
    vectors, log_weight = codes[rows], np.zeros((n_rows, n_proposals))
    for k, label in enumerate(chain.order):
        log_prob = links.log_prob(rows, vectors[:, chain.order[:k]])
        value = vectors[:, label]
        missing = value == MISSING
        value[missing] = draw(log_prob[missing], rng.random(int(missing.sum())))
        of_known = np.where(missing, 0.0, log_prob[np.arange(len(rows)), value])
        log_weight += of_known.reshape(n_rows, n_proposals)
    return vectors.reshape(n_rows, n_proposals, codes.shape[1]), log_weight


def with_expected_labels(of_x: Learning, choice: Indices) -> tuple[TrainingData, Any]:
    """Return the data with the labels as further features, missing ones as expected from x.

    The regressions that expect them are returned, too.
    """
    data = of_x.data
    models = of_x.fit([everything(data)], [choice])
    tables = models.log_prob(data.X)
    prob = np.hstack([np.exp(t[:, 1:] if t.shape[1] == 2 else t) for t in tables])
    unknown = data.codes[:, column_owner(data.cardinalities)] == MISSING
    columns = label_columns(data.codes, data.cardinalities)
    return replace(data, extra=np.where(unknown, prob, columns)), models


def completed_by_chain(
    data: TrainingData,
    seed: int,
    n_jobs: int | None,
    *,
    known_targets: bool = False,
    n_draws: int = DRAWS,
) -> TrainingData:
    """Return the rows with missing labels drawn from a chain that is learned from the others.

    For models that learn from whole label vectors, or with `known_targets` from the known labels
    given whole vectors of the others. The order of the chain is that of `order_by_dependence`.
    """
    if not data.missing_labels[0]:
        return data
    if is_chunked(data):
        check_observed(data, "whole label vectors are needed of Dask arrays")
    missing = data.codes == MISSING
    gaps = missing.any(axis=1) & ~missing.all(axis=1)
    if gaps.any():
        part = completed(data, chain_by_dependence(data, seed, n_jobs), seed, n_draws)
    else:
        part = with_draws(data, np.flatnonzero(gaps), data.codes[None, gaps])
    return part.known_targets() if known_targets else part


def chain_by_dependence(
    data: TrainingData, seed: int, n_jobs: int | None, chosen: LearnedChain | None = None
) -> LearnedChain:
    """Learn a chain to draw missing labels from; its order is that of `order_by_dependence`.

    Penalties are those of the labels alone, chosen in few folds, and there is no step of EM.
    """
    learner = linear_learner(DEFAULT_GRID, DEFAULT_TOLERANCE, 1000, n_jobs, 0)
    order = order_by_dependence(mutual_information(data))
    folds = random_folds(data, 3, seed)
    return learn_chain(learner, data, order, folds, DEFAULT_SCALES, chosen=chosen, em=False)


def earlier_columns(order: Indices, cardinalities: tuple[int, ...]) -> Flags:
    """Which label columns each label may use, (d, e): those of the labels before it."""
    position_of = np.argsort(order)
    allowed: Flags = position_of[column_owner(cardinalities)][None, :] < position_of[:, None]
    return allowed


def _screened(
    learner: ConditionalLearner,
    data: TrainingData,
    order: Indices,
    folds: Folds,
    max_parents: int | None,
) -> Flags:
    """Of `earlier_columns`, those of the `max_parents` labels that matter most for each label."""
    allowed = earlier_columns(order, data.cardinalities)
    if max_parents is None or max_parents >= data.n_labels - 1 or not can_hold_out(folds):
        return allowed
    learning = learner.on(data)
    position_of = np.argsort(order)
    earlier = position_of[:, None] < position_of[None, :]
    worth = np.where(earlier, dependence(learning, folds, choose(learning, folds)), -np.inf)
    chosen = best_candidates(worth, max_parents)
    of_columns: Flags = chosen[column_owner(data.cardinalities)].T
    return allowed & of_columns
