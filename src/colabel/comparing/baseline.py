"""What can be said without looking at the features: the yardstick of a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.decide import Decision
from colabel.joint import Independent, Joint
from colabel.learn.conditional import TrainingData
from colabel.models import JointClassifier


class LabelFrequencies(JointClassifier):
    """Every row gets the frequencies of the labels in the training rows.

    Parameters
    ----------
    decision : str or Decision
        Loss that `predict` minimises, see `decide`.

    Attributes
    ----------
    frequencies_ : list of (K_i,) arrays

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.comparing.baseline import LabelFrequencies
    >>> model = LabelFrequencies().fit(np.zeros((3, 1)), [[0, 1], [1, 1], [0, 1]])
    >>> model.predict_proba(np.zeros((1, 1))).round(2)
    array([[0.4, 0.8]])
    """

    def __init__(self, decision: str | Decision = "subset") -> None:
        self.decision = decision

    def _learn(self, data: TrainingData) -> None:
        self.frequencies_ = [data.class_frequencies(i) for i in range(data.n_labels)]

    def _joint(self, X: Any) -> Joint:
        tables = [np.tile(np.log(f), (X.shape[0], 1)) for f in self.frequencies_]
        return Independent(self.label_space_, tables)
