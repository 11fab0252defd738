"""CTBN with shared pairs, one arc, value, fold and penalty at a time.

Every value of a parent has three kinds of classifier to choose from by held-out log-likelihood: a
slope and an intercept on the scores without parent (of models that have not seen the row) under a
weak penalty, a penalised deviation from those, and a regression on the value's rows alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.linear_model import LogisticRegression

WEAK = 1.0 / 2.5**2  # a log-odds ratio of 2.5 costs half a nat

Scorer = Callable[[np.ndarray], np.ndarray]  # rows (n, p) -> scores (n, K)


def log_prob(scores: np.ndarray) -> np.ndarray:
    """Log-probabilities (n, values) of scores (n, K), where K = 1 for two values."""
    return log_softmax(np.pad(scores, ((0, 0), (1, 0))) if scores.shape[1] == 1 else scores, axis=1)


def residual(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivative (n, K) of the log-loss by the scores."""
    if scores.shape[1] == 1:
        return expit(scores) - y[:, None]
    return np.exp(log_prob(scores)) - (y[:, None] == np.arange(scores.shape[1]))


def minimum(scores_at, pull, penalty, shape, y, w) -> np.ndarray:
    """Best theta of weighted log-loss plus 1/2 penalty theta^2; `pull` takes residuals back."""

    def objective(flat):
        theta = flat.reshape(shape)
        scores = scores_at(theta)
        loss = -w @ log_prob(scores)[np.arange(len(y)), y]
        slope = pull(w[:, None] * residual(scores, y)) + penalty * theta
        return loss + 0.5 * (penalty * theta**2).sum(), slope.ravel()

    start = np.zeros(int(np.prod(shape)))
    return minimize(
        objective, start, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000}
    ).x.reshape(shape)


def regression(X, y, w, C) -> Scorer:
    """Scores of a regression; those of more than two values sum to zero."""
    model = LogisticRegression(C=C, tol=1e-11, solver="newton-cg", max_iter=10_000)
    model.fit(X, y, sample_weight=w)

    def scores(asked):
        found = model.decision_function(asked)
        return found[:, None] if found.ndim == 1 else found - found.mean(axis=1, keepdims=True)

    return scores


