"""CTBN straight from the paper: loops over arcs, parent values, folds and label vectors.

Batal, Hong & Hauskrecht (2013): one classifier for each value of a parent; an arc weighs the
log-likelihood of held-out rows; the best tree is a maximum branching; prediction is the most
probable label vector, found here by trying them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
from sklearn.linear_model import LogisticRegression

Splits = Sequence[tuple[np.ndarray, np.ndarray]]
TIGHT = {"tol": 1e-10, "max_iter": 3000}  # of models that are compared with others


def regression(C: float = 1.0) -> Callable[[], LogisticRegression]:
    return lambda: LogisticRegression(C=C, tol=1e-10, solver="newton-cg", max_iter=10_000)


class Unsmoothed(LogisticRegression):
    """A regression whose probabilities are taken as they are."""

    carries_scores = True


def floor_of(y: np.ndarray, every: np.ndarray, size: int) -> np.ndarray:
    """Smallest probabilities (K,) of a classifier of y: of its values in one row more."""
    overall = (np.bincount(every[every >= 0], minlength=size) + 1) / ((every >= 0).sum() + size)
    frequency = (np.bincount(y, minlength=size) + size * overall) / (len(y) + size)
    return frequency / (len(y) + 1)


def log_of(prob: np.ndarray, floor: np.ndarray | float = 1e-12) -> np.ndarray:
    """Logarithms of probabilities (n, K) of which none is smaller than a floor (K,)."""
    lifted = np.maximum(prob, floor)
    return np.log(lifted / lifted.sum(axis=1, keepdims=True))


class PaperCTBN:
    """`makers` makes the classifiers to choose from by held-out log-likelihood.

    With `floors` their probabilities are lifted to `floor_of`.
    """

    def __init__(
        self, makers: Sequence[Callable[[], Any]], splits: Splits, sizes, floors: bool = False
    ) -> None:
        self.floors = floors
        self.makers = makers
        self.splits = splits
        self.sizes = sizes

    def fit(self, X: np.ndarray, codes: np.ndarray) -> PaperCTBN:
        """Learn from codes (n, d), negative where a label is missing."""
        self.X, self.codes = X, codes
        d = codes.shape[1]
        self.best: dict[tuple[int, int | None, int], Callable[[], Any]] = {}
        alone = np.stack([self._held_out(i, None, 0) for i in range(d)])  # (d, n)
        self.weights = np.zeros((d, d))
        for j, i in itertools.product(range(d), repeat=2):
            scores = alone[i].copy()
            for v in range(self.sizes[j]) if i != j else ():
                rows = codes[:, j] == v
                scores[rows] = self._held_out(i, j, v)[rows]
            self.weights[j, i] = scores.sum()
        self.tree = self._maximum_branching()
        self.tree_weight = sum(self.weights[j if j >= 0 else i, i] for i, j in enumerate(self.tree))
        self._fit_all_rows()
        return self

    def _rows(self, i: int, j: int | None, v: int) -> np.ndarray:
        usable = self.codes[:, i] >= 0
        return usable if j is None else usable & (self.codes[:, j] == v)

    def _classifier(self, make, rows: np.ndarray, i: int) -> Any:
        assert len(set(self.codes[rows, i])) == self.sizes[i], "the oracle does not smooth"
        model = make().fit(self.X[rows], self.codes[rows, i])
        known = floor_of(self.codes[rows, i], self.codes[:, i], self.sizes[i])
        model.floor_ = known if self.floors else 1e-12
        return model

    def _held_out(self, i: int, j: int | None, v: int) -> np.ndarray:
        """Log-probabilities (n,) of label i by models that did not see the row; 0 elsewhere."""
        rows = self._rows(i, j, v)
        found = []
        for make in self.makers:
            result = np.zeros(len(rows))
            for train, test in self.splits:
                held = test[rows[test]]
                if not len(held):
                    continue
                model = self._classifier(make, train[rows[train]], i)
                log_prob = log_of(model.predict_proba(self.X[held]), model.floor_)
                result[held] = log_prob[np.arange(len(held)), self.codes[held, i]]
            found.append(result)
        best = int(np.argmax([result.sum() for result in found]))
        self.best[i, j, v] = self.makers[best]
        return found[best]

    def _maximum_branching(self) -> list[int]:
        d = len(self.weights)
        graph = nx.DiGraph()
        for j, i in itertools.product(range(d), repeat=2):
            # a label without parent hangs on an artificial root
            graph.add_edge("root" if i == j else j, i, weight=float(self.weights[j, i]))
        branching = nx.maximum_spanning_arborescence(graph)
        parent = {child: above for above, child in branching.edges}
        return [-1 if parent[i] == "root" else parent[i] for i in range(d)]

    def _fit_all_rows(self) -> None:
        self.models = {}
        for i, parent in enumerate(self.tree):
            j = None if parent == -1 else parent
            for v in range(1 if j is None else self.sizes[j]):
                make = self.best[i, j, v]
                self.models[i, v] = self._classifier(make, np.flatnonzero(self._rows(i, j, v)), i)

    def log_joint(self, X: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
        """Log-probability (n,) of every label vector."""
        tables = {
            key: log_of(model.predict_proba(X), model.floor_) for key, model in self.models.items()
        }
        return {
            y: sum(
                tables[i, 0 if parent == -1 else y[parent]][:, y[i]]
                for i, parent in enumerate(self.tree)
            )
            for y in itertools.product(*map(range, self.sizes))
        }

    def predict(self, X: np.ndarray) -> np.ndarray:
        joint = self.log_joint(X)
        vectors = np.array(list(joint))
        return vectors[np.argmax(np.stack(list(joint.values())), axis=0)]
