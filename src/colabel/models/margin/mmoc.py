"""Maximum-margin output coding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from colabel.core.arrays import Array, Codes
from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.core.progress import progress_bar
from colabel.core.schema import Dims, Fields, Numbers, OneOf, Part, Real, refuse_unless, stored
from colabel.learn.conditional import Folds, TrainingData
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    can_hold_out,
    choose,
    everything,
    linear_learner,
    make_folds,
)
from colabel.models.base import LabelClassifier
from colabel.models.margin._mean_field import mean_field
from colabel.models.margin._output_coding import code_of_metric, decode, learn_metric
from colabel.models.margin._ridge import best_penalty, ridge_path
from colabel.models.margin._two_values import two_valued

DEFAULT_ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)

_COVARIANCES = ("full", "diagonal")
_DECODINGS = ("search", "mean field")
# Labels that are constant or copies of others leave no error to scale by.
_LEAST_RELATIVE_VARIANCE = 1e-3


def _check_precision(fields: Fields, dims: Dims) -> None:
    precision = fields["precision_"]
    refuse_unless(np.array_equal(precision, precision.T), "precision_ is not symmetric")
    eigenvalues = np.linalg.eigvalsh(precision)
    least = -1e-8 * max(1.0, float(eigenvalues[-1]))
    refuse_unless(eigenvalues[0] >= least, "precision_ is not positive semi-definite")
    refuse_unless(set(dims["sizes"]) == {2}, "a label has not two values")


@stored(
    "max-margin-output-coding",
    check=_check_precision,
    weight=Real(0.0),
    decoding=OneOf(*_DECODINGS),
    models_=Part("linear-models", sizes="sizes", q="p+1"),
    coef_=Numbers("d p"),
    intercept_=Numbers("d"),
    metric_=Numbers("d d"),
    code_=Numbers("d _"),
    precision_=Numbers("d d", -1e100, 1e100),
    alpha_=Real(0.0),
    objective_=Real(),
    duality_gap_=Real(),
)
class MaxMarginOutputCoding(LabelClassifier):
    r"""No probabilities: label vectors coded so that a large margin tells them apart.

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
    output codes of [2]_, by a mean field (`decoding`). Not probabilistic: there is no `joint` and
    no `predict_proba`.

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
        probabilities by sweeps over the labels, each announced where it is more probable than not.
    cv : int, float, splitter or iterable
        How rows are held out to choose `alphas` and `logistic_C`: a number of folds, a fraction, a
        scikit-learn splitter, or pairs of index arrays (train, test).
    tol : float
        Cutting planes stop when the gap between objective and lower bound is at most `tol` times
        the objective.
    max_iter : int
        Bound on the number of cutting planes.
    n_jobs : int or None
        Threads; None for all cores.
    random_state : int, RandomState or None
        Seed of the folds.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    metric_ : (d, d) array
        M.
    code_ : (d, r) array
        V; its columns are the components of the code, the most important first.
    coef_, intercept_ : (d, p) and (d,) arrays
        Regression of the labels.
    alpha_ : float
        Its penalty.
    models_ : ConditionalModels
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

    Examples
    --------
    >>> from colabel import MaxMarginOutputCoding
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = MaxMarginOutputCoding(alphas=10.0, logistic_C=0.01)
    >>> model.fit(data.X[:500], data.Y[:500]).predict(data.X[-2:]).shape
    (2, 7)
    >>> model.duality_gap_ <= model.tol * model.objective_
    True
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        weight: float = 1.0,
        alphas: float | Sequence[float] = DEFAULT_ALPHAS,
        logistic_C: float | Sequence[float] = DEFAULT_GRID,
        code_covariance: str = "full",
        decoding: str = "search",
        cv: Any = 5,
        tol: float = 0.01,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_positive("weight", self.weight, or_zero=True)
        check_positive("tol", self.tol)
        check_integer("max_iter", self.max_iter, 1)
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=object))
        if not len(alphas):
            raise ValueError("alphas is empty. Give a positive number, or several to choose from.")
        for alpha in alphas:
            check_positive("alphas", alpha)
        check_choice("code_covariance", self.code_covariance, _COVARIANCES)
        check_choice("decoding", self.decoding, _DECODINGS)

    def _learn(self, data: TrainingData) -> None:
        labels = two_valued(data, self.label_space_, "MaxMarginOutputCoding")
        folds = make_folds(data, self.cv, self._seed())
        learner = linear_learner(
            self.logistic_C, DEFAULT_TOLERANCE, 1000, self.n_jobs, self.verbose
        )
        learning = learner.on(data)
        self.models_ = learning.fit([everything(data)], [choose(learning, folds)])
        weight = None if data.weight is None else np.asarray(data.weight, dtype=np.float64)
        targets = labels.astype(np.float64)
        fitted = self._regress(data.X, targets, folds, weight)
        self._learn_code(fitted, targets, weight)
        self.precision_ = self._precision(targets - fitted, weight)

    def _regress(self, X: Any, targets: Array, folds: Folds, weight: Array | None) -> Array:
        """Fit the regression of the labels; return its values (n, d) at the training rows."""
        grid = np.unique(np.asarray(self.alphas, dtype=np.float64))
        self.alpha_ = float(grid[len(grid) // 2])
        if len(grid) > 1 and can_hold_out(folds):
            self.alpha_ = best_penalty(X, targets, grid, *folds, weight, self.n_jobs)
        coef, self.intercept_ = ridge_path(X, targets, weight).at(self.alpha_)
        self.coef_ = coef.T
        return self._fitted(X)

    def _learn_code(self, fitted: Array, targets: Array, weight: Array | None) -> None:
        limits = (float(self.C), weight, float(self.tol), int(self.max_iter), self.n_jobs)
        with progress_bar("cutting planes", self.max_iter, shown=bool(self.verbose)) as advance:
            found = learn_metric(fitted, targets, *limits, advance)
        self.metric_, self.code_ = found.metric, code_of_metric(found.metric)
        self.objective_, self.duality_gap_ = found.objective, found.gap
        self.n_iter_ = max(1, found.n_iter)
        if not found.converged:
            warnings.warn(
                f"MaxMarginOutputCoding stopped after {found.n_iter} cutting planes at a gap of"
                f" {found.gap / found.objective:.2%} of its objective. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,  # the caller of fit
            )

    def _fitted(self, X: Any) -> Array:
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _precision(self, errors: Array, weight: Array | None) -> Array:
        """V Sigma^-1 V' from the errors (n, d) of the regression."""
        covariance = np.atleast_2d(np.cov(errors.T, aweights=weight, ddof=0))
        least = max(_LEAST_RELATIVE_VARIANCE * float(np.trace(covariance)) / len(covariance), 1e-9)
        covariance = self.code_.T @ (covariance + least * np.eye(len(covariance))) @ self.code_
        if self.code_covariance == "diagonal":
            covariance = np.diag(np.diag(covariance))
        precision: Array = self.code_ @ np.linalg.solve(covariance, self.code_.T)
        return 0.5 * (precision + precision.T)

    def _codes(self, X: Any) -> Codes:
        tables = self.models_.log_prob(X)
        log_odds = np.column_stack([table[:, 1] - table[:, 0] for table in tables])
        evidence = self.precision_, self._fitted(X), self.weight * log_odds
        if self.decoding == "mean field":
            return (mean_field(*evidence) > 0.5).astype(np.int32)
        return decode(*evidence, self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
