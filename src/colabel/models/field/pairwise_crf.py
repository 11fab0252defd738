"""MLCRF: a pairwise conditional random field with a learned graph (Naeini et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from colabel.core.parameters import check_choice, check_flag, check_positive
from colabel.core.schema import Numbers, Positions, Real, Table, stored
from colabel.decide import Decision
from colabel.joint.field import Engine
from colabel.learn.conditional import TrainingData
from colabel.learn.crf.learner import FieldLearner, LearnedField
from colabel.models._learning import DEFAULT_GRID, DEFAULT_TOLERANCE
from colabel.models.field._model import FieldModel, check_graph
from colabel.models.field._parameters import (
    EdgeFeatures,
    Strengths,
    candidate_limit,
    edge_columns,
    strengths,
)


@stored(
    "pairwise-crf",
    check=check_graph,
    candidates_=Positions("_ 2", below="d"),
    alpha_profile_=Numbers("_ _"),
    group_=Real(0.0, np.inf),
    group_scores_=Table(),
    lambda_w_=Real(0.0, np.inf),
    eta_=Real(0.0, 1.0),
)
class PairwiseCRF(FieldModel):
    r"""A random field over labels and pairs of labels; its graph is learned.

    .. math:: P(y \mid x) \propto \exp\Bigl(\sum_i x \cdot v_i^{y_i}
              + \sum_{(i, j) \in E} x_e \cdot w_{ij}^{y_i, y_j}\Bigr)

    The MLCRF of the paper: parameters maximise the log-pseudo-likelihood
    :math:`\sum_i \log P(y_i \mid y_{-i}, x)` under the penalty

    .. math:: \sum_i \lambda_{v_i} \|v_i\|^2 + \lambda_w \Bigl((1 - \eta) \sum_e \|w_e\|^2
              + \eta \sum_e \|w_e\|\Bigr),

    whose last term removes whole edges. Structure is found by accelerated proximal gradient
    (Algorithm 1); on the graph found, parameters are tuned by L-BFGS without that term (`tune`).

    The penalties are set in the paper's order: those of the nodes by cross-validation of
    independent regressions (`C`), those of the edges along warm-started paths. With `ridge`
    :math:`\mu = \lambda_w (1 - \eta)` and `group` :math:`\gamma = \lambda_w \eta`, first
    :math:`\mu` is chosen on the graph of all candidate edges, then :math:`\gamma`, each by the
    held-out log-likelihood of tuned parameters, exact for up to 2^14 label vectors and the
    pseudo-likelihood beyond (the paper does not name its score). A label without edges keeps its
    independent regression.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the nodes' penalty, :math:`\lambda_{v_i} = 1 / (2 C_i)`, as in
        scikit-learn's `LogisticRegression`; from a sequence the best is chosen for each label.
    ridge : float, sequence of float or "auto"
        Strengths :math:`\mu` to choose from. "auto": nine values from 10^-1.5 to 10^-5.5 times
        the sum of squares of the edges' features; the path stops early once scores fall.
    group : float, sequence of float or "auto"
        Strengths :math:`\gamma` to choose from; 0 keeps all candidate edges. "auto": 0 and ten
        values below the smallest that leaves no edge; the path stops early once scores fall, if all
        candidate edges score no better. Having no edge is always considered, unless a single number
        is given.
    edge_features : {"auto", "all", "none"} or sequence of int
        Features that edges depend on: all of x, none (one table per edge), or these columns.
        "auto" takes all where that makes at most 2^21 parameters, none otherwise. Besides them
        every edge has a constant, scaled to the typical length of a row: without that the
        penalty would shrink it like one feature among many. Dense features are centred first, so
        that the penalty does not depend on where their zero is.
    max_candidates : int or None
        Most edges to consider; the pairs of labels whose residuals after independent regressions
        are most correlated. None: all up to 500, or 5 per label where that is more.
    standard_errors : float
        Of all graphs the sparsest is taken whose held-out score is at most this many standard
        errors (of the difference, over rows) below the best.
    form : {"proximal", "constrained"}
        Form in which the final structure is solved: group soft-threshold, or the paper's slack
        variables (equation 2.10). Both have the same solution.
    tune : bool
        Whether parameters are tuned on the final graph. False keeps those of structure learning,
        which the group term has shrunk: what the paper says costs up to 10 % of the exact matches.
        Penalties are chosen for tuned parameters in both cases, and where all edges are kept, or
        none, there is nothing to leave out.
    cv : int, float, splitter or iterable
        How rows are held out: a number of folds, a fraction, a scikit-learn splitter, or pairs
        of index arrays (train, test).
    engine : str
        How the joint distribution is answered, see `PairwiseField`.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    tol : float
        Bound on the gradient of the mean objective, for nodes and for the final tuning.
    max_iter : int
        Bound on the iterations of each solver.
    n_jobs : int or None
        Threads; None for all cores.
    random_state : int, RandomState or None
        Seed of the folds.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    graph_ : (E, 2) array of int
        Edges i < j of the learned graph.
    edge_strengths_ : (E,) array
        Root mean square, over the training rows, of the interaction of each edge. For 0/1 labels
        the interaction is the log odds ratio w^00 + w^11 - w^01 - w^10; for other variables twice
        the Frobenius norm of the table without its row and column means, which is the same.
    edge_signs_ : (E,) array of int
        1 where two labels attract each other on average over the rows, -1 where they repel; 0 for
        variables with more than two values.
    candidates_ : (E_c, 2) array of int
        Edges that were considered.
    alpha_profile_ : (iterations + 1, E_c) array
        Slack of every candidate edge during structure learning, zero for absent edges (Figure 2 of
        the paper). One row of zeros where no structure was to be learned.
    field_ : FittedField
        Coefficients of nodes and edges in the user's features.
    models_ : ConditionalModels
        The independent regressions: where learning starts, and what labels without edges keep.
    C_ : (d,) array
        Chosen C of every label.
    lambda_w_ : float
        Chosen :math:`\lambda_w`; infinite for no edges.
    eta_ : float
        Chosen :math:`\eta`.
    ridge_, group_ : float
        Chosen :math:`\mu` and :math:`\gamma`.
    ridge_scores_, group_scores_ : dict
        Mean held-out score a row along the two paths; empty where nothing was to be chosen.
    n_iter_ : int
        Iterations of the final tuning.

    References
    ----------
    M. P. Naeini, I. Batal, Z. Liu, C. Hong, M. Hauskrecht: An optimization-based framework to learn
    conditional random fields for multi-label classification. SDM 2014.

    Examples
    --------
    >>> from colabel import PairwiseCRF
    >>> from colabel.datasets import make_synthetic
    >>> data = make_synthetic("SD2", n_rows=300, random_state=0)
    >>> model = PairwiseCRF(C=1.0, cv=3, random_state=0).fit(data.X, data.Y)
    >>> model.graph_.tolist(), model.edge_signs_.tolist()
    ([[0, 1]], [-1])
    >>> model.joint(data.X[:1]).given({0: 1}).mode()[0, 1]
    np.int64(0)
    """

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        ridge: Strengths = "auto",
        group: Strengths = "auto",
        edge_features: EdgeFeatures = "auto",
        max_candidates: int | None = None,
        standard_errors: float = 1.0,
        form: str = "proximal",
        tune: bool = True,
        cv: Any = 5,
        engine: Engine = "auto",
        decision: str | Decision = "subset",
        calibrate: bool = False,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.ridge = ridge
        self.group = group
        self.edge_features = edge_features
        self.max_candidates = max_candidates
        self.standard_errors = standard_errors
        self.form = form
        self.tune = tune
        self.cv = cv
        self.engine = engine
        self.decision = decision
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("form", self.form, ("proximal", "constrained"))
        check_flag("tune", self.tune)
        check_positive("standard_errors", self.standard_errors, or_zero=True)

    def _field_learner(self, data: TrainingData) -> FieldLearner:
        limit = candidate_limit(self.max_candidates, data.n_labels)
        return FieldLearner(
            ridges=strengths(self.ridge, "ridge", positive=True),
            groups=strengths(self.group, "group", positive=False),
            edge_columns=edge_columns(self.edge_features, data, limit),
            most_candidates=limit,
            form=self.form,
            tol=self.tol,
            max_iter=self.max_iter,
            standard_errors=self.standard_errors,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
            tuned=self.tune,
        )

    def _keep(self, learned: LearnedField) -> None:
        super()._keep(learned)
        self.candidates_ = learned.candidates
        self.alpha_profile_ = learned.profile
        self.group_, self.group_scores_ = learned.choice.group, learned.choice.group_scores
        self.lambda_w_ = self.ridge_ + self.group_
        self.eta_ = 1.0 if np.isinf(self.group_) else self.group_ / max(self.lambda_w_, 1e-300)

    short_name = "pairwise"
