"""What a first layer says of rows it has not seen, and the choice of C behind it.

The outputs for a training row carry traces of all the labels the first layer was fitted to. If C
of the second layer were chosen by holding out rows whose labels shaped the inputs of the others,
the second layer would find these traces and a large C would look good. So whatever holds rows
out here also fits the first layer without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Indices
from colabel.core.label_features import n_label_columns
from colabel.labels import MISSING
from colabel.learn.chunks.fold_models import FoldModels
from colabel.learn.chunks.passes import added
from colabel.learn.conditional import (
    ConditionalLearner,
    ConditionalModels,
    Folds,
    Learning,
    RowGroup,
    TrainingData,
)

Columns = Callable[[list[NDArray[Any]]], Array]


@dataclass(frozen=True)
class FirstLayer:
    """A first layer that can be fitted without some folds.

    Attributes
    ----------
    learning : Learning
        The learner on all rows.
    folds : Folds
    choice : (d,)
        Hyperparameters of the labels.
    columns : callable
        Turns log-probabilities, a list of (n, K_i), into outputs (n, e).
    cross_validated : bool
        Whether outputs for a row come from models that have not seen it.
    """

    learning: Learning
    folds: Folds
    choice: Indices
    columns: Columns
    cross_validated: bool
    _fitted: dict[frozenset[int], ConditionalModels] = field(default_factory=dict)

    @property
    def data(self) -> TrainingData:
        """All rows."""
        return self.learning.data

    def models(self, without: frozenset[int] = frozenset()) -> ConditionalModels:
        """Return the layer fitted to all rows but those of some folds."""
        if without not in self._fitted:
            rows = self.folds.rows_outside(*without) if without else None
            group = RowGroup(rows, np.arange(self.data.n_labels))
            self._fitted[without] = self.learning.fit([group], [self.choice])
        return self._fitted[without]

    def stacked(self, without: frozenset[int] = frozenset()) -> TrainingData:
        """Data of the second layer, if it learns from all rows but those of some folds.

        For the rows left out the outputs are those that new rows would have.
        """
        models = self.models(without)
        n_extra = n_label_columns(self.data.cardinalities)
        if not self.cross_validated:
            return self.data.with_extra(_outputs, models, self.columns, n_extra=n_extra)
        by_fold = []
        for fold in range(self.folds.n_folds):
            excluded = without | {fold}
            # of two folds, one held out and one to predict leave nothing to learn from
            unseen = len(excluded) < self.folds.n_folds
            by_fold.append(self.models(excluded) if unseen else models)
        every = FoldModels(by_fold[0].joined(*by_fold[1:]), self.data.n_labels)
        return self.data.with_extra(
            _held_out_outputs, every, self.columns, self.folds.at_rows, n_extra=n_extra
        )


def _outputs(data: TrainingData, models: ConditionalModels, columns: Columns) -> Array:
    return columns(models.log_prob(data.X))


def _held_out_outputs(
    data: TrainingData, models: FoldModels, columns: Columns, fold: Indices
) -> Array:
    return columns(models.tables(data, fold))


def choose_behind(first: FirstLayer, learner: ConditionalLearner, n_choices: int) -> Indices:
    """Choose the hyperparameters (d,) of a second layer by held-out log-likelihood."""
    data, folds = first.data, first.folds
    targets = np.arange(data.n_labels)
    every = [np.full(data.n_labels, choice, dtype=np.intp) for choice in range(n_choices)]
    total = np.zeros((n_choices, data.n_labels))
    for fold in range(folds.n_folds):
        stacked = first.stacked(frozenset({fold}))
        seen = RowGroup(folds.rows_outside(fold), targets)
        models = learner.on(stacked).fit([seen] * n_choices, every)
        total += stacked.total(
            _log_likelihoods, models, folds.at_rows, fold, n_choices, combine=added
        )
    best: Indices = total.argmax(axis=0)
    return best


def _log_likelihoods(
    data: TrainingData, models: ConditionalModels, folds: Indices, fold: int, n_choices: int
) -> Array:
    """Log-likelihood (n_choices, d) of the labels of a fold's rows, by d models for each choice."""
    rows = np.flatnonzero(folds == fold)
    assert data.extra is not None
    tables = models.log_prob(data.X[rows], data.extra[rows])
    weight = data.row_weights[rows]
    found = np.empty((n_choices, data.n_labels))
    for position, table in enumerate(tables):
        choice, label = divmod(position, data.n_labels)
        truth = data.codes[rows, label]
        log_prob = table[np.arange(len(rows)), truth]  # a missing label reads the last value
        found[choice, label] = weight @ np.where(truth == MISSING, 0.0, log_prob)
    return found
