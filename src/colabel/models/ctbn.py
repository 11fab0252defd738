"""CTBN: conditional tree-structured Bayesian networks (Batal, Hong & Hauskrecht, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Numbers,
    Part,
    Positions,
    Whole,
    bind,
    refuse_cycles,
    refuse_unless,
    stored,
)
from colabel.decide import Decision
from colabel.joint import Joint, Tree
from colabel.labels import MISSING
from colabel.learn.conditional import (
    ConditionalModels,
    Folds,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    random_folds,
)
from colabel.learn.linear import LinearLearning, LinearModels
from colabel.learn.structure import maximum_branching
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    can_hold_out,
    choose,
    everything,
    make_folds,
    make_learner,
)
from colabel.models.base import JointClassifier
from colabel.models.label_graph import LabelGraph

ROOT = -1
# For this many arcs, or this many parents of a label, more than slope and intercept is tried.
_MOST_ARCS = 200
_CANDIDATES = 5
# Folds of the scores without parent where the folds of `cv` leave some rows in training always.
_OFFSET_FOLDS = 5


def _check_tree(fields: Fields, dims: Dims) -> None:
    tree, slots, sizes = fields["tree_"], fields["_slots"], dims["sizes"]
    refuse_cycles([[int(parent)] if parent != ROOT else [] for parent in tree])
    model_sizes = fields["models_"].dims["sizes"]
    for label, (parent, own) in enumerate(zip(tree, slots, strict=True)):
        bind(dims, 1 if parent == ROOT else sizes[parent], len(own), f"_slots[{label}]")
        known = all(slot < len(model_sizes) for slot in own)
        refuse_unless(known, f"_slots[{label}] names a model that is not there")
        fits = all(model_sizes[slot] == sizes[label] for slot in own)
        refuse_unless(fits, f"_slots[{label}] names a model of other values")


@stored(
    "ctbn",
    check=_check_tree,
    tree_=Positions("d", below="d", least=ROOT),
    edge_scores_=Numbers("d d"),
    edge_gains_=Numbers("d d"),
    _slots=Many(Many(Whole()), "d"),
    models_=Part("linear-models", "estimator-models", q="p+1"),
)
class CTBN(JointClassifier):
    r"""A tree over the labels, learned to fit P(y | x), with exact inference.

    .. math:: P(y_1, \dots, y_d \mid x) = \prod_i P(y_i \mid x, y_{\pi(i)})

    Every label has at most one parent :math:`\pi(i)` among the labels, and one classifier for
    each value of its parent (see `pairs`). An arc j -> i is worth what it adds to the
    log-likelihood of label i on rows the classifiers have not seen; the best tree is the branching
    of largest worth, found exactly in O(d^2). All answers of its `Joint` are exact and linear in
    the number of labels.

    A parent value with fewer than `min_rows` rows shares the classifier without parent. A child
    that never varies among the rows of a parent value gets a constant probability, smoothed
    towards its frequency in all rows. Rows with missing labels serve the labels they have.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for every classifier by cross-validation.
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`, instead of the built-in regression.
    pairs : {"shared", "separate"}
        How a label is learned from its parent. "shared": every value of the parent has an
        intercept and a penalised deviation from the label's regression without parent; how strong
        the penalty is, from the intercept alone to next to none, is chosen on held-out rows. So few
        rows suffice to see that one label matters for another. "separate", as published: one
        regression for each value, on the rows that have it. With `estimator` always the latter.
        Under "shared" the tree counts an arc for its gain less one standard error.
    cv : int, float, splitter or iterable
        How rows are held out to score arcs (and to choose C): a number of folds, the fraction
        of a single hold-out set as in the paper, a scikit-learn splitter, or pairs of index
        arrays (train, test).
    min_rows : int
        Fewest rows (by weight) from which a parent value gets classifiers of its own.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" gives the most probable label
        vector, "hamming" the most probable value of each label.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads of the built-in regression (None: all cores) or joblib workers for `estimator`.
    random_state : int, RandomState or None
        Seed of the folds.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    tree_ : (d,) array of int
        Parent of every label, -1 for roots.
    edge_scores_ : (d, d) array
        Entry [j, i]: held-out log-likelihood of label i with parent j; on the diagonal, without
        parent. For rows where label j is missing the score without parent counts.
    edge_gains_ : (d, d) array
        Entry [j, i]: what the arc j -> i adds, in nats per row; zero on the diagonal.
    models_ : ConditionalModels
        The fitted conditionals.
    n_iter_ : int
        Most iterations any regression of the final fit took; absent with `estimator`.

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

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        estimator: BaseEstimator | None = None,
        pairs: str = "shared",
        cv: Any = 5,
        min_rows: int = 10,
        decision: str | Decision = "subset",
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.estimator = estimator
        self.pairs = pairs
        self.cv = cv
        self.min_rows = min_rows
        self.decision = decision
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: TrainingData) -> None:
        learner = make_learner(
            self.estimator, self.C, self.tol, self.max_iter, self.n_jobs, self.verbose
        )
        folds = make_folds(data, self.cv, self._seed())
        learning = learner.on(data)
        linear = learning if isinstance(learning, LinearLearning) else None
        shared = linear if self.pairs == "shared" else None
        search = _search(learning, folds, self.min_rows, shared)
        error = 0.0 if shared is None else np.sqrt(search.noise)
        self.tree_ = maximum_branching(search.gains - error, np.zeros(data.n_labels))
        self.edge_scores_ = search.gains + search.alone
        np.fill_diagonal(self.edge_scores_, search.alone)
        self.edge_gains_ = search.gains / data.total_weight
        self.models_, self._slots = _fit_tree(learning, self.tree_, search, shared)
        self._record(self.models_.n_iter)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_min_rows(self.min_rows)
        if self.pairs not in ("shared", "separate"):
            raise ValueError(f'pairs={self.pairs!r} must be "shared" or "separate".')

    def _joint(self, X: Any) -> Joint:
        log_prob = self.models_.log_prob(X)
        tables = [np.stack([log_prob[s] for s in slots], axis=1) for slots in self._slots]
        return Tree(self.label_space_, self.tree_, tables)

    def label_graph(self) -> LabelGraph:
        """Return the tree, and what each arc adds on rows held out."""
        return LabelGraph.of_tree(self.label_names_, self.tree_, self.edge_gains_)


@dataclass
class _Search:
    """What the structure search found.

    Attributes
    ----------
    alone : (d,)
        Held-out log-likelihood of every label without parent.
    gains : (d, d)
        Entry [j, i]: what the arc j -> i adds to it.
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

    @classmethod
    def empty(cls, n_labels: int) -> _Search:
        square = (n_labels, n_labels)
        zeros = np.zeros(n_labels, dtype=np.intp)
        return cls(np.zeros(n_labels), np.zeros(square), np.zeros(square), zeros)


class _Arcs(NamedTuple):
    """Held-out gains of one parent value's classifiers, (m,) each, and their choices."""

    gains: Array
    noise: Array
    choice: Indices


def _search(
    learning: Learning, folds: Folds, min_rows: int, shared: LinearLearning | None
) -> _Search:
    """Score every label alone and with every parent, on rows held out.

    Where pairs are shared, a pair's regression may deviate from the one of the label alone;
    `shared` is then the learner, and None otherwise.
    """
    data = learning.data
    search = _Search.empty(data.n_labels)
    if data.n_labels == 1 or not can_hold_out(folds):
        search.choice_alone = choose(learning, folds)
        return search

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    (alone,) = learning.cross_validate(
        [everything(data)], folds, keep_all, "labels alone", keep=True
    )
    weight = data.row_weights
    # Missing labels and rows never held out have log-probability zero in both.
    search.alone = alone.log_prob @ weight
    search.choice_alone = alone.choice

    def gain(group: RowGroup, scores: HeldOutScores) -> _Arcs:
        more = scores.log_prob - alone.log_prob[np.ix_(group.targets, _rows_of(group))]
        own = weight[group.rows]
        return _Arcs(more @ own, more**2 @ own**2, scores.choice)

    values = _parent_values(data, min_rows)
    groups = [_children(data, parent, value) for parent, value in values]
    if shared is None:
        found = learning.cross_validate(groups, folds, gain, "label pairs", start=alone.path)
        _record(search, values, groups, found)
        return search
    # there is nothing to learn of a label that never varies
    varied = np.array([_n_values(data, label) > 1 for label in range(data.n_labels)])
    groups = [group.take(np.flatnonzero(varied[group.targets])) for group in groups]
    covered = bool((folds.of_row >= 0).all())
    search.offsets = shared.cross_fitted_scores(
        folds if covered else random_folds(data, _OFFSET_FOLDS, 0), alone.choice
    )
    found = shared.cross_validate(
        groups, folds, gain, "label pairs", offsets=search.offsets, constant=True
    )
    found = [arcs._replace(choice=~arcs.choice) for arcs in found]
    _record(search, values, groups, found)
    promising = _best_parents(search.gains, max(_CANDIDATES, _MOST_ARCS // data.n_labels))
    narrowed = [
        group.take(np.flatnonzero(promising[parent, group.targets]))
        for (parent, _), group in zip(values, groups, strict=True)
    ]
    near = shared.cross_validate(narrowed, folds, gain, "promising pairs", offsets=search.offsets)
    near = [arcs._replace(choice=~arcs.choice) for arcs in near]
    apart = shared.cross_validate(narrowed, folds, gain, "promising pairs apart", start=alone.path)
    search.gains[:], search.noise[:] = 0.0, 0.0
    for other in (near, apart):
        found = [_better(*four) for four in zip(groups, found, narrowed, other, strict=True)]
    _record(search, values, groups, found)
    return search


def _record(
    search: _Search, values: list[tuple[int, int]], groups: list[RowGroup], found: list[_Arcs]
) -> None:
    for (parent, value), group, arcs in zip(values, groups, found, strict=True):
        search.gains[parent, group.targets] += arcs.gains
        search.noise[parent, group.targets] += arcs.noise
        search.choices[parent, value] = np.zeros(len(search.alone), dtype=np.intp)
        search.choices[parent, value][group.targets] = arcs.choice


def _best_parents(gains: Array, most: int) -> Flags:
    """Which arcs [j, i] are among the best of their child."""
    worth = gains.copy()
    np.fill_diagonal(worth, -np.inf)
    order = np.argsort(-worth, axis=0, kind="stable")[:most]
    best = np.zeros(gains.shape, dtype=bool)
    np.put_along_axis(best, order, True, axis=0)
    return best


def _better(group: RowGroup, first: _Arcs, part: RowGroup, second: _Arcs) -> _Arcs:
    """Of each target's two classifiers that with the higher held-out score.

    The second ones are there for a part of the targets only.
    """
    place = np.searchsorted(group.targets, part.targets)
    wins = second.gains > first.gains[place]
    gains, noise, choice = first.gains.copy(), first.noise.copy(), first.choice.copy()
    gains[place[wins]], noise[place[wins]] = second.gains[wins], second.noise[wins]
    choice[place[wins]] = second.choice[wins]
    return _Arcs(gains, noise, choice)


def _check_min_rows(min_rows: Any) -> None:
    if not (isinstance(min_rows, Real) and float(min_rows) >= 0):
        raise ValueError(f"min_rows={min_rows!r} must be a number of rows, 0 or more.")


def _n_values(data: TrainingData, label: int) -> int:
    counted = data.codes[:, label] if data.weight is None else data.codes[data.weight > 0, label]
    return len(np.unique(counted[counted != MISSING]))


def _rows_of(group: RowGroup) -> Indices:
    assert group.rows is not None
    return group.rows


def _parent_values(data: TrainingData, min_rows: int) -> list[tuple[int, int]]:
    weight = data.row_weights
    return [
        (parent, value)
        for parent in range(data.n_labels)
        for value in range(data.cardinalities[parent])
        if (data.codes[:, parent] == value) @ weight >= min_rows
    ]


def _children(
    data: TrainingData, parent: int, value: int, children: Indices | None = None
) -> RowGroup:
    """Rows with one value of a parent, and the labels to learn from them (all others)."""
    rows = np.flatnonzero(data.codes[:, parent] == value)
    targets = np.delete(np.arange(data.n_labels), parent) if children is None else children
    return RowGroup(rows, targets)


def _fit_tree(
    learning: Learning, tree: Indices, search: _Search, shared: LinearLearning | None
) -> tuple[ConditionalModels, list[list[int]]]:
    """Fit the classifiers of a tree; say where those of each table are.

    The slots of label i name, for each value of its parent, the position of the model in the
    output of the fitted conditionals. A value that is too rare has the model without parent.
    """
    data = learning.data
    pairs = {
        (int(parent), value): np.flatnonzero(tree == parent)
        for parent in np.unique(tree[tree != ROOT])
        for value in range(data.cardinalities[parent])
    }
    rare = [children for arc, children in pairs.items() if arc not in search.choices]
    own = {arc: children for arc, children in pairs.items() if arc in search.choices}
    # Deviations are measured from the models without parent: their children need those too.
    near = [] if search.offsets is None else list(own.values())
    needed = [np.flatnonzero(tree == ROOT), *rare, *near]
    alone = np.unique(np.concatenate(needed)).astype(np.intp)
    groups = [_children(data, *arc, children) for arc, children in own.items()]
    choices = [search.choices[arc][children] for arc, children in own.items()]
    parentless, chosen = RowGroup(None, alone), search.choice_alone[alone]
    if shared is not None and search.offsets is not None:
        models: ConditionalModels = _fit_both(
            shared, parentless, chosen, groups, choices, search.offsets
        )
    else:
        models = learning.fit([parentless, *groups], [chosen, *choices])
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
    return models, slots


def _fit_both(
    learning: LinearLearning,
    parentless: RowGroup,
    chosen: Indices,
    groups: list[RowGroup],
    choices: list[Indices],
    offsets: tuple[Array, ...],
) -> LinearModels:
    """Fit models without parent, those that deviate from them, and those of rows of their own."""
    first = learning.fit([parentless], [chosen])
    coef = dict(zip(parentless.targets.tolist(), first.coef, strict=True))
    deviating = [choice < 0 for choice in choices]
    near = [group.take(np.flatnonzero(own)) for group, own in zip(groups, deviating, strict=True)]
    apart = [group.take(np.flatnonzero(~own)) for group, own in zip(groups, deviating, strict=True)]
    shared = learning.fit(
        near, [~c[own] for c, own in zip(choices, deviating, strict=True)], offsets, coef
    )
    separate = learning.fit(apart, [c[~own] for c, own in zip(choices, deviating, strict=True)])
    both = np.concatenate([np.zeros(0, dtype=bool), *deviating])
    position = np.empty(len(both), dtype=np.intp)
    position[both], position[~both] = np.arange(both.sum()), np.arange((~both).sum())
    order = np.where(both, position, shared.n_models + position)
    return first.joined(shared.joined(separate).take(order))
