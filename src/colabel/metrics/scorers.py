"""Scorers for scikit-learn's cross-validation and searches: more is better for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from colabel.core.estimators import unwrapped
from colabel.labels import MISSING
from colabel.metrics import scores

__all__ = [
    "SCORERS",
    "exact_match_scorer",
    "hamming_accuracy_scorer",
    "joint_log_loss_scorer",
    "macro_f1_scorer",
    "micro_f1_scorer",
    "multilabel_accuracy_scorer",
]


_LEAST_LOG_PROB = -50.0


def joint_log_loss_scorer(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    r"""Mean log-probability of the true label vectors: minus `joint_log_loss`.

    .. math:: \frac{1}{n} \sum_i \log P(y_i \mid x_i)

    Parameters
    ----------
    model : fitted estimator
        A model of colabel with a joint, or a pipeline or search around one.
    X : (n, p)
    y : labels of n rows
        Of rows with missing labels, the probability of the known ones counts; rows without any
        known label do not count. A row of probability zero, such as one with a value never seen in
        training, counts -50 nats: a fold that lacks a rare value does not end a search.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    score : float, at most 0

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from colabel import CTBN
    >>> from colabel.datasets import load_digit_traits
    >>> from colabel.metrics import joint_log_loss_scorer
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0)
    >>> scores = cross_val_score(
    ...     model, data.X[:300], data.Y[:300], cv=2, scoring=joint_log_loss_scorer)
    >>> bool((scores < 0).all())
    True
    """
    inner, rows = unwrapped(model, X)
    if not hasattr(inner, "joint"):
        raise TypeError(
            f"{type(inner).__name__} has no joint distribution, so it has no joint log-loss: score "
            "a model of colabel that has probabilities, or choose another scorer."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*never seen in training")
        joint = inner.joint(rows)
        log_prob = joint.log_prob(y)
    known = (joint.space.encode(y, mark_unseen=True) != MISSING).any(axis=1)
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    log_prob = np.maximum(log_prob, _LEAST_LOG_PROB)[known]
    return -scores.joint_log_loss(log_prob, sample_weight=weight)


exact_match_scorer = make_scorer(scores.exact_match)
"""Share of rows whose labels are all right, see `exact_match`."""

hamming_accuracy_scorer = make_scorer(scores.hamming_accuracy)
"""Share of labels that are right, see `hamming_accuracy`."""

multilabel_accuracy_scorer = make_scorer(scores.multilabel_accuracy)
"""Mean overlap of the label sets, see `multilabel_accuracy`."""

micro_f1_scorer = make_scorer(scores.f1_score, average="micro")
"""F1 over all labels together, see `f1_score`."""

macro_f1_scorer = make_scorer(scores.f1_score, average="macro")
"""F1 label by label, averaged, see `f1_score`."""

SCORERS: Mapping[str, Any] = MappingProxyType(
    {
        "exact_match": exact_match_scorer,
        "neg_joint_log_loss": joint_log_loss_scorer,
        "hamming_accuracy": hamming_accuracy_scorer,
        "multilabel_accuracy": multilabel_accuracy_scorer,
        "micro_f1": micro_f1_scorer,
        "macro_f1": macro_f1_scorer,
    }
)
"""All scorers by name; ``scoring=dict(SCORERS)`` takes them all at once."""
