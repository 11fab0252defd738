"""CDN: conditional dependency networks (Guo & Gu, 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

import numpy as np

from colabel.core.arrays import (
    Array,
    Codes,
    Flags,
    Indices,
    Rows,
    column_owner,
    label_columns,
    n_label_columns,
)
from colabel.core.estimators import attribute
from colabel.core.hashing import row_keys
from colabel.core.schema import CODES, Between, Is, bind, check_that, stored
from colabel.joint import DependencyNetwork, DiscreteDependencyNetwork, Joint, LinearConditionals
from colabel.joint.gibbs.sampler import GibbsOptions
from colabel.labels import MISSING
from colabel.learn.conditional import (
    ConditionalLearner,
    Folds,
    RowGroup,
    TrainingData,
    is_chunked,
)
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels
from colabel.learn.structure.screening import best_candidates
from colabel.models.base import LinearLogOdds
from colabel.models.chain.learning import (
    completed_by_chain,
    scale_of_labels,
    share_of_labels,
    with_expected_labels,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import (
    can_hold_out,
    choose,
    dependence,
    make_folds,
)
from colabel.models.with_estimator import (
    HardDecisions,
    MayLackProbabilities,
    StacksEstimator,
    has_probabilities,
)

LabelCoding = Literal["0/1", "-1/+1"]
_NEVER = -1e6  # a score far below any other


def coded_columns(codes: Codes, cardinalities: Sequence[int], coding: LabelCoding) -> Array:
    """Write label codes (n, d) as columns (n, e) of 0 and 1, or of -1 and +1."""
    columns = label_columns(codes, cardinalities)
    return columns if coding == "0/1" else 2.0 * columns - 1.0


@stored("linear-network")
@dataclass(frozen=True)
class LinearNetwork:
    """Fitted linear conditionals, one score for each label column.

    Attributes
    ----------
    coef : (e, p)
        Weights of the features in each score.
    intercept : (e,)
    weights : (e, e)
        Entry [c, s]: weight of label column c in score s.
    floor : (e,)
        Probability kept for values of multi-valued labels that no row carried.
    cardinalities : (d,)
    """

    coef: Annotated[Array, "columns(sizes) p"]
    intercept: Annotated[Array, "columns(sizes)"]
    weights: Annotated[Array, "columns(sizes) columns(sizes)"]
    floor: Annotated[Array, "columns(sizes)", Between(0.0, 1.0)]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1, 2**31), Is("sizes")]

    @classmethod
    def of(
        cls, models: LinearModels, cardinalities: tuple[int, ...], coding: LabelCoding = "0/1"
    ) -> LinearNetwork:
        """Gather the coefficients of one model a label; the extra features are coded columns."""
        coef: Array = np.concatenate(models.coef).astype(
            np.float64
        )  # (e, p + e + 1): scores are laid out like columns
        n_columns = len(column_owner(cardinalities))
        floors: list[Array] = [np.zeros(0)] * models.n_models
        for positions, n_classes, fitted in models.parts:
            for position, floor in zip(positions, fitted.floor, strict=True):
                floors[position] = np.zeros(1) if n_classes == 2 else floor
        floor = np.concatenate(floors)
        # Where a floor stands for a value, the regression itself has nothing to say of it.
        intercept = np.where(floor > 0, _NEVER, coef[:, -1])
        n_features = coef.shape[1] - n_columns - 1
        weights = np.ascontiguousarray(coef[:, n_features:-1].T)
        if coding == "-1/+1":
            # w (2c - 1) = 2w c - w
            intercept, weights = intercept - weights.sum(axis=0), 2.0 * weights
        return cls(coef[:, :n_features], intercept, weights, floor, cardinalities)

    def at(self, X: Any) -> LinearConditionals:
        """Return the conditionals of rows X (n, p)."""
        base = np.asarray(X @ self.coef.T) + self.intercept
        return LinearConditionals(base, self.weights, self.cardinalities, self.floor)


@dataclass(frozen=True)
class EstimatorConditionals:
    """Conditionals by fitted classifiers whose last features are the other labels' columns."""

    models: EstimatorModels
    X: Any  # (n, p) array or CSR
    cardinalities: tuple[int, ...]
    coding: LabelCoding = "0/1"

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.X.shape[0])

    def log_prob(self, labels: Codes, i: int) -> Array:
        """Return log p(y_i = v | x, y_-i), (m, n, K_i), for label vectors (m, n, d)."""
        n_vectors, n_rows, n_labels = labels.shape
        columns = coded_columns(labels.reshape(-1, n_labels), self.cardinalities, self.coding)
        every = np.tile(np.arange(n_rows), n_vectors)
        log_prob = self.models.models[i].log_prob(self.X[every], columns)
        return np.asarray(log_prob, dtype=np.float64).reshape(n_vectors, n_rows, -1)

    def rows(self, index: Rows) -> EstimatorConditionals:
        """Return the conditionals of some of the rows."""
        return EstimatorConditionals(self.models, self.X[index], self.cardinalities, self.coding)


