"""Chains of classifiers: greedy, probabilistic (Dembczynski et al., 2010), and ensembles of them.

Classifier chains and their ensembles are those of Read, Pfahringer, Holmes & Frank (2009).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from operator import methodcaller
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.estimators import attribute
from colabel.core.progress import progress_bar
from colabel.core.schema import Below, Between, stored
from colabel.core.threads import map_threads
from colabel.decide import Decision, Votes
from colabel.joint import Chain, Mixture
from colabel.joint.chain import BeamSearch, ChainSearch, EpsilonSearch, MonteCarlo, as_search
from colabel.learn.conditional import Folds, TrainingData, is_chunked
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.linear import LinearModels
from colabel.learn.row_hashing import RowRanks
from colabel.models.chain.learning import (
    LearnedChain,
    learn_chain,
    resolve_order,
    resolve_scales,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import DEFAULT_GRID, Grid, make_folds, seeded
from colabel.models.with_estimator import StacksEstimator


class Chained(StacksEstimator):
    """Base of models of one chain or of several.

    Parameters
    ----------
    label_scale : None, float or sequence of float
        How large the columns of the labels are beside the features: 0 and `label_scale`. The
        penalty holds back a label's weight the less the larger it is; 1 treats labels like
        features, as classic chains do. From a sequence the best value is chosen for each link by
        cross-validation, together with C. None: 1 where C is a number, chosen from 1, 10 and 100
        where C is a sequence. Of the built-in regression only.
    stack : bool
        Of `estimator`. False, as published: the links are the estimator itself, on x and then the
        columns of the earlier labels. Trees rarely draw these among many features.
    max_parents : int or None
        Most earlier labels a link may use: those that its label depends on most beyond x, by a
        score test on held-out residuals. None: all of them.
    n_samples : int
        Draws per row that estimate marginals where there are more than 65536 label vectors.
    """

    label_scale: Grid | None = None
    max_parents: Annotated[int | None, Between(1)] = None
    n_samples: Annotated[int, Between(1, 20_000)] = 1000
    _sampling_seed: int = attribute()
    fits_chunks = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        resolve_scales(self.label_scale, self.C, self._conditional_estimator())


class ChainModel(Chained):
    """A model of one chain; a subclass says how its modes are searched for.

    Parameters
    ----------
    order : None, "random", "correlation" or sequence
        None: as the labels stand in y. "correlation": begin with the label whose mutual
        information with all others is largest, go on each time with the label whose mutual
        information with those already chosen is largest. A sequence: label names or positions.

    Attributes
    ----------
    order_ : (d,) array of int
        Labels (positions) in the order of the chain.
    models_ : ConditionalModels
        The fitted links in the order of the labels. `models_.coef[i]` of the built-in
        regression is (K, p + e + 1): weights of the features, of the columns of all labels (one
        for a label of two values, K for K values; zero for later labels), and the intercept.
    C_ : (d,) array
        Chosen C of every link, in the order of the labels; of regressions only.
    label_scale_ : (d,) array
        Scale of the label columns of every link, of regressions only. The coefficients in
        `models_` belong to columns of 0 and 1 all the same. Zero if, some labels missing, rows
        held out prefer links without labels.
    n_iter_ : int
        Most iterations any regression of the final fit took; of regressions only.
    estimator_scores_ : EstimatorModels
        Classifiers of each label from x alone; only with a stacked `estimator`.
    """

    order: str | Sequence[str | int] | None = None
    order_: Annotated[Indices, "d", Below("d")] = attribute()
    models_: Annotated[LinearModels | EstimatorModels, "sizes"] = attribute()
    label_scale_: Annotated[Array | None, "d"] = attribute()
    _chain: Annotated[LearnedChain, "d sizes p=s"] = attribute()

    @abstractmethod
    def _search(self, seed: int) -> ChainSearch:
        """Return the search that the parameters ask for."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._search(0)

    def label_notes(self) -> dict[int, str]:
        """Return the place of each label."""
        order = self.order_.tolist()
        return {label: f" (place {place} in the chain)" for place, label in enumerate(order, 1)}

    def _learn(self, data: TrainingData) -> None:
        seed = self._seed()
        self._sampling_seed = seed
        self.order_ = resolve_order(self.order, self.label_space_, data, seed)
        folds = make_folds(data, self.cv, seed)
        scales = resolve_scales(self.label_scale, self.C, self._conditional_estimator())
        learner = self._learner(seeded(self._conditional_estimator(), seed))
        inputs = self._stacked(data, folds, seed)
        chosen = self.__dict__.pop("_chosen", None)
        chain = learn_chain(learner, inputs, self.order_, folds, scales, self.max_parents, chosen)
        self._chain = chain
        self.models_ = chain.models
        self._record(chain.models.n_iter, learner.values(chain.choice))
        if self._conditional_estimator() is None:
            self.label_scale_ = chain.scale

    def reusing(self, fitted: Self) -> Self:
        """Return an unfitted copy that takes over what C and scales a fitted one has chosen."""
        model: Self = clone(self)
        model.__dict__["_chosen"] = fitted._chain
        return model

    def _joint(self, X: Any) -> Chain:
        search = self._search(self._sampling_seed)
        return self._chain.joint(
            self.label_space_, self._inputs(X), search, self.n_samples, self._sampling_seed
        )

    def predict_path_proba(self, X: Any) -> Any:
        """Return P(y_i | x, predicted labels before it), the classic numbers of a chain.

        Returns
        -------
        (n, d) array of P(y = 1) for labels of two values, otherwise a list of (n, K_i) arrays.
        """
        check_is_fitted(self)
        chunks: list[list[Array]] = self._by_chunks(X, methodcaller("path_tables"))
        tables = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
        if self.label_space_.is_binary:
            return np.stack([table[:, 1] for table in tables], axis=1)
        return tables

    def label_graph(self) -> LabelGraph:
        """Return the chain: an arrow from each label to the next."""
        names, order = self.label_names_, np.asarray(self.order_, dtype=np.intp)
        meaning = (
            "A chain: each label is predicted from the features and all labels before it, in this "
            "order: " + ", ".join(names[i] for i in order) + "."
        )
        return LabelGraph(names, np.stack([order[:-1], order[1:]], axis=1), meaning, directed=True)


