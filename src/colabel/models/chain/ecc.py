"""Ensembles of classifier chains (Read, Pfahringer, Holmes & Frank, 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.parameters import check_integer
from colabel.core.progress import progress_bar
from colabel.core.schema import Many, Part, Positions, Whole, stored
from colabel.core.threads import map_threads
from colabel.decide import Decision, Votes
from colabel.joint import Mixture
from colabel.joint.chain import ChainSearch, as_search
from colabel.learn.chunks import is_chunked
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.row_chance import RowRanks
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    make_folds,
    make_learner,
    seeded,
)
from colabel.models._parameters import refuse_missing
from colabel.models._stacks import StacksEstimator, check_inputs
from colabel.models.chain._learning import NEEDS_EARLIER, LearnedChain, learn_chain
from colabel.models.chain._scales import resolve_scales
from colabel.models.label_graph import LabelGraph


@stored(
    "ensemble-of-chains",
    check=check_inputs,
    n_samples=Whole(1, 10**6),
    _sampling_seed=Whole(),
    chains_=Many(Part("chain", d="d", sizes="sizes", p="s"), "members"),
    orders_=Positions("members d", below="d"),
)
class EnsembleOfChains(StacksEstimator):
    r"""A mixture of classifier chains in random orders.

    .. math:: P(y \mid x) = \frac{1}{M} \sum_m P_m(y \mid x)

    where :math:`P_m` is the distribution of chain m. The joint is a `Mixture` of `Chain`.

    Parameters
    ----------
    n_chains : int
        Number of chains M.
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each link by cross-validation.
    label_scale : None, float or sequence of float
        How large the columns of the labels are beside the features: 0 and `label_scale`. The
        penalty holds back a label's weight the less the larger it is; 1 treats labels like
        features, as classic chains do. From a sequence the best value is chosen for each link by
        cross-validation, together with C. None: 1 where C is a number, chosen from 1, 10 and 100
        where C is a sequence. Of the built-in regression only.
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`. It learns each label from x alone, once
        for all chains, and the links are built-in regressions on its held-out scores and the
        earlier labels (see `stack`).
    stack : bool
        Of `estimator`. False, as published: the links are the estimator itself, on x and then the
        columns of the earlier labels. `GaussianNB()` gives the ECC-NB of the literature,
        `DecisionTreeClassifier()` is close to its ECC-J48.
    max_parents : int or None
        Most earlier labels a link may use, see `ClassifierChain`.
    max_samples : float
        Share of the rows each chain is taught with. Equal rows stay together.
    bootstrap : bool
        Whether rows are drawn with replacement, by weight; an `estimator` that is not stacked
        must then accept `sample_weight`.
    inference : str or ChainSearch
        How the chains' own candidates for the mode are found, see `ProbabilisticClassifierChain`.
        "greedy" is that of the classic ensemble, whose `decision` is "vote". The mode of the
        mixture is exact with "exact" and with the built-in regression; see `Mixture`.
    n_samples : int
        Draws per row that estimate marginals where there are more than 65536 label vectors.
    cv : int, float, splitter or iterable
        How rows are held out to choose C: a number of folds, a fraction, a scikit-learn
        splitter, or pairs of index arrays (train, test).
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. "subset" gives the most probable vector of
        the mixture, "hamming" the most probable value of each
        label. "vote" is the classic ensemble: for each label the value that most chains announce.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads, one chain each, of the built-in regression (None: all cores), or joblib workers
        for `estimator`. The answer does not depend on it.
    random_state : int, RandomState or None
        Seed of orders, rows, folds, draws, and of an `estimator` without seed.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    orders_ : (M, d) array of int
        Order of every chain.
    chains_ : list of M LearnedChain
        The chains; `chains_[m].models` are the links in the order of the labels.
    n_iter_ : int
        Most iterations any regression of the final fits took; of regressions only.
    estimator_scores_ : EstimatorScores
        Classifiers of each label from x alone; only with a stacked `estimator`.

    References
    ----------
    J. Read, B. Pfahringer, G. Holmes, E. Frank: Classifier chains for multi-label
    classification. ECML PKDD 2009; Machine Learning 85, 2011.

    Examples
    --------
    >>> from colabel import EnsembleOfChains
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = EnsembleOfChains(5, C=0.01, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> model.predict(data.X[-1:])
    array([[1, 0, 0, 1, 1, 0, 0]])
    >>> len(model.joint(data.X[-1:]).members)
    5
    """

    def __init__(
        self,
        n_chains: int = 10,
        *,
        C: float | Sequence[float] = DEFAULT_GRID,
        label_scale: float | Sequence[float] | None = None,
        estimator: BaseEstimator | None = None,
        stack: bool = True,
        max_parents: int | None = None,
        max_samples: float = 0.67,
        bootstrap: bool = False,
        inference: str | ChainSearch = "greedy",
        n_samples: int = 1000,
        cv: Any = 5,
        decision: str | Decision = "subset",
        calibrate: bool = False,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_chains = n_chains
        self.C = C
        self.label_scale = label_scale
        self.estimator = estimator
        self.stack = stack
        self.max_parents = max_parents
        self.max_samples = max_samples
        self.bootstrap = bootstrap
        self.inference = inference
        self.n_samples = n_samples
        self.cv = cv
        self.decision = decision
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: TrainingData) -> None:
        refuse_missing(data, self.label_space_, NEEDS_EARLIER)
        seed = self._seed()
        self._sampling_seed = seed
        data = self._stacked(data, make_folds(data, self.cv, seed), seed)
        seeds = np.random.SeedSequence(seed).generate_state(self.n_chains).tolist()
        # links of one chain are a single batch, so built-in regressions spread chain by chain;
        # joblib spreads the links of other estimators by itself, Dask the chunks of rows
        spread = self._conditional_estimator() is None and not is_chunked(data)
        threads = self.n_jobs if spread else 1
        with progress_bar("chains", self.n_chains, shown=bool(self.verbose)) as advance:
            self.chains_: list[LearnedChain] = map_threads(
                lambda member: self._learn_member(data, member), seeds, threads, advance
            )
        self.orders_ = np.stack([chain.order for chain in self.chains_])
        counts = [chain.models.n_iter for chain in self.chains_]
        self._record(max((n for n in counts if n is not None), default=None))

    def _learn_member(self, data: TrainingData, seed: int) -> LearnedChain:
        order = np.random.default_rng(seed).permutation(data.n_labels)
        part, own_folds = self._member_rows(data, seed)
        # scikit-learn's seeds have 31 bits
        estimator = seeded(self._conditional_estimator(), seed >> 1)
        inner_jobs = 1 if estimator is None else self.n_jobs
        learner = make_learner(estimator, self.C, self.tol, self.max_iter, inner_jobs, 0)
        scales = resolve_scales(self.label_scale, self.C, estimator)
        return learn_chain(learner, part, order, own_folds, scales, self.max_parents)

    def _member_rows(self, data: TrainingData, seed: int) -> tuple[TrainingData, Folds]:
        """Rows of a chain, and their folds among those of all rows."""
        folds = make_folds(data, self.cv, seed)  # of all rows, which splits given by the user need
        if is_chunked(data):
            if self.bootstrap:
                raise TypeError(
                    "EnsembleOfChains(bootstrap=True) does not learn from Dask arrays: leave"
                    " bootstrap out."
                )
            return sampled_chunks(data, self.max_samples, seed, folds)
        rows, part = resampled(data, self.max_samples, self.bootstrap, seed)
        return part, Folds(folds.of_row[rows], folds.n_folds)

    fits_chunks = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_chains", self.n_chains, 1)
        check_integer("n_samples", self.n_samples, 1)
        if not 0 < self.max_samples <= 1:
            raise ValueError(
                f"max_samples={self.max_samples!r} must be a share of the rows: above 0, at most 1."
            )
        if self.max_parents is not None:
            check_integer("max_parents", self.max_parents, 1)
        resolve_scales(self.label_scale, self.C, self._conditional_estimator())
        as_search(self.inference)

    def decision_rule(self) -> Decision:
        """Return how `predict` chooses the labels of a joint."""
        return Votes() if self.decision == "vote" else super().decision_rule()

    def _joint(self, X: Any) -> Mixture:
        search, space, inputs = as_search(self.inference), self.label_space_, self._inputs(X)
        return Mixture(
            [
                chain.joint(space, inputs, search, self.n_samples, self._sampling_seed)
                for chain in self.chains_
            ]
        )

    short_name = "ecc"

    def label_graph(self) -> LabelGraph:
        """Return no edges: every chain has an order of its own."""
        meaning = f"A mixture of {len(self.orders_)} chains in random orders: it has no one graph."
        return LabelGraph.without_edges(self.label_names_, meaning)


def resampled(
    data: TrainingData, share: float, bootstrap: bool, seed: int
) -> tuple[Indices, TrainingData]:
    """Return the positions of some rows, drawn with or without replacement, and these rows.

    Chance is drawn from the content of the rows, as for folds: equal rows are drawn together,
    and neither the order of the rows nor writing a row twice instead of giving it weight 2
    changes what is drawn.
    """
    if share == 1.0 and not bootstrap:
        return np.arange(data.n_rows), data
    ranks = RowRanks.of(data, seed)
    if not bootstrap:
        return _chosen(data, _first_ranks(data, ranks, share), data.weight)
    weight = data.row_weights
    _, of_row = np.unique(ranks(data), return_inverse=True)
    mass = np.bincount(of_row, weight)
    size = max(1, round(share * float(mass.sum())))
    drawn = np.random.default_rng(seed).multinomial(size, mass / mass.sum())
    new_weight = weight * (drawn / np.where(mass > 0, mass, 1.0))[of_row]
    return _chosen(data, new_weight > 0, new_weight)


def sampled_chunks(data: Any, share: float, seed: int, folds: Any) -> tuple[Any, Any]:
    """Do what `resampled` does, without replacement, for rows in chunks; the folds go with them."""
    if share == 1.0:
        return data, folds
    part, own_folds = data.where(folds, _first_ranks, RowRanks.of(data, seed), share)
    return part, own_folds


def _first_ranks(data: TrainingData, ranks: RowRanks, share: float) -> Flags:
    """Which rows (n,) of positive weight are among a share of the ranks."""
    first = ranks(data) < np.uint64(min(max(1, round(share * ranks.n_ranks)), 2**64 - 1))
    return np.asarray(first & (data.row_weights > 0))


def _chosen(data: TrainingData, kept: Flags, weight: Array | None) -> tuple[Indices, TrainingData]:
    rows = np.flatnonzero(kept)
    return rows, replace(data, weight=weight).take(rows)
