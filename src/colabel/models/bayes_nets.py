"""EBN: an ensemble of Bayesian networks (Antonucci, Corani, Mauá & Gabaglio)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.estimators import attribute
from colabel.core.parameters import checked_grid
from colabel.core.schema import POSITIVE, Below, Between, Distribution, check_that, stored
from colabel.decide import Decision, resolve_decision
from colabel.joint import Joint, PairwiseField
from colabel.joint.field import Engine
from colabel.joint.lds.network import sums_by_state
from colabel.joint.vectors import WrittenOut
from colabel.labels import all_vectors
from colabel.learn.conditional import TrainingData, distinct_rows
from colabel.learn.structure.bayes_network import (
    NetworkScore,
    Parents,
    label_state,
    parent_set_scores,
)
from colabel.models import discrete_features
from colabel.models.base import JointClassifier
from colabel.models.chain.learning import completed_by_chain
from colabel.models.label_graph import LabelGraph
from colabel.models.lds.learning import TrainingRows
from colabel.models.learning import DEFAULT_SMOOTHING, original_rows, smoothing_grid

# Another parent must gain more than rounding errors.
_GAIN = 1e-9
MOST_VECTORS = 2**14


@stored("feature-factor")
class FeatureFactor(NamedTuple):
    """All features with the same parents.

    Attributes
    ----------
    parents : tuple of int
        Labels, ascending.
    features : (m,) array of int
    log_tables : tuple of m arrays (S, V_j)
        log P(x_j | state of the parents).
    """

    parents: tuple[int, ...]
    features: Annotated[Indices, "m"]
    log_tables: Annotated[tuple[Array, ...], "m _ _", Distribution(log=True)]

    def scores(self, codes: Codes) -> Array:
        """Sum of the log-probabilities of these features, (n, S)."""
        found = np.zeros((len(codes), len(self.log_tables[0])))
        for j, table in zip(self.features, self.log_tables, strict=True):
            found += table.T[codes[:, j]]
        return found


class EnsembleTables(NamedTuple):
    """Everything the members know.

    Attributes
    ----------
    feature_parents : tuple of p tuples of int
    labels : list of d arrays (K_i,)
        log P(y_i).
    arcs : dict of (r, i) to arrays (K_r, K_i)
        log P(y_i | y_r).
    factors : tuple of FeatureFactor
    """

    feature_parents: Parents
    labels: list[Array]
    arcs: dict[tuple[int, int], Array]
    factors: tuple[FeatureFactor, ...]

    def potentials(
        self, codes: Codes, root: int | None = None
    ) -> tuple[list[Array], Indices, list[Array]]:
        """Log P(y, x) of a member, or the mean over the members, as sums over labels and pairs.

        Parameters
        ----------
        codes : (n, p) array
            Codes of the features.
        root : int or None
            Root of the member; None for the mean.

        Returns
        -------
        unary : list of d arrays (n, K_i)
        edges : (E, 2) array
        tables : list of E arrays (n, K_i, K_j) or (1, K_i, K_j)
        """
        sizes = [len(table) for table in self.labels]
        roots = range(len(sizes)) if root is None else [root]
        unary = [np.zeros((len(codes), size)) for size in sizes]
        tables: dict[tuple[int, int], Array] = {}
        for r in roots:
            unary[r] += self.labels[r] / len(roots)
            for i in range(len(sizes)):
                if i != r:
                    _add(tables, r, i, self.arcs[r, i][None] / len(roots))
        for factor in self.factors:
            scores = factor.scores(codes)
            if len(factor.parents) == 1:
                unary[factor.parents[0]] += scores
            elif factor.parents:
                first, second = factor.parents
                _add(tables, first, second, scores.reshape(-1, sizes[first], sizes[second]))
        edges = sorted(tables)
        ends = np.array(edges, dtype=np.intp).reshape(-1, 2)
        return unary, ends, [tables[edge] for edge in edges]

    def vector_scores(self, codes: Codes, root: int | None = None) -> Array:
        r"""Return log P(y, x) of a member, or the mean over the members, for all label vectors.

        .. math:: \log P(y, x) = \frac1{|R|} \sum_{r \in R} \Big(\log P(y_r)
                  + \sum_{i \ne r} \log P(y_i \mid y_r)\Big) + \sum_j \log P(x_j \mid y_{Pa(j)})

        where R has the one root, or all. Shape (n, N), the last label changing fastest.
        """
        sizes = tuple(len(table) for table in self.labels)
        vectors = all_vectors(sizes)
        roots = range(len(sizes)) if root is None else [root]
        prior = np.zeros(len(vectors))
        for r in roots:
            prior += self.labels[r][vectors[:, r]] / len(roots)
            for i in range(len(sizes)):
                if i != r:
                    prior += self.arcs[r, i][vectors[:, r], vectors[:, i]] / len(roots)
        scores = np.tile(prior, (len(codes), 1))
        for factor in self.factors:
            scores += factor.scores(codes)[:, label_state(vectors, factor.parents, sizes)[0]]
        return scores


def ensemble_tables(rows: TrainingRows, parents: Parents, smoothing: float) -> EnsembleTables:
    """Estimate all tables as smoothed frequencies."""
    sizes, every = rows.cardinalities, range(len(rows.cardinalities))

    def log_rows(counts: Array) -> Array:
        smoothed = counts + smoothing
        return np.asarray(np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))

    def label_table(*labels: int) -> Array:
        """Log P(last label | the one before), (K_r, K_i); (1, K_i) without one before."""
        state, n_states = label_state(rows.labels, labels, sizes)
        counts = np.bincount(state, rows.weight, minlength=n_states).astype(np.float64)
        return log_rows(counts.reshape(-1, sizes[labels[-1]]))

    vectors, _, values = rows.counts
    factors = []
    for labels in sorted(set(parents)):
        own = [j for j, other in enumerate(parents) if other == labels]
        tally = sums_by_state(*label_state(vectors, labels, sizes), values)
        tables = [log_rows(tally[:, rows.columns.of(j)]) for j in own]
        factors.append(FeatureFactor(labels, np.array(own, dtype=np.intp), tuple(tables)))
    return EnsembleTables(
        parents,
        [label_table(i)[0] for i in every],
        {(r, i): label_table(r, i) for r in every for i in every if r != i},
        tuple(factors),
    )


def _add(tables: dict[tuple[int, int], Array], i: int, j: int, table: Array) -> None:
    """Add a table (n or 1, K_i, K_j) to that of an edge."""
    if i > j:
        i, j, table = j, i, table.transpose(0, 2, 1)
    tables[i, j] = tables[i, j] + table if (i, j) in tables else table


@stored("bayes-net-ensemble")
class BayesNetEnsemble(JointClassifier):
    r"""Generative: one tree over the labels for each root, pooled.

    Take it where features are categories and rows are few. Cost: high.

    In member r all other labels are children of label r. Features are independent given the
    labels; each has the parents among the labels that score best, the same in all members. The
    members' distributions are pooled by their geometric mean:

    .. math:: P(y \mid x) \propto \Big(\prod_{r=1}^d P(y_r)
              \prod_{i \ne r} P(y_i \mid y_r)\Big)^{1/d} \prod_j P(x_j \mid y_{Pa(j)})

    This is a pairwise field, as long as features have at most two parents; where one has more, all
    label vectors are written out. ``decision="subset"`` predicts
    its mode: the EBN-J of the paper. ``decision="hamming"`` goes by its marginals. The EBN-M of the
    paper instead pools the marginals of the members, which are not the marginals of any one
    distribution: `pooled_marginals` gives them, and ``decision="pooled"`` goes by them.

    Features are discrete. Continuous ones are cut into bins inside; a value that training has
    not seen gets the probability that smoothing leaves for it. Missing labels are drawn
    given the known ones of their row, from a chain of regressions.

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
        labels of rows held out most probable is chosen. Where labels are missing, the default
        stands for 1, 10 and 100.
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

    bins: int | None = field(default=4, kw_only=False)
    max_parents: Annotated[int, Between(0)] = 2
    smoothing: float | Sequence[float] = DEFAULT_SMOOTHING
    n_folds: Annotated[int, Between(2)] = 3
    arc_score: NetworkScore = "bic"
    equivalent_sample_size: Annotated[float, POSITIVE] = 1.0
    engine: Engine = "auto"
    verbose: ClassVar[int] = 0  # type: ignore[misc]
    features_: Annotated[discrete_features.DiscreteFeatures, "p values"] = attribute()
    _field_seed: int = attribute()
    smoothing_: Annotated[float, Between(0.0)] = attribute()
    feature_parents_: Annotated[tuple[tuple[int, ...], ...], "p _", Below("d")] = attribute()
    label_log_prob_: Annotated[list[Array], "d [sizes]", Distribution(log=True)] = attribute()
    arc_log_prob_: Annotated[list[list[Array | None]], "d d _ _", Distribution(log=True)] = (
        attribute()
    )
    factors_: tuple[FeatureFactor, ...] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        sizes, values = dims["sizes"], dims["values"]
        for r, row in enumerate(fields["arc_log_prob_"]):
            for i, arc in enumerate(row):
                shape = None if arc is None else arc.shape
                check_that(shape == (None if i == r else (sizes[r], sizes[i])), "arcs are damaged")
        features_of_factors: list[int] = []
        for factor in fields["factors_"]:
            parents, features = factor.fields["parents"], factor.fields["features"].tolist()
            ascend = list(parents) == sorted(set(parents)) and all(i < dims["d"] for i in parents)
            few = len(parents) <= 2 or math.prod(sizes) <= MOST_VECTORS
            check_that(ascend and few, "a factor's labels are damaged")
            n_states = math.prod(sizes[i] for i in parents)
            check_that(all(j < dims["p"] for j in features), "a factor names no feature")
            tables = zip(features, factor.fields["log_tables"], strict=True)
            fits = all(table.shape == (n_states, values[j]) for j, table in tables)
            check_that(fits, "a table of a factor does not fit its labels and feature")
            features_of_factors += features
        once = sorted(features_of_factors) == list(range(dims["p"]))
        check_that(once, "a feature is in no factor, or in two")

    # Asking

    def member_joints(self, X: Any) -> list[Joint]:
        """Return the joint of each member, one root after the other, for rows X (n, p)."""
        check_is_fitted(self)
        codes = self.features_.codes(self._checked(X, reset=False))
        tables = self._fitted_tables()
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
        codes, tables = self.features_.codes(X), self._fitted_tables()
        logs = [np.zeros((len(codes), size)) for size in self.label_space_.cardinalities]
        for root in range(len(logs)):
            with np.errstate(divide="ignore"):
                for total, own in zip(
                    logs, self._field(tables, codes, root).marginal_tables(), strict=True
                ):
                    total += np.log(own) / len(logs)
        return [softmax(total, axis=1) for total in logs]

    # Learning

    def _check_parameters(self) -> None:
        super()._check_parameters()
        discrete_features.check_bins(self.bins)
        checked_grid("smoothing", self.smoothing)

    def _learn(self, data: TrainingData) -> None:
        data = completed_by_chain(data, self._seed(), self.n_jobs)
        n_vectors = math.prod(data.cardinalities)
        if self.max_parents > 2 and n_vectors > MOST_VECTORS:
            raise ValueError(
                f"max_parents={self.max_parents} makes BayesNetEnsemble write out all label "
                f"vectors, and {data.n_labels} labels have {n_vectors:,} of them, more than "
                f"{MOST_VECTORS:,}: use max_parents=2, or fewer labels."
            )
        self.features_ = discrete_features.fit_features(data.X, self.bins, data.weight)
        self._field_seed = self._seed()
        self.smoothing_ = self._choose_smoothing(data)
        rows = self._rows(data)
        tables = ensemble_tables(rows, self._feature_parents(rows), self.smoothing_)
        self.feature_parents_ = tables.feature_parents
        self.label_log_prob_ = tables.labels
        labels = range(data.n_labels)
        self.arc_log_prob_ = [[tables.arcs.get((r, i)) for i in labels] for r in labels]
        self.factors_ = tables.factors

    def _choose_smoothing(self, data: TrainingData) -> float:
        grid = smoothing_grid(self.smoothing, data)
        if len(grid) == 1:
            return grid[0]
        distinct = distinct_rows(data, self._field_seed)
        rows = self._rows(distinct)

        def score(left: Array, held_out: Indices) -> Array:
            kept = replace(rows, weight=left)
            parents, found = self._feature_parents(kept), []
            for value in grid:
                joint = self._field(ensemble_tables(kept, parents, value), rows.features[held_out])
                found.append(joint.log_prob_codes(rows.labels[held_out]))
            return np.stack(found)

        return discrete_features.choose_smoothing(
            grid, rows.weight, int(self.n_folds), score, original_rows(distinct)[1]
        )

    def _rows(self, data: TrainingData) -> TrainingRows:
        codes, columns = self.features_.codes(data.X), self.features_.columns
        return TrainingRows(data.codes, data.cardinalities, codes, columns, data.row_weights)

    def _feature_parents(self, rows: TrainingRows) -> Parents:
        """The set of labels with the best score for each feature, of ties the first by size."""
        vectors, _, values = rows.counts
        best = np.full(rows.columns.n_features, -np.inf)
        chosen: list[tuple[int, ...]] = [()] * len(best)
        for parents, scores in parent_set_scores(
            vectors,
            rows.cardinalities,
            values,
            rows.columns,
            score=self.arc_score,
            max_parents=int(self.max_parents),
            equivalent_sample_size=float(self.equivalent_sample_size),
        ):
            for j in np.flatnonzero(scores > best + _GAIN):
                best[j], chosen[j] = scores[j], parents
        return tuple(chosen)

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
        if any(len(factor.parents) > 2 for factor in tables.factors):
            return WrittenOut(
                self.label_space_, lambda rows: tables.vector_scores(codes[rows], root), len(codes)
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
