"""CTBN: conditional tree-structured Bayesian networks (Batal, Hong & Hauskrecht, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Indices
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
from colabel.learn.conditional import (
    ConditionalLearner,
    Folds,
    HeldOutScores,
    RowGroup,
    TrainingData,
)
from colabel.learn.linear import LinearModels
from colabel.learn.structure import maximum_branching
from colabel.models._learning import (
    DEFAULT_GRID,
    can_hold_out,
    choose,
    everything,
    make_folds,
    make_learner,
)
from colabel.models.base import JointClassifier

ROOT = -1


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
    each value of its parent. An arc j -> i is worth what it adds to the log-likelihood of label i
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
        Bound on the entries of the gradient of the mean objective.
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
        cv: Any = 5,
        min_rows: int = 10,
        decision: str | Decision = "subset",
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.estimator = estimator
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
        _check_min_rows(self.min_rows)
        folds = make_folds(data, self.cv, self._seed())
        search = _search(learner, data, folds, self.min_rows)
        self.tree_ = maximum_branching(search.gains, np.zeros(data.n_labels))
        self.edge_scores_ = search.gains + search.alone
        np.fill_diagonal(self.edge_scores_, search.alone)
        self.edge_gains_ = search.gains / data.total_weight
        groups, choices, self._slots = _tree_groups(data, self.tree_, search)
        self.models_ = learner.fit(data, groups, choices)
        if isinstance(self.models_, LinearModels):
            self.n_iter_ = self.models_.n_iter

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


def _search(
    learner: ConditionalLearner, data: TrainingData, folds: Folds, min_rows: int
) -> _Search:
    """Score every label alone and with every parent, on rows held out."""
    search = _Search(data.n_labels)
    if data.n_labels == 1 or not can_hold_out(folds):
        search.choice_alone = choose(learner, data, folds)
        return search

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    # Missing labels and rows never held out have log-probability zero in both.
    alone = learner.cross_validate(data, [everything(data)], folds, keep_all, "labels alone")[0]
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    search.alone = alone.log_prob @ weight
    search.choice_alone = alone.choice

    def gain(group: RowGroup, scores: HeldOutScores) -> tuple[Array, Indices]:
        without = alone.log_prob[np.ix_(group.targets, _rows_of(group))]
        return (scores.log_prob - without) @ weight[group.rows], scores.choice

    values = _parent_values(data, min_rows)
    groups = [_children(data, parent, value) for parent, value in values]
    found = learner.cross_validate(data, groups, folds, gain, "label pairs")
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


def _tree_groups(
    data: TrainingData, tree: Indices, search: _Search
) -> tuple[list[RowGroup], list[Indices], list[list[int]]]:
    """Groups to fit for a tree, their hyperparameters, and where each table's models are.

    The slots of label i name, for each value of its parent, the position of the model in the
    output of the fitted conditionals.
    """
    groups, choices = [everything(data)], [search.choice_alone]
    slots = [[label] if tree[label] == ROOT else [] for label in range(data.n_labels)]
    n_models = data.n_labels
    for parent in np.unique(tree[tree != ROOT]):
        children = np.flatnonzero(tree == parent)
        for value in range(data.cardinalities[parent]):
            choice = search.choices.get((int(parent), value))
            if choice is None:  # too rare: pooled with the model without parent
                for child in children:
                    slots[child].append(int(child))
                continue
            groups.append(_children(data, int(parent), value, children))
            choices.append(choice[children])
            for position, child in enumerate(children):
                slots[child].append(n_models + position)
            n_models += len(children)
    return groups, choices, slots