@stored("classifier-chain")
class ClassifierChain(ChainModel):
    r"""Each label given the features and the labels before it; greedy answers.

    Take it where one pass over the labels must do. Cost: low.

    .. math:: P(y \mid x) = \prod_k P(y_{o(k)} \mid x, y_{o(0)}, \dots, y_{o(k-1)})

    `predict` goes along the chain and takes the most probable value of each label given those
    already taken: greedy search, which is fast and may miss the most probable vector.
    `ProbabilisticClassifierChain` searches for it. The links of both are the same; taught with
    true labels they are independent regressions and solved in one batch.

    Labels that are constant or rare among the training rows get smoothed probabilities. A link is
    learned from the rows that have its label; earlier labels that these lack are drawn from the
    chain, given all labels of the row (a step of EM). Links are held back towards regressions that
    use no labels, as far as the known labels of rows held out prefer that.

    Parameters
    ----------
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. "subset" gives the vector of greedy search
        (classic classifier chains), "hamming" the most probable value of each label alone.

    Notes
    -----
    `predict_proba` gives the marginals of the chain's joint distribution, as everywhere in this
    library; each label is averaged over what the labels before it may be. The numbers that
    classifier chains classically report, P(y_i | x, predicted labels before it), are
    `predict_path_proba`.

    References
    ----------
    J. Read, B. Pfahringer, G. Holmes, E. Frank: Classifier chains for multi-label
    classification. ECML PKDD 2009; Machine Learning 85, 2011.

    Examples
    --------
    >>> from colabel import ClassifierChain
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = ClassifierChain(C=0.01, order="correlation")
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> model.predict(data.X[-1:])
    array([[1, 0, 0, 1, 1, 0, 0]])
    >>> model.joint(data.X[-1:]).how
    'Modes by greedy search: label by label, the most probable value each time. Sums exact, ...'
    """

    def _search(self, seed: int) -> ChainSearch:
        return BeamSearch(1)

    short_name = "cc"


