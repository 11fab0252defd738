"""CML: collective multi-label classification (Ghamrawi & McCallum, 2005)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.core.parameters import check_choice
from colabel.core.schema import Dims, Fields, LabelVectors, Maybe, OneOf, refuse_unless, stored
from colabel.decide import Decision
from colabel.joint import Joint, VectorList
from colabel.joint.field import Engine
from colabel.labels import all_vectors
from colabel.learn.conditional import TrainingData
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.learner import FieldLearner
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters, PseudoLikelihood, Score
from colabel.learn.crf.scoring import held_out_score
from colabel.learn.crf.selection import MakeObjective
from colabel.learn.crf.state_likelihood import StateLikelihood
from colabel.learn.pool import joined_vectors, seen_vectors
from colabel.models._learning import DEFAULT_GRID, DEFAULT_TOLERANCE
from colabel.models.field._model import FieldModel, check_graph
from colabel.models.field._parameters import Strengths, candidate_limit, node_scores, strengths
from colabel.models.linear_log_odds import LinearLogOdds

_TRAININGS = ("auto", "enumeration", "supported", "pseudo")
# "auto" enumerates up to this many label vectors; a request for enumeration may go further.
_FEW_VECTORS = 1 << 12
_MOST_VECTORS = 1 << 16
_MOST_PAIRS = 2016  # all pairs of 64 labels


def _check_field(fields: Fields, dims: Dims) -> None:
    check_graph(fields, dims)
    supported = fields["training_"] == "supported"
    has_vectors = fields.get("vectors_") is not None
    refuse_unless(supported == has_vectors, "vectors_ does not fit training_")


@stored(
    "collective-crf",
    check=_check_field,
    training_=OneOf("enumeration", "supported", "pseudo"),
    vectors_=Maybe(LabelVectors()),
)
class CollectiveCRF(FieldModel):
    r"""A random field whose weights of label pairs do not depend on x.

    .. math:: P(y \mid x) \propto \exp\Bigl(\sum_i x \cdot v_i^{y_i}
              + \sum_{i < j} w_{ij}^{y_i, y_j}\Bigr)

    The CML of the paper: labels prefer or avoid each other to the same degree in every row.
    All pairs of labels are connected, of more than 64 labels those that depend on each other most
    (`max_candidates`). Tables have a ridge penalty :math:`\mu \sum_{ij} \|w_{ij}\|^2`.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the penalty of each label's regression; from a sequence the best is
        chosen for each label, by cross-validation of independent regressions.
    ridge : float, sequence of float or "auto"
        Strengths :math:`\mu` to choose from by cross-validation, scored by the log-likelihood
        (among the supported vectors for "supported"; for more than 2^14 label vectors by the
        pseudo-likelihood, among the strengths whose modes are right about as often as any's);
        "auto": nine values that follow the number of rows.
    max_candidates : int or None
        Most pairs of labels that are connected: those that depend on each other most beyond x, by
        a score test on the residuals of independent regressions. None: 2016, all pairs of 64
        labels, or five a label if that is more.
    training : {"auto", "enumeration", "supported", "pseudo"}
        What is maximised. "enumeration": the exact likelihood, for up to 2^16 label vectors.
        "supported": the likelihood among the label vectors of the training rows; as in the paper
        all others then have probability zero, so that `log_prob` of an unseen vector is -inf.
        "pseudo": the pseudo-likelihood. "auto" enumerates up to 4096 label vectors and takes the
        pseudo-likelihood beyond, which keeps every vector possible.
    cv : int, float, splitter or iterable
        How rows are held out: a number of folds, a fraction, a scikit-learn splitter, or pairs
        of index arrays (train, test).
    engine : str
        How the joint distribution is answered, see `PairwiseField`; without effect for
        "supported".
    decision : str or Decision
        Loss that `predict` minimises, see `decide`.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
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
    training_ : str
        What was maximised: "enumeration", "supported" or "pseudo".
    graph_ : (E, 2) array of int
        All pairs of labels that vary, or the `max_candidates` most dependent ones.
    edge_strengths_ : (E,) array
        Absolute log odds ratio of each table (for variables with more values: twice the Frobenius
        norm of the table without its row and column means, which is the same for two).
    edge_signs_ : (E,) array of int
        1 where two labels attract each other, -1 where they repel; 0 for variables with more
        than two values.
    field_ : FittedField
        Coefficients of nodes and edges in the user's features.
    models_ : ConditionalModels
        The independent regressions where learning starts; labels that never vary keep them.
    vectors_ : (S, d) array of int
        Codes of the supported label vectors; only for "supported".
    C_ : (d,) array
        Chosen C of every label.
    ridge_ : float
        Chosen :math:`\mu`.
    ridge_scores_ : dict
        Mean held-out score a row along the path; empty where nothing was to be chosen.
    n_iter_ : int
        Most iterations any solver of the final fit took.

    References
    ----------
    N. Ghamrawi, A. McCallum: Collective multi-label classification. CIKM 2005.

    Examples
    --------
    >>> from colabel import CollectiveCRF
    >>> from colabel.datasets import make_synthetic
    >>> data = make_synthetic("SD4", n_rows=300, random_state=0)
    >>> model = CollectiveCRF(C=1.0, ridge=0.1, random_state=0).fit(data.X, data.Y)
    >>> model.training_, model.edge_signs_.tolist()
    ('enumeration', [-1, -1, -1])
    """

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        ridge: Strengths = "auto",
        training: str = "auto",
        max_candidates: int | None = None,
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
        self.training = training
        self.max_candidates = max_candidates
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
        check_choice("training", self.training, _TRAININGS)

    def _field_learner(self, data: TrainingData) -> FieldLearner:
        self.training_ = _resolved(self.training, data.cardinalities)
        objective, score = self._likelihood(data)
        return FieldLearner(
            ridges=strengths(self.ridge, "ridge", positive=True),
            groups=[0.0],
            edge_columns=np.empty(0, dtype=np.intp),
            most_candidates=candidate_limit(self.max_candidates, data.n_labels, _MOST_PAIRS),
            form="proximal",
            tol=self.tol,
            max_iter=self.max_iter,
            standard_errors=0.0,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
            objective=objective,
            score=score,
        )

    def _likelihood(self, data: TrainingData) -> tuple[MakeObjective, Score]:
        """What is maximised, and how rows held out are scored."""
        if self.training_ == "pseudo":
            return PseudoLikelihood, held_out_score
        if self.training_ == "enumeration":
            states = all_vectors(data.cardinalities)
            return partial(StateLikelihood, states=states), held_out_score
        self.vectors_ = data.total(seen_vectors, combine=joined_vectors).astype(np.int32)
        states = self.vectors_

        def score(held_out: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
            return StateLikelihood(held_out, layout, states).log_likelihood(theta)

        return partial(StateLikelihood, states=states), score

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        """Return what nodes and edges say; among supported vectors that is not all there is."""
        return None if self.training_ == "supported" else super().linear_log_odds(x, others)

    def _joint(self, X: Any) -> Joint:
        if self.training_ != "supported":
            return super()._joint(X)
        # the supported vectors, each weighed by its score
        unary, tables = node_scores(self.field_, self.models_, X), self.field_.edge_tables(X)
        scores = np.zeros((len(unary[0]), len(self.vectors_)))
        for i, table in enumerate(unary):
            scores += table[:, self.vectors_[:, i]]
        for (i, j), table in zip(self.graph_, tables, strict=True):
            scores += table[:, self.vectors_[:, i], self.vectors_[:, j]]
        return VectorList(self.label_space_, self.vectors_, scores)

    short_name = "collective"


def _resolved(training: str, cardinalities: tuple[int, ...]) -> str:
    n_vectors = math.prod(cardinalities)
    if training == "auto":
        return "enumeration" if n_vectors <= _FEW_VECTORS else "pseudo"
    if training == "enumeration" and n_vectors > _MOST_VECTORS:
        raise ValueError(
            f'training="enumeration" would enumerate {n_vectors:.3g} label vectors for every row;'
            f' at most {_MOST_VECTORS} are allowed. Use "supported" or "pseudo".'
        )
    return training
