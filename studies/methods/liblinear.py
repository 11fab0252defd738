"""The logistic regression of the CTBN and MLCRF papers, as their authors ran it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from studies.methods.arrays import Array


class LiblinearRegression(ClassifierMixin, BaseEstimator):
    r"""LIBLINEAR's L2-penalised logistic regression: the bias is penalised like any weight.

    .. math:: \min_{w, b} \; \tfrac12 (\|w\|^2 + b^2)
              + C \sum_i \log (1 + e^{-t_i (w^\top x_i + b)}), \quad t_i = \pm 1

    Sparse rows are solved by LIBLINEAR itself. Dense ones have the same optimum by Newton's method,
    which is up to forty times as fast where features are not scaled, and gets there: at its own
    tolerance of .01 LIBLINEAR stops far from it.

    The models of colabel have regressions of their own, which leave the bias free and choose C
    along a path; this one is for repeating what papers did, as `estimator=` of these models (with
    ``stack=False`` where there is a choice). Its probabilities are taken as they are, however small
    (`unsmoothed`).

    Parameters
    ----------
    C : float or sequence of float
        From a sequence the best is chosen by the mean log-likelihood of the rows held out in
        folds stratified on the label, and the smallest of equals. Folds that leave a class out of
        their training rows say the same of every C and are not counted.
    cv : int
        Number of folds.
    tol : float
        Tolerance of the solver.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    C_ : float
        The C of the fit.
    classes_ : array of the classes

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.liblinear import LiblinearRegression
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    >>> model = LiblinearRegression(C=(0.01, 1.0), cv=2).fit(X, y)
    >>> model.C_, model.predict(X).tolist()
    (1.0, [0, 0, 1, 1, 1, 1])
    """

    unsmoothed = True

    def __init__(
        self,
        C: float | Sequence[float] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0),
        *,
        cv: int = 3,
        tol: float = 1e-4,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.cv = cv
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose C, and fit all rows."""
        grid = sorted(np.atleast_1d(np.asarray(self.C, dtype=np.float64)).tolist())
        X, y = _rows(X), np.asarray(y)
        self.C_ = grid[0] if len(grid) == 1 else self._best(grid, X, y)
        self._model = self._fitted(self.C_, X, y)
        self.classes_ = self._model.classes_
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (n, K) of the classes."""
        return np.asarray(self._model.predict_proba(_rows(X)))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        return self._model.predict(_rows(X))

    def _fitted(
        self, C: float, X: Any, y: Any, last: LogisticRegression | None = None
    ) -> LogisticRegression:
        """Fit rows, from where the last model ended if there is one."""
        if issparse(X):
            own = {"solver": "liblinear", "intercept_scaling": 1.0}
        else:
            own = {"solver": "newton-cholesky", "fit_intercept": False}
        model = last or LogisticRegression(tol=self.tol, max_iter=1000, warm_start=True, **own)
        model.C = C
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, y)

    def _best(self, grid: Sequence[float], X: Any, y: Any) -> float:
        total = np.zeros(len(grid))
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            splits = list(folds.split(np.zeros((len(y), 1)), y))
        everything = len(np.unique(y))
        for train, test in splits:
            if len(np.unique(y[train])) < everything:
                continue
            seen, held, rows = X[train], X[test], np.arange(len(test))
            model = None
            for place, C in enumerate(grid):  # from the solution at the last, stronger penalty
                model = self._fitted(C, seen, y[train], model)
                code = np.searchsorted(model.classes_, y[test])
                with np.errstate(divide="ignore"):  # a C that is surely wrong once is never chosen
                    total[place] += model.predict_log_proba(held)[rows, code].sum()
        return grid[int(total.argmax())]


def _rows(X: Any) -> Any:
    """Return sparse rows as they are, dense ones with the constant whose weight is the bias."""
    return X if issparse(X) else np.hstack([X, np.ones((len(X), 1))])
