"""Per-label thresholds, tuned on rows that were held out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Flags
from colabel.core.estimators import attribute
from colabel.core.schema import Between, Estimator, refuse_unless, stored
from colabel.decide.decisions import Above, tuned_threshold
from colabel.joint import Joint
from colabel.learn.conditional import TrainingData
from colabel.models._cross_fitting import counted, held_out_folds, require_joint
from colabel.models._learning import can_hold_out, make_folds
from colabel.models.lazy import row_chunks
from colabel.models.with_estimator import AroundModel
from colabel.models.wrapped import joint_of, model_inside, with_model_inside


@stored("thresholded-classifier")
class ThresholdedClassifier(AroundModel):
    r"""A model that predicts a label where its probability exceeds the label's threshold.

    .. math:: h_i(x) = [P(y_i = 1 \mid x) > t_i]

    The thresholds are those that maximise the F1 of each label, and so the macro-F1, over
    probabilities of rows that were held out; all folds together. Rare labels gain most: with a
    threshold of one half they are often not predicted at all. Whether labels make sense together
    is left out of account; for that, choose a `decision` of the model itself.

    A threshold needs evidence. A label that fewer than 5 of the rows held out carry keeps the
    threshold 1/2, and so does one whose best cut finds hardly more true rows than chance would: the
    F1 of a rare label that the features say nothing about is largest where it is predicted in every
    row, which nobody wants. In a tie the threshold nearest to 1/2 wins. Thresholds lie halfway
    between two probabilities that occurred.

    scikit-learn's `TunedThresholdClassifierCV` does this for a single label.

    Parameters
    ----------
    estimator : model of colabel, or pipeline that ends with one
        It must have a joint, and every label two values. Another classifier of scikit-learn goes
        into `BinaryRelevance`.
    cv : int, float, splitter or iterable
        How rows are held out: a number of folds, a fraction, a scikit-learn splitter, or pairs
        of index arrays (train, test).
    n_jobs : int or None
        Joblib workers, over folds.

    Attributes
    ----------
    estimator_ : fitted model
        Of all rows.
    thresholds_ : (d,) array
    held_out_f1_ : (d,) array
        F1 of each label at its threshold, over rows held out; optimistic, as it was maximised.

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

    cv: Any = 5
    decision: ClassVar[str] = "thresholds"  # type: ignore[misc]
    verbose: ClassVar[int] = 0  # type: ignore[misc]
    estimator_: Annotated[Any, "sizes p", Estimator(does="joint")] = attribute()
    thresholds_: Annotated[Array, "d", Between(0.0, 1.0)] = attribute()
    held_out_f1_: Annotated[Array, "d", Between(0.0, 1.0)] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        refuse_unless(set(dims["sizes"]) == {2}, "a label has not two values")

    def _check_parameters(self) -> None:
        require_joint(self.estimator)

    def _learn(self, data: TrainingData) -> None:
        for name, classes in zip(self.label_names_, self.label_space_.classes, strict=True):
            if len(classes) != 2:
                raise ValueError(
                    f"Only binary classification is supported. Label {name!r} has {len(classes)}"
                    f" class{'es' * (len(classes) != 1)}: use the model without thresholds."
                )
        seed = self._seed()
        data, folds = counted(data, make_folds(data, self.cv, seed))
        self.thresholds_ = np.full(data.n_labels, 0.5)
        self.held_out_f1_ = np.zeros(data.n_labels)
        if can_hold_out(folds):  # else too few rows: nothing speaks against one half
            tests = [folds.of_row == fold for fold in held_out_folds(folds)]
            prob = np.concatenate(
                Parallel(n_jobs=self.n_jobs)(
                    delayed(self._held_out_prob)(data, test, seed) for test in tests
                )
            )
            rows = np.concatenate([np.flatnonzero(test) for test in tests])
            codes, weight = data.codes[rows], data.row_weights[rows]
            found = [tuned_threshold(p, c, weight) for p, c in zip(prob.T, codes.T, strict=True)]
            self.thresholds_, self.held_out_f1_ = np.array(found).T
        self.estimator_ = self._fitted(data, seed)

    def _held_out_prob(self, data: TrainingData, test: Flags, seed: int) -> Array:
        """Probabilities (n_test, d) of the rows held out."""
        model = self._fitted(data.take(~test), seed)
        joints = (joint_of(model, part) for part in row_chunks(data.X[test], self.label_space_))
        return np.concatenate(
            [
                np.stack([table[:, 1] for table in joint.marginal_tables()], axis=1)
                for joint in joints
            ]
        )

    def _joint(self, X: Any) -> Joint:
        return joint_of(self.estimator_, X)

    def decision_rule(self) -> Above:
        """Return how `predict` chooses the labels of a joint."""
        check_is_fitted(self)
        return Above(self.thresholds_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def thresholded(model: Any, seed: int | None) -> Any:
    """Return an unfitted model, or pipeline, whose labels are predicted by thresholds.

    In a pipeline the thresholds belong to the model alone: the features before it are learned once.

    Examples
    --------
    >>> from colabel import BinaryRelevance
    >>> from colabel.models.thresholds import thresholded
    >>> thresholded(BinaryRelevance(), 0)
    ThresholdedClassifier(estimator=BinaryRelevance(), random_state=0)
    """
    return with_model_inside(model, ThresholdedClassifier(model_inside(model), random_state=seed))
