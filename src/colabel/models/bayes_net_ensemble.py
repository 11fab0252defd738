"""EBN: an ensemble of Bayesian networks (Antonucci, Corani, Mauá & Gabaglio)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from colabel.decide import Decision
from colabel.joint import Joint, PairwiseField
from colabel.labels import MISSING, Codes
from colabel.learn.conditional import TrainingData
from colabel.learn.feature_arcs import ArcScore, choose_label_parents, label_state
from colabel.learn.lds import FeatureColumns, LabelledCounts
from colabel.models._discrete_features import (
    check_bins,
    fit_features,
    require_complete_rows,
    weights_of,
)
from colabel.models._field_parameters import Engine
from colabel.models._parameters import check_integer, check_positive
from colabel.models.base import JointClassifier

Array = NDArray[np.float64]


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
    features: NDArray[np.intp]
    log_tables: tuple[Array, ...]

    def scores(self, codes: Codes) -> Array:
        """Sum of the log-probabilities of these features, (n, S)."""
        found = np.zeros((len(codes), len(self.log_tables[0])))
        for j, table in zip(self.features, self.log_tables, strict=True):
            found += table.T[codes[:, j]]
        return found


class BayesNetEnsemble(JointClassifier):
    r"""As many Bayesian networks as labels, each with another label as root, pooled.

    In member r all other labels are children of label r. Features are independent given the
    labels; each has the parents among the labels that score best, the same in all members. The
    members' distributions are pooled by their geometric mean:

    .. math:: P(y \mid x) \propto \Big(\prod_{r=1}^d P(y_r)
              \prod_{i \ne r} P(y_i \mid y_r)\Big)^{1/d} \prod_j P(x_j \mid y_{Pa(j)})

    This is a pairwise field, as features have at most two parents. ``decision="subset"`` announces
    its mode: the EBN-J of the paper. ``decision="hamming"`` goes by its marginals. The EBN-M of the
    paper instead pools the marginals of the members, which are not the marginals of any one
    distribution: `pooled_marginals` gives them.

    Features are discrete. Continuous ones are cut into bins inside; a value that training has
    not seen gets the probability that smoothing leaves for it. Rows with missing labels serve the
    tables of the labels they have, and nothing else.

    Parameters
    ----------
    bins : int or None
        Number of bins of about equal frequency for each feature. None takes the features as they
        are: every distinct value is a category.
    max_parents : int
        Most parents of a feature, 0 to 2.
    smoothing : float
        Pseudo-count added to every count, positive.
    arc_score : {"bdeu", "bic"}
        What decides on the parents of a feature.
    equivalent_sample_size : float
        Weight of the prior in the BDeu score.
    engine : {"auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"}
        How the pooled field is answered, see `PairwiseField`.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`.
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
    arc_log_prob_ : dict of (r, i) to arrays (K_r, K_i)
        log P(y_i | y_r) for each root r and child i.
    factors_ : tuple of FeatureFactor
        Features with the same parents, and their tables.
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
    >>> model = BayesNetEnsemble().fit(data.X[:1000], data.Y[:1000], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint.exact, joint.mode()
    (True, array([[1, 0, 0, 1, 1, 0, 1]]))
    """

    def __init__(
        self,
        bins: int | None = 4,
        *,
        max_parents: int = 2,
        smoothing: float = 1.0,
        arc_score: ArcScore = "bdeu",
        equivalent_sample_size: float = 1.0,
        engine: Engine = "auto",
        decision: str | Decision = "subset",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.bins = bins
        self.max_parents = max_parents
        self.smoothing = smoothing
        self.arc_score = arc_score
        self.equivalent_sample_size = equivalent_sample_size
        self.engine = engine
        self.decision = decision
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Asking

    def member_joints(self, X: Any) -> list[Joint]:
        """Return the joint of each member, one root after the other, for rows X (n, p)."""
        check_is_fitted(self)
        codes = self.features_.codes(self._checked(X, reset=False))
        n_labels = self.label_space_.n_labels
        return [self._field(codes, {root: 1.0}) for root in range(n_labels)]

    def pooled_marginals(self, X: Any) -> Any:
        """Geometric means of the members' marginals, normalised: the EBN-M of the paper.

        Returns
        -------
        (n, d) array of P(y = 1) for 0/1 labels, list of (n, K_i) arrays for class variables.
        """
        tables = [member.marginal_tables() for member in self.member_joints(X)]
        pooled = [_geometric_mean(list(of_label)) for of_label in zip(*tables, strict=True)]
        if self.label_space_.is_binary:
            return np.stack([table[:, 1] for table in pooled], axis=1)
        return pooled

    # Learning

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bins(self.bins)
        check_positive("smoothing", self.smoothing)
        check_positive("equivalent_sample_size", self.equivalent_sample_size)
        check_integer("max_parents", self.max_parents, 0, 2)
        if self.arc_score not in ("bdeu", "bic"):
            raise ValueError(f"arc_score={self.arc_score!r} must be 'bdeu' or 'bic'.")

    def _learn(self, data: TrainingData) -> None:
        require_complete_rows(data)
        weight = weights_of(data)
        self.features_ = fit_features(data.X, self.bins, data.weight)
        columns = self.features_.columns
        counts = LabelledCounts.of(data.codes, self.features_.codes(data.X), columns, weight)
        self.feature_parents_ = choose_label_parents(
            counts.vectors,
            counts.values,
            columns,
            data.cardinalities,
            max_parents=int(self.max_parents),
            score=self.arc_score,
            equivalent_sample_size=float(self.equivalent_sample_size),
        )
        self.factors_ = self._factors(counts, columns, data.cardinalities)
        every = range(data.n_labels)
        self.label_log_prob_ = [self._log_table(data, weight, (i,))[0] for i in every]
        self.arc_log_prob_ = {
            (r, i): self._log_table(data, weight, (r, i)) for r in every for i in every if r != i
        }
        self._field_seed = self._seed()

    def _factors(
        self, counts: LabelledCounts, columns: FeatureColumns, cardinalities: tuple[int, ...]
    ) -> tuple[FeatureFactor, ...]:
        """Smoothed tables of the features, gathered by their parents."""
        found = []
        for parents in sorted(set(self.feature_parents_)):
            own = [j for j, other in enumerate(self.feature_parents_) if other == parents]
            state, n_states = label_state(counts.vectors, parents, cardinalities)
            tally = np.zeros((n_states, columns.n_columns))
            np.add.at(tally, state, counts.values)
            tables = [_log_rows(tally[:, columns.of(j)], float(self.smoothing)) for j in own]
            found.append(FeatureFactor(parents, np.array(own, dtype=np.intp), tuple(tables)))
        return tuple(found)

    def _log_table(self, data: TrainingData, weight: Array, labels: tuple[int, ...]) -> Array:
        """Smoothed log P(last label | the one before), (K_r, K_i); (1, K_i) without one."""
        known = (data.codes[:, labels] != MISSING).all(axis=1)
        state, n_states = label_state(data.codes[known], labels, data.cardinalities)
        counts = np.bincount(state, weight[known], minlength=n_states)
        rows = counts.reshape(-1, data.cardinalities[labels[-1]]).astype(np.float64)
        return _log_rows(rows, float(self.smoothing))

    # Answering

    def _joint(self, X: Any) -> Joint:
        n_labels = self.label_space_.n_labels
        shares = dict.fromkeys(range(n_labels), 1.0 / n_labels)
        return self._field(self.features_.codes(X), shares)

    def _field(self, codes: Codes, shares: dict[int, float]) -> PairwiseField:
        """The members with these roots, each raised to its share, times the features."""
        sizes = self.label_space_.cardinalities
        unary = [np.zeros((len(codes), size)) for size in sizes]
        tables: dict[tuple[int, int], Array] = {}
        for root, share in shares.items():
            unary[root] += share * self.label_log_prob_[root]
            for i in range(len(sizes)):
                if i != root:
                    _add(tables, root, i, share * self.arc_log_prob_[root, i][None])
        for factor in self.factors_:
            scores = factor.scores(codes)
            if len(factor.parents) == 1:
                unary[factor.parents[0]] += scores
            elif factor.parents:
                first, second = factor.parents
                _add(tables, first, second, scores.reshape(-1, sizes[first], sizes[second]))
        edges = sorted(tables)
        return PairwiseField(
            self.label_space_,
            unary,
            np.array(edges, dtype=np.intp).reshape(-1, 2),
            [tables[edge] for edge in edges],
            engine=self.engine,
            random_state=self._field_seed,
            n_jobs=self.n_jobs,
        )


def _add(tables: dict[tuple[int, int], Array], i: int, j: int, table: Array) -> None:
    """Add a table (n or 1, K_i, K_j) to that of an edge."""
    if i > j:
        i, j, table = j, i, table.transpose(0, 2, 1)
    tables[i, j] = tables[i, j] + table if (i, j) in tables else table


def _log_rows(counts: Array, smoothing: float) -> Array:
    """Logarithms of smoothed frequencies, rows summing to one."""
    smoothed = counts + smoothing
    found: Array = np.log(smoothed / smoothed.sum(axis=1, keepdims=True))
    return found


def _geometric_mean(tables: list[Array]) -> Array:
    """Normalised geometric mean of distributions (n, K)."""
    with np.errstate(divide="ignore"):
        logs = np.mean([np.log(table) for table in tables], axis=0)
    pooled = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Array = pooled / pooled.sum(axis=1, keepdims=True)
    return found
