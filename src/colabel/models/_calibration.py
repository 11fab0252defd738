"""Calibration: how far a model's joint can be trusted, learned on rows it had not seen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from colabel.core.schema import Part, stored
from colabel.joint import Joint
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData, random_folds
from colabel.learn.pool import LabelPrior, Pool, learn_pool
from colabel.models._cross_fitting import asked_about, counted, held_out_folds

_FOLDS = 3
_N_LISTED = 32
_HOTTEST = 20.0  # temperature; a model so far from the truth says next to nothing


@stored("calibration", pool=Part("pool", m="m"), prior=Part("label-prior", d="d", sizes="sizes"))
@dataclass(frozen=True, eq=False)
class Calibration:
    r"""What rows held out say of a model's joint.

    The model is mixed with the frequencies of label vectors, as far as they help. The vectors that
    it finds probable then share their probability anew,

    .. math:: Q(y \mid x) \propto P(y \mid x)^{1/T} \, e^{b \cdot 1[y \text{ is new}]} \cdots

    where the temperature T, at most 20, is above one for a model that is too sure of itself, -b is
    the price of a label vector that no training row has, and the frequencies have an exponent too.
    Where that is no better on rows held out once more, only the mixture is left.

    Attributes
    ----------
    pool : Pool
        Weights of the model and of the frequencies, and the exponents.
    prior : LabelPrior
        The frequencies.
    """

    pool: Pool
    prior: LabelPrior

    @property
    def temperature(self) -> float:
        """T; 1 where the joint is left as it is."""
        return 1.0 if self.pool.coef is None else float(1.0 / self.pool.coef[0])

    @property
    def price_of_new(self) -> float:
        """What a vector that no training row has loses, in nats."""
        return 0.0 if self.pool.coef is None else float(-self.pool.coef[-1])

    def __call__(self, joint: Joint) -> Joint:
        """Return the calibrated joint."""
        frequencies = self.prior.joint(joint.space, joint.n_rows)
        return self.pool.joint([joint, frequencies], self.prior)


def learn_calibration(
    model: BaseEstimator, data: TrainingData, space: LabelSpace, seed: int
) -> Calibration | None:
    """Learn the calibration of an unfitted model; None where no rows can be held out."""
    data, folds = counted(data, random_folds(data, _FOLDS, seed))
    held, numbers = [], []
    for f in held_out_folds(folds):
        train, test = np.flatnonzero(folds.of_row != f), np.flatnonzero(folds.of_row == f)
        if not len(train):
            continue
        answer, failed = asked_about([("model", model)], data, space, train, test, _N_LISTED)
        if failed:
            message = f"The model cannot be calibrated: {failed[0]}"
            warnings.warn(message, UserWarning, stacklevel=5)
            return None
        held.append(answer)
        numbers.append(np.full(len(test), f))
    if not held:
        return None
    whole = held[0].joined(*held[1:])
    pool = learn_pool(whole, np.concatenate(numbers), _N_LISTED, least=[1.0 / _HOTTEST])
    return Calibration(pool, LabelPrior.of(data))


def uncalibrated(model: Any) -> Any:
    """Return an unfitted model with the same parameters that does not calibrate itself."""
    return clone(model).set_params(calibrate=False)
