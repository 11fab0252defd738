"""Binary relevance: every label on its own.

Stacked binary relevance: CHF and SVM-HF (Godbole & Sarawagi, 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from colabel.core.arrays import Array, Indices, label_columns, n_label_columns
from colabel.core.estimators import attribute
from colabel.core.progress import progress_bar
from colabel.core.schema import Between, stored
from colabel.core.threads import map_threads
from colabel.joint import Independent, Joint
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import few, lookup
from colabel.learn.chunks.chunked_data import added
from colabel.learn.conditional import (
    ConditionalLearner,
    ConditionalModels,
    FoldModels,
    Folds,
    Learning,
    RowGroup,
    TrainingData,
)
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels
from colabel.models.base import LinearLogOdds
from colabel.models.learning import (
    can_hold_out,
    choose,
    everything,
    make_folds,
)
from colabel.models.with_estimator import (
    MayLackProbabilities,
    Regressions,
    ScoresAsLogOdds,
    has_probabilities,
    probabilities_available,
)

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
            try:
                asked[space.index(name)] = own
            except KeyError as error:
                raise ValueError(f"class_weight: {error.args[0]}") from None
    else:
        asked = dict.fromkeys(range(space.n_labels), class_weight)
    return tuple(_weights(asked[i], space, i, own) for i, own in enumerate(counts))


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
            codes, size = data.codes[:, label], data.cardinalities[label]
            of_row = np.where(codes == MISSING, 1.0, weights[label][codes]) * data.row_weights
            own = TrainingData(data.X, codes[:, None], (size,), of_row)
            return _fitted(learner, own, folds)

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


Columns = Callable[[list[NDArray[Any]]], Array]


@dataclass(frozen=True)
class FirstLayer:
    """A first layer that can be fitted without some folds.

    Attributes
    ----------
    learning : Learning
        The learner on all rows.
    folds : Folds
    choice : (d,)
        Hyperparameters of the labels.
    columns : callable
        Turns log-probabilities, a list of (n, K_i), into outputs (n, e).
    cross_validated : bool
        Whether outputs for a row come from models that have not seen it.
    """

    learning: Learning
    folds: Folds
    choice: Indices
    columns: Columns
    cross_validated: bool
    _fitted: dict[frozenset[int], ConditionalModels] = field(default_factory=dict)

    @property
    def data(self) -> TrainingData:
        """All rows."""
        return self.learning.data

    def models(self, without: frozenset[int] = frozenset()) -> ConditionalModels:
        """Return the layer fitted to all rows but those of some folds."""
        if without not in self._fitted:
            rows = self.folds.rows_outside(*without) if without else None
            group = RowGroup(rows, np.arange(self.data.n_labels))
            self._fitted[without] = self.learning.fit([group], [self.choice])
        return self._fitted[without]

    def stacked(self, without: frozenset[int] = frozenset()) -> TrainingData:
        """Data of the second layer, if it learns from all rows but those of some folds.

        For the rows left out the outputs are those that new rows would have.
        """
        models = self.models(without)
        n_extra = n_label_columns(self.data.cardinalities)
        if not self.cross_validated:
            return self.data.with_extra(_outputs, models, self.columns, n_extra=n_extra)
        by_fold = []
        for fold in range(self.folds.n_folds):
            excluded = without | {fold}
            # of two folds, one held out and one to predict leave nothing to learn from
            unseen = len(excluded) < self.folds.n_folds
            by_fold.append(self.models(excluded) if unseen else models)
        every = FoldModels(by_fold[0].joined(*by_fold[1:]), self.data.n_labels)
        return self.data.with_extra(
            _held_out_outputs, every, self.columns, self.folds.at_rows, n_extra=n_extra
        )


def _outputs(data: TrainingData, models: ConditionalModels, columns: Columns) -> Array:
    return columns(models.log_prob(data.X))


def _held_out_outputs(
    data: TrainingData, models: FoldModels, columns: Columns, fold: Indices
) -> Array:
    return columns(models.tables(data, fold))


def choose_behind(first: FirstLayer, learner: ConditionalLearner, n_choices: int) -> Indices:
    """Choose the hyperparameters (d,) of a second layer by held-out log-likelihood."""
    data, folds = first.data, first.folds
    targets = np.arange(data.n_labels)
    every = [np.full(data.n_labels, choice, dtype=np.intp) for choice in range(n_choices)]
    total = np.zeros((n_choices, data.n_labels))
    for fold in range(folds.n_folds):
        stacked = first.stacked(frozenset({fold}))
        seen = RowGroup(folds.rows_outside(fold), targets)
        models = learner.on(stacked).fit([seen] * n_choices, every)
        total += stacked.sum(
            _log_likelihoods, models, folds.at_rows, fold, n_choices, combine=added
        )
    best: Indices = total.argmax(axis=0)
    return best


def _log_likelihoods(
    data: TrainingData, models: ConditionalModels, folds: Indices, fold: int, n_choices: int
) -> Array:
    """Log-likelihood (n_choices, d) of the labels of a fold's rows, by d models for each choice."""
    rows = np.flatnonzero(folds == fold)
    assert data.extra is not None
    tables = models.log_prob(data.X[rows], data.extra[rows])
    weight = data.row_weights[rows]
    found = np.empty((n_choices, data.n_labels))
    for position, table in enumerate(tables):
        choice, label = divmod(position, data.n_labels)
        truth = data.codes[rows, label]
        log_prob = table[np.arange(len(rows)), truth]  # a missing label reads the last value
        found[choice, label] = weight @ np.where(truth == MISSING, 0.0, log_prob)
    return found


