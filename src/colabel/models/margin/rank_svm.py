"""RankSVM: relevant labels ranked above irrelevant ones with a margin."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Codes, Flags, is_sparse
from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.core.progress import progress_bar
from colabel.core.schema import (
    Dims,
    Fields,
    Matrix,
    Maybe,
    Numbers,
    OneOf,
    Real,
    Whole,
    bind,
    refuse_unless,
    stored,
)
from colabel.learn.conditional import TrainingData, distinct_rows
from colabel.models.base import LabelClassifier
from colabel.models.margin._ranking import (
    KernelRows,
    LinearRows,
    RankingRows,
    fit_threshold,
    label_pairs,
    solve_ranking,
)
from colabel.models.margin._two_values import two_valued

_CUTS = ("scores", "features")
_KERNELS = ("linear", "rbf", "poly")


_OF_KERNELS = ("dual_coef_", "support_vectors_", "gamma_")


def _check_scores(fields: Fields, dims: Dims) -> None:
    refuse_unless(set(dims["sizes"]) == {2}, "a label has not two values")
    bind(dims, "m", 2 if dims["d"] == 1 else dims["d"], "intercept_")
    width = dims["m"] + (dims["p"] if fields["cut"] == "features" else 0)
    bind(dims, width + 1, len(fields["threshold_"]), "threshold_")
    wanted = ("coef_",) if fields["kernel"] == "linear" else _OF_KERNELS
    lost = [name for name in wanted if name not in fields]
    refuse_unless(not lost, f"it has lost its {', '.join(lost)}")


@stored(
    "rank-svm",
    check=_check_scores,
    kernel=OneOf(*_KERNELS),
    cut=OneOf(*_CUTS),
    threshold_=Numbers("_"),
    intercept_=Numbers("m"),
    coef_=Maybe(Numbers("m p")),
    dual_coef_=Maybe(Numbers("s m")),
    support_vectors_=Maybe(Matrix("s p")),
    gamma_=Maybe(Real(0.0)),
    degree=Whole(1, 100),
    objective_=Real(),
    duality_gap_=Real(),
)
class RankSVM(LabelClassifier):
    r"""No probabilities: scores that rank a row's labels above the others, and a learned cut.

    One score :math:`s_k(x) = \langle w_k, \phi(x) \rangle + b_k` per label, learned so that every
    relevant label of a row outscores every irrelevant one by a margin [1]_:

    .. math::
        \min_{W, b} \; \tfrac12 \sum_k (\|w_k\|^2 + b_k^2) + C \sum_i
        \frac{1}{|Y_i| |\bar Y_i|} \sum_{k \in Y_i, l \in \bar Y_i}
        \max(0, 1 - s_k(x_i) + s_l(x_i))

    Labels with a score above :math:`t(x) = \langle a, s(x) \rangle + a_0` are predicted, where t is
    the least-squares regression of each training row's best threshold on its scores. Rows with
    all or no labels have no pair to rank; they count for t only. Not probabilistic: there is no
    `joint` and no `predict_proba`.

    The published cut can be far from the best even where the labels are separable. Only differences
    of scores are learned, so that the weight vectors sum to zero, and what all labels have in
    common, which says how many of them a row has, is no function of the scores. On 400 rows whose
    five labels are signs of linear functions of ten features, exact match on held-out rows is .49
    with the published cut, .82 with one classifier a label; ``cut="features"``, which lets t see x
    too, reaches .79 (emotions: .26, .29 and .28; 800 rows of scene: .55, .67 and .57).

    Parameters
    ----------
    C : float
        Weight of the ranking errors; the larger, the closer the fit. Features should be scaled.
    kernel : {"linear", "rbf", "poly"}
        rbf: ``exp(-gamma |x - z|^2)``; poly: ``(gamma <x, z> + coef0)^degree``. The kernels
        other than "linear" hold a matrix of n x n numbers.
    gamma : {"scale", "auto"} or float
        "scale" is 1 / (p Var(X)) and "auto" is 1 / p, as in scikit-learn's `SVC`.
    degree : int
        Degree of the polynomial kernel.
    coef0 : float
        Constant of the polynomial kernel, zero or more.
    cut : {"scores", "features"}
        What t(x) depends on: the scores alone, as published, or the features beside them, by a
        ridge regression whose penalty is the best of several by generalised cross-validation.
    fit_intercept : bool
        Whether scores have a constant b.
    tol : float
        The solver stops when the duality gap is at most `tol` times the objective.
    max_iter : int
        Bound on the sweeps over the rows.
    random_state : int, RandomState or None
        Seed of the order in which the solver visits rows. Changes the answer within `tol` only.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    classes_ : (2,) array, or list of d such arrays
        Values of the labels; a list only where labels have different ones.
    coef_ : (d, p) array
        Weight vectors; linear kernel only.
    intercept_ : (d,) array
        Constants of the scores.
    dual_coef_ : (n_support, d) array
        Coefficients of the support rows; other kernels only.
    support_vectors_ : (n_support, p) array or CSR
        Rows with a coefficient; other kernels only.
    gamma_ : float
        Number used for `gamma`; other kernels only.
    threshold_ : (d + 1,) array, or (d + p + 1,)
        Coefficients of t(x), of the scores first, then with ``cut="features"`` of the features, the
        constant last.
    objective_ : float
        Value of the objective above.
    duality_gap_ : float
        Bound on how far `objective_` lies above the optimum.
    n_iter_ : int
        Sweeps over the rows.

    Notes
    -----
    The original leaves the constants unpenalised. Here each is the weight of a feature that is 1,
    which lets the dual problem be solved one row at a time.

    A single label of two values (1-d y) is ranked as two labels, its two values, and the higher
    one is predicted; `coef_`, `intercept_`, `dual_coef_` and `threshold_` then speak of both.

    References
    ----------
    .. [1] A. Elisseeff and J. Weston, A kernel method for multi-labelled classification, NIPS
       2001.

    Examples
    --------
    >>> from colabel import RankSVM
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = RankSVM(C=0.1, random_state=0).fit(data.X[:500], data.Y[:500])
    >>> model.predict(data.X[-2:]).shape
    (2, 7)
    >>> model.duality_gap_ <= model.tol * model.objective_
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        cut: str = "scores",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 2000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cut = cut
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def decision_function(self, X: Any) -> Array:
        """How far each label's score lies above the threshold t(x).

        Returns
        -------
        (n, d) array; (n,) for one-dimensional y
            Positive for the labels that are predicted. For a single label the score of its second
            value minus that of its first.
        """
        check_is_fitted(self)
        margins = self._margins(self._checked(X, reset=False))
        return margins[:, 0] if self.label_space_.kind == "vector" else margins

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_integer("max_iter", self.max_iter, 1)
        check_integer("degree", self.degree, 1)
        check_positive("coef0", self.coef0, or_zero=True)
        check_choice("kernel", self.kernel, _KERNELS)
        check_choice("cut", self.cut, _CUTS)
        if isinstance(self.gamma, str):
            if self.gamma not in ("scale", "auto"):
                raise ValueError(
                    f"gamma={self.gamma!r} must be 'scale', 'auto' or a positive number."
                )
        else:
            check_positive("gamma", self.gamma)

    def _learn(self, data: TrainingData) -> None:
        two_valued(data, self.label_space_, "RankSVM")
        self._share_classes()
        # The solver stops within a tolerance; equal problems should stop at the same place.
        data = distinct_rows(data, self._seed())
        labels = data.codes.astype(bool)
        relevant = np.column_stack([~labels, labels]) if labels.shape[1] == 1 else labels
        weight = np.asarray(data.weight, dtype=np.float64)
        learn = self._learn_linear if self.kernel == "linear" else self._learn_kernel
        scores = learn(data.X, relevant, weight)
        features = data.X if self.cut == "features" else None
        self.threshold_ = fit_threshold(scores, relevant, weight, features)

    def _share_classes(self) -> None:
        """Let `classes_[decision_function(X) > 0]` be the prediction, as scikit-learn has it."""
        first, *others = self.label_space_.classes
        if all(np.array_equal(first, values) for values in others):
            self.classes_ = first

    def _learn_linear(self, X: Any, relevant: Flags, weight: Array) -> Array:
        rows = LinearRows(_with_constant(X) if self.fit_intercept else X, relevant.shape[1])
        self._solve(rows, relevant, weight)
        constant = np.zeros(len(rows.coef))
        self.coef_ = rows.coef[:, : X.shape[1]]
        self.intercept_ = rows.coef[:, -1] if self.fit_intercept else constant
        return rows.scores()

    def _learn_kernel(self, X: Any, relevant: Flags, weight: Array) -> Array:
        self.gamma_ = _gamma(self.gamma, X, weight)
        kernel = self._kernel(X, X)
        rows = KernelRows(kernel + 1.0 if self.fit_intercept else kernel, relevant.shape[1])
        self._solve(rows, relevant, weight)
        support = np.flatnonzero(rows.dual_coef.any(axis=1))
        if not len(support):
            support = np.arange(1)  # no pair at all: one row keeps the scores defined, as zeros
        self.support_vectors_, self.dual_coef_ = X[support], rows.dual_coef[support]
        self.intercept_ = self.dual_coef_.sum(axis=0) * float(self.fit_intercept)
        return rows.scores()

    def _solve(self, rows: RankingRows, relevant: Flags, weight: Array) -> None:
        pairs = label_pairs(relevant, float(self.C), weight)
        with progress_bar("ranking", self.max_iter, shown=bool(self.verbose)) as advance:
            found = solve_ranking(rows, pairs, self.tol, self.max_iter, self._seed(), advance)
        self.objective_, self.duality_gap_ = found.primal, found.gap
        self.n_iter_ = max(1, found.n_iter)
        if not found.converged:
            warnings.warn(
                f"RankSVM stopped after {found.n_iter} sweeps at a duality gap of {found.gap:.3g},"
                f" {found.gap / found.primal:.2%} of its objective. Scale the features, lower C or"
                " raise max_iter.",
                ConvergenceWarning,
                stacklevel=5,  # the caller of fit
            )

    def _kernel(self, X: Any, Z: Any) -> Array:
        if self.kernel == "rbf":
            values: Array = rbf_kernel(X, Z, gamma=self.gamma_)
        else:
            values = polynomial_kernel(
                X, Z, degree=self.degree, gamma=self.gamma_, coef0=self.coef0
            )
        return np.asarray(values, dtype=np.float64, order="C")

    def _margins(self, X: Any) -> Array:
        """Scores (n, d) less the threshold."""
        if self.kernel == "linear":
            scores: Array = np.asarray(X @ self.coef_.T) + self.intercept_
        else:
            kernel = self._kernel(X, self.support_vectors_)
            scores = kernel @ self.dual_coef_ + self.intercept_
        if self.label_space_.n_labels == 1:
            return scores[:, 1:] - scores[:, :1]
        n_scores = scores.shape[1]
        threshold = scores @ self.threshold_[:n_scores] + self.threshold_[-1]
        if self.cut == "features":
            threshold = threshold + np.asarray(X @ self.threshold_[n_scores:-1]).ravel()
        margins: Array = scores - threshold[:, None]
        return margins

    def _codes(self, X: Any) -> Codes:
        return (self._margins(X) > 0).astype(np.int32)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _gamma(gamma: str | float, X: Any, weight: Array) -> float:
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / float(X.shape[1])
    n_entries = X.shape[1] * weight.sum()
    squares = X.multiply(X) if is_sparse(X) else np.square(X)
    mean = float(weight @ np.ravel(X.sum(axis=1))) / n_entries
    variance = float(weight @ np.ravel(squares.sum(axis=1))) / n_entries - mean**2
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _with_constant(X: Any) -> Any:
    """Append a feature that is 1 in every row."""
    ones = np.ones((X.shape[0], 1))
    if is_sparse(X):
        return sp.hstack([X, sp.csr_array(ones)], format="csr")
    return np.column_stack([X, ones])
