"""What a forest or boosted trees say of the labels, as features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from colabel.core import parameters
from colabel.core.arrays import Array, Flags, column_owner, is_sparse, n_label_columns
from colabel.core.estimators import Parameters, attribute, fits_afresh
from colabel.core.schema import POSITIVE, Between, Dims, Fields, Is, stored
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, RowGroup, TrainingData, random_folds
from colabel.learn.forest.boosting import BoostedTrees, boost
from colabel.learn.forest.contents import LabelForest, label_targets
from colabel.learn.forest.forest import ForestKind, grow
from colabel.learn.linear import LinearLearner
from colabel.preprocess.kernel import beside

__all__ = ["BoostedFeatures", "ForestFeatures"]

_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
_TOLERANCE, _MOST_ITERATIONS = 1e-2, 1000
_FOLDS = 3


class _LabelFeatures(Parameters, TransformerMixin, BaseEstimator):
    """Log-odds of the labels by some model of x, as features: those of its own rows held out.

    A subclass implements `_learned`, which fits the model, and `_log_odds`, which asks it.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState or None, default=None
        Seed of the trees and the folds.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    passthrough_ : bool
        Whether the features of X are kept.
    label_space_ : LabelSpace
        Names and values of the labels.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array of str
        Only where X had string column names.
    """

    out_of_sample = True
    """Whether `fit_transform` describes each row by what has not seen its labels."""

    _prefix: ClassVar[str]
    passthrough: bool | Literal["auto"] = "auto"
    n_jobs: Annotated[int | None, Between(-1024, 1024)] = None
    random_state: Any = None
    verbose: int = 0
    n_features_in_: Annotated[int, Between(1), Is("p")] = attribute()
    feature_names_in_: Annotated[NDArray[Any] | None, "p"] = attribute()
    label_space_: Annotated[LabelSpace, "d sizes"] = attribute()
    passthrough_: bool = attribute()

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        made = n_label_columns(dims["sizes"])
        dims["made"] = made + (dims["p"] if fields["passthrough_"] else 0)

    @abstractmethod
    def _learned(self, data: TrainingData, seed: int) -> Array:
        """Fit the model; return the log-odds (n, e) of its own rows, each held out."""

    @abstractmethod
    def _log_odds(self, rows: Any) -> Array:
        """Log-odds (n, e) of new rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

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
        """Grow the trees and return features of their own rows by trees that have not seen them.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`.

        Returns
        -------
        (n, q) array, or CSR where X is sparse and kept
        """
        rows, log_odds = self._fitted_rows(X, y, sample_weight)
        return beside(rows, log_odds) if self.passthrough_ else log_odds

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
        return beside(rows, self._log_odds(rows)) if self.passthrough_ else self._log_odds(rows)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names (q,) of the features: those of X, if kept, then the labels' with a prefix."""
        check_is_fitted(self)
        space = self.label_space_
        own = []
        for name, values in zip(space.names, space.classes, strict=True):
            if len(values) == 2:
                own.append(f"{self._prefix}_{name}")
            else:
                own.extend(f"{self._prefix}_{name}={value}" for value in values)
        given = _check_feature_names_in(self, input_features) if self.passthrough_ else []
        return np.asarray([*given, *own], dtype=object)

    @fits_afresh
    def _fitted_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array]:
        """Fit; return the checked rows, and their log-odds by trees that have not seen them."""
        parameters.check_annotated(self)
        self._check_parameters()
        rows = self._checked(X, reset=True)
        data = self._training_data(rows, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        log_odds = self._learned(data, seed)
        self.passthrough_ = (
            self._prefers_both(data, log_odds, seed)
            if self.passthrough == "auto"
            else bool(self.passthrough)
        )
        return rows, log_odds

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
            (total,) = learner.on(own).cross_validate(
                [group], folds, lambda _, scores: scores.total.sum(), "keeping X or not"
            )
            return float(total)

        return held_out(beside(data.X, log_odds)) > held_out(log_odds)

    def _check_parameters(self) -> None:
        if not isinstance(self.passthrough, bool | np.bool_) and self.passthrough != "auto":
            raise ValueError(f"passthrough={self.passthrough!r} must be True, False or 'auto'.")

    def _training_data(self, rows: Any, y: Any, sample_weight: Any) -> TrainingData:
        space, codes = LabelSpace.infer(y)
        if codes.shape[0] != rows.shape[0]:
            raise ValueError(
                f"X has {rows.shape[0]} rows but y has {codes.shape[0]}. Give one row of labels "
                "for each row of X."
            )
        self.label_space_ = space
        weight = None if sample_weight is None else parameters.checked_weights(sample_weight, rows)
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


@stored("forest-features")
class ForestFeatures(_LabelFeatures):
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

    Attributes
    ----------
    forest_ : LabelForest
        The trees and the frequencies of labels in their leaves, as plain arrays.

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

    n_estimators: Annotated[int, Between(1)] = field(default=300, kw_only=False)
    kind: ForestKind = "extra"
    max_features: Any = "sqrt"
    min_samples_leaf: int | float = 2
    max_depth: int | None = None
    cv: Annotated[int | None, Between(2)] = None
    forest_: Annotated[LabelForest, "d sizes p"] = attribute()
    _prefix = "forest"

    def _learned(self, data: TrainingData, seed: int) -> Array:
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
        return log_odds

    def _log_odds(self, rows: Any) -> Array:
        return self.forest_.log_odds(rows, self.n_jobs)

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


@stored("boosted-features")
class BoostedFeatures(_LabelFeatures):
    r"""Log-odds of the labels by gradient boosting, as features for any model of the joint.

    One tree is grown a round for all labels together, on the gradients of their logistic and
    softmax likelihoods, and its leaves hold a Newton step for each label, so that boosting all
    labels costs about as much as boosting one. A linear model of the joint on these features adds
    how the labels depend on each other.

    One model is boosted without each of `cv` folds, and rows held out say after how many rounds
    to stop. As with `ForestFeatures`, **fit_transform is not fit followed by transform**: it
    describes each training row by the model that has not seen it; `transform` averages all of
    them.

    Parameters
    ----------
    n_rounds : int, default=400
        Most rounds of boosting, one tree each.
    learning_rate : float or "auto", default="auto"
        Share of a Newton step that is taken; "auto": 0.07 of random cuts, 0.1 of the best.
    splitter : {"auto", "random", "best"}, default="auto"
        Cuts that a node tries: one random cut of each feature, or all cuts between 32 of its
        values, which find thresholds and interactions sooner but over-fit sooner too. "auto":
        the best, if held-out rows are then clearly more probable after a few rounds.
    max_leaf_nodes : int, default=16
        Leaves of a tree.
    min_samples_leaf : int, default=5
        Fewest rows in a leaf.
    max_features : "auto", str, int or float, default="auto"
        How many features are tried at a node; "auto": the root of their number, but at least 32,
        or 16 where all cuts are tried.
    subsample : float, default=0.8
        Share of the rows that a tree is grown on.
    passthrough : bool or "auto", default=False
        Whether the features of X stand before the log-odds, see `ForestFeatures`.
    cv : int, default=3
        Number of folds.

    Attributes
    ----------
    trees_ : BoostedTrees
        The trees of all folds, as plain arrays.
    held_out_loss_ : (b,) array
        Nats per held-out row, each label alone, after 0, 10, 20, ... rounds.

    References
    ----------
    J. Friedman, Greedy function approximation: a gradient boosting machine, 2001. L. Iosipoi &
    A. Vakhrushev, SketchBoost: fast gradient boosted decision tree for multioutput problems, 2022.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from colabel import CTBN, BoostedFeatures, joint_of
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = make_pipeline(BoostedFeatures(20, random_state=0), CTBN(C=1.0, random_state=0))
    >>> model = model.fit(data.X[:300], data.Y[:300])
    >>> model[0].get_feature_names_out()[-2:]
    array(['boosted_y5', 'boosted_y6'], dtype=object)
    >>> joint_of(model, data.X[300:302]).mode().shape
    (2, 7)
    """

    n_rounds: Annotated[int, Between(1)] = field(default=400, kw_only=False)
    learning_rate: Annotated[float | Literal["auto"], POSITIVE] = "auto"
    splitter: Literal["auto", "random", "best"] = "auto"
    max_leaf_nodes: Annotated[int, Between(2)] = 16
    min_samples_leaf: Annotated[int, Between(1)] = 5
    max_features: Any = "auto"
    subsample: float = 0.8
    passthrough: bool | Literal["auto"] = False
    cv: Annotated[int, Between(2)] = 3
    trees_: Annotated[BoostedTrees, "d sizes p"] = attribute()
    held_out_loss_: Annotated[Array, "_"] = attribute()
    _prefix = "boosted"

    def _learned(self, data: TrainingData, seed: int) -> Array:
        folds = random_folds(data, int(self.cv), seed)
        self.trees_, log_odds, self.held_out_loss_ = boost(
            data,
            folds,
            n_rounds=self.n_rounds,
            learning_rate=self.learning_rate,
            splitter=self.splitter,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            subsample=self.subsample,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        return log_odds

    def _log_odds(self, rows: Any) -> Array:
        return self.trees_.scores(rows, self.n_jobs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 < self.subsample <= 1:
            raise ValueError(
                f"subsample={self.subsample!r} must be a share of the rows, at most 1."
            )
