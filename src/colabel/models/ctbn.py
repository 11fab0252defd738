"""CTBN: conditional tree-structured Bayesian networks (Batal, Hong & Hauskrecht, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np

from colabel.core import schema
from colabel.core.arrays import Array, Indices
from colabel.core.estimators import attribute
from colabel.joint import Joint, Tree
from colabel.joint.elimination import ROOT
from colabel.labels import LabelSpace
from colabel.learn.conditional import (
    ConditionalModels,
    Folds,
    GainOver,
    Gains,
    Learning,
    RowGroup,
    TrainingData,
    covering,
    is_chunked,
)
from colabel.learn.from_estimator import EstimatorLearner
from colabel.learn.linear import LinearLearning
from colabel.learn.structure.screening import best_candidates, maximum_branching
from colabel.models.chain.learning import completed_by_chain
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import (
    CompletedData,
    can_hold_out,
    choose,
    make_folds,
    missing_share,
    pair_tests,
    scores_alone,
)
from colabel.models.with_estimator import StacksEstimator


def check_slots(
    tree: Indices,
    slots: Sequence[Sequence[int]],
    model_sizes: Sequence[int],
    dims: dict[str, Any],
    name: str = "slots",
) -> None:
    """Refuse stored parents (d,) that are no tree, and slots that do not fit them."""
    sizes = dims["sizes"]
    schema.check_acyclic([[int(parent)] if parent != ROOT else [] for parent in tree])
    for label, (parent, own) in enumerate(zip(tree, slots, strict=True)):
        schema.bind(dims, 1 if parent == ROOT else sizes[parent], len(own), f"{name}[{label}]")
        known = all(slot < len(model_sizes) for slot in own)
        schema.check_that(known, f"{name}[{label}] names a model that is not there")
        fits = all(model_sizes[slot] == sizes[label] for slot in own)
        schema.check_that(fits, f"{name}[{label}] names a model of other values")


@schema.stored("tree")
@dataclass(frozen=True)
class LearnedTree:
    """A conditional tree-structured Bayesian network for any rows.

    Attributes
    ----------
    parents : (d,)
        Parent of every label, -1 for roots.
    slots : d lists
        For each label and each value of its parent (one for a root) the position of its model.
    models : ConditionalModels
    cardinalities : (d,)
        Number of values of each label.
    """

    parents: Annotated[Indices, "d", schema.Below("d", or_none=True)]
    slots: Annotated[list[list[int]], "d _"]
    models: Annotated[ConditionalModels, "q=p+1"]
    cardinalities: Annotated[tuple[int, ...], "d", schema.Between(1, 2**31), schema.Is("sizes")]

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        check_slots(fields["parents"], fields["slots"], fields["models"].dims["sizes"], dims)

    def joint(self, space: LabelSpace, X: Any) -> Tree:
        """Return the joint for rows X (n, p)."""
        log_prob = self.models.log_prob(X)
        tables = [np.stack([log_prob[slot] for slot in own], axis=1) for own in self.slots]
        return Tree(space, self.parents, tables)


# For this many arcs, or this many parents of a label, more than slope and intercept is tried.
_MOST_ARCS = 200
_CANDIDATES = 5
_WIDEST = 0.9  # share of the rows above which a value's rows are not tried so after screening
# With max_parents="auto": rows by pairs of labels up to which regressions of all pairs are cheap,
# pairs of labels up to which all pairs of other classifiers are, and parents tried beyond.
_CHEAP_ROWS = 1 << 24
_MOST_PAIRS = 10_000  # of however few rows: each pair has its regressions
_CHEAP_PAIRS = 100
_AUTO_PARENTS = 10
_ROUNDING = 2.0**-40  # of a sum of log-probabilities, relative


@dataclass
class Search:
    """What the structure search found.

    Attributes
    ----------
    alone : (d,)
        Held-out log-likelihood of every label without parent.
    gains : (d, d)
        Entry [j, i]: what the arc j -> i adds to it; NaN where that was not asked.
    noise : (d, d)
        Its variance.
    choice_alone : (d,)
        Chosen hyperparameter of every label without parent.
    choices : {(parent, value): (d,)}
        Chosen hyperparameters of the children of a parent value; absent where the value is too
        rare for classifiers of its own. Negative for classifiers that deviate from the one without
        parent: the complement of a position among the deviations.
    offsets : d arrays (K_i, n), or None
        Scores without parent, by models that have not seen the row.
    """

    alone: Array
    gains: Array
    noise: Array
    choice_alone: Indices
    choices: dict[tuple[int, int], Indices] = field(default_factory=dict)
    offsets: tuple[Array, ...] | None = None

    def best_tree(self, errors: Array | float) -> Indices:
        """Parents (d,) of the branching of largest gain, less some standard errors of every arc.

        They may be given for each parent (d,).
        """
        worth = self.gains - np.reshape(errors, (-1, 1)) * np.sqrt(self.noise)
        # sums of the same terms in another order differ by rounding, which must not make an arc
        unit = _ROUNDING * max(1.0, float(np.abs(self.alone).max()))
        worth = np.rint(worth / unit) * unit
        worth[np.isnan(worth)] = -np.inf  # not asked: no arc of the tree
        return maximum_branching(worth, np.zeros(len(self.alone)))


def most_parents(max_parents: int | str | None, data: TrainingData, linear: bool) -> int:
    """Return how many parents of a label are tried, by regressions or by other classifiers."""
    every = data.n_labels - 1
    if max_parents is None:
        return every
    if not isinstance(max_parents, str):
        return min(int(max_parents), every)
    n_pairs = data.n_labels * every
    if linear:
        cheap = data.n_rows * n_pairs <= _CHEAP_ROWS and n_pairs <= _MOST_PAIRS
    else:
        cheap = n_pairs <= _CHEAP_PAIRS
    return every if cheap else min(_AUTO_PARENTS, every)


def search_arcs(
    learning: Learning,
    folds: Folds,
    min_rows: float,
    shared: LinearLearning | None,
    most: int,
) -> Search:
    """Score every label alone and with its `most` most promising parents, on rows held out.

    Where pairs are shared, a pair's regression may deviate from the one of the label alone;
    `shared` is then the learner, and None otherwise.
    """
    data, d = learning.data, learning.data.n_labels
    search = Search(np.zeros(d), np.zeros((d, d)), np.zeros((d, d)), np.zeros(d, dtype=np.intp))
    if d == 1 or not can_hold_out(folds):
        search.choice_alone = choose(learning, folds)
        return search

    alone = scores_alone(learning, folds)
    # Missing labels and rows never held out have log-probability zero in both.
    search.alone = alone.total
    search.choice_alone = alone.choice
    gain = GainOver(alone.log_prob, None if is_chunked(data) else data.row_weights)
    if isinstance(data, CompletedData) and alone.models is not None:
        gain = replace(gain, tables=alone.models.tables(data, folds.of_row))
    candidates = ~np.eye(d, dtype=bool)
    if shared is not None or most < d - 1:
        without = alone.models if folds.covers else None
        offsets = learning.cross_fitted_scores(covering(folds, data), alone.choice, without)
        search.offsets = None if shared is None else offsets
    if most < d - 1:
        candidates = best_candidates(pair_tests(data, offsets), most)
        search.gains[~candidates] = np.nan
        np.fill_diagonal(search.gains, 0.0)
    values = [
        (parent, value)
        for parent, counts in enumerate(data.value_counts)
        for value, weight in enumerate(counts)
        if weight >= min_rows and candidates[parent].any()
    ]
    groups = [
        RowGroup(data.rows_with(parent, value), np.flatnonzero(candidates[parent]))
        for parent, value in values
    ]
    if shared is None:
        found = learning.cross_validate(groups, folds, gain, "label pairs", start=alone.path)
        _record(search, values, groups, found)
        return search

    # Slope and intercept of all pairs, then deviations and regressions of promising ones.
    # There is nothing to learn of a label that never varies.
    varied = np.array([(counts > 0).sum() > 1 for counts in data.value_counts])
    groups = [group.take(np.flatnonzero(varied[group.targets])) for group in groups]
    found = shared.cross_validate(
        groups, folds, gain, "label pairs", offsets=search.offsets, constant=True
    )
    found = [arcs._replace(choice=~arcs.choice) for arcs in found]
    _record(search, values, groups, found)
    scored = ~np.isnan(search.gains)
    promising = scored & best_candidates(
        np.where(scored, search.gains, -np.inf), max(_CANDIDATES, _MOST_ARCS // d)
    )
    # Where there are many labels, a value that most rows have is no other case than all rows are.
    widest = data.n_rows if scored.all() else _WIDEST * data.n_rows
    narrowed = [
        group.take(
            np.flatnonzero(
                promising[parent, group.targets] & (data.row_counts[parent][value] <= widest)
            )
        )
        for (parent, value), group in zip(values, groups, strict=True)
    ]
    near = shared.cross_validate(narrowed, folds, gain, "promising pairs", offsets=search.offsets)
    near = [arcs._replace(choice=~arcs.choice) for arcs in near]
    apart = shared.cross_validate(narrowed, folds, gain, "promising pairs apart", start=alone.path)
    search.gains[scored], search.noise[:] = 0.0, 0.0
    for other in (near, apart):
        found = [_better(*four) for four in zip(groups, found, narrowed, other, strict=True)]
    _record(search, values, groups, found)
    return search


def _record(
    search: Search, values: list[tuple[int, int]], groups: list[RowGroup], found: list[Gains]
) -> None:
    for (parent, value), group, arcs in zip(values, groups, found, strict=True):
        search.gains[parent, group.targets] += arcs.gains
        search.noise[parent, group.targets] += arcs.noise
        search.choices[parent, value] = np.zeros(len(search.alone), dtype=np.intp)
        search.choices[parent, value][group.targets] = arcs.choice


def _better(group: RowGroup, first: Gains, part: RowGroup, second: Gains) -> Gains:
    """Of each target's two classifiers that with the higher held-out score.

    The second ones are there for a part of the targets only.
    """
    place = np.searchsorted(group.targets, part.targets)
    wins = second.gains > first.gains[place]
    gains, noise, choice = first.gains.copy(), first.noise.copy(), first.choice.copy()
    gains[place[wins]], noise[place[wins]] = second.gains[wins], second.noise[wins]
    choice[place[wins]] = second.choice[wins]
    return Gains(gains, noise, choice)


def arc_errors(data: TrainingData) -> Array:
    """Return how many standard errors (d,) the arcs from each label must gain.

    More where parents of more than two values are drawn: a parent drawn given its child speaks for
    the arc, and each of its values has a regression that was chosen among several.
    """
    drawn = missing_share(data) if isinstance(data, CompletedData) else 0.0
    return 1.0 + drawn * (np.maximum(data.cardinalities, 2) - 2)


class FittedTree(NamedTuple):
    """The classifiers of a tree.

    Attributes
    ----------
    models : ConditionalModels
    slots : d lists
        For each label and each value of its parent (one for a root) the position of its model. A
        value that is too rare has the model without parent.
    keys : list of (parent, value, label)
        What each model was learned for; (ROOT, 0, label) without parent.
    """

    models: ConditionalModels
    slots: list[list[int]]
    keys: list[tuple[int, int, int]]


def fit_tree(
    learning: Learning, tree: Indices, search: Search, shared: LinearLearning | None
) -> FittedTree:
    """Fit the classifiers of a tree."""
    data = learning.data
    pairs = {
        (int(parent), value): np.flatnonzero(tree == parent)
        for parent in np.unique(tree[tree != ROOT])
        for value in range(data.cardinalities[parent])
    }
    rare = [children for arc, children in pairs.items() if arc not in search.choices]
    own = {arc: children for arc, children in pairs.items() if arc in search.choices}
    needed = [np.flatnonzero(tree == ROOT), *rare]
    if search.offsets is not None:
        # Deviations are measured from the models without parent: their children need those too.
        needed += own.values()
    alone = np.unique(np.concatenate(needed)).astype(np.intp)
    groups = [RowGroup(data.rows_with(*arc), children) for arc, children in own.items()]
    choices = [search.choices[arc][children] for arc, children in own.items()]
    parentless, chosen = RowGroup(None, alone), search.choice_alone[alone]
    models: ConditionalModels
    if shared is None or search.offsets is None:
        models = learning.fit([parentless, *groups], [chosen, *choices])
    else:
        # models without parent, those that deviate from them, and those of rows of their own
        first = shared.fit([parentless], [chosen])
        coef = dict(zip(alone.tolist(), first.coef, strict=True))
        deviates = [choice < 0 for choice in choices]
        parts = list(zip(groups, choices, deviates, strict=True))
        near = [group.take(np.flatnonzero(flags)) for group, _, flags in parts]
        apart = [group.take(np.flatnonzero(~flags)) for group, _, flags in parts]
        of_near = [~choice[flags] for _, choice, flags in parts]
        deviating = shared.fit(near, of_near, search.offsets, coef)
        separate = shared.fit(apart, [choice[~flags] for _, choice, flags in parts])
        both = np.concatenate([np.zeros(0, dtype=bool), *deviates])
        position = np.empty(len(both), dtype=np.intp)
        position[both], position[~both] = np.arange(both.sum()), np.arange((~both).sum())
        order = np.where(both, position, deviating.n_models + position)
        models = first.joined(deviating.joined(separate).take(order))
    keys = [(ROOT, 0, int(label)) for label in alone]
    keys += [(*arc, int(child)) for arc, children in own.items() for child in children]
    place = {key: position for position, key in enumerate(keys)}
    slots = [
        [
            place[(parent, value, label) if (parent, value) in own else (ROOT, 0, label)]
            for value in range(1 if parent == ROOT else data.cardinalities[parent])
        ]
        for label, parent in enumerate(tree.tolist())
    ]
    return FittedTree(models, slots, keys)


@schema.stored("ctbn")
class CTBN(StacksEstimator):
    r"""A tree over the labels, learned from the data; all answers are exact.

    Take it where every answer must be exact, or a picture of the labels is wanted. Cost: medium.

    .. math:: P(y_1, \dots, y_d \mid x) = \prod_i P(y_i \mid x, y_{\pi(i)})

    Every label has at most one parent :math:`\pi(i)` among the labels, and one classifier for
    each value of its parent (see `pairs`). An arc j -> i is worth what it adds to the
    log-likelihood of label i on rows the classifiers have not seen; the best tree is the branching
    of largest worth, found exactly in O(d^2). All answers of its `Joint` are exact and linear in
    the number of labels.

    A parent value with fewer than `min_rows` rows shares the classifier without parent. A child
    that never varies among the rows of a parent value gets a constant probability, smoothed
    towards its frequency in all rows. Rows with missing labels serve the labels they have; where
    more than a tenth of all labels is missing (40 % for "separate" pairs), parents that a row lacks
    are drawn given its other labels, from a chain, and arcs from parents of more than two values
    must gain more: with half of all labels missing one standard error more for four values. Rows
    in Dask arrays do not count for arcs from parents that they lack.

    Parameters
    ----------
    stack : bool
        Of `estimator`. False, as published: the estimator itself is fitted for every arc tried,
        on the rows of each value of the parent.
    search_estimator : classifier, optional
        What the arcs are tried with in place of `estimator`, without `stack`: a quicker classifier
        for the many that are thrown away, such as one whose C is not chosen.
    pairs : {"shared", "separate"}
        How a label is learned from its parent. "shared": every value of the parent has an
        intercept and a penalised deviation from the label's regression without parent; how strong
        the penalty is, from the intercept alone to next to none, is chosen on held-out rows. So few
        rows suffice to see that one label matters for another. "separate", as published: one
        regression for each value, on the rows that have it. Without `stack` an `estimator` is
        always fitted so.
        Under "shared" the tree counts an arc for its gain less one standard error. Where missing
        parents are drawn, this is the standard error of an arc that tells nothing: rare labels that
        never occur together in a few rows gain a little in each, which looks certain.
    max_parents : int, None or "auto"
        How many parents are tried for each label: those that depend on it most beyond x, by a
        score test on held-out residuals of all pairs at once (`score_tests`). None tries all.
        "auto": all where that is cheap (up to 10,000 pairs of labels, and 2^24 times rows; with an
        `estimator` that is not stacked, 100 pairs), else 10.
    cv : int, float, splitter or iterable
        How rows are held out to score arcs (and to choose C): a number of folds, the fraction
        of a single hold-out set as in the paper, a scikit-learn splitter, or pairs of index
        arrays (train, test).
    min_rows : int
        Fewest rows (by weight) from which a parent value gets classifiers of its own; a rarer one
        has those without parent, in the search and in the end. (In the authors' program a value
        with three rows or fewer has the classifiers of the parent's other value, in the search one
        with none: ``min_rows=4`` comes nearest to it.)

    Attributes
    ----------
    tree_ : (d,) array of int
        Parent of every label, -1 for roots.
    edge_scores_ : (d, d) array
        Entry [j, i]: held-out log-likelihood of label i with parent j; on the diagonal, without
        parent. For rows where label j is missing the score without parent counts. NaN for arcs
        that were not tried.
    edge_gains_ : (d, d) array
        Entry [j, i]: what the arc j -> i adds, in nats per row; zero on the diagonal, NaN where it
        was not tried.
    models_ : ConditionalModels
        The fitted conditionals.
    n_iter_ : int
        Most iterations any regression of the final fit took; absent without any.
    estimator_scores_ : EstimatorModels
        Classifiers of each label from x alone; only with a stacked `estimator`.

    References
    ----------
    I. Batal, C. Hong, M. Hauskrecht: An efficient probabilistic framework for multi-dimensional
    classification. CIKM 2013.

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 1]])
    >>> joint.given({"even": 0}).mode()[0, 0]
    np.int64(0)
    """

    search_estimator: Annotated[Any, schema.Estimator(fitted=False, or_none=True)] = None
    pairs: Literal["shared", "separate"] = "shared"
    max_parents: Annotated[int | Literal["auto"] | None, schema.Between(1)] = "auto"
    min_rows: Annotated[float, schema.Between(0)] = 10
    tree_: Annotated[Indices, "d", schema.Below("d", or_none=True)] = attribute()
    edge_scores_: Annotated[Array, "d d", schema.Between(nan=True)] = attribute()
    edge_gains_: Annotated[Array, "d d", schema.Between(nan=True)] = attribute()
    _slots: Annotated[list[list[int]], "d _"] = attribute()
    models_: Annotated[ConditionalModels, "q=s+1"] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        sizes = fields["models_"].dims["sizes"]
        check_slots(fields["tree_"], fields["_slots"], sizes, dims, "_slots")
        StacksEstimator._check_stored(fields, dims)

    def _learn(self, data: TrainingData) -> None:
        estimator = self._conditional_estimator()
        learner = self._learner(estimator)
        seed = self._seed()
        # where many rows lack one label of a pair, too few have both
        many = (0.1 if self.pairs == "shared" else 0.4) * data.n_rows * data.n_labels
        if data.missing_labels[0] > many and not is_chunked(data):
            data = completed_by_chain(data, seed, self.n_jobs, known_targets=True)
        folds = make_folds(data, self.cv, seed)
        learning = learner.on(self._stacked(data, folds, seed))
        linear = cast(LinearLearning, learning) if estimator is None else None
        shared = linear if self.pairs == "shared" else None
        most = most_parents(self.max_parents, data, linear is not None)
        trial: Learning = learning
        if estimator is not None and self.search_estimator is not None:
            trial = EstimatorLearner(self.search_estimator, self.n_jobs, bool(self.verbose)).on(
                data
            )
        search = search_arcs(trial, folds, self.min_rows, shared, most)
        self.tree_ = search.best_tree(arc_errors(data) if shared is not None else 0.0)
        self.edge_scores_ = search.gains + search.alone
        np.fill_diagonal(self.edge_scores_, search.alone)
        self.edge_gains_ = search.gains / data.total_weight
        self.models_, self._slots, _ = fit_tree(learning, self.tree_, search, shared)
        self._record(self.models_.n_iter)

    fits_chunks = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.search_estimator is not None and self._conditional_estimator() is None:
            raise ValueError(
                f"search_estimator={self.search_estimator!r} takes the place of an estimator: give"
                " estimator too, with stack=False."
            )

    def _joint(self, X: Any) -> Joint:
        sizes = self.label_space_.cardinalities
        tree = LearnedTree(self.tree_, self._slots, self.models_, sizes)
        return tree.joint(self.label_space_, self._inputs(X))

    def label_notes(self) -> dict[int, str]:
        """Return the parent of each label that has one."""
        parents = self.tree_.tolist()
        return {i: f" ← {self.label_names_[p]}" for i, p in enumerate(parents) if p >= 0}

    def label_graph(self) -> LabelGraph:
        """Return the tree, and what each arc adds on rows held out."""
        return LabelGraph.of_tree(self.label_names_, self.tree_, self.edge_gains_)
