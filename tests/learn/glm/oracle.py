"""Regressions one at a time, straight from their definition or by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from colabel.learn.glm import LBFGS

TIGHT = LBFGS(tol=1e-10, max_iter=3000)


def logistic_targets(rng: np.random.Generator, X: Any, n_tasks: int) -> np.ndarray:
    """Draw targets (T, n) of 0/1 from random logistic models, both values in every task."""
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    spread = np.ptp(dense, axis=0)
    scaled = (dense - dense.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    log_odds = 4.0 * rng.normal(size=(n_tasks, dense.shape[1])) @ scaled.T
    targets = (rng.random(log_odds.shape) < expit(log_odds)).astype(np.int16)
    targets[:, 0], targets[:, 1] = 0, 1
    return targets


def softmax_targets(
    rng: np.random.Generator, X: np.ndarray, n_tasks: int, n_classes: int
) -> np.ndarray:
    """Draw targets (T, n) of K values, all of them in every task."""
    scores = np.einsum("tkp,np->tkn", rng.normal(size=(n_tasks, n_classes, X.shape[1])), X)
    targets = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int16)
    targets[:, :n_classes] = np.arange(n_classes)
    return targets


def scores_of(X: Any, coef: np.ndarray) -> np.ndarray:
    """Scores (K, n) of coefficients (K, p + 1)."""
    return np.asarray(X @ coef[:, :-1].T).T + coef[:, -1:]


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Class probabilities (n_classes, n) from scores (K, n), K = 1 for two classes."""
    if len(scores) == 1:
        return np.concatenate([expit(-scores), expit(scores)])
    return softmax(scores, axis=0)


def gradient(
    X: Any,
    y: np.ndarray,
    coef: np.ndarray,
    C: float,
    weight: np.ndarray | None = None,
    offset: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Gradient (K, p + 1) of the mean objective of one task in the user's features."""
    rows = np.flatnonzero(y >= 0)
    X, y = X[rows], y[rows]
    w = np.ones(len(rows)) if weight is None else weight[rows]
    offset = offset if np.isscalar(offset) else np.asarray(offset)[:, rows]
    prob = probabilities(scores_of(X, coef) + offset)
    wrong = (prob - (y == np.arange(len(prob))[:, None]))[-len(coef) :] * w
    features = np.asarray(X.T @ wrong.T).T + coef[:, :-1] / C
    return np.concatenate([features, wrong.sum(axis=1, keepdims=True)], axis=1) / w.sum()


def residual(*args: Any, **kwargs: Any) -> float:
    """Largest entry of the gradient of the mean objective of one task."""
    return float(np.abs(gradient(*args, **kwargs)).max())


def sklearn_model(
    X: Any, y: np.ndarray, C: float, weight: np.ndarray | None = None, tol: float = 1e-10
) -> LogisticRegression:
    """scikit-learn's regression of one task; rows with negative targets are left out."""
    rows = np.flatnonzero(y >= 0)
    solver = "newton-cholesky" if y.max() == 1 else "newton-cg"
    model = LogisticRegression(C=C, tol=tol, solver=solver, max_iter=10_000)
    return model.fit(X[rows], y[rows], None if weight is None else weight[rows])


def sklearn_coef(X: Any, y: np.ndarray, C: float, weight: np.ndarray | None = None) -> np.ndarray:
    """Coefficients (K, p + 1) by scikit-learn, the intercept last."""
    model = sklearn_model(X, y, C, weight)
    return np.column_stack([model.coef_, model.intercept_])


class CountingBlock:
    """A block that writes down how many tasks each product served."""

    def __init__(self, block: Any) -> None:
        self._block = block
        self.scores_calls: list[int] = []
        self.pullback_calls: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    def scores(self, coef: np.ndarray) -> np.ndarray:
        self.scores_calls.append(len(coef))
        return self._block.scores(coef)

    def pullback(self, residual: np.ndarray) -> np.ndarray:
        self.pullback_calls.append(len(residual))
        return self._block.pullback(residual)


class CountingLoss:
    """A loss that counts how often it was evaluated."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss
        self.n_scores = loss.n_scores
        self.n_terms = 0
        self.bend: Callable[..., Any] = loss.bend
        self.log_prob: Callable[..., Any] = loss.log_prob

    def terms(self, *args: Any) -> Any:
        self.n_terms += 1
        return self._loss.terms(*args)
