"""From fitted conditionals and rows to what the samplers of dependency networks take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Rows, is_sparse
from colabel.core.label_features import column_owner, label_columns, n_label_columns
from colabel.core.schema import Dims, Fields, Many, Numbers, Whole, bind, stored
from colabel.joint import LinearConditionals
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels

LabelCoding = Literal["0/1", "-1/+1"]
_NEVER = -1e6  # a score far below any other


def coded_columns(codes: Codes, cardinalities: Sequence[int], coding: LabelCoding) -> Array:
    """Write label codes (n, d) as columns (n, e) of 0 and 1, or of -1 and +1."""
    columns = label_columns(codes, cardinalities)
    return columns if coding == "0/1" else 2.0 * columns - 1.0


def _check_network(fields: Fields, dims: Dims) -> None:
    dims["sizes"] = tuple(fields["cardinalities"])
    bind(dims, "e", n_label_columns(fields["cardinalities"]), "coef")


@stored(
    "linear-network",
    check=_check_network,
    coef=Numbers("e p"),
    intercept=Numbers("e"),
    weights=Numbers("e e"),
    floor=Numbers("e", 0.0, 1.0),
    cardinalities=Many(Whole(1, 2**31), "d"),
)
@dataclass(frozen=True)
class LinearNetwork:
    """Fitted linear conditionals, one score for each label column.

    Attributes
    ----------
    coef : (e, p)
        Weights of the features in each score.
    intercept : (e,)
    weights : (e, e)
        Entry [c, s]: weight of label column c in score s.
    floor : (e,)
        Probability kept for values of multi-valued labels that no row carried.
    cardinalities : (d,)
    """

    coef: Array
    intercept: Array
    weights: Array
    floor: Array
    cardinalities: tuple[int, ...]

    @classmethod
    def of(
        cls, models: LinearModels, cardinalities: tuple[int, ...], coding: LabelCoding = "0/1"
    ) -> LinearNetwork:
        """Gather the coefficients of one model a label; the extra features are coded columns."""
        coef: Array = np.concatenate(models.coef).astype(
            np.float64
        )  # (e, p + e + 1): scores are laid out like columns
        n_columns = len(column_owner(cardinalities))
        floors: list[Array] = [np.zeros(0)] * models.n_models
        for positions, n_classes, fitted in models.parts:
            for position, floor in zip(positions, fitted.floor, strict=True):
                floors[position] = np.zeros(1) if n_classes == 2 else floor
        floor = np.concatenate(floors)
        # Where a floor stands for a value, the regression itself has nothing to say of it.
        intercept = np.where(floor > 0, _NEVER, coef[:, -1])
        n_features = coef.shape[1] - n_columns - 1
        weights = np.ascontiguousarray(coef[:, n_features:-1].T)
        if coding == "-1/+1":
            # w (2c - 1) = 2w c - w
            intercept, weights = intercept - weights.sum(axis=0), 2.0 * weights
        return cls(coef[:, :n_features], intercept, weights, floor, cardinalities)

    def at(self, X: Any) -> LinearConditionals:
        """Return the conditionals of rows X (n, p)."""
        base = np.asarray(X @ self.coef.T) + self.intercept
        return LinearConditionals(base, self.weights, self.cardinalities, self.floor)


@dataclass(frozen=True)
class EstimatorConditionals:
    """Conditionals by fitted classifiers whose last features are the other labels' columns."""

    models: EstimatorModels
    X: Any  # (n, p) array or CSR
    cardinalities: tuple[int, ...]
    coding: LabelCoding = "0/1"

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.X.shape[0])

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return log p(y_i = v | x, y_-i), (m, n, K_i), for label vectors (m, n, d)."""
        n_vectors, n_rows, n_labels = labels.shape
        columns = coded_columns(labels.reshape(-1, n_labels), self.cardinalities, self.coding)
        log_prob = self.models.models[i].log_prob(_repeated(self.X, n_vectors), columns)
        return np.asarray(log_prob, dtype=np.float64).reshape(n_vectors, n_rows, -1)

    def rows(self, index: Rows) -> EstimatorConditionals:
        """Return the conditionals of some of the rows."""
        return EstimatorConditionals(self.models, self.X[index], self.cardinalities, self.coding)


def _repeated(X: Any, times: int) -> Any:
    if times == 1:
        return X
    return sp.vstack([X] * times, format="csr") if is_sparse(X) else np.tile(X, (times, 1))


def allowed_columns(cardinalities: Sequence[int]) -> Flags:
    """Which label columns each conditional may use, (d, e): those of the other labels."""
    owner = column_owner(cardinalities)
    others: Flags = owner != np.arange(len(cardinalities))[:, None]
    return others