@stored("stacked-binary-relevance")
class StackedBinaryRelevance(MayLackProbabilities):
    r"""A second classifier per label that also sees what the first ones say of all labels.

    Take it where labels decided one at a time should know of each other. Cost: low.

    .. math:: P(y_i \mid x) = f_i\bigl(x, \; g_1(x), \dots, g_d(x)\bigr)

    where g_j is the output of a first layer of binary relevance: a probability, or the score or the
    decision of an estimator without probabilities. With logistic regression this
    is classification with heterogeneous features (CHF), with linear SVMs SVM-HF. Labels inform
    each other through the first layer, but are independent given x.

    The second layer should learn how far to trust the first. In the rows the first layer was
    fitted to, it looks better than it is; so by default its outputs for a training row come from
    models that have not seen the row (`first_layer="cross_validated"`). For new rows they come
    from models of all training rows.

    Class variables with more than two values have one output for each value. Rows with missing
    labels serve the labels they have.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each label and layer by cross-validation; for the
        second layer, the first is fitted anew without the rows that are held out.
    estimator : classifier, optional
        Any scikit-learn classifier instead of the built-in regression, in both layers. Without
        `predict_proba`, as `LinearSVC`, the model only predicts.
    first_layer : {"cross_validated", "in_sample"}
        Where the second layer's training inputs come from; "in_sample" is as published.
    cv : int, float, splitter or iterable
        How rows are held out, for the first layer's outputs and to choose C: a number of folds,
        a scikit-learn splitter, pairs of index arrays (train, test), or a fraction, which leaves
        rows that are never held out and so needs `first_layer="in_sample"`.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. For independent labels "subset" and
        "hamming" agree; they are all there is without probabilities.

    Attributes
    ----------
    first_models_, models_ : ConditionalModels
        The first and the second layer; in `models_.coef` of the built-in regression the features
        come first, then the first layer's outputs, then the intercept.
    first_C_, C_ : (d,) arrays
        Chosen C of every label in the two layers; absent with `estimator`.
    n_iter_ : int
        Most iterations any regression of the second layer took; absent with `estimator`.

    References
    ----------
    S. Godbole, S. Sarawagi: Discriminative methods for multi-labeled classification. PAKDD 2004.

    Examples
    --------
    >>> from colabel import StackedBinaryRelevance
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = StackedBinaryRelevance(C=0.1).fit(data.X[:500], data.Y[:500])
    >>> model.predict_proba(data.X[-2:]).shape
    (2, 7)

    SVM-HF, as published:

    >>> from sklearn.svm import LinearSVC
    >>> model = StackedBinaryRelevance(estimator=LinearSVC(), first_layer="in_sample")
    >>> model.fit(data.X[:500], data.Y[:500]).predict(data.X[-2:]).shape
    (2, 7)
    """

    first_layer: Literal["cross_validated", "in_sample"] = "cross_validated"
    first_models_: Annotated[ConditionalModels, "sizes q=p+1"] = attribute()
    models_: Annotated[ConditionalModels, "sizes q=p+columns(sizes)+1"] = attribute()
    first_C_: Annotated[Array | None, "d", Between(0.0)] = attribute()  # noqa: N815

    @available_if(probabilities_available)
    def joint(self, X: Any) -> Joint:
        """Return the joint distribution of the labels for each row of X (n, p).

        Not available where `estimator` has no probabilities.
        """
        return super().joint(X)

    def _learn(self, data: TrainingData) -> None:
        probable = has_probabilities(self.estimator)
        learner = self._learner(self.estimator if probable else ScoresAsLogOdds(self.estimator))
        learning = learner.on(data)
        folds = make_folds(data, self.cv, self._seed())
        first_choice = choose(learning, folds)
        crossed = self.first_layer == "cross_validated" and can_hold_out(folds)
        if crossed and not folds.covers:
            raise ValueError(
                f"cv={self.cv!r} never holds out some of the rows, so they have"
                " no cross-validated outputs. Give a number of folds or splits that hold out every"
                " row once, or set first_layer='in_sample'."
            )
        first = FirstLayer(learning, folds, first_choice, self._columns, crossed)
        choice = np.zeros(data.n_labels, dtype=np.intp)
        if learning.needs_choice and can_hold_out(folds):
            choice = choose_behind(first, learner, np.size(self.C))
        self.first_models_ = first.models()
        self.models_ = learner.on(first.stacked()).fit([everything(data)], [choice])
        self._record(self.models_.n_iter, learner.values(choice))
        if (first_C := learner.values(first_choice)) is not None:
            self.first_C_ = first_C

    def _joint(self, X: Any) -> Joint:
        extra = self._columns(self.first_models_.log_prob(X))
        return Independent(self.label_space_, self.models_.log_prob(X, extra))

    def _columns(self, log_tables: list[NDArray[Any]]) -> Array:
        """What the first layer passes on (n, e), from log-probabilities (n, K_i).

        Probabilities, or else scores, or else decisions, whichever the estimator has.
        """
        if has_probabilities(self.estimator):
            return np.hstack([np.exp(t[:, 1:] if t.shape[1] == 2 else t) for t in log_tables])
        if hasattr(self.estimator, "decision_function"):
            return np.hstack([_scores(t) for t in log_tables])
        codes = np.stack([t.argmax(axis=1) for t in log_tables], axis=1).astype(np.int32)
        return label_columns(codes, [t.shape[1] for t in log_tables])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if has_probabilities(self.estimator):
            return
        if self.decision not in ("subset", "hamming"):
            raise ValueError(
                f"decision={self.decision!r} needs probabilities, which estimator="
                f"{self.estimator!r} does not have. Set decision='subset'."
            )

    short_name = "stacked"
    fits_chunks = True


def _scores(log_table: NDArray[Any]) -> Array:
    """Log-odds (n, 1) of two values, or log-probabilities (n, K) less their mean."""
    if log_table.shape[1] == 2:
        return np.diff(log_table, axis=1)
    centred: Array = log_table - log_table.mean(axis=1, keepdims=True)
    return centred
