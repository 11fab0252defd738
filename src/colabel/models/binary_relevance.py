"""Binary relevance: every label on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.estimators import attribute
from colabel.core.progress import progress_bar
from colabel.core.schema import stored
from colabel.core.threads import map_threads
from colabel.joint import Independent, Joint
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import few, lookup
from colabel.learn.conditional import ConditionalLearner, Folds, TrainingData
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels
from colabel.models._learning import (
    choose,
    everything,
    make_folds,
)
from colabel.models.base import LinearLogOdds
from colabel.models.with_estimator import Regressions

BALANCED = "balanced"
_FORMS = 'give None, "balanced", {value: weight} for every label alike, or {label: {value: weight}}'


def check_class_weight(class_weight: Any) -> None:
    """Raise ValueError unless weights of classes have one of their forms."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight={class_weight!r} is not understood: {_FORMS}.")
    nested = [each is None or isinstance(each, Mapping | str) for each in class_weight.values()]
    if not any(nested):
        _check_values(class_weight)
        return
    if not all(nested):
        raise ValueError(
            f"class_weight={class_weight!r} mixes weights of values with those of labels: {_FORMS}."
        )
    for own in class_weight.values():
        if isinstance(own, Mapping):
            _check_values(own)
        else:
            check_class_weight(own)


def _check_values(weights: Mapping[Any, Any]) -> None:
    for value, weight in weights.items():
        number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not (number and 0 < float(weight) < np.inf):
            raise ValueError(
                f"class_weight gives the value {value!r} the weight {weight!r}, which must be a"
                " positive number."
            )


def class_weights(
    class_weight: Any, space: LabelSpace, counts: Sequence[Array]
) -> tuple[Array, ...]:
    r"""Return the weights (K_i,) of the values of each label.

    "balanced" is what scikit-learn means by it: a value that rows of weight :math:`n_k` have of
    :math:`n` in all, one of K values, has the weight :math:`n / (K n_k)`.

    Parameters
    ----------
    class_weight : None, "balanced", {value: weight} or {label: {value: weight} or "balanced"}
        Values and labels that are not named have the weight one.
    counts : d arrays (K_i,)
        Weight of the rows with each value.
    """
    mapped = isinstance(class_weight, Mapping)
    if mapped and any(not isinstance(each, Real) for each in class_weight.values()):
        asked = dict.fromkeys(range(space.n_labels))
        for name, own in class_weight.items():
            asked[_position(space, name)] = own
    else:
        asked = dict.fromkeys(range(space.n_labels), class_weight)
    return tuple(_weights(asked[i], space, i, own) for i, own in enumerate(counts))


def _position(space: LabelSpace, name: Any) -> int:
    try:
        return space.index(name)
    except KeyError as error:
        raise ValueError(f"class_weight: {error.args[0]}") from None


def _weights(asked: Any, space: LabelSpace, label: int, counts: Array) -> Array:
    values = space.classes[label]
    weights = np.ones(len(values))
    if asked is None:
        return weights
    if isinstance(asked, str):
        balanced: Array = counts.sum() / (len(values) * np.maximum(counts, np.finfo(float).tiny))
        return np.where(counts > 0, balanced, 1.0)
    for value, weight in asked.items():
        code = int(lookup(values, np.array([value]))[0])
        if code < 0:
            raise ValueError(
                f"class_weight names the value {value!r}, which the label {space.names[label]!r}"
                f" never has: its values are {few(values)}."
            )
        weights[code] = float(weight)
    return weights


def one_label(data: TrainingData, label: int, weights: Array) -> TrainingData:
    """Return the data of a label alone, its rows weighted by the values (K,) that they have."""
    codes = data.codes[:, label]
    of_row = np.where(codes == MISSING, 1.0, weights[codes]) * data.row_weights
    return TrainingData(data.X, codes[:, None], data.cardinalities[label : label + 1], of_row)


@stored("binary-relevance")
class BinaryRelevance(Regressions):
    r"""One classifier per label, independent of each other.

    Take it as a baseline, or where labels are used one at a time. Cost: low.

    .. math:: P(y_1, \dots, y_d \mid x) = \prod_i P(y_i \mid x)

    Fast and hard to beat label by label, but blind to labels that go together: what the other
    models are measured against. Variables with more than two values get a softmax regression.

    Parameters
    ----------
    class_weight : None, "balanced", {value: weight} or {label: {value: weight}}
        How much rows count for a label by the value that they have of it, as in scikit-learn:
        "balanced" lets all values of a label weigh the same. Rare labels are then predicted more
        often, and all probabilities are those of a world in which the values occur that often: they
        say no longer how often a label is there. Thresholds leave the probabilities as they are
        (`ThresholdedClassifier`). C is chosen by the weighted log-loss. Values and labels that are
        not named have the weight one.

    Attributes
    ----------
    models_ : ConditionalModels
        The fitted conditionals; `models_.coef` of the built-in regression, None with others.
    C_ : (d,) array
        Chosen C of every label; absent with `estimator`.
    n_iter_ : int
        Most iterations any regression of the final fit took; absent with `estimator`.

    Examples
    --------
    >>> from colabel import BinaryRelevance
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = BinaryRelevance(C=0.01).fit(data.X[:500], data.Y[:500])
    >>> model.predict(data.X[-2:]).shape
    (2, 7)
    """

    class_weight: str | Mapping[Any, Any] | None = None
    models_: Annotated[LinearModels | EstimatorModels, "sizes q=p+1"] = attribute()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)

    def _learn(self, data: TrainingData) -> None:
        folds = make_folds(data, self.cv, self._seed())
        if self.class_weight is None:
            learner = self._learner(self.estimator)
            self.models_, choice = _fitted(learner, data, folds)
        else:
            learner = self._learner(self.estimator, 1, quiet=True)
            self.models_, choice = self._fitted_by_label(learner, data, folds)
        self._record(self.models_.n_iter, learner.values(choice))

    def _fitted_by_label(
        self, learner: ConditionalLearner, data: TrainingData, folds: Folds
    ) -> tuple[Any, Indices]:
        """Fit labels one by one: their rows weigh differently, so that no design serves them all.

        Returns models and choice (d,).
        """
        weights = class_weights(self.class_weight, self.label_space_, data.value_counts)

        def fit_one(label: int) -> tuple[Any, Indices]:
            return _fitted(learner, one_label(data, label, weights[label]), folds)

        threads = self.n_jobs if self.estimator is None else self.n_jobs or 1
        labels = range(data.n_labels)
        with progress_bar("fitting labels", len(labels), shown=bool(self.verbose)) as advance:
            found = map_threads(fit_one, labels, threads, advance)
        models = [own for own, _ in found]
        return models[0].joined(*models[1:]), np.concatenate([choice for _, choice in found])

    def _joint(self, X: Any) -> Joint:
        return Independent(self.label_space_, self.models_.log_prob(X))

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        """Return the regressions, in which no label has a weight."""
        if self.models_.coef is None:
            return None
        coef = np.concatenate(self.models_.coef)
        return LinearLogOdds(coef[:, :-1], coef[:, -1], np.zeros((len(coef), len(coef))))

    short_name = "br"
    fits_chunks = True


def _fitted(learner: ConditionalLearner, data: TrainingData, folds: Folds) -> tuple[Any, Indices]:
    """Choose what is to be chosen for each label, and fit it: models and choice (d,)."""
    learning = learner.on(data)
    choice = choose(learning, folds)
    return learning.fit([everything(data)], [choice]), choice
