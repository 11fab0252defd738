"""CTBN: conditional tree-structured Bayesian networks (Batal, Hong & Hauskrecht, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.parameters import check_choice, check_integer, check_positive
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Numbers,
    Part,
    Positions,
    Whole,
    stored,
)
from colabel.decide import Decision
from colabel.joint import Joint
from colabel.joint.tree.wiring import ROOT
from colabel.learn.conditional import Learning, TrainingData
from colabel.learn.from_estimator import EstimatorLearner
from colabel.learn.linear import LinearLearning
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    make_folds,
    make_learner,
)
from colabel.models._stacks import StacksEstimator, check_inputs
from colabel.models.ctbn._learned import LearnedTree, check_slots
from colabel.models.ctbn._search import fit_tree, most_parents, search_arcs
from colabel.models.label_graph import LabelGraph


def _check_tree(fields: Fields, dims: Dims) -> None:
    check_slots(fields["tree_"], fields["_slots"], fields["models_"].dims["sizes"], dims, "_slots")
    check_inputs(fields, dims)


@stored(
    "ctbn",
    check=_check_tree,
    tree_=Positions("d", below="d", least=ROOT),
    edge_scores_=Numbers("d d", nan=True),
    edge_gains_=Numbers("d d", nan=True),
    _slots=Many(Many(Whole()), "d"),
    models_=Part("linear-models", "estimator-models", q="s+1"),
)
class CTBN(StacksEstimator):
    r"""A tree over the labels, learned from the data; all answers are exact.

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
        Any scikit-learn classifier with `predict_proba`. It learns each label from x alone, and
        the built-in regressions learn from its held-out scores and the labels (see `stack`).
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
        Under "shared" the tree counts an arc for its gain less one standard error.
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
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" gives the most probable label
        vector, "hamming" the most probable value of each label.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads of the built-in regression (None: all cores) or joblib workers for `estimator`.
    device : None, "cpu", "cuda", "cuda:N" or "auto"
        Where the built-in regressions are solved. None: by compiled kernels on the processor. A GPU
        needs the extra `gpu` (torch); "auto" uses one where there is one, "cpu" lets torch do the
        same on the processor, to check.
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
        parent. For rows where label j is missing the score without parent counts. NaN for arcs
        that were not tried.
    edge_gains_ : (d, d) array
        Entry [j, i]: what the arc j -> i adds, in nats per row; zero on the diagonal, NaN where it
        was not tried.
    models_ : ConditionalModels
        The fitted conditionals.
    n_iter_ : int
        Most iterations any regression of the final fit took; absent without any.
    estimator_scores_ : EstimatorScores
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

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        estimator: BaseEstimator | None = None,
        stack: bool = True,
        search_estimator: BaseEstimator | None = None,
        pairs: str = "shared",
        max_parents: int | str | None = "auto",
        cv: Any = 5,
        min_rows: int = 10,
        decision: str | Decision = "subset",
        calibrate: bool = False,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.estimator = estimator
        self.stack = stack
        self.search_estimator = search_estimator
        self.pairs = pairs
        self.max_parents = max_parents
        self.cv = cv
        self.min_rows = min_rows
        self.decision = decision
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: TrainingData) -> None:
        estimator = self._conditional_estimator()
        learner = make_learner(
            estimator, self.C, self.tol, self.max_iter, self.n_jobs, self.verbose, self.device
        )
        seed = self._seed()
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
        self.tree_ = search.best_tree(0.0 if shared is None else 1.0)
        self.edge_scores_ = search.gains + search.alone
        np.fill_diagonal(self.edge_scores_, search.alone)
        self.edge_gains_ = search.gains / data.total_weight
        self.models_, self._slots, _ = fit_tree(learning, self.tree_, search, shared)
        self._record(self.models_.n_iter)

    fits_chunks = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("min_rows", self.min_rows, or_zero=True)
        if self.search_estimator is not None and self._conditional_estimator() is None:
            raise ValueError(
                f"search_estimator={self.search_estimator!r} takes the place of an estimator: give"
                " estimator too, with stack=False."
            )
        check_choice("pairs", self.pairs, ("shared", "separate"))
        if self.max_parents is not None and self.max_parents != "auto":
            check_integer("max_parents", self.max_parents, 1)

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
