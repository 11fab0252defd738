"""Mixtures of conditional trees (Hong, Batal & Hauskrecht, 2014 and 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.core.parameters import check_choice, check_integer, check_positive, checked_grid
from colabel.core.progress import progress_bar
from colabel.core.schema import Many, Maybe, Numbers, Part, Real, Whole, stored
from colabel.decide import Decision
from colabel.joint import Mixture
from colabel.joint.tree.wiring import ROOT
from colabel.learn.conditional import TrainingData, random_folds
from colabel.models._learning import (
    DEFAULT_GRID,
    DEFAULT_TOLERANCE,
    can_hold_out,
    linear_learner,
    make_folds,
)
from colabel.models._parameters import refuse_missing
from colabel.models.base import JointClassifier
from colabel.models.chain import NEEDS_EARLIER, resolve_scales
from colabel.models.ctbn import LearnedTree
from colabel.models.label_graph import LabelGraph
from colabel.models.mixture_of_trees._em import (
    EM,
    Base,
    Experts,
    log_terms,
    responsibilities,
)
from colabel.models.mixture_of_trees._experts import Chains, Trees, member_joint
from colabel.models.mixture_of_trees._gate import Gate
from colabel.models.mixture_of_trees._growth import Growth

_DEFAULT_GATE_GRID = (0.001, 0.01, 0.1)


@stored(
    "mixture-of-trees",
    n_trees_=Whole(1, 2**16, size="members"),
    trees_=Many(Part("tree", "chain", d="d", sizes="sizes", p="p"), "members"),
    weights_=Numbers("members", 0.0, 1.0),
    gate_coef_=Numbers("members p+1"),
    gate_C_=Maybe(Real(0.0)),
    objective_=Numbers("iterations"),
    held_out_scores_=Maybe(Numbers("tried")),
    _sampling_seed=Whole(),
)
class MixtureOfTrees(JointClassifier):
    r"""A mixture of label trees, or of chains, by EM; its weights may depend on x.

    .. math:: P(y \mid x) = \sum_k \pi_k(x) \, T_k(y \mid x)

    Every :math:`T_k` is a tree as in `CTBN`, with arcs and regressions of its own; together they
    say what no single tree can, such as three labels that depend on each other. With the linear
    gate a tree answers for a region of the feature space:
    :math:`\pi_k(x) \propto \exp(v_k^\top x + b_k)`. The joint is a `Mixture` of `Tree`, or of
    `Chain`.

    Trees are added one at a time. A new one is searched for and learned with rows weighted by
    :math:`1 - P(y \mid x)`, how badly the present mixture explains them. EM follows: the
    responsibilities of the trees for each row, then all regressions of each tree on rows so
    weighted, and the gate. Trees are added while the likelihood of rows held out grows, and all are
    given up for a single one unless they gain more than a standard error over it. All rows then
    teach every tree anew, with its responsibilities as weights, and EM goes on with them. A tree
    that is left with less than one row is dropped.

    EM ascends the log-likelihood less the penalties, all of which are fixed when a tree is learned:
    what is chosen on held-out rows (C, and what a pair's regression deviates from) stays. Rows with
    missing labels serve the labels they have; chains refuse them.

    Parameters
    ----------
    n_trees : int or "auto"
        Number of trees, or "auto": as many as held-out rows ask for.
    gate : {"linear", "constant"}
        Whether the weights of the trees depend on x (ML-ME) or not (MC).
    base : {"trees", "chains"}
        What is mixed. The order of a chain begins with a label drawn at random and goes on with
        what the labels before say most of.
    C : float or sequence of float
        Inverse strength of the L2 penalty of the regressions; from a sequence the best value is
        chosen for every regression by cross-validation when a tree is learned.
    gate_C : float or sequence of float
        That of a linear gate; from a sequence the value is chosen that is best for two trees, on
        rows held out.
    pairs : {"shared", "separate"}
        How a label is learned from its parent in a tree, see `CTBN`.
    max_trees : int
        Most trees under "auto".
    held_out : float
        Share of the rows that judge the number of trees and the gate's penalty.
    cv : int, float, splitter or iterable
        How rows are held out to score arcs and to choose C: a number of folds, a fraction, a
        scikit-learn splitter, or pairs of index arrays (train, test).
    min_rows : float
        Fewest rows (by weight) from which a parent value gets classifiers of its own.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" gives the most probable label
        vector, "hamming" the most probable value of each label.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    growing_iter, final_iter : int
        Most EM iterations after a tree is added, and at the end.
    em_tol : float
        EM stops when an iteration adds less to the log-likelihood, in nats per row.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads (None: all cores). The answer does not depend on it.
    random_state : int, RandomState or None
        Seed of the rows held out, of the folds, and of the chains' orders.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    n_trees_ : int
        Number of trees M.
    trees_ : list of M LearnedTree (or LearnedChain)
        The trees; `trees_[k].parents` holds the parent of every label, -1 for roots.
    weights_ : (M,) array
        Mean weights of the trees over the training rows.
    gate_coef_ : (M, p + 1) array
        Coefficients of the gate, the intercepts last.
    gate_C_ : float
        Chosen penalty of a linear gate; None for a constant one, or for a single tree.
    objective_ : (``n_iter_`` + 1,) array
        Log-likelihood less penalties along the final EM.
    held_out_scores_ : array or None
        Held-out log-likelihood per row of one tree, two, and so on, as far as was tried. None where
        the number of trees was given.
    n_iter_ : int
        Number of iterations of the final EM.

    References
    ----------
    C. Hong, I. Batal, M. Hauskrecht: A mixtures-of-trees framework for multi-label
    classification. CIKM 2014.
    C. Hong, I. Batal, M. Hauskrecht: A generalized mixture framework for multi-label
    classification. SDM 2015.

    Examples
    --------
    >>> from colabel import MixtureOfTrees
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = MixtureOfTrees(2, C=0.01, gate_C=0.001, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint
    <Mixture: 1 row, 7 labels, exact>
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 1]])
    """

    def __init__(
        self,
        n_trees: int | str = "auto",
        *,
        gate: str = "linear",
        base: str = "trees",
        C: float | Sequence[float] = DEFAULT_GRID,
        gate_C: float | Sequence[float] = _DEFAULT_GATE_GRID,
        pairs: str = "shared",
        max_trees: int = 9,
        held_out: float = 0.3,
        cv: Any = 5,
        min_rows: float = 10,
        decision: str | Decision = "subset",
        calibrate: bool = False,
        growing_iter: int = 50,
        final_iter: int = 150,
        em_tol: float = 1e-4,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.gate = gate
        self.base = base
        self.C = C
        self.gate_C = gate_C
        self.pairs = pairs
        self.max_trees = max_trees
        self.held_out = held_out
        self.cv = cv
        self.min_rows = min_rows
        self.decision = decision
        self.calibrate = calibrate
        self.growing_iter = growing_iter
        self.final_iter = final_iter
        self.em_tol = em_tol
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: TrainingData) -> None:
        if self.base == "chains":
            refuse_missing(data, self.label_space_, NEEDS_EARLIER)
        seed = self._seed()
        em = self._em(data, seed)
        start = self._grown(em, seed)
        n_steps = self.final_iter + 1
        with progress_bar("EM on all rows", n_steps, shown=bool(self.verbose)) as advance:
            found = em.run(start, self.final_iter, advance)
        gate = found.mixture.gate
        self.trees_ = found.mixture.members()
        self.n_trees_ = len(self.trees_)
        self.gate_coef_ = gate.coef
        self.gate_C_ = gate.C
        weight = data.row_weights
        mean = weight @ np.exp(gate.log_weights(data.X)) / weight.sum()
        self.weights_ = np.minimum(mean, 1.0)  # of one tree it is 1, but for rounding
        self.objective_ = np.array(found.values)
        self.n_iter_ = max(1, len(found.values) - 1)
        self._sampling_seed = seed

    def _grown(self, em: EM, seed: int) -> Experts:
        """Return where the final EM starts: as many trees as are wanted, on all rows."""
        data = em.data
        self.held_out_scores_: Array | None = None
        gates = checked_grid("gate_C", self.gate_C) if self.gate == "linear" else (None,)
        automatic = isinstance(self.n_trees, str)
        most = self.max_trees if isinstance(self.n_trees, str) else self.n_trees
        growth = Growth(gates, most, self.growing_iter, seed)
        folds = random_folds(data, float(self.held_out), seed)
        judged = can_hold_out(folds) and (automatic or (len(gates) > 1 and most > 1))
        with progress_bar("adding trees", most - 1, shown=bool(self.verbose)) as advance:
            if judged:
                out = folds.of_row == 0
                first = growth if automatic else replace(growth, most=2)
                grown, scores = first.judged(em.take(~out), data.take(out), advance)
                if automatic:
                    self.held_out_scores_ = np.array(scores)
                    if len(grown.experts) == 1:
                        return em.first(seed)
                    terms = log_terms(em.space, grown, data, self.n_jobs)
                    return em.relearned(grown, responsibilities(terms), seed)
                growth = replace(growth, gates=(grown.gate.C or gates[0],))
            return em.first(seed) if automatic else growth.unjudged(em, advance)

    def _em(self, data: TrainingData, seed: int) -> EM:
        folds = make_folds(data, self.cv, seed)
        learner = linear_learner(self.C, self.tol, self.max_iter, self.n_jobs, 0)
        base: Base = Chains(learner, resolve_scales(None, self.C, None))
        if self.base == "trees":
            base = Trees(learner, self.pairs == "shared", self.min_rows)
        return EM.on(self.label_space_, data, folds, base, self.tol, self.em_tol, self.n_jobs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, known in _KNOWN.items():
            check_choice(name, getattr(self, name), known)
        if self.n_trees != "auto":
            check_integer("n_trees", self.n_trees, 1, "'auto'")
        check_integer("max_trees", self.max_trees, 1)
        check_integer("growing_iter", self.growing_iter, 1)
        check_integer("final_iter", self.final_iter, 1)
        check_positive("em_tol", self.em_tol, or_zero=True)
        check_positive("min_rows", self.min_rows, or_zero=True)
        checked_grid("gate_C", self.gate_C)
        check_positive("held_out", self.held_out)
        if self.held_out >= 1:
            raise ValueError(f"held_out={self.held_out!r} must be a share of the rows, below 1.")

    def _joint(self, X: Any) -> Mixture:
        space, seed = self.label_space_, self._sampling_seed
        members = [member_joint(member, space, X, seed) for member in self.trees_]
        return Mixture(members, np.exp(Gate(self.gate_coef_).log_weights(X)))

    short_name = "mot"

    def label_graph(self) -> LabelGraph:
        """Return the arcs of all trees; the number is the share of the trees that have one."""
        d = len(self.label_names_)
        share = np.zeros((d, d))
        for tree, weight in zip(self.trees_, self.weights_, strict=True):
            if not isinstance(tree, LearnedTree):
                meaning = f"A mixture of {self.n_trees_} chains: it has no one graph."
                return LabelGraph.without_edges(self.label_names_, meaning)
            children = np.flatnonzero(tree.parents != ROOT)
            share[tree.parents[children], children] += weight
        ends = np.argwhere(share > 0)
        meaning = (
            f"The arcs of {self.n_trees_} trees. The number is the share of the trees, by their "
            "mean weight, in which the label at the end of the arrow depends on the one at its "
            "start."
        )
        return LabelGraph(self.label_names_, ends, meaning, True, share[ends[:, 0], ends[:, 1]])


_KNOWN = {
    "gate": ("linear", "constant"),
    "base": ("trees", "chains"),
    "pairs": ("shared", "separate"),
}