def line(offset, y, w, mean_square) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts (K,) each on offsets (n, K)."""
    penalty = WEAK * np.stack([mean_square, np.ones_like(mean_square)])
    theta = minimum(
        lambda t: (1.0 + t[0]) * offset + t[1],
        lambda r: np.stack([(r * offset).sum(axis=0), r.sum(axis=0)]),
        penalty,
        penalty.shape,
        y,
        w,
    )
    return 1.0 + theta[0], theta[1]


def deviation(X, offset, y, w, C) -> np.ndarray:
    """Coefficients (p + 1, K) of the penalised deviation from offsets (n, K)."""
    Z = np.column_stack([X, np.ones(len(X))])
    penalty = np.full((Z.shape[1], offset.shape[1]), 1.0 / C)
    penalty[-1] = 0.0
    return minimum(lambda t: offset + Z @ t, lambda r: Z.T @ r, penalty, penalty.shape, y, w)


@dataclass
class SharedCTBN:
    """`folds` (n,) say where a row is held out, -1 for never; `offset_folds` cover all rows."""

    grid: tuple[float, ...]
    folds: np.ndarray
    offset_folds: np.ndarray
    sizes: tuple[int, ...]
    min_rows: float = 10

    def fit(self, X, codes, weight=None) -> SharedCTBN:
        """Learn from codes (n, d), negative where a label is missing."""
        self.X, self.codes = X, codes
        self.w = np.ones(len(X)) if weight is None else weight
        d = len(self.sizes)
        self.choice: dict[tuple, tuple[str, float]] = {}
        alone = np.stack([self._scored(i, self._alone_candidates(i), (i,)) for i in range(d)])
        self.offset = [self._cross_fitted(i) for i in range(d)]
        gains, noise = np.zeros((d, d)), np.zeros((d, d))
        for j, i in itertools.permutations(range(d), 2):
            for v in range(self.sizes[j]):
                group = codes[:, j] == v
                if self.w[group].sum() >= self.min_rows:
                    more = self._scored(i, self._candidates(i, group), (i, j, v), group) - alone[i]
                    gains[j, i] += self.w[group] @ more[group]
                    noise[j, i] += self.w[group] ** 2 @ more[group] ** 2
        self.scores = gains + alone @ self.w
        np.fill_diagonal(self.scores, alone @ self.w)
        self.tree = branching(gains - np.sqrt(noise))
        return self

    # -------------------------------------------------------------------------- one classifier

    def _fit(self, kind: str, C: float, i: int, group: np.ndarray, train: np.ndarray) -> Scorer:
        """Scores of label i from rows and offsets, learned from `train` among a group's rows."""
        X, y, w = self.X[train], self.codes[train, i], self.w[train]
        if kind == "apart":
            alone = regression(X, y, w, C)
            return lambda asked, _: alone(asked)
        mean_square = self.w[group] @ self.offset[i][group] ** 2 / self.w[group].sum()
        slope, level = line(self.offset[i][train], y, w, mean_square)
        if kind == "line":
            return lambda _, offset: slope * offset + level
        coef = deviation(X, slope * self.offset[i][train], y, w, C)
        return lambda asked, offset: slope * offset + asked @ coef[:-1] + coef[-1]

    def _alone_candidates(self, i: int):
        return [("apart", C) for C in sorted(self.grid)]

    def _candidates(self, i: int, group: np.ndarray):
        apart = self._alone_candidates(i)
        return [("line", 0.0), *(("near", C) for _, C in apart), *apart]

    def _scored(self, i, candidates, key, group=None) -> np.ndarray:
        """Held-out log-probabilities (n,) of the best candidate; zero where there are none."""
        group = np.ones(len(self.X), dtype=bool) if group is None else group
        found = []
        for kind, C in candidates:
            result = np.zeros(len(self.X))
            for fold in range(self.folds.max() + 1):
                usable = group & (self.codes[:, i] >= 0)
                train = np.flatnonzero(usable & (self.folds != fold))
                held = np.flatnonzero(usable & (self.folds == fold))
                if not len(held):
                    continue
                assert len(set(self.codes[train, i])) == self.sizes[i], "the oracle does not smooth"
                model = self._fit(kind, C, i, group, train)
                offset = None if kind == "apart" else self.offset[i][held]
                own = log_prob(model(self.X[held], offset))
                result[held] = own[np.arange(len(held)), self.codes[held, i]]
            found.append(result)
        best = int(np.argmax([self.w @ result for result in found]))
        self.choice[key] = candidates[best]
        return found[best]

    def _cross_fitted(self, i: int) -> np.ndarray:
        C = self.choice[(i,)][1]
        scores = np.zeros((len(self.X), 1 if self.sizes[i] == 2 else self.sizes[i]))
        for fold in np.unique(self.offset_folds):
            held = self.offset_folds == fold
            train = np.flatnonzero(~held & (self.codes[:, i] >= 0))
            model = regression(self.X[train], self.codes[train, i], self.w[train], C)
            scores[held] = model(self.X[held])
        return scores

    # -------------------------------------------------------------------------- the whole tree

    def log_joint(self, X) -> dict[tuple[int, ...], np.ndarray]:
        """Log-probability (n,) of every label vector."""
        tables = {}
        for i, j in enumerate(self.tree):
            usable = self.codes[:, i] >= 0
            rows = np.flatnonzero(usable)
            C = self.choice[(i,)][1]
            alone = regression(self.X[rows], self.codes[rows, i], self.w[rows], C)
            for v in range(1 if j < 0 else self.sizes[j]):
                if (i, j, v) not in self.choice:
                    tables[i, v] = log_prob(alone(X))
                    continue
                group = self.codes[:, j] == v
                model = self._fit(*self.choice[i, j, v], i, group, np.flatnonzero(group & usable))
                tables[i, v] = log_prob(model(X, alone(X)))
        return {
            y: sum(tables[i, 0 if j < 0 else y[j]][:, y[i]] for i, j in enumerate(self.tree))
            for y in itertools.product(*map(range, self.sizes))
        }


def branching(worth: np.ndarray) -> list[int]:
    """Parents of the branching of largest worth; a label without parent hangs on a root."""
    graph = nx.DiGraph()
    for j, i in itertools.product(range(len(worth)), repeat=2):
        graph.add_edge("root" if i == j else j, i, weight=0.0 if i == j else float(worth[j, i]))
    parent = {child: above for above, child in nx.maximum_spanning_arborescence(graph).edges}
    return [-1 if parent[i] == "root" else parent[i] for i in range(len(worth))]
