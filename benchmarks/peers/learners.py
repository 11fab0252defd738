"""How each kind of method is fitted to codes and asked: the libraries differ, `Answers` do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks.peers.answers import (
    Answers,
    ByChainRule,
    ByJoint,
    ByMarginals,
    BySets,
    over_all_values,
)
from colabel.core.arrays import Array, Codes, is_sparse


class Learner(Protocol):
    """A method, before and after it has seen training rows."""

    def fit(self, X: Any, Y: Codes) -> None:
        """Learn from rows (n, p) and their codes (n, d)."""

    def answer(self, X: Any) -> Answers:
        """Say what rows (m, p) are."""


class AnyClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for one label, whatever values its rows have: one alone, or with gaps."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> AnyClasses:
        """Fit to the classes numbered without gaps; a single one needs no model."""
        self.classes_, codes = np.unique(np.asarray(y).astype(np.int32), return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, codes) if len(self.classes_) > 1 else None
        return self

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (m, K) of `classes_`."""
        if self.estimator_ is None:
            return np.ones((X.shape[0], 1))
        return np.asarray(self.estimator_.predict_proba(X))

    def predict(self, X: Any) -> Any:
        """Most probable class (m,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@dataclass
class PerLabel:
    """One classifier for each label."""

    estimator: Any
    cardinalities: Sequence[int]
    fitted: list[AnyClasses] = field(default_factory=list)
    n_train: int = 0

    def fit(self, X: Any, Y: Codes) -> None:
        self.n_train = len(Y)
        self.fitted = [AnyClasses(self.estimator).fit(X, column) for column in Y.T]

    def answer(self, X: Any) -> Answers:
        tables = [
            over_all_values(one.predict_proba(X), one.classes_, n_values)
            for one, n_values in zip(self.fitted, self.cardinalities, strict=True)
        ]
        return ByMarginals(tables, self.n_train)


@dataclass
class ManyOutputs:
    """A classifier of scikit-learn that takes all labels at once, as forests do."""

    estimator: Any
    cardinalities: Sequence[int]
    n_train: int = 0

    def fit(self, X: Any, Y: Codes) -> None:
        self.n_train = len(Y)
        self.estimator.fit(X, Y)

    def answer(self, X: Any) -> Answers:
        parts = zip(
            self.estimator.predict_proba(X),
            self.estimator.classes_,
            self.cardinalities,
            strict=True,
        )
        return ByMarginals([over_all_values(*part) for part in parts], self.n_train)


@dataclass
class OnIndicators:
    """A classifier that takes 0/1 labels only: a variable of K > 2 values becomes K of them.

    The probabilities of the K are made to sum to one. A label that all training rows have, or
    none, is not shown to the classifier: some refuse it.
    """

    estimator: Any
    cardinalities: Sequence[int]
    predicts: bool = False  # by a rule of its own, not by its marginals
    n_train: int = 0

    def fit(self, X: Any, Y: Codes) -> None:
        self.n_train = len(Y)
        columns = [
            Y[:, [j]] if n_values == 2 else Y[:, [j]] == np.arange(n_values)
            for j, n_values in enumerate(self.cardinalities)
        ]
        labels = np.concatenate(columns, axis=1).astype(np.uint8)
        self.first, self.varies = labels[0], (labels != labels[0]).any(axis=0)
        self.estimator.fit(X, np.ascontiguousarray(labels[:, self.varies]))

    def answer(self, X: Any) -> Answers:
        prob, tables, start = self._of_all(self.estimator.predict_proba(X)), [], 0
        for n_values in self.cardinalities:
            width = 1 if n_values == 2 else n_values
            part = prob[:, start : start + width].clip(0.0, 1.0)
            start += width
            table = np.concatenate([1.0 - part, part], axis=1) if n_values == 2 else part
            tables.append(table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300))
        decided = None
        if self.predicts and set(self.cardinalities) == {2}:
            decided = self._of_all(self.estimator.predict(X)).astype(np.int32)
        return ByMarginals(tables, self.n_train, decided)

    def _of_all(self, said: Any) -> Array:
        """Put what was said of the labels that vary beside the value of the others."""
        whole: Array = np.tile(self.first.astype(np.float64), (len(said), 1))
        whole[:, self.varies] = np.asarray(said)
        return whole


@dataclass
class Powerset:
    """Label powerset: each label vector of the training rows is one class."""

    estimator: Any
    cardinalities: Sequence[int]
    train: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    vectors: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))

    def fit(self, X: Any, Y: Codes) -> None:
        self.train = Y
        self.vectors, classes = np.unique(Y, axis=0, return_inverse=True)
        self.estimator = AnyClasses(self.estimator).fit(X, classes.ravel())

    def answer(self, X: Any) -> Answers:
        prob = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        return BySets(prob, self.vectors, self.train, self.cardinalities)


@dataclass
class Chain:
    """scikit-learn's chain in the order of the columns, fitted to true labels, decided greedily."""

    estimator: Any
    cardinalities: Sequence[int]
    n_train: int = 0

    def fit(self, X: Any, Y: Codes) -> None:
        self.n_train = len(Y)
        self.chain = ClassifierChain(AnyClasses(self.estimator), random_state=0).fit(X, Y)

    def answer(self, X: Any) -> Answers:
        decided = np.asarray(self.chain.predict(X)).astype(np.int32)
        return ByChainRule(decided, lambda true: self._tables(X, true), self.n_train)

    def _tables(self, X: Any, true: Codes) -> list[Array]:
        join: Any = sparse.hstack if is_sparse(X) else np.hstack
        tables = []
        for j, n_values in enumerate(self.cardinalities):
            before = true[:, :j].astype(np.float64)
            rows = join([X, before]) if j else X
            rows = rows.tocsr() if is_sparse(rows) else rows
            link = self.chain.estimators_[j]
            tables.append(over_all_values(link.predict_proba(rows), link.classes_, n_values))
        return tables


@dataclass
class Ours:
    """A model of colabel, or a pipeline with one at its end."""

    model: Any

    def fit(self, X: Any, Y: Codes) -> None:
        self.model.fit(X, Y)

    def answer(self, X: Any) -> Answers:
        from colabel.models.wrapped import joint_of

        joint = joint_of(self.model, X)
        mode = np.asarray(joint.space.values(joint.mode_codes())).astype(np.int32)
        return ByJoint(joint, mode)


@dataclass
class Scaled:
    """Any method on standardised features; sparse ones are divided by their largest value."""

    learner: Learner
    scaler: Any = None

    def fit(self, X: Any, Y: Codes) -> None:
        self.scaler = MaxAbsScaler() if is_sparse(X) else StandardScaler()
        self.learner.fit(self.scaler.fit_transform(X), Y)

    def answer(self, X: Any) -> Answers:
        return self.learner.answer(self.scaler.transform(X))


@dataclass
class Dense:
    """A method that does not take sparse rows, on dense ones."""

    learner: Learner

    def fit(self, X: Any, Y: Codes) -> None:
        self.learner.fit(_dense(X), Y)

    def answer(self, X: Any) -> Answers:
        return self.learner.answer(_dense(X))


def _dense(X: Any) -> Any:
    return X.toarray() if is_sparse(X) else X
