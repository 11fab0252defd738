"""EM for a mixture of trees over 0/1 labels, one row, tree and regression at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression


@dataclass
class SlowTree:
    """Parents (d,) and coefficients (p + 1,) of each label and parent value."""

    parents: np.ndarray
    coef: dict[tuple[int, int], np.ndarray]

    def log_prob(self, x: np.ndarray, y: np.ndarray) -> float:
        total = 0.0
        for label, parent in enumerate(self.parents):
            value = 0 if parent < 0 else int(y[parent])
            own = self.coef[label, value]
            positive = expit(own[:-1] @ x + own[-1])
            total += np.log(positive if y[label] == 1 else 1.0 - positive)
        return total

    def refitted(self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray, C: float) -> SlowTree:
        coef = {}
        for label, value in self.coef:
            parent = self.parents[label]
            mine = np.array([parent < 0 or y[parent] == value for y in Y])
            model = LogisticRegression(C=C, tol=1e-10, solver="newton-cg", max_iter=10_000)
            model.fit(X[mine], Y[mine, label], sample_weight=weight[mine])
            coef[label, value] = np.append(model.coef_[0], model.intercept_[0])
        return SlowTree(self.parents, coef)


@dataclass
class SlowMixture:
    """Trees, and a gate (M, p + 1), which does not look at x where `gate_strength` is None."""

    trees: list[SlowTree]
    gate: np.ndarray
    C: float
    gate_strength: float | None
    values: list[float] = field(default_factory=list)

    def log_terms(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        terms = np.empty((len(X), len(self.trees)))
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            gate = log_softmax(self.gate[:, :-1] @ x + self.gate[:, -1])
            for k, tree in enumerate(self.trees):
                terms[i, k] = gate[k] + tree.log_prob(x, y)
        return terms

    def objective(self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> float:
        value = weight @ logsumexp(self.log_terms(X, Y), axis=1)
        for tree in self.trees:
            value -= sum(0.5 / self.C * own[:-1] @ own[:-1] for own in tree.coef.values())
        if self.gate_strength is not None:
            value -= 0.5 * self.gate_strength * (self.gate[:, :-1] ** 2).sum()
        return value

    def step(self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> None:
        terms = self.log_terms(X, Y)
        share = np.exp(terms - logsumexp(terms, axis=1)[:, None])
        self.trees = [
            tree.refitted(X, Y, weight * share[:, k], self.C) for k, tree in enumerate(self.trees)
        ]
        self.gate = self._gate(X, share, weight)

    def _gate(self, X: np.ndarray, share: np.ndarray, weight: np.ndarray) -> np.ndarray:
        gate = np.zeros_like(self.gate)
        if self.gate_strength is None:
            gate[:, -1] = np.log(weight @ share / weight.sum())
            return gate

        def cost(flat: np.ndarray) -> float:
            V = flat.reshape(gate.shape)
            log_gate = log_softmax(X @ V[:, :-1].T + V[:, -1], axis=1)
            penalty = 0.5 * self.gate_strength * (V[:, :-1] ** 2).sum()
            return penalty - weight @ (share * log_gate).sum(axis=1)

        return minimize(cost, gate.ravel(), options={"gtol": 1e-6}).x.reshape(gate.shape)
