"""CTBN: conditional tree-structured Bayesian networks (Batal, Hong & Hauskrecht, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Indices
from colabel.decide import Decision
from colabel.joint import Joint, Tree
from colabel.learn.conditional import (
    ConditionalModels,
    Folds,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
)
from colabel.learn.linear import LinearLearning, LinearModels, joined
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

ROOT = -1


class CTBN(JointClassifier):
    r"""A tree over the labels, learned to fit P(y | x), with exact inference.

    .. math:: P(y_1, \dots, y_d \mid x) = \prod_i P(y_i \mid x, y_{\pi(i)})

    Every label has at most one parent :math:`\pi(i)` among the labels, and one classifier for
    each value of its parent (see `pairs`). An arc j -> i is worth what it adds to the log-likelihood of label i
    on rows the classifiers have not seen; the best tree is the branching of largest worth, found
    exactly in O(d^2). All answers of its `Joint` are exact and linear in the number of labels.

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
        shared = self.pairs == "shared" and isinstance(learning, LinearLearning)
        search = _search(learning, folds, self.min_rows, shared)
        self.tree_ = maximum_branching(search.gains, np.zeros(data.n_labels))
        self.edge_scores_ = search.gains + search.alone
        np.fill_diagonal(self.edge_scores_, search.alone)
        self.edge_gains_ = search.gains / data.total_weight
        self.models_, self._slots = _fit_tree(learning, self.tree_, search, shared)
        if isinstance(self.models_, LinearModels):
            self.n_iter_ = self.models_.n_iter

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_min_rows(self.min_rows)
        if self.pairs not in ("shared", "separate"):
            raise ValueError(f'pairs={self.pairs!r} must be "shared" or "separate".')

    def _joint(self, X: Any) -> Joint:
        log_prob = self.models_.log_prob(X)
        tables = [np.stack([log_prob[s] for s in slots], axis=1) for slots in self._slots]
        return Tree(self.label_space_, self.tree_, tables)


class _Search:
    """What the structure search found.

    Attributes
    ----------
    alone : (d,)
        Held-out log-likelihood of every label without parent.
    gains : (d, d)
        Entry [j, i]: what the arc j -> i adds to it.
    choice_alone : (d,)
        Chosen hyperparameter of every label without parent.
    choices : {(parent, value): (d,)}
        Chosen hyperparameters of the children of a parent value; absent where the value is too
        rare for classifiers of its own.
    """

    def __init__(self, n_labels: int) -> None:
        self.alone = np.zeros(n_labels)
        self.gains = np.zeros((n_labels, n_labels))
        self.choice_alone = np.zeros(n_labels, dtype=np.intp)
        self.choices: dict[tuple[int, int], Indices] = {}


def _search(learning: Learning, folds: Folds, min_rows: int, shared: bool) -> _Search:
    """Score every label alone and with every parent, on rows held out."""
    data = learning.data
    search = _Search(data.n_labels)
    if data.n_labels == 1 or not can_hold_out(folds):
        search.choice_alone = choose(learning, folds)
        return search

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    # Pair models deviate from the models without parent, of the same fold.
    handing_on: dict[str, Any] = {"keep_base": True} if shared else {}
    alone = learning.cross_validate(
        [everything(data)], folds, keep_all, "labels alone", **handing_on
    )[0]
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    # Missing labels and rows never held out have log-probability zero in both.
    search.alone = alone.log_prob @ weight
    search.choice_alone = alone.choice

    def gain(group: RowGroup, scores: HeldOutScores) -> tuple[Array, Indices]:
        without = alone.log_prob[np.ix_(group.targets, _rows_of(group))]
        return (scores.log_prob - without) @ weight[group.rows], scores.choice

    values = _parent_values(data, min_rows)
    groups = [_children(data, parent, value) for parent, value in values]
    base: dict[str, Any] = {"base": alone.base} if shared else {}
    found = learning.cross_validate(groups, folds, gain, "label pairs", **base)
    for (parent, value), group, (gains, choice) in zip(values, groups, found, strict=True):
        search.gains[parent, group.targets] += gains
        search.choices[parent, value] = np.zeros(data.n_labels, dtype=np.intp)
        search.choices[parent, value][group.targets] = choice
    return search


def _check_min_rows(min_rows: Any) -> None:
    if not (isinstance(min_rows, Real) and float(min_rows) >= 0):
        raise ValueError(f"min_rows={min_rows!r} must be a number of rows, 0 or more.")


def _rows_of(group: RowGroup) -> Indices:
    assert group.rows is not None
    return group.rows


def _parent_values(data: TrainingData, min_rows: int) -> list[tuple[int, int]]:
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
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
    learning: Learning, tree: Indices, search: _Search, shared: bool
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
    needed = [np.flatnonzero(tree == ROOT), *rare, *(own.values() if shared else [])]
    alone = np.unique(np.concatenate(needed)).astype(np.intp)
    groups = [_children(data, *arc, children) for arc, children in own.items()]
    choices = [search.choices[arc][children] for arc, children in own.items()]
    parentless, chosen = RowGroup(None, alone), search.choice_alone[alone]
    if shared:
        assert isinstance(learning, LinearLearning)
        models: ConditionalModels = _fit_deviations(learning, parentless, chosen, groups, choices)
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


def _fit_deviations(
    learning: LinearLearning,
    parentless: RowGroup,
    chosen: Indices,
    groups: list[RowGroup],
    choices: list[Indices],
) -> LinearModels:
    """Fit models without parent, then what those of the groups deviate from them."""
    first = learning.fit([parentless], [chosen])
    coef = dict(zip(parentless.targets.tolist(), first.coef, strict=True))
    return joined([first, learning.fit(groups, choices, base=coef)])
