"""Maximum-margin output coding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from colabel import BinaryRelevance
from colabel.metrics import exact_match
from studies.methods.arrays import Array, labels_of
from studies.methods.output_coding import code_of_metric, decode, learn_metric, mean_field

# Labels that are constant or copies of others leave no error to scale by.
_LEAST_RELATIVE_VARIANCE = 1e-3


class MaxMarginOutputCoding(ClassifierMixin, BaseEstimator):
    r"""Label vectors coded so that a large margin tells them apart.

    With :math:`\hat y(x)` the least-squares regression of the labels on x, a positive semidefinite
    metric M is learned under which the true vector of every row is closer to :math:`\hat y(x)`
    than any other, by a margin that grows with their difference (MMOC [1]_):

    .. math::
        \min_{M \succeq 0, \xi} \; \tfrac12 \operatorname{tr} M + \frac{C}{n} \sum_i \xi_i
        \quad \text{with} \quad \|\hat y_i - y\|_M^2 - \|\hat y_i - y_i\|_M^2
        \ge \|y_i - y\|_1 - \xi_i \quad \text{for all } y \in [0, 1]^d

    by cutting planes. :math:`M = V V^\top` gives the code :math:`z = V^\top y` of a label vector.
    A prediction weighs the regression of the code, with the covariance :math:`\Sigma` of its
    errors, against one logistic classifier per label with log-odds :math:`o_j(x)`:

    .. math::
        \min_{y \in \{0, 1\}^d} \; \tfrac12 (V^\top y - \hat z(x))^\top \Sigma^{-1}
        (V^\top y - \hat z(x)) - \lambda \sum_j o_j(x) \, y_j

    relaxed to the box, rounded, and improved by flips of one or two labels; or, in the way of the
    output codes of [2]_, by a mean field (`decoding`). Not probabilistic.

    Parameters
    ----------
    C : float
        Weight of the slack; the larger, the more directions the code has.
    weight : float
        :math:`\lambda`, weight of the logistic classifiers in decoding.
    alphas : float or sequence of float
        Ridge penalty of the regression, shared by the labels. From a sequence the best is chosen
        by cross-validation.
    logistic_C : float or sequence of float
        Inverse strength of the L2 penalty of the logistic classifiers. From a sequence the best
        value is chosen for each label by cross-validation.
    code_covariance : {"full", "diagonal"}
        Whether :math:`\Sigma` has the correlations between the components of the code. With
        "diagonal" each component counts as evidence of its own, as is usual in output coding; but
        where labels go together their errors do too, and the same evidence counts twice. (See the
        notes.)
    decoding : {"search", "mean field"}
        How the label vector is looked for: the minimum above by search; or the independent labels
        that are nearest to the distribution it is the mode of, found from the classifiers'
        probabilities by sweeps over the labels, each predicted where it is more probable than not.
    cv : int
        Number of folds in which `alphas` and `logistic_C` are chosen.
    tol : float
        Cutting planes stop when the gap between objective and lower bound is at most `tol` times
        the objective.
    max_iter : int
        Bound on the number of cutting planes.
    random_state : int or None
        Seed of the folds.

    Attributes
    ----------
    metric_ : (d, d) array
        M.
    code_ : (d, r) array
        V; its columns are the components of the code, the most important first.
    regression_ : Ridge
        Regression of the labels.
    models_ : BinaryRelevance
        Logistic classifiers.
    precision_ : (d, d) array
        :math:`V \Sigma^{-1} V^\top`.
    objective_, duality_gap_ : float
        Value of the objective above, and a bound on how far it lies above the optimum.
    n_iter_ : int
        Number of cutting planes.

    Notes
    -----
    A full code (r = d) with a "full" covariance decodes by the covariance of the labels' own
    errors, whatever the metric is: the code matters through the directions that it leaves out.

    The metric determines the code only up to a rotation, :math:`M = V R (V R)^\top`, and what
    "diagonal" says depends on it; here the axes of V are those of M. In the rotation in which the
    errors of the components are uncorrelated, variances alone are the "full" covariance.

    References
    ----------
    .. [1] Y. Zhang and J. Schneider, Maximum margin output coding, ICML 2012.
    .. [2] Y. Zhang and J. Schneider, Multi-label output codes using canonical correlation
       analysis, AISTATS 2011.
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        weight: float = 1.0,
        alphas: float | Sequence[float] = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0),
        logistic_C: float | Sequence[float] | None = None,
        code_covariance: str = "full",
        decoding: str = "search",
        cv: int = 5,
        tol: float = 0.01,
        max_iter: int = 500,
        random_state: int | None = None,
    ) -> None:
        self.C = C
        self.weight = weight
        self.alphas = alphas
        self.logistic_C = logistic_C
        self.code_covariance = code_covariance
        self.decoding = decoding
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn from rows X and their 0/1 labels (n, d)."""
        labels = labels_of(Y)
        self.models_ = BinaryRelevance(cv=self.cv, random_state=self.random_state)
        if self.logistic_C is not None:
            self.models_.set_params(C=self.logistic_C)
        self.models_.fit(X, labels)
        targets = labels.astype(np.float64)
        fitted = self._regress(X, targets)
        found = learn_metric(fitted, targets, float(self.C), float(self.tol), int(self.max_iter))
        self.metric_, self.code_ = found.metric, code_of_metric(found.metric)
        self.objective_, self.duality_gap_ = found.objective, found.gap
        self.n_iter_ = found.n_iter
        if not found.converged:
            warnings.warn(
                f"MaxMarginOutputCoding stopped after {found.n_iter} cutting planes at a gap of"
                f" {found.gap / found.objective:.2%} of its objective.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.precision_ = self._precision(targets - fitted)
        return self

    def _regress(self, X: Any, targets: Array) -> Array:
        """Fit the regression of the labels; return its values (n, d) at the training rows."""
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=np.float64))
        errors = np.zeros(len(alphas))
        folds = KFold(self.cv, shuffle=True, random_state=self.random_state)
        for train, test in folds.split(targets):
            for place, alpha in enumerate(alphas):
                model = Ridge(alpha).fit(X[train], targets[train])
                errors[place] += np.square(targets[test] - self._of(model, X[test])).sum()
        self.regression_ = Ridge(alphas[int(errors.argmin())]).fit(X, targets)
        return self._of(self.regression_, X)

    @staticmethod
    def _of(model: Ridge, X: Any) -> Array:
        found: Array = np.asarray(model.predict(X)).reshape(X.shape[0], -1)
        return found

    def _precision(self, errors: Array) -> Array:
        """V Sigma^-1 V' from the errors (n, d) of the regression."""
        covariance = np.atleast_2d(np.cov(errors.T, ddof=0))
        least = max(_LEAST_RELATIVE_VARIANCE * float(np.trace(covariance)) / len(covariance), 1e-9)
        covariance = self.code_.T @ (covariance + least * np.eye(len(covariance))) @ self.code_
        if self.code_covariance == "diagonal":
            covariance = np.diag(np.diag(covariance))
        precision: Array = self.code_ @ np.linalg.solve(covariance, self.code_.T)
        return 0.5 * (precision + precision.T)

    def predict(self, X: Any) -> Any:
        """Return the labels (n, d) of rows."""
        tables = self.models_.joint(X).marginal_tables()
        with np.errstate(divide="ignore"):
            log_odds = np.column_stack([np.log(table[:, 1] / table[:, 0]) for table in tables])
        evidence = self.precision_, self._of(self.regression_, X), self.weight * log_odds
        if self.decoding == "mean field":
            return (mean_field(*evidence) > 0.5).astype(np.int32)
        return decode(*evidence)

    def score(self, X: Any, Y: Any) -> float:
        """Return the share of rows whose labels are all right."""
        return float(exact_match(labels_of(Y), self.predict(X)))
