"""What a forest says of the labels, as features."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from colabel.core.arrays import Array, Flags, is_sparse
from colabel.core.extremes import refuse_extreme_weights
from colabel.core.label_features import column_owner, n_label_columns
from colabel.core.parameters import check_choice, check_integer
from colabel.core.refitting import fits_afresh
from colabel.core.schema import Between, Dims, Fields, Is, stored
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, RowGroup, TrainingData, random_folds
from colabel.learn.forest import LabelForest, grow, label_targets
from colabel.learn.forest.growing import KINDS, ForestKind
from colabel.learn.linear import LinearLearner

__all__ = ["ForestFeatures"]

_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
_TOLERANCE, _MOST_ITERATIONS = 1e-2, 1000
_FOLDS = 3


@stored("forest-features")
class ForestFeatures(TransformerMixin, BaseEstimator):
    r"""Log-odds of the labels by a forest, as features for any model of the joint.

    One forest is grown for all labels together, its leaves hold the frequencies of their values,
    and the features of a row are

    .. math:: \log \bar p_i(x) - \log (1 - \bar p_i(x)),
              \qquad \bar p_i(x) = \frac{1}{T} \sum_t p_i(\mathrm{leaf}_t(x)),

    one column for each label of two values; K columns, log-probabilities less their mean, for a
    variable of K. A linear model on them sees x through the forest, and adds what the forest does
    not know: how the labels depend on each other.

    **fit_transform is not fit followed by transform.** A tree is too sure of the rows it was grown
    on, and a model that learns from them would trust it too much. `fit_transform`, which is what a
    `Pipeline` calls when it is fitted, therefore gives each training row the average of the trees
    that have not seen it (out of bag; with `cv`, of a forest grown without its fold), its own
    labels left out of the leaves. `transform` averages all trees. scikit-learn's `TargetEncoder`
    makes the same difference. Copies of a row (the same features, all with the same labels) are
    left out together; where they are so many that hardly a tree has seen none of them, their
    features are cross-fitted, in three folds.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees. A training row is described by about 37 % of them, a new row by all.
    kind : {"extra", "random"}, default="extra"
        "extra": of one random cut of each feature tried, the best (extremely randomised trees, on
        bootstrap samples). "random": the best of all cuts, several times as slow to grow; its
        log-odds are sharper, but no better once a model has weighed them.
    max_features : str, int or float, default="sqrt"
        How many features are tried at a node, as in scikit-learn's forests.
    min_samples_leaf : int or float, default=2
        Fewest rows in a leaf, or their share of all.
    max_depth : int or None, default=None
        Most questions between the root of a tree and a leaf.
    passthrough : bool or "auto", default="auto"
        Whether the features of X stand before the log-odds. "auto": if, with them, linear
        regressions make the labels of held-out training rows more probable. X with missing values
        (NaN) is then left out.
    cv : int or None, default=None
        Number of folds by which the features of training rows are cross-fitted, each by a forest
        of its own; None: out of bag.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState or None, default=None
        Seed of the trees and the folds.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    forest_ : LabelForest
        The trees and the frequencies of labels in their leaves, as plain arrays.
    passthrough_ : bool
        Whether the features of X are kept.
    label_space_ : LabelSpace
        Names and values of the labels.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    References
    ----------
    L. Breiman, Random forests, 2001. P. Geurts, D. Ernst & L. Wehenkel, Extremely randomized
    trees, 2006. D. Wolpert, Stacked generalization, 1992.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from colabel import CTBN, ForestFeatures, joint_of
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = make_pipeline(ForestFeatures(50, random_state=0), CTBN(C=1.0, random_state=0))
    >>> model = model.fit(data.X[:300], data.Y[:300])
    >>> model[0].get_feature_names_out()[-2:]
    array(['forest_y5', 'forest_y6'], dtype=object)
    >>> joint_of(model, data.X[300:302]).mode().shape
    (2, 7)
    """

    n_jobs: Annotated[int | None, Between(-1024, 1024)]
    n_features_in_: Annotated[int, Between(1), Is("p")]
    feature_names_in_: Annotated[NDArray[Any] | None, "p"]
    label_space_: Annotated[LabelSpace, "d sizes"]
    forest_: Annotated[LabelForest, "d sizes p"]
    passthrough_: bool

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        made = n_label_columns(dims["sizes"])
        dims["made"] = made + (dims["p"] if fields["passthrough_"] else 0)

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        kind: ForestKind = "extra",
        max_features: Any = "sqrt",
        min_samples_leaf: int | float = 2,
        max_depth: int | None = None,
        passthrough: bool | Literal["auto"] = "auto",
        cv: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.kind = kind
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.passthrough = passthrough
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
            NaN is a missing feature.
        y : labels of n rows, in any form that `LabelSpace` reads
            Missing labels are left out of the leaves.
        sample_weight : array of shape (n,), optional
        """
        self._fitted_rows(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Grow the forest and return features of its own rows by trees that have not seen them.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`.

        Returns
        -------
        (n, q) array, or CSR where X is sparse and kept
        """
        rows, log_odds = self._fitted_rows(X, y, sample_weight)
        return self._beside(rows, log_odds)

    def transform(self, X: Any) -> Any:
        """Return features of new rows, by all trees.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)

        Returns
        -------
        (n, q) array, or CSR where X is sparse and kept
        """
        check_is_fitted(self)
        rows = self._checked(X, reset=False)
        return self._beside(rows, self.forest_.log_odds(rows, self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names (q,) of the features: those of X, if kept, and ``forest_`` with a label's name."""
        check_is_fitted(self)
        space = self.label_space_
        own = []
        for name, values in zip(space.names, space.classes, strict=True):
            if len(values) == 2:
                own.append(f"forest_{name}")
            else:
                own.extend(f"forest_{name}={value}" for value in values)
        given = _check_feature_names_in(self, input_features) if self.passthrough_ else []
        return np.asarray([*given, *own], dtype=object)

    @fits_afresh
    def _fitted_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array]:
        """Fit; return the checked rows, and their log-odds by trees that have not seen them."""
        self._check_parameters()
        rows = self._checked(X, reset=True)
        data = self._training_data(rows, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.forest_, log_odds, crowded = self._grown(data, seed)
        if self.cv is not None or crowded.any():
            folds = random_folds(data, _FOLDS if self.cv is None else int(self.cv), seed)
            if folds.n_folds > 1:
                used = crowded if self.cv is None else slice(None)
                log_odds[used] = self._cross_fitted(data, folds, seed)[used]
            elif self.cv is not None:
                raise ValueError(
                    f"cv={self.cv!r} needs rows that differ: all rows of X and y are the same."
                )
        self.passthrough_ = (
            self._prefers_both(data, log_odds, seed)
            if self.passthrough == "auto"
            else bool(self.passthrough)
        )
        return rows, log_odds

    def _grown(self, data: TrainingData, seed: int) -> tuple[LabelForest, Array, Flags]:
        grown = grow(
            data.X,
            label_targets(data),
            data.weight,
            kind=self.kind,
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            max_depth=self.max_depth,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        return LabelForest.of(grown, data, self.n_jobs)

    def _cross_fitted(self, data: TrainingData, folds: Folds, seed: int) -> Array:
        found = np.empty((data.n_rows, len(column_owner(data.cardinalities))))
        for fold in range(folds.n_folds):
            kept, held = folds.of_row != fold, folds.of_row == fold
            own = data.take(kept)
            found[held] = self._grown(own, seed)[0].log_odds(data.X[held], self.n_jobs)
        return found

    def _prefers_both(self, data: TrainingData, log_odds: Array, seed: int) -> bool:
        """Whether X beside the log-odds makes held-out labels more probable than they alone do."""
        values = data.X.data if is_sparse(data.X) else data.X
        folds = random_folds(data, _FOLDS, seed)
        if not np.isfinite(values).all() or folds.n_folds < 2:
            return False
        learner = LinearLearner(
            np.array(_GRID), _TOLERANCE, _MOST_ITERATIONS, self.n_jobs, bool(self.verbose)
        )
        group = RowGroup(None, np.arange(data.n_labels))

        def held_out(features: Any) -> float:
            own = TrainingData(features, data.codes, data.cardinalities, data.weight)
            (log_prob,) = learner.on(own).cross_validate(
                [group], folds, lambda _, scores: scores.log_prob.sum(axis=0), "keeping X or not"
            )
            return float(log_prob @ data.row_weights)

        return held_out(_side_by_side(data.X, log_odds)) > held_out(log_odds)

    def _beside(self, rows: Any, log_odds: Array) -> Any:
        return _side_by_side(rows, log_odds) if self.passthrough_ else log_odds

    def _check_parameters(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_integer("n_estimators", self.n_estimators, 1)
        if not isinstance(self.passthrough, bool | np.bool_) and self.passthrough != "auto":
            raise ValueError(f"passthrough={self.passthrough!r} must be True, False or 'auto'.")
        if self.cv is not None and not (
            isinstance(self.cv, int | np.integer) and int(self.cv) >= 2
        ):
            raise ValueError(f"cv={self.cv!r} must be a number of folds, at least 2, or None.")

    def _training_data(self, rows: Any, y: Any, sample_weight: Any) -> TrainingData:
        space, codes = LabelSpace.infer(y)
        if codes.shape[0] != rows.shape[0]:
            raise ValueError(
                f"X has {rows.shape[0]} rows but y has {codes.shape[0]}. Give one row of labels "
                "for each row of X."
            )
        self.label_space_ = space
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
            if not weight.any():
                raise ValueError(
                    "All sample weights are zero. Give at least one row a positive weight."
                )
            refuse_extreme_weights(weight)
        return TrainingData(rows, codes, space.cardinalities, weight)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []  # log-odds are of double precision
        return tags


def _side_by_side(rows: Any, log_odds: Array) -> Any:
    if is_sparse(rows):
        return sp.hstack([rows, sp.csr_array(log_odds)], format="csr")
    return np.hstack([rows, log_odds])
