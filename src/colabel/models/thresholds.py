"""Per-label thresholds, tuned on rows that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, _safe_indexing, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from colabel.core.arrays import Array, Codes, Flags, Indices, is_sparse
from colabel.core.estimators import fits_afresh
from colabel.core.parameters import check_jobs
from colabel.core.schema import Between, Dims, Estimator, Fields, Is, refuse_unless, stored
from colabel.decide.decisions import Above, tuned_threshold
from colabel.joint import Joint
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, TrainingData
from colabel.metrics import exact_match
from colabel.models._learning import can_hold_out, make_folds
from colabel.models.base import JointClassifier, PredictionFrames, class_values
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import model_inside, with_model_inside


def held_out_prob(
    estimator: BaseEstimator,
    X: Any,
    codes: Codes,
    weight: Array | None,
    is_train: Flags,
    test: Indices,
) -> Array:
    """Probabilities (n_test, d) of the rows held out."""
    if not len(test):
        return np.empty((0, codes.shape[1]))
    train = np.flatnonzero(is_train)
    part = None if weight is None else weight[train]
    labels = plain_labels(estimator, codes[train])
    model = fitted_to(estimator, _safe_indexing(X, train), labels, part, None)
    return prob_of_one(model, _safe_indexing(X, test), codes.shape[1])


def plain_labels(estimator: BaseEstimator, codes: Codes) -> Any:
    """0/1 labels as a matrix, NaN where missing; a single label of scikit-learn's as a vector.

    Models of colabel get a matrix, in which a constant label keeps both its values.
    """
    labels = np.where(codes == MISSING, np.nan, codes) if (codes == MISSING).any() else codes
    alone = labels.shape[1] == 1 and not isinstance(estimator, JointClassifier)
    return labels[:, 0] if alone else labels


def fitted_to(
    estimator: BaseEstimator,
    X: Any,
    labels: Any,
    weight: Array | None,
    names: Sequence[str] | None,
) -> Any:
    """Return a copy of an estimator, fitted; weights are refused where it does not take them."""
    arguments: dict[str, Any] = {} if names is None else {"label_names": names}
    if weight is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"estimator={estimator!r} does not accept sample_weight. Fit without weights or"
                " choose an estimator that takes them."
            )
        arguments["sample_weight"] = weight
    return clone(estimator).fit(X, labels, **arguments)


def prob_of_one(model: Any, X: Any, n_labels: int) -> Array:
    """P(y = 1) of each label (n, d), from whichever form `predict_proba` has.

    scikit-learn's forests and nearest neighbours return a list of (n, 2) tables; a classifier
    of a single label returns one. A label that was constant among the training rows has a table
    of one column.
    """
    found = model.predict_proba(X)
    if isinstance(found, list):
        tables = zip(found, model.classes_, strict=True)
        return np.stack([_of_one(table, classes) for table, classes in tables], axis=1)
    prob: Array = np.asarray(found, dtype=np.float64)
    if isinstance(model, JointClassifier):
        return prob[:, 1:] if model.label_space_.kind == "vector" else prob
    return prob if n_labels > 1 else _of_one(prob, model.classes_)[:, None]


def _of_one(table: Any, classes: Any) -> Array:
    """P(y = 1) from a table (n, K), K of 1 or 2."""
    if table.shape[1] == 1:
        return np.full(len(table), float(np.ravel(classes)[0] == 1))
    positive: Array = np.asarray(table[:, 1], dtype=np.float64)
    return positive


def _has_joint(model: ThresholdedClassifier) -> bool:
    if hasattr(getattr(model, "estimator_", model.estimator), "joint"):
        return True
    raise AttributeError(
        f"estimator={model.estimator!r} has no joint distribution. Use a model of colabel."
    )


@stored("thresholded-classifier")
class ThresholdedClassifier(PredictionFrames, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""A classifier that announces a label where its probability exceeds the label's threshold.

    .. math:: h_i(x) = [P(y_i = 1 \mid x) > t_i]

    The thresholds are those that maximise the F1 of each label, and so the macro-F1, over
    probabilities of rows that were held out; all folds together. Rare labels gain most: with a
    threshold of one half they are often not announced at all. Whether labels make sense together
    is left out of account; for that, choose a `decision` of the model itself.

    A threshold needs evidence. A label that fewer than 5 of the rows held out carry keeps the
    threshold 1/2, and so does one whose best cut finds hardly more true rows than chance would: the
    F1 of a rare label that the features say nothing about is largest where it is announced in every
    row, which nobody wants. In a tie the threshold nearest to 1/2 wins. Thresholds lie halfway
    between two probabilities that occurred.

    scikit-learn's `TunedThresholdClassifierCV` does this for a single label.

    Parameters
    ----------
    estimator : classifier
        A model of colabel, or any scikit-learn classifier with `predict_proba` that takes 0/1
        matrices. Every label must have two values.
    cv : int, float, splitter or iterable
        How rows are held out: a number of folds, a fraction, a scikit-learn splitter, or pairs
        of index arrays (train, test).
    n_jobs : int or None
        Joblib workers, over folds.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows.
    thresholds_ : (d,) array
    held_out_f1_ : (d,) array
        F1 of each label at its threshold, over rows held out; optimistic, as it was maximised.
    label_space_ : LabelSpace
        Names and values of the labels.
    label_names_ : tuple of str
    classes_ : array (d, 2), or array for one-dimensional y
        Values of every label.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    Examples
    --------
    >>> from colabel import BinaryRelevance, ThresholdedClassifier
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = ThresholdedClassifier(BinaryRelevance(C=0.01), random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500])
    >>> model.thresholds_.shape, model.predict(data.X[-2:]).shape
    ((7,), (2, 7))
    """

    label_space_: Annotated[LabelSpace, "d sizes"]
    label_names_: Annotated[tuple[str, ...], "d"]
    classes_: Any
    n_jobs: Annotated[int | None, Between(-1024, 1024)]
    n_features_in_: Annotated[int | None, Between(1), Is("p")]
    feature_names_in_: Annotated[NDArray[Any] | None, "p"]
    estimator: Annotated[Any, Estimator(fitted=False)]
    estimator_: Annotated[Any, "sizes p", Estimator(does="predict_proba")]
    thresholds_: Annotated[Array, "d", Between(0.0, 1.0)]
    held_out_f1_: Annotated[Array, "d", Between(0.0, 1.0)]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        refuse_unless(set(dims["sizes"]) == {2}, "a label has not two values")

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fits_afresh
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Tune the thresholds on held-out rows, and fit the estimator to all rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : labels of n rows
            In any container that `LabelSpace` reads, two values a label. Missing entries do not
            count for thresholds; the estimator must be able to take them.
        sample_weight : array of shape (n,), optional
        label_names : sequence of d str, optional
            Names of the labels, where `y` has none.

        Returns
        -------
        self
        """
        _require_probabilities(self.estimator)
        check_jobs(self.n_jobs)
        X = self._checked(X, reset=True)
        space, codes = LabelSpace.infer(y, label_names)
        if len(codes) != _num_samples(X):
            raise ValueError(
                f"X has {_num_samples(X)} rows but y has {len(codes)}. Give one row of labels for"
                " each row of X."
            )
        _require_two_values(space)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        self.label_space_ = space
        self.label_names_ = space.names
        self.classes_ = class_values(space)
        self._tune(X, codes, weight)
        target, names = self._own_labels(y, codes, label_names)
        self.estimator_ = fitted_to(self.estimator, X, target, weight, names)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the labels whose probabilities exceed their thresholds.

        Returns
        -------
        labels
            In the container the training labels had.
        """
        check_is_fitted(self)
        prob = prob_of_one(self.estimator_, self._checked(X, reset=False), self._n_labels)
        return self._labels_out((prob > self.thresholds_).astype(np.int32), X)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each label alone: (n, d), or (n, 2) for one-dimensional y."""
        check_is_fitted(self)
        prob = prob_of_one(self.estimator_, self._checked(X, reset=False), self._n_labels)
        vector = self.label_space_.kind == "vector"
        return self._probabilities_out(np.hstack([1.0 - prob, prob]) if vector else prob, X)

    @available_if(_has_joint)
    def joint(self, X: Any) -> Joint:
        """Return the joint distribution of the labels, where the estimator has one."""
        check_is_fitted(self)
        joint: Joint = self.estimator_.joint(X)
        return joint

    def decision_rule(self) -> Above:
        """Return how `predict` chooses the labels of a joint."""
        check_is_fitted(self)
        return Above(self.thresholds_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Exact match: the share of rows whose labels are all predicted right."""
        return exact_match(y, self.predict(X), sample_weight=sample_weight)

    def label_graph(self) -> LabelGraph:
        """Return which label depends on which, where the estimator says so."""
        if hasattr(self.estimator_, "label_graph"):
            graph: LabelGraph = self.estimator_.label_graph()
            return graph
        return LabelGraph.without_edges(self.label_names_, "It learns no graph of the labels.")

    @property
    def _n_labels(self) -> int:
        return self.label_space_.n_labels

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Check arrays for their shape; leave data frames and texts to the estimator."""
        if hasattr(X, "iloc") or _are_texts(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
        return validate_data(self, X, reset=reset, **options)

    def _tune(self, X: Any, codes: Codes, weight: Array | None) -> None:
        folds = self._folds(X, codes, weight)
        if not can_hold_out(folds):  # too few rows: nothing speaks against one half
            n_labels = codes.shape[1]
            self.thresholds_, self.held_out_f1_ = np.full(n_labels, 0.5), np.zeros(n_labels)
            return
        tests = [np.flatnonzero(folds.of_row == fold) for fold in range(folds.n_folds)]
        held_out = Parallel(n_jobs=self.n_jobs)(
            delayed(held_out_prob)(self.estimator, X, codes, weight, folds.of_row != fold, test)
            for fold, test in enumerate(tests)
        )
        rows, prob = np.concatenate(tests), np.concatenate(held_out)
        counted = np.ones(len(rows)) if weight is None else weight[rows]
        labels = range(codes.shape[1])
        found = [tuned_threshold(prob[:, i], codes[rows, i], counted) for i in labels]
        self.thresholds_, self.held_out_f1_ = np.array(found).T

    def _folds(self, X: Any, codes: Codes, weight: Array | None) -> Folds:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        rows = X if is_sparse(X) else np.asarray(X)
        if rows.dtype.kind not in "biuf":
            # folds are drawn from the content of the rows; of text, positions have to do
            rows = np.arange(len(codes))[:, None]
        return make_folds(TrainingData(rows, codes, (2,) * codes.shape[1], weight), self.cv, seed)

    def _own_labels(
        self, y: Any, codes: Codes, label_names: Sequence[str] | None
    ) -> tuple[Any, Sequence[str] | None]:
        """Labels in a form the estimator takes: as given, for a model of colabel."""
        if isinstance(self.estimator, JointClassifier):
            return y, label_names
        return plain_labels(self.estimator, codes), None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


def thresholded(model: Any, seed: int | None) -> Any:
    """Return an unfitted model, or pipeline, whose labels are announced by thresholds.

    In a pipeline the thresholds belong to the model alone: the features before it are learned once.

    Examples
    --------
    >>> from colabel import BinaryRelevance
    >>> from colabel.models.thresholds import thresholded
    >>> thresholded(BinaryRelevance(), 0)
    ThresholdedClassifier(estimator=BinaryRelevance(), random_state=0)
    """
    return with_model_inside(model, ThresholdedClassifier(model_inside(model), random_state=seed))


def _are_texts(X: Any) -> bool:
    return isinstance(X, list | tuple | np.ndarray) and len(X) > 0 and isinstance(X[0], str)


def _require_probabilities(estimator: BaseEstimator) -> None:
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator={estimator!r} has no predict_proba. Use a probabilistic classifier, or"
            " wrap it in sklearn.calibration.CalibratedClassifierCV."
        )


def _require_two_values(space: LabelSpace) -> None:
    for name, classes in zip(space.names, space.classes, strict=True):
        if len(classes) != 2:
            raise ValueError(
                f"Only binary classification is supported. Label {name!r} has {len(classes)}"
                f" class{'es' * (len(classes) != 1)}: use the model without thresholds."
            )
