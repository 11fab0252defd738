"""Learning the links of a chain, for one chain or for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.label_features import column_owner, label_columns, n_label_columns
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Numbers,
    Part,
    Positions,
    Whole,
    bind,
    refuse_unless,
    stored,
)
from colabel.joint.chain import Chain, ChainSearch, EstimatorLinks, Links
from colabel.labels import MISSING, LabelSpace
from colabel.learn.chunks import is_chunked
from colabel.learn.conditional import (
    ConditionalLearner,
    ConditionalModels,
    Folds,
    Learning,
    RowGroup,
    TrainingData,
)
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels
from colabel.learn.structure import best_candidates
from colabel.models._learning import can_hold_out, choose, dependence, with_label_columns
from colabel.models.chain._links import linear_links
from colabel.models.chain._scales import choose_with_scale

NEEDS_EARLIER = "a link of a chain needs all the labels before it"
Models = LinearModels | EstimatorModels


def _check_chain(fields: Fields, dims: Dims) -> None:
    refuse_unless(sorted(fields["order"].tolist()) == list(range(dims["d"])), "order is no order")
    bind(dims, "sizes", tuple(fields["cardinalities"]), "cardinalities")
    extra = fields["models"].dims.get("extra")
    refuse_unless(extra in (None, n_label_columns(fields["cardinalities"])), "allowed are others")
    if "q" in dims:  # features, label columns, and the intercept
        n_columns = n_label_columns(fields["cardinalities"])
        refuse_unless(dims["q"] > n_columns, "the regressions have too few coefficients")
        dims["p"] = dims["q"] - n_columns - 1


@stored(
    "chain",
    check=_check_chain,
    order=Positions("d", below="d"),
    models=Part("linear-models", "estimator-models", m="d", sizes="sizes", q="q"),
    choice=Positions("d", below=2**31),
    scale=Numbers("d"),
    cardinalities=Many(Whole(1, 2**31), "d"),
)
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
    """

    order: Indices
    models: Models
    choice: Indices
    scale: Array
    cardinalities: tuple[int, ...]

    def links(self, X: Any) -> Links:
        """Return the links for rows X (n, p)."""
        if isinstance(self.models, LinearModels):
            return linear_links(self.models, X, self.order, self.cardinalities)
        return EstimatorLinks(self.models.models, X, self.order, self.cardinalities)

    def joint(
        self, space: LabelSpace, X: Any, search: ChainSearch | str, n_samples: int, seed: int
    ) -> Chain:
        """Return the joint for rows X (n, p)."""
        return Chain(
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
) -> LearnedChain:
    """Learn all links from true labels: they are independent then, and solved together.

    `chosen` is a chain of the same labels whose choices of C and scale are taken over.
    """
    learning = learner.on(with_label_columns(data))
    allowed = _screened(learner, data, order, folds, max_parents)
    group = RowGroup(None, np.arange(data.n_labels), allowed)
    if chosen is None:
        choice, scale = choose_with_scale(learning, group, scales, folds)
    else:
        choice, scale = chosen.choice, chosen.scale
    models: Any = learning.fit([replace(group, extra_scale=scale)], [choice])
    return LearnedChain(order, models, choice, scale, data.cardinalities)


def learn_chain_on_predictions(
    learner: ConditionalLearner,
    data: TrainingData,
    order: Indices,
    folds: Folds,
    scales: Sequence[float] = (1.0,),
    max_parents: int | None = None,
) -> LearnedChain:
    """Learn link after link, each from held-out predictions of the labels before it.

    So a link is taught with the errors that the earlier ones make in prediction.
    """
    if is_chunked(data):
        raise TypeError(
            'train_on="predicted" does not learn from Dask arrays: use train_on="true", or a sample'
            " of the rows as NumPy arrays."
        )
    if not can_hold_out(folds) or not folds.covers:
        raise ValueError(
            'train_on="predicted" needs a prediction for every row by a link that has not seen it: '
            "give cv as a number of folds (and rows that differ), or as splits that hold out each "
            "row once."
        )
    owner = column_owner(data.cardinalities)
    allowed = _screened(learner, data, order, folds, max_parents)
    extra = np.zeros((data.n_rows, len(owner)))
    choice, scale = np.zeros(data.n_labels, dtype=np.intp), np.zeros(data.n_labels)
    models: list[ConditionalModels] = []
    for label in order:
        learning = learner.on(replace(data, extra=extra.copy()))
        link = RowGroup(None, np.array([label]), allowed[label : label + 1])
        chosen, sizes = choose_with_scale(learning, link, scales, folds)
        choice[label], scale[label] = chosen[0], sizes[0]
        link = replace(link, extra_scale=sizes)
        models.append(learning.fit([link], [chosen]))
        predicted = np.full(data.codes.shape, MISSING, dtype=np.int32)
        predicted[:, label] = _held_out_values(learning, link, chosen, folds)
        mine = owner == label
        extra[:, mine] = label_columns(predicted, data.cardinalities)[:, mine]
    every: Any = models[0].joined(*models[1:]).take(np.argsort(order))
    return LearnedChain(order, every, choice, scale, data.cardinalities)


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


def _held_out_values(learning: Learning, link: RowGroup, choice: Indices, folds: Folds) -> Indices:
    """Most probable value (n,) of the link's target, by models that have not seen the row."""
    data = learning.data
    groups = [
        replace(link, rows=np.flatnonzero(folds.of_row != fold)) for fold in range(folds.n_folds)
    ]
    models = learning.fit(groups, [choice] * len(groups))
    tables = np.stack(models.log_prob(data.X, data.extra))
    return np.asarray(tables[folds.of_row, np.arange(data.n_rows)].argmax(axis=1))