@stored("cdn")
class CDN(MayLackProbabilities, StacksEstimator):
    r"""Each label given all others: Gibbs sampling, or fixed points without probabilities.

    Take it for hundreds of labels that depend on each other in all directions. Cost: low.

    .. math:: p(y_i \mid x, y_1, \dots, y_{i-1}, y_{i+1}, \dots, y_d), \quad i = 1, \dots, d

    Learning is d separate regressions, solved in one batch, with the other labels as further
    features. The conditionals need not belong to one joint distribution; a row's labels are
    found by Gibbs sampling (the paper's Algorithm 1): `burn_in` sweeps over the labels, then
    `n_sweeps` more whose samples are ranked by the product of all conditionals; the `n_best`
    best decide each label by majority. `predict_proba` averages the conditional probabilities
    over all kept sweeps, and is never exactly 0 or 1.

    With an `estimator` without `predict_proba`, such as `LinearSVC`, labels are set in turn to
    what their classifiers say until none changes (Algorithm 2), starting from each label's most
    frequent value in training (the paper leaves the start open); ``joint(X).report`` tells how
    many rows settled. Only `predict` with ``decision="subset"`` is then available.

    Chance is drawn from a seed fixed in `fit` and from the content of a row, so predictions are
    the same at every call, whatever the other rows, their order and the number of threads.
    Labels that a row lacks are features as expected from x, and conditionals are held back towards
    regressions that use no labels, as far as rows held out prefer that (other classifiers see
    labels drawn given those that the row has).

    Beware of many labels. On the first subset of rcv1 (101 labels, 3000 training rows, C = 10, five
    splits) the network is far behind regressions of the labels one by one: exact match .327 against
    .397, micro F1 .425 against .692. Ten times the burn-in (.332 and .430), labels of -1 and +1,
    which are penalised less (.233 and .291), or ten parents a label (.243 and .328) do not mend it.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier. It learns each label from x alone, and the built-in
        regressions learn from its held-out scores and the other labels (see `stack`).
    stack : bool
        Of `estimator`. False, as published, and always without `predict_proba`: the conditionals
        are the estimator itself; it sees the features and then the other labels as `label_coding`
        says (one-hot for more than two values).
    label_coding : {"0/1", "-1/+1"}
        How the other labels are written as features; the paper writes -1 and +1. The same
        conditionals can be said in both, but not at the same price: with -1 and +1 half the
        coefficient has the same effect, so that the penalty of labels is a quarter.
    max_parents : int or None
        Most other labels a conditional may use: those that its label depends on most beyond x, by
        a score test on held-out residuals. None: all of them.
    burn_in : int
        Sweeps thrown away first.
    n_sweeps : int
        Sweeps whose samples are kept.
    n_best : int
        Number of samples that decide with ``marginals="best"``.
    marginals : {"best", "plain"}
        Whether the best samples or all kept samples decide under ``decision="subset"``.
    n_chains : int
        Chains a row; the samples of all count. Two or more make
        ``joint(X).diagnostics()`` more telling.
    max_iterations : int
        Most passes over the labels of Algorithm 2.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" decides as the paper does,
        "hamming" by `predict_proba`.

    Attributes
    ----------
    models_ : ConditionalModels
        The fitted conditionals; the labels' columns are their last features.
    label_weights_ : (e, e) array
        Entry [c, s]: weight of label column c, written as 0 and 1, in the score of column s (one
        column for a label of two values, K for one of K); of regressions only.
    C_ : (d,) array
        Chosen C of every label; of regressions only.
    n_iter_ : int
        Most iterations any regression of the final fit took; of regressions only.
    estimator_scores_ : EstimatorModels
        Classifiers of each label from x alone; only with a stacked `estimator`.
    seed_ : int
        Seed of the sampling.

    Notes
    -----
    A C chosen for each label makes the best conditionals given the *true* other labels. Where
    labels almost determine each other, such conditionals make the sampler mix slowly (see
    ``joint(X).diagnostics()``) and agree with themselves more than with x. Standardised
    features, or one C for all labels chosen by a `GridSearchCV` for the measure that matters,
    then serve better.

    References
    ----------
    Y. Guo, S. Gu: Multi-label classification using conditional dependency networks. IJCAI 2011.

    Examples
    --------
    >>> from colabel import CDN
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = CDN(C=0.01, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> model.predict(data.X[-2:]).shape
    (2, 7)
    >>> joint = model.joint(data.X[-1:])
    >>> joint
    <DependencyNetwork: 1 row, 7 labels, approximate>
    >>> joint.given({"even": 0}).mode()[0, 0]
    np.int64(0)
    """

    label_coding: LabelCoding = "0/1"
    max_parents: Annotated[int | None, Between(1)] = None
    burn_in: int = 100
    n_sweeps: int = 500
    n_best: Annotated[int, Between(1, 10**4)] = 100
    marginals: Literal["best", "plain"] = "best"
    n_chains: int = 1
    max_iterations: Annotated[int, Between(1, 10**4)] = 100
    seed_: int = attribute()
    models_: Annotated[LinearModels | EstimatorModels, "sizes"] = attribute()
    _network: Annotated[LinearNetwork | None, "d p=s sizes"] = attribute()
    label_weights_: Annotated[Array | None, "e e"] = attribute()
    _usual: Annotated[Codes, "d", CODES] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        linear = fields["models_"].declared.type is LinearModels
        check_that(linear == (fields.get("_network") is not None), "_network does not fit models_")
        regressions = fields["estimator"] is None or "estimator_scores_" in fields
        check_that(linear == regressions, "estimator does not fit models_")
        n_columns, sizes = n_label_columns(dims["sizes"]), fields["models_"].dims
        if not linear:
            bind(dims, n_columns, sizes.get("extra", n_columns), "allowed")
            width = dims["p"] + n_columns + 1
            bind(dims, width, sizes.get("q", width), "models_")
        # a sweep asks every model once: so many take seconds, not minutes
        n_sweeps = (fields["burn_in"] + fields["n_sweeps"]) * fields["n_chains"]
        most = 10_000 if linear else 3_000
        check_that(
            n_sweeps <= most,
            f"burn_in + n_sweeps, times n_chains, is {n_sweeps}; files may ask for {most} sweeps. "
            "Set fewer by set_params before saving, and more after loading",
        )
        StacksEstimator._check_stored(fields, dims)

    def _learn(self, data: TrainingData) -> None:
        estimator = self._conditional_estimator()
        probable = has_probabilities(estimator)
        learner = self._learner(estimator if probable else HardDecisions(estimator))
        self.seed_ = self._seed()
        folds = make_folds(data, self.cv, self.seed_)
        # other classifiers are too dear to fit for each fold, and know no expected labels
        holds_back = self.estimator is None and can_hold_out(folds) and not is_chunked(data)
        holds_back = holds_back and data.missing_labels[0] > 0
        if not holds_back:
            data = completed_by_chain(data, self.seed_, self.n_jobs, known_targets=True, n_draws=1)
            folds = make_folds(data, self.cv, self.seed_)
        data = self._stacked(data, folds, self.seed_)
        allowed = self._allowed(learner, data, folds)
        group = RowGroup(None, np.arange(data.n_labels), allowed)
        models: Any
        if holds_back:
            choice, models = _held_back(learner, data, group, folds, self.label_coding)
        else:
            n_extra = n_label_columns(data.cardinalities)
            learning = learner.on(data.with_extra(_own_columns, self.label_coding, n_extra=n_extra))
            choice = choose(learning, folds, group)
            models = learning.fit([group], [choice])
        if models.coef is not None:
            self._network = LinearNetwork.of(models, data.cardinalities, self.label_coding)
            self.label_weights_ = self._network.weights
        self.models_ = models
        self._record(self.models_.n_iter, learner.values(choice))
        frequencies = [data.class_frequencies(label) for label in range(data.n_labels)]
        self._usual = np.array([values.argmax() for values in frequencies])

    fits_chunks = True

    def _allowed(self, learner: ConditionalLearner, data: TrainingData, folds: Folds) -> Flags:
        """Return which label columns each conditional may use, (d, e)."""
        owner = column_owner(data.cardinalities)
        allowed: Flags = owner != np.arange(data.n_labels)[:, None]
        every = data.n_labels - 1
        if self.max_parents is None or self.max_parents >= every or not can_hold_out(folds):
            return allowed
        learning = learner.on(data)
        worth = dependence(learning, folds, choose(learning, folds))
        of_columns: Flags = best_candidates(worth, self.max_parents)[owner].T
        return allowed & of_columns

    def _check_parameters(self) -> None:
        super()._check_parameters()
        GibbsOptions(self.burn_in, self.n_sweeps, self.n_best, self.n_chains)

    def _joint(self, X: Any) -> Joint:
        space = self.label_space_
        network = self._linear_network
        conditionals: Any = (
            EstimatorConditionals(
                cast("EstimatorModels", self.models_), X, space.cardinalities, self.label_coding
            )
            if network is None
            else network.at(self._inputs(X))
        )
        if not has_probabilities(self.estimator):
            return DiscreteDependencyNetwork(
                space,
                conditionals,
                initial=self._usual,
                max_iterations=self.max_iterations,
                seed=self.seed_,
            )
        return DependencyNetwork(
            space,
            conditionals,
            burn_in=self.burn_in,
            n_sweeps=self.n_sweeps,
            n_best=self.n_best,
            n_chains=self.n_chains,
            marginals=self.marginals,
            seed=self.seed_,
            row_keys=row_keys(X),
            n_jobs=self.n_jobs,
        )

    @property
    def _linear_network(self) -> LinearNetwork | None:
        """The regressions as one; None where classifiers are the conditionals."""
        return getattr(self, "_network", None)

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        """Return the conditionals, unless they see scores in place of x."""
        network = self._linear_network
        if network is None or hasattr(self, "estimator_scores_"):
            return None
        intercept = network.intercept + others @ network.weights
        return LinearLogOdds(network.coef, intercept, network.weights.T)

    def label_graph(self) -> LabelGraph:
        """Return pairs of labels with the mean of the weights in both directions."""
        weights = getattr(self, "label_weights_", None)
        if weights is None or len(weights) != len(self.label_names_):
            return super().label_graph()
        mean = (weights + weights.T) / 2.0
        ends = np.argwhere(np.triu(np.abs(mean) > 0, k=1)).astype(np.intp)
        values = mean[ends[:, 0], ends[:, 1]]
        meaning = (
            "Every label is predicted from all others; the number is the mean of the two weights "
            "between two labels, in log-odds."
        )
        return LabelGraph(
            self.label_names_, ends, meaning, strengths=np.abs(values), signs=np.sign(values)
        )