@stored("probabilistic-chain")
class ProbabilisticClassifierChain(ChainModel):
    r"""A classifier chain with exact, ε-approximate, beam or Monte-Carlo search.

    Take it where whole label sets must be right, or many labels are missing. Cost: low.

    .. math:: P(y \mid x) = \prod_k P(y_{o(k)} \mid x, y_{o(0)}, \dots, y_{o(k-1)})

    The links are those of `ClassifierChain`. `predict` searches for the most probable label
    vector: by default by branch and bound, which visits about d / P(mode) prefixes of a row rather
    than all label vectors, and exactly unless that takes more than 32768 of them.

    Labels that are constant or rare among the training rows get smoothed probabilities. A link is
    learned from the rows that have its label; earlier labels that these lack are drawn from the
    chain, given all labels of the row (a step of EM). Links are held back towards regressions that
    use no labels, as far as the known labels of rows held out prefer that.

    Parameters
    ----------
    inference : {"auto", "exact", "epsilon", "beam", "monte_carlo", "greedy"}
        How the most probable vectors are found. "exact": branch and bound, up to a million
        prefixes of a row. "auto": up to 32768, then the best of a beam 32 wide, the greedy vector
        and that of the marginals; ``joint(X).how`` tells in how many rows. "epsilon": explore
        prefixes whose probability exceeds `epsilon`. "beam": keep the `beam_width` best prefixes
        of each length. "monte_carlo": the best of `n_samples` draws. "greedy": as
        `ClassifierChain`.
    epsilon : float
        Of inference "epsilon": the mode is found where its probability is larger. 0 is exact,
        0.5 greedy.
    beam_width : int
        Of inference "beam".
    n_samples : int
        Draws per row, of inference "monte_carlo" and of marginals where there are more than
        65536 label vectors.

    References
    ----------
    K. Dembczynski, W. Cheng, E. Huellermeier: Bayes optimal multilabel classification via
    probabilistic classifier chains. ICML 2010.
    K. Dembczynski, W. Waegeman, E. Huellermeier: An analysis of chaining in multi-label
    classification. ECAI 2012 (epsilon-approximate search).

    Examples
    --------
    >>> from colabel import ProbabilisticClassifierChain
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = ProbabilisticClassifierChain(C=0.01)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint
    <Chain: 1 row, 7 labels, exact>
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 0]])
    >>> joint.given({"even": 0}).mode()[0, 0]
    np.int64(0)
    """

    inference: str = "auto"
    epsilon: Annotated[float, Between(0.0, 1.0)] = 0.01
    beam_width: Annotated[int, Between(1, 10**3)] = 10

    def _search(self, seed: int) -> ChainSearch:
        match self.inference:
            case "epsilon":
                return EpsilonSearch(self.epsilon)
            case "beam":
                return BeamSearch(self.beam_width)
            case "monte_carlo":
                return MonteCarlo(self.n_samples, seed)
            case str(name):
                return as_search(name)
            case other:
                raise ValueError(
                    f"inference={other!r} must be a name, such as 'exact' or 'beam'; `epsilon`, "
                    "`beam_width` and `n_samples` say how far a search goes."
                )

    short_name = "pcc"


@stored("ensemble-of-chains")
class EnsembleOfChains(Chained):
    r"""A mixture of classifier chains in random orders.

    Take it where the order of a single chain would matter too much. Cost: medium.

    .. math:: P(y \mid x) = \frac{1}{M} \sum_m P_m(y \mid x)

    where :math:`P_m` is the distribution of chain m. The joint is a `Mixture` of `Chain`.

    Parameters
    ----------
    n_chains : int
        Number of chains M.
    stack : bool
        Of `estimator`. False, as published: the links are the estimator itself, on x and then the
        columns of the earlier labels. `GaussianNB()` gives the ECC-NB of the literature,
        `DecisionTreeClassifier()` is close to its ECC-J48.
    max_samples : float
        Share of the rows each chain is taught with. Equal rows stay together.
    bootstrap : bool
        Whether rows are drawn with replacement, by weight; an `estimator` that is not stacked
        must then accept `sample_weight`.
    inference : str or ChainSearch
        How the chains' own candidates for the mode are found, see `ProbabilisticClassifierChain`.
        "greedy" is that of the classic ensemble, whose `decision` is "vote". The mode of the
        mixture is exact with "exact" and with the built-in regression; see `Mixture`.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. "subset" gives the most probable vector of
        the mixture, "hamming" the most probable value of each
        label. "vote" is the classic ensemble: for each label the value that most chains predict.
    n_jobs : int or None
        Threads, one chain each, of the built-in regression (None: all cores), or joblib workers
        for `estimator`. The answer does not depend on it.

    Attributes
    ----------
    orders_ : (M, d) array of int
        Order of every chain.
    chains_ : list of M LearnedChain
        The chains; `chains_[m].models` are the links in the order of the labels.
    n_iter_ : int
        Most iterations any regression of the final fits took; of regressions only.
    estimator_scores_ : EstimatorModels
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

    n_chains: Annotated[int, Between(1)] = field(default=10, kw_only=False)
    C: Grid = DEFAULT_GRID
    max_samples: float = 0.67
    bootstrap: bool = False
    inference: str | ChainSearch = "greedy"
    chains_: Annotated[list[LearnedChain], "members d sizes p=s"] = attribute()
    orders_: Annotated[Indices, "members d", Below("d")] = attribute()

    def _learn(self, data: TrainingData) -> None:
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
        learner = self._learner(estimator, inner_jobs, quiet=True)
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 < self.max_samples <= 1:
            raise ValueError(
                f"max_samples={self.max_samples!r} must be a share of the rows: above 0, at most 1."
            )
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
