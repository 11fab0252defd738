"""EBN: an ensemble of Bayesian networks (Antonucci, Corani, Mauá & Gabaglio)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.parameters import check_choice, check_integer, check_positive, checked_grid
from colabel.core.schema import (
    Dims,
    Distributions,
    Fields,
    Many,
    Maybe,
    OneOf,
    Part,
    Real,
    Whole,
    bind,
    refuse_unless,
    stored,
)
from colabel.decide import Decision, resolve_decision
from colabel.joint import Joint, PairwiseField
from colabel.joint.field import Engine
from colabel.joint.vectors import WrittenOut
from colabel.learn.conditional import TrainingData
from colabel.learn.smoothing import choose_smoothing
from colabel.models._parameters import DEFAULT_SMOOTHING
from colabel.models.base import JointClassifier
from colabel.models.bayes_nets.feature_arcs import ArcScore, choose_label_parents
from colabel.models.bayes_nets.tables import EnsembleTables, ensemble_tables
from colabel.models.bayes_nets.vector_scores import MOST_VECTORS, needs_vectors, vector_scores
from colabel.models.discrete_features import (
    check_bins,
    complete_rows,
    fit_features,
    require_complete_rows,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.lds.rounds import Parents, TrainingRows


def _check_tables(fields: Fields, dims: Dims) -> None:
    sizes, values = dims["sizes"], dims["values"]
    for r, table in enumerate(fields["label_log_prob_"]):
        bind(dims, sizes[r], len(table), f"label_log_prob_[{r}]")
        for i, arc in enumerate(fields["arc_log_prob_"][r]):
            shape = None if arc is None else arc.shape
            refuse_unless(shape == (None if i == r else (sizes[r], sizes[i])), "arcs are damaged")
    told: list[int] = []
    for factor in fields["factors_"]:
        parents, features = factor.fields["parents"], factor.fields["features"].tolist()
        ascend = list(parents) == sorted(set(parents)) and all(i < dims["d"] for i in parents)
        few = len(parents) <= 2 or math.prod(sizes) <= MOST_VECTORS
        refuse_unless(ascend and few, "a factor's labels are damaged")
        n_states = math.prod(sizes[i] for i in parents)
        refuse_unless(all(j < dims["p"] for j in features), "a factor names no feature")
        tables = zip(features, factor.fields["log_tables"], strict=True)
        fits = all(table.shape == (n_states, values[j]) for j, table in tables)
        refuse_unless(fits, "a table of a factor does not fit its labels and feature")
        told += features
    refuse_unless(sorted(told) == list(range(dims["p"])), "a feature is in no factor, or in two")


@stored(
    "bayes-net-ensemble",
    check=_check_tables,
    engine=OneOf(*get_args(Engine)),
    features_=Part("discrete-features", p="p", values="values"),
    _field_seed=Whole(),
    smoothing_=Real(0.0),
    feature_parents_=Many(Many(Whole()), "p"),
    label_log_prob_=Many(Distributions("_", log=True), "d"),
    arc_log_prob_=Many(Many(Maybe(Distributions("_ _", log=True)), "d"), "d"),
    factors_=Many(Part("feature-factor")),
)
class BayesNetEnsemble(JointClassifier):
    r"""Generative: one tree over the labels for each root, pooled.

    In member r all other labels are children of label r. Features are independent given the
    labels; each has the parents among the labels that score best, the same in all members. The
    members' distributions are pooled by their geometric mean:

    .. math:: P(y \mid x) \propto \Big(\prod_{r=1}^d P(y_r)
              \prod_{i \ne r} P(y_i \mid y_r)\Big)^{1/d} \prod_j P(x_j \mid y_{Pa(j)})

    This is a pairwise field, as long as features have at most two parents; where one has more, all
    label vectors are written out. ``decision="subset"`` announces
    its mode: the EBN-J of the paper. ``decision="hamming"`` goes by its marginals. The EBN-M of the
    paper instead pools the marginals of the members, which are not the marginals of any one
    distribution: `pooled_marginals` gives them, and ``decision="pooled"`` goes by them.

    Features are discrete. Continuous ones are cut into bins inside; a value that training has
    not seen gets the probability that smoothing leaves for it. Rows with missing labels serve the
    tables of the labels they have, and nothing else.

    Parameters
    ----------
    bins : int or None
        Number of bins of about equal frequency for each feature. None takes the features as they
        are: every distinct value is a category.
    max_parents : int
        Most parents of a feature. More than two only for labels that have at most 16,384 vectors in
        all: such as 14 labels of 0 and 1.
    smoothing : float or sequence of float
        Pseudo-count added to every count, positive. From a sequence the value that makes the
        labels of rows held out most probable is chosen.
    n_folds : int
        In how many parts rows are held out to choose the smoothing.
    arc_score : {"bdeu", "bic"}
        What decides on the parents of a feature. BDeu is fond of parents that hardly ever vary
        where a feature is almost certain, such as labels without any row.
    equivalent_sample_size : float
        Weight of the prior in the BDeu score.
    engine : {"auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"}
        How the pooled field is answered, see `PairwiseField`. Where a feature has more than two
        parents there is no such field, and all label vectors answer.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`; or "pooled": the most probable value of each
        label by `pooled_marginals`.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    n_jobs : int or None
        Threads (None: all cores); they do not change the answers.
    random_state : int, RandomState or None
        Seed of Gibbs sampling, where the engine is "gibbs".

    Attributes
    ----------
    feature_parents_ : tuple of p tuples of int
        Labels that are the parents of every feature.
    label_log_prob_ : list of d arrays (K_i,)
        log P(y_i).
    arc_log_prob_ : list of d lists of d arrays (K_r, K_i)
        log P(y_i | y_r) for each root r and child i; None for a label and itself.
    factors_ : tuple of FeatureFactor
        Features with the same parents, and their tables.
    smoothing_ : float
        Pseudo-count in use.
    features_ : DiscreteFeatures
        How features become codes.

    References
    ----------
    A. Antonucci, G. Corani, D. Mauá, S. Gabaglio: An ensemble of Bayesian networks for multilabel
    classification. IJCAI 2013.

    Examples
    --------
    >>> from colabel import BayesNetEnsemble
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = BayesNetEnsemble(smoothing=1.0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[1000:1001])
    >>> joint.exact.all, joint.mode()
    (True, array([[1, 1, 0, 0, 0, 1, 0]]))
    >>> len(model.feature_parents_), model.feature_parents_[20]
    (64, (0, 5))
    """

    def __init__(
        self,
        bins: int | None = 4,
        *,
        max_parents: int = 2,
        smoothing: float | Sequence[float] = DEFAULT_SMOOTHING,
        n_folds: int = 3,
        arc_score: ArcScore = "bic",
        equivalent_sample_size: float = 1.0,
        engine: Engine = "auto",
        decision: str | Decision = "subset",
        calibrate: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.bins = bins
        self.max_parents = max_parents
        self.smoothing = smoothing
        self.n_folds = n_folds
        self.arc_score = arc_score
        self.equivalent_sample_size = equivalent_sample_size
        self.engine = engine
        self.decision = decision
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Asking

    def member_joints(self, X: Any) -> list[Joint]:
        """Return the joint of each member, one root after the other, for rows X (n, p)."""
        check_is_fitted(self)
        return self._members(self._checked(X, reset=False))

    def _members(self, X: Any) -> list[Joint]:
        codes, tables = self.features_.codes(X), self._fitted_tables()
        return [self._field(tables, codes, root) for root in range(self.label_space_.n_labels)]

    def pooled_marginals(self, X: Any) -> Any:
        """Geometric means of the members' marginals, normalised: the EBN-M of the paper.

        Returns
        -------
        (n, d) array of P(y = 1) for 0/1 labels, list of (n, K_i) arrays for class variables.
        """
        check_is_fitted(self)
        pooled = self._pooled_tables(self._checked(X, reset=False))
        if self.label_space_.is_binary:
            return np.stack([table[:, 1] for table in pooled], axis=1)
        return pooled

    def _pooled_tables(self, X: Any) -> list[Array]:
        tables = [member.marginal_tables() for member in self._members(X)]
        return [_geometric_mean(list(of_label)) for of_label in zip(*tables, strict=True)]

    # Learning

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bins(self.bins)
        checked_grid("smoothing", self.smoothing)
        check_integer("n_folds", self.n_folds, 2)
        check_positive("equivalent_sample_size", self.equivalent_sample_size)
        check_integer("max_parents", self.max_parents, 0)
        check_choice("arc_score", self.arc_score, ("bdeu", "bic"))

    def _learn(self, data: TrainingData) -> None:
        require_complete_rows(data)
        self._refuse_many_vectors(data)
        self.features_ = fit_features(data.X, self.bins, data.weight)
        self._field_seed = self._seed()
        self.smoothing_ = self._choose_smoothing(data)
        tables = self._tables(self._rows(data), self.smoothing_)
        self.feature_parents_ = tables.feature_parents
        self.label_log_prob_ = tables.labels
        labels = range(data.n_labels)
        self.arc_log_prob_ = [[tables.arcs.get((r, i)) for i in labels] for r in labels]
        self.factors_ = tables.factors

    def _refuse_many_vectors(self, data: TrainingData) -> None:
        n_vectors = math.prod(data.cardinalities)
        if self.max_parents > 2 and n_vectors > MOST_VECTORS:
            raise ValueError(
                f"max_parents={self.max_parents} makes BayesNetEnsemble write out all label "
                f"vectors, and {data.n_labels} labels have {n_vectors:,} of them, more than "
                f"{MOST_VECTORS:,}: use max_parents=2, or fewer labels."
            )

    def _choose_smoothing(self, data: TrainingData) -> float:
        grid = checked_grid("smoothing", self.smoothing)
        if len(grid) == 1:
            return grid[0]
        rows = self._rows(complete_rows(data, self._field_seed))

        def score(left: Array, held_out: Indices) -> Array:
            parents = self._feature_parents(replace(rows, weight=left))
            found = []
            for value in grid:
                tables = self._tables(replace(rows, weight=left), value, parents)
                joint = self._field(tables, rows.features[held_out])
                found.append(joint.log_prob_codes(rows.labels[held_out]))
            return np.stack(found)

        return choose_smoothing(grid, rows.weight, int(self.n_folds), score)

    def _rows(self, data: TrainingData) -> TrainingRows:
        codes, columns = self.features_.codes(data.X), self.features_.columns
        return TrainingRows(data.codes, data.cardinalities, codes, columns, data.row_weights)

    def _feature_parents(self, rows: TrainingRows) -> Parents:
        counts = rows.counts()
        return choose_label_parents(
            counts.vectors,
            counts.values,
            rows.columns,
            rows.cardinalities,
            max_parents=int(self.max_parents),
            score=self.arc_score,
            equivalent_sample_size=float(self.equivalent_sample_size),
        )

    def _tables(
        self, rows: TrainingRows, smoothing: float, parents: Parents | None = None
    ) -> EnsembleTables:
        return ensemble_tables(rows, parents or self._feature_parents(rows), smoothing)

    # Answering

    def decision_rule(self) -> Decision:
        """Return how the labels of a joint are chosen; "pooled" needs more than a joint."""
        return resolve_decision("hamming") if self.decision == "pooled" else super().decision_rule()

    def _codes(self, X: Any) -> Codes:
        if self.decision != "pooled":
            return super()._codes(X)
        codes = [table.argmax(axis=1) for table in self._pooled_tables(X)]
        return np.stack(codes, axis=1).astype(np.int32)

    def _joint(self, X: Any) -> Joint:
        return self._field(self._fitted_tables(), self.features_.codes(X))

    def _fitted_tables(self) -> EnsembleTables:
        arcs = {
            (r, i): table
            for r, row in enumerate(self.arc_log_prob_)
            for i, table in enumerate(row)
            if table is not None
        }
        return EnsembleTables(self.feature_parents_, self.label_log_prob_, arcs, self.factors_)

    def _field(self, tables: EnsembleTables, codes: Codes, root: int | None = None) -> Joint:
        """The joint of the member with this root, or of all members pooled."""
        if needs_vectors(tables.factors):
            sizes = self.label_space_.cardinalities
            return WrittenOut(
                self.label_space_,
                lambda rows: vector_scores(tables, codes[rows], sizes, root),
                len(codes),
            )
        unary, edges, pairs = tables.potentials(codes, root)
        return PairwiseField(
            self.label_space_,
            unary,
            edges,
            pairs,
            engine=self.engine,
            random_state=self._field_seed,
            n_jobs=self.n_jobs,
        )

    def decides_by_joint(self) -> bool:
        """Whether `predict` asks the joint: pooled marginals are those of the members."""
        return self.decision != "pooled"

    def label_graph(self) -> LabelGraph:
        """Return no edges: every network has a root of its own."""
        names = self.label_names_
        meaning = f"{len(names)} networks, each with another label as root: it has no one graph."
        return LabelGraph.without_edges(names, meaning)


def _geometric_mean(tables: list[Array]) -> Array:
    """Normalised geometric mean of distributions (n, K)."""
    with np.errstate(divide="ignore"):
        logs = np.mean([np.log(table) for table in tables], axis=0)
    pooled = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Array = pooled / pooled.sum(axis=1, keepdims=True)
    return found