def _own_columns(data: TrainingData, coding: LabelCoding) -> Array:
    return coded_columns(data.filled, data.cardinalities, coding)


def _held_back(
    learner: Any, data: TrainingData, group: RowGroup, folds: Folds, coding: LabelCoding
) -> tuple[Indices, Any]:
    r"""Learn conditionals of rows that lack labels; return the choice of C, too.

    Labels that a row lacks are features as expected from x. How far the conditionals use the others
    is chosen by the pseudo-likelihood of the labels that rows held out have.
    """
    of_x = learner.on(data)
    choice = choose(of_x, folds)
    data, single = with_expected_labels(of_x, choice)
    columns: Any = data.extra
    if coding != "0/1":
        columns = 2.0 * columns - 1.0
    learning = learner.on(replace(data, extra=columns))
    group = replace(group, extra_scale=scale_of_labels(learner.values(choice)))

    def log_prob(models: LinearModels, rows: Indices, seed: int) -> Array:
        total, every = np.zeros(len(rows)), np.arange(len(rows))
        tables = models.log_prob(data.X[rows], columns[rows])
        for table, own in zip(tables, data.codes[rows].T, strict=True):
            total += np.where(own == MISSING, 0.0, table[every, own])
        return total

    share = share_of_labels(learning, group, choice, of_x, choice, folds, log_prob)
    models = learning.fit([group], [choice])
    return choice, models if share == 1.0 else models.shrunk(share, single)
