"""Models around a fitted model: rules that answers obey, thresholds, and sets with coverage."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Codes, Flags
from colabel.core.estimators import attribute
from colabel.core.hashing import mix, row_keys
from colabel.core.parameters import check_choice
from colabel.core.progress import progress_bar
from colabel.core.schema import Between, Estimator, check_that, stored
from colabel.core.warning import warn
from colabel.decide import (
    F1,
    RISKS,
    CalibrationScores,
    Decision,
    HeldOutErrors,
    Jaccard,
    LabelSets,
    Nonconformity,
    NonconformityName,
    RiskName,
    Subset,
    conformal_sets,
    p_value,
    stated_words,
)
from colabel.decide.decisions import Above, tuned_threshold
from colabel.joint import Joint, Mixture
from colabel.joint.user_terms import codes_of_labels
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, TrainingData
from colabel.models.cross_fitting import counted, held_out_folds, require_joint
from colabel.models.label_graph import LabelGraph
from colabel.models.lazy import row_chunks
from colabel.models.learning import can_hold_out, make_folds
from colabel.models.with_estimator import AroundModel
from colabel.models.wrapped import joint_of, model_inside, with_model_inside
from colabel.rules import CompiledRules, Rules

_CANDIDATES = 64  # label vectors that a decision chooses among where its own choice breaks a rule


@stored("ruled-classifier")
class RuledClassifier(AroundModel):
    r"""A model whose answers obey rules on label sets: implications, exclusions, counts.

    The joint of the model is conditioned on the rules, :math:`P(y \mid x, y \text{ obeys})`, so
    that probabilities, modes, samples and decisions are about allowed label sets alone.

    Parameters
    ----------
    rules : Rules or str
        What is known, see `colabel.rules.Rules`; a file keeps their text.
    violations : {"drop", "keep", "refuse"}
        What becomes of training rows that break a rule: they are left out with a warning that
        names them, learned from all the same, or an error.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. Where the label set of least expected loss
        breaks a rule, the best allowed one among the 64 most probable is taken.

    Attributes
    ----------
    estimator_ : fitted model
    rules_ : str
        The rules as text.
    n_violating_ : int
        Training rows that break a rule.

    Examples
    --------
    >>> from colabel import BinaryRelevance, RuledClassifier
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> rules = "square -> not prime\neven and prime -> not above_four"
    >>> model = RuledClassifier(BinaryRelevance(C=0.01), rules)
    >>> model = model.fit(data.X[:600], data.Y[:600], label_names=data.label_names)
    >>> predicted = model.predict(data.X[600:])
    >>> bool((predicted[:, 1] & predicted[:, 2]).any())  # prime and square at once
    False
    """

    rules: Any = field(default="", kw_only=False)
    violations: Literal["drop", "keep", "refuse"] = "drop"
    n_jobs: ClassVar[None] = None  # type: ignore[misc]
    verbose: ClassVar[int] = 0  # type: ignore[misc]
    estimator_: Annotated[Any, "sizes p", Estimator(does="joint")] = attribute()
    rules_: str = attribute()
    n_violating_: int = attribute()

    short_name = "ruled"

    def decision_rule(self) -> Decision:
        """Return how `predict` chooses the labels of a joint: among the sets that obey."""
        rule = super().decision_rule()
        text = getattr(self, "rules_", "")
        return _Obeying(rule, text) if text and not isinstance(rule, Subset) else rule

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.rules, Rules | str):
            raise ValueError(f"rules={self.rules!r} must be text or colabel.rules.Rules.")

    def _labelled(self, data: TrainingData) -> TrainingData:
        return data  # broken rules name rows as they were given

    def _learn(self, data: TrainingData) -> None:
        rules = Rules.parse(self.rules) if isinstance(self.rules, str) else self.rules
        broken = rules.broken_by(data.codes, rules.compiled(self.label_space_))
        breaking = np.unique(broken.rows)
        if len(breaking) and self.violations != "keep":
            said = f"Of {data.n_rows} training rows, {broken}"
            if self.violations == "refuse" or len(breaking) == data.n_rows:
                raise ValueError(f"{said}\nMend them, change the rules, or keep them.")
            warn(f"{said}\nThey are left out.")
            data = data.take(np.setdiff1d(np.arange(data.n_rows), breaking))
        self.estimator_ = self._fitted(data, self._seed())
        self.rules_, self.n_violating_ = str(rules), len(breaking)

    def _joint(self, X: Any) -> Joint:
        joint = joint_of(self.estimator_, X)
        return joint.subject_to(_compiled(self.rules_, joint.space)) if self.rules_ else joint


@lru_cache(maxsize=8)
def _compiled(text: str, space: LabelSpace) -> CompiledRules:
    """Rules of a model, read and bound to its labels once."""
    return Rules.parse(text, folder=None).compiled(space)


@dataclass(frozen=True)
class _Obeying(Decision):
    """A decision, or the best of a row's most probable vectors where it would break a rule."""

    rule: Decision
    text: str

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) that are decided for; modes obey already."""
        codes = self.rule.codes(joint)
        obeys = _compiled(self.text, joint.space).may_hold(codes)
        for row in np.flatnonzero(~obeys):
            codes[row] = self._best_allowed(joint.rows(np.array([row])))
        return codes

    def _best_allowed(self, joint: Joint) -> Codes:
        """Return the vector (d,) of least expected loss among a row's most probable ones."""
        found, log_prob = joint.top_k_codes(_CANDIDATES)
        vectors, weights = found[0], np.exp(log_prob[0])
        if isinstance(self.rule, F1 | Jaccard) and joint.space.is_indicator:
            shared = ((vectors[:, None] == 1) & (vectors[None] == 1)).sum(axis=2)
            sizes = (vectors == 1).sum(axis=1)
            total = sizes[:, None] + sizes[None]
            f1, jaccard = 2 * shared, shared * total / np.maximum(total - shared, 1)
            gained = f1 if isinstance(self.rule, F1) else jaccard
            utility = np.where(total == 0, 1.0, gained / np.maximum(total, 1))
        else:
            utility = (vectors[:, None] == vectors[None]).mean(axis=2)
        best: Codes = vectors[int(np.argmax(utility @ weights))]
        return best


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
        check_that(set(dims["sizes"]) == {2}, "a label has not two values")

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
        return np.concatenate([joint.marginals() for joint in joints])  # (m, d): of two values each

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
    >>> from colabel.models.around import thresholded
    >>> thresholded(BinaryRelevance(), 0)
    ThresholdedClassifier(estimator=BinaryRelevance(), random_state=0)
    """
    return with_model_inside(model, ThresholdedClassifier(model_inside(model), random_state=seed))


@stored("conformal-sets")
class ConformalSets(AroundModel):
    r"""For each row a set of label vectors that holds the true one with a chosen probability.

    Some rows are held out, and their true vectors are scored by how strange they are to a model
    that has not seen them. A new row's set has every vector that is not stranger than most of
    these. Whatever the model, and however wrong its probabilities are,

    .. math:: P(y \in S(x)) \ge \mathrm{coverage},

    on average over the rows held out and a new row, **if they are exchangeable**: drawn alike, in
    no order that matters. A shift between the rows learned from and the new ones, rows that belong
    together (of one patient, one day) and a row chosen because of its set void the promise, and
    it is not made for every kind of row apart. A better model has smaller sets.

    - A fraction as `cv` holds these rows out once (*split conformal*), and the promise is as above.
    - A number of folds lets every row be held out once (*CV+*). No row is lost to learning, but a
      prediction asks as many models; what is proven is a coverage of about ``2 coverage - 1``,
      what is observed is about `coverage` or more.

    `predict_labels` says yes, no or unsure for each label alone, with a controlled risk.

    A set is listed in full, or its row is marked as cut: see `max_listed`. With n rows held out
    (whose labels are all known; others are left out with a warning, and the promise is for rows
    like those that remain), a coverage above n / (n + 1) can be had from no list: a warning says
    so, and the sets are all vectors.

    Parameters
    ----------
    estimator : model of colabel, or pipeline that ends with one
        It must have a joint. ``calibrate=True`` often makes the sets smaller.
    coverage : float
        Probability, between 0 and 1; `predict_sets` can be asked for others.
    cv : float, int, splitter or iterable
        A fraction of the rows to hold out, a number of folds, a scikit-learn splitter, or pairs of
        index arrays (train, test).
    nonconformity : {"mass", "random mass", "probability"}
        How strange a vector y is: the probability of the vectors that are more probable
        (``"mass"``: the sets adapt to how hard a row is), the same and a share of P(y) drawn for
        each row (``"random mass"``: covers each kind of row better, by larger sets), or
        ``-log P(y)`` (``"probability"``: the smallest sets on average, but rows that are hard to
        tell are covered less).
    max_listed : int
        How many label vectors the joint is asked to list at most, a row. With a mass,
        vectors beyond count as most strange, so that lists which end there still keep the
        promise; unless more of the rows held out than may be missed have their own vector beyond,
        and all rows are marked as cut. With ``"probability"`` the set goes on beyond the list, and
        the rows where it does are marked.
    allow_empty : bool
        Whether a set may be empty, which says that no vector is plausible. Otherwise it has at
        least one, and the coverage may be larger than asked for.
    n_jobs : int or None
        Joblib workers, over folds.
    random_state : int, RandomState or None
        Seed of the folds, of a model without a seed of its own, and of ``"random mass"``.

    Attributes
    ----------
    members_ : list of fitted models
        One, fitted to the rows that were not held out; or one for each fold, whose joints are
        averaged by `joint` and `predict`.
    held_out_ : list of CalibrationScores
        How strange the true vectors of the rows held out were to each.
    row_errors_, label_errors_ : HeldOutErrors
        How sure the models were of what was wrong there.
    n_held_out_ : int
        Rows held out, with all labels known.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer: Algorithmic Learning in a Random World. Springer, 2005.
    Y. Romano, M. Sesia, E. Candes: Classification with valid and adaptive coverage. NeurIPS 2020.
    R. F. Barber, E. Candes, A. Ramdas, R. Tibshirani: Predictive inference with the jackknife+.
    Annals of Statistics 49, 2021.
    A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei, T. Schuster: Conformal risk control. ICLR 2024.

    Examples
    --------
    >>> from colabel import CTBN, ConformalSets
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> X, Y = data.X[::2], data.Y[::2]  # rows in turn: the writers of the digits change
    >>> model = ConformalSets(CTBN(C=0.01, random_state=0), coverage=0.9, random_state=0)
    >>> sets = model.fit(X, Y).predict_sets(data.X[1::2])
    >>> bool(sets.contains(data.Y[1::2]).mean() > 0.87), bool(sets.sizes.mean() < 2)
    (True, True)
    >>> model.predict_labels(data.X[1:2]).shape
    (1, 7)
    """

    coverage: Annotated[float, Between(0.0, 1.0)] = 0.9
    cv: Any = 0.25
    nonconformity: NonconformityName = "mass"
    max_listed: Annotated[int, Between(1, 10**5)] = 1000
    allow_empty: bool = False
    members_: Annotated[list[Any], "m sizes p", Estimator(does="joint")] = attribute()
    held_out_: Annotated[list[CalibrationScores], "m"] = attribute()
    row_errors_: HeldOutErrors = attribute()
    label_errors_: HeldOutErrors = attribute()
    chance_seed_: Annotated[int, Between(0, 2**32)] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        check_that(dims["m"], "members_ is empty")

    def predict_sets(self, X: Any, coverage: float | None = None) -> LabelSets:
        """Return the set of label vectors of each row of X (n, p).

        Parameters
        ----------
        X : (n, p)
        coverage : float, optional
            Another than the model's own.

        Returns
        -------
        LabelSets
        """
        check_is_fitted(self)
        level = _checked_coverage(self.coverage if coverage is None else coverage)
        self._say_if_few(level)
        X = self._checked(X, reset=False)
        parts = [
            conformal_sets(
                self._joints(part),
                self.held_out_,
                level,
                self._nonconformity,
                self._chance(part),
                allow_empty=self.allow_empty,
            )
            for part in row_chunks(X, self.label_space_)
        ]
        return LabelSets.joined(*parts)

    def predict_labels(
        self, X: Any, coverage: float | None = None, *, per: RiskName = "row"
    ) -> NDArray[Any]:
        """Say of each label yes, no or unsure, with a controlled risk of being wrong.

        A label is stated where its probability is high enough. How high that is was chosen on the
        rows held out, by conformal risk control, under the same assumptions as the sets: exact
        with a fraction as `cv`, approximate with folds.

        Parameters
        ----------
        X : (n, p)
        coverage : float, optional
            Another than the model's own.
        per : {"row", "label"}
            The risk that stays below 1 - coverage: the probability that any label stated in a row
            is wrong, or the expected share of a row's labels that are stated and wrong.

        Returns
        -------
        array of str of shape (n, d)
            "yes", "no" or "unsure" for 0/1 labels; otherwise the value, or "unsure".
        """
        check_is_fitted(self)
        level = _checked_coverage(self.coverage if coverage is None else coverage)
        check_choice("per", per, RISKS)
        self._say_if_few(level)
        errors = self.row_errors_ if per == "row" else self.label_errors_
        codes = self._by_chunks(X, lambda joint: errors.stated_codes(joint, level))
        return stated_words(np.concatenate(codes), self.label_space_)

    def p_values(self, X: Any, Y: Any) -> Array:
        """Return how plausible label vectors are: they are in all sets of coverage above 1 - p.

        Parameters
        ----------
        X : (n, p)
        Y : (n, d)
            Label values, all known.

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        codes = codes_of_labels(self.label_space_, Y, X.shape[0])
        if (codes == MISSING).any():
            raise ValueError("Y has missing labels: p-values are those of complete label vectors.")
        found, start = [], 0
        for part in row_chunks(X, self.label_space_):
            own = codes[start : start + part.shape[0]]
            chance = self._chance(part)
            scores = [
                self._nonconformity.of_codes(joint, own, chance) for joint in self._joints(part)
            ]
            found.append(p_value(self.held_out_, scores))
            start += part.shape[0]
        return np.concatenate(found)

    @property
    def n_held_out_(self) -> int:
        """Rows held out, with all labels known."""
        return sum(len(part.scores) for part in self.held_out_)

    short_name = "conformal"

    def label_graph(self) -> LabelGraph:
        """Return which label depends on which, as the model has learned it, if there is one."""
        if len(self.members_) == 1:
            return self._graph_of(self.members_[0])
        meaning = f"The mean of {len(self.members_)} models: it has no one graph of the labels."
        return LabelGraph.without_edges(self.label_names_, meaning)

    @property
    def _nonconformity(self) -> Nonconformity:
        return Nonconformity(self.nonconformity, self.max_listed)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checked_coverage(self.coverage)

    def _learn(self, data: TrainingData) -> None:
        seed = self._seed()
        self.chance_seed_ = seed
        data, folds = counted(data, make_folds(data, self.cv, seed))
        numbers = held_out_folds(folds) if can_hold_out(folds) else []
        if not numbers:
            raise ValueError(
                f"No rows can be held out of {data.n_rows} sample{'s' * (data.n_rows != 1)} that"
                " differ: sets with a guarantee need some that no model has seen."
            )
        with (
            progress_bar("holding out", len(numbers), shown=bool(self.verbose)) as done,
            Parallel(n_jobs=self.n_jobs, return_as="generator") as parallel,
        ):
            calls = (delayed(self._held_out)(data, folds, fold, seed) for fold in numbers)
            answers = []
            for answer in parallel(calls):
                answers.append(answer)
                done()
        models, scores, row_errors, label_errors = zip(*answers, strict=True)
        self.members_, self.held_out_ = list(models), list(scores)
        self.row_errors_ = HeldOutErrors.joined(*row_errors)
        self.label_errors_ = HeldOutErrors.joined(*label_errors)
        self._say_if_incomplete(data, np.isin(folds.of_row, numbers))

    def _held_out(self, data: TrainingData, folds: Folds, fold: int, seed: int) -> tuple[Any, ...]:
        """Fit the model without a fold, and see how strange the fold's vectors are to it.

        Returns the model, their scores, and how sure it is of what is wrong in rows and labels.
        """
        test = folds.rows_inside(fold)
        complete = test[(data.codes[test] != MISSING).all(axis=1)]
        if not len(complete):
            raise ValueError(
                f"None of the {len(test)} rows held out has all its labels: the guarantee is"
                " measured on complete label vectors. Give rows whose labels are all known."
            )
        model = self._fitted(data.take(folds.rows_outside(fold)), seed)
        joint = joint_of(model, data.X[complete])
        codes, weights = data.codes[complete], data.row_weights[complete]
        scores = self._nonconformity.of_codes(joint, codes, self._chance(data.X[complete]))
        return (
            model,
            CalibrationScores.of(scores, weights),
            HeldOutErrors.of_codes(joint, codes, weights, "row"),
            HeldOutErrors.of_codes(joint, codes, weights, "label"),
        )

    def _say_if_incomplete(self, data: TrainingData, held_out: Any) -> None:
        incomplete = int((data.codes[held_out] == MISSING).any(axis=1).sum())
        if incomplete:
            warn(
                f"{incomplete} of {int(held_out.sum())} rows held out lack some label and are not"
                " counted: the guarantee is for rows like those whose labels are all known.",
            )
        self._say_if_few(self.coverage)

    def _say_if_few(self, coverage: float) -> None:
        n_rows = sum(float(part.weights.sum()) for part in self.held_out_)
        needed = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
        if n_rows < needed:
            warn(
                f"Only {n_rows:g} rows were held out: a coverage of {coverage:g} needs at least"
                f" {needed}, so that every set is all label vectors and no label is sure. Hold"
                " out more rows (cv), or ask for less coverage.",
            )

    def _chance(self, X: Any) -> Array:
        """A number between 0 and 1 for each row, that depends on the row and the seed alone."""
        keys = mix(row_keys(X) ^ mix(np.array([self.chance_seed_ + 1], dtype=np.uint64)))
        return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _joints(self, X: Any) -> list[Joint]:
        return [joint_of(model, X) for model in self.members_]

    def _joint(self, X: Any) -> Joint:
        joints = self._joints(X)
        return joints[0] if len(joints) == 1 else Mixture(joints)


def _checked_coverage(coverage: Any) -> float:
    number = isinstance(coverage, numbers.Real) and not isinstance(coverage, bool)
    if not number or not 0.0 < float(coverage) < 1.0:
        raise ValueError(
            f"coverage={coverage!r} must be a probability between 0 and 1, such as 0.9."
        )
    return float(coverage)
