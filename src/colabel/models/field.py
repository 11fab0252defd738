"""Pairwise random fields: MLCRF with a learned graph (Naeini et al.), CML with all pairs.

CML is collective multi-label classification (Ghamrawi & McCallum, 2005).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, dense
from colabel.core.estimators import attribute
from colabel.core.schema import CODES, NOT_EMPTY, SOMETIMES, Below, Between, check_that, stored
from colabel.core.warning import warn
from colabel.joint import Joint, PairwiseField, VectorList
from colabel.joint.field import Engine
from colabel.labels import all_vectors
from colabel.learn.chunks.chunked_data import added
from colabel.learn.conditional import TrainingData
from colabel.learn.crf import learner as crf
from colabel.learn.crf.curvature import StateLikelihood
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    Score,
)
from colabel.learn.linear import LinearModels
from colabel.learn.pool import joined_vectors, seen_vectors
from colabel.models.base import LinearLogOdds
from colabel.models.chain.learning import completed_by_chain
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import (
    CompletedData,
    can_hold_out,
    choose,
    everything,
    linear_learner,
    make_folds,
    missing_share,
)
from colabel.models.with_estimator import Penalised

Strengths = float | Sequence[float] | Literal["auto"]
EdgeFeatures = Literal["auto", "all", "none"] | Sequence[int]

_MOST_PARAMETERS = 1 << 21
_MOST_CANDIDATES = 500
_CANDIDATES_PER_LABEL = 5
# Solvers turn the cells of a table to their axes, which takes the cube of their number.
_MOST_CELLS = 2_500


def check_table_sizes(data: TrainingData, names: Sequence[str]) -> None:
    """Raise ValueError if the table of some pair of labels has too many cells to be learned."""
    pair = np.argsort(data.cardinalities)[-2:]
    cells = int(np.prod([data.cardinalities[label] for label in pair]))
    if len(pair) == 2 and cells > _MOST_CELLS:
        first, second = (repr(names[label]) for label in sorted(pair))
        raise ValueError(
            f"A field has a table for each pair of labels, and that of {first} and {second} has "
            f"{cells:,} cells: more than {_MOST_CELLS:,} are too many to learn. Join values that "
            "are rare, or use CTBN or BinaryRelevance."
        )


def strengths(given: Strengths, name: str, *, positive: bool) -> list[float] | None:
    """Return the strengths a parameter asks for; None for "auto"."""
    if isinstance(given, str):
        if given == "auto":
            return None
        raise ValueError(f'{name}={given!r} must be "auto", a number or a sequence of numbers.')
    values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    smallest_ok = values > 0 if positive else values >= 0
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & smallest_ok).all():
        bound = "positive" if positive else "non-negative"
        raise ValueError(f'{name}={given!r} must be "auto", or {bound} numbers.')
    return [float(value) for value in values]


def candidate_limit(given: int | None, n_labels: int, usual: int = _MOST_CANDIDATES) -> int:
    """Return the most candidate edges that a parameter asks for; by default `usual` or more."""
    if given is None:
        return max(usual, _CANDIDATES_PER_LABEL * n_labels)
    if given < 0:
        raise ValueError(f"max_candidates={given!r} must not be negative.")
    return int(given)


def edge_columns(given: EdgeFeatures, data: TrainingData, limit: int) -> Indices:
    """Return the columns of X that edges depend on."""
    n_features = data.n_features
    every = np.arange(n_features, dtype=np.intp)
    if isinstance(given, str):
        if given not in ("auto", "all", "none"):
            raise ValueError(
                f'edge_features={given!r} must be "auto", "all", "none" or a sequence of columns.'
            )
        wide = given == "auto" and _n_parameters(data, limit) > _MOST_PARAMETERS
        return every[:0] if given == "none" or wide else every
    columns = np.unique(np.asarray(given, dtype=np.intp))
    if len(columns) and not (-n_features <= columns[0] and columns[-1] < n_features):
        raise ValueError(
            f"edge_features names columns {columns.tolist()}, but X has {n_features} columns."
        )
    return np.unique(columns % n_features) if len(columns) else every[:0]


def _n_parameters(data: TrainingData, limit: int) -> float:
    """Bound on the parameters of all candidate edges if they depend on all features."""
    sizes = np.asarray(data.cardinalities, dtype=np.float64)
    cells = (sizes.sum() ** 2 - (sizes**2).sum()) / 2.0
    n_pairs = data.n_labels * (data.n_labels - 1) / 2.0
    share = min(1.0, limit / n_pairs) if n_pairs else 0.0
    return float(cells * share * (data.n_features + 1))


def interactions(data: TrainingData, field: crf.FittedField) -> tuple[Array, Indices]:
    """Strengths (E,) and signs (E,) of the edges of a field over rows.

    Row and column means of a table belong to the nodes; what is left is the interaction. For two
    labels of two values it is a quarter of the log odds ratio in each cell.
    """
    squares, corners = data.sum(_interaction_sums, field, combine=added)
    strength: Array = 2.0 * np.sqrt(squares / data.total_weight)
    return strength, np.sign(corners).astype(np.intp)


def _interaction_sums(data: TrainingData, field: crf.FittedField) -> tuple[Array, Array]:
    """Weighted sums (E,) of squared interactions, and of those of two second values of two."""
    tables, weight = field.edge_tables(data.X), data.row_weights
    squares, corners = np.zeros((2, len(tables)))
    for place, table in enumerate(tables):
        # a table that all rows share has the weight of all
        row_weight = weight if len(table) == len(weight) else weight.sum(keepdims=True)
        centred = table - table.mean(axis=1, keepdims=True)
        centred = centred - centred.mean(axis=2, keepdims=True)
        squares[place] = row_weight @ (centred**2).sum(axis=(1, 2))
        if table.shape[1:] == (2, 2):
            corners[place] = row_weight @ centred[:, 1, 1]
    return squares, corners


class FieldModel(Penalised):
    """A model of one field; a subclass says what is maximised, and which edges there may be."""

    models_: Annotated[LinearModels, "sizes q=p+1"] = attribute()
    field_: Annotated[crf.FittedField, "d e=edges p sizes"] = attribute()
    graph_: Annotated[Indices, "edges 2", Below("d")] = attribute()
    ridge_: Annotated[float, Between(0.0, np.inf)] = attribute()
    ridge_scores_: dict[Any, Any] = attribute()
    edge_strengths_: Annotated[Array, "edges", Between(0.0)] = attribute()
    edge_signs_: Annotated[Indices, "edges", Between(-1, 1)] = attribute()

    fits_chunks = True
    ridge: Strengths = "auto"
    max_candidates: int | None = None
    engine: Engine = "auto"

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        edges = fields["field_"].fields["layout"].fields["edges"]
        same = np.array_equal(fields["graph_"], edges)
        check_that(same, "graph_ is not the graph of the field")

    @abstractmethod
    def _field_learner(self, data: TrainingData, known: TrainingData) -> crf.FieldLearner:
        """Return the learner that the parameters ask for, after checking them."""

    def _learn(self, data: Any) -> None:
        check_table_sizes(data, self.label_names_)
        seed = self._seed()
        known, data = data, completed_by_chain(data, seed, self.n_jobs)
        if data is not known and isinstance(data, CompletedData):
            # drawn labels are neighbours, but not targets: they repeat what the chain believes
            known = data.known_targets()
        learner = self._field_learner(data, known)
        folds = make_folds(data, self.cv, seed)
        regressions = linear_learner(self.C, self.tol, self.max_iter, self.n_jobs, self.verbose)
        linear = regressions.on(known)
        taken = self.__dict__.pop("_taken", None)
        if taken is None:
            choice = choose(linear, folds)
        else:
            choice = (linear.learner.grid == taken[:, None]).argmax(axis=1)
        self.models_ = linear.fit([everything(known)], [choice])
        self.C_ = linear.learner.values(choice)
        held_out = folds if can_hold_out(folds) else None
        learned = learner.learn(linear, self.models_, choice, 0.5 / self.C_, held_out)
        self._keep(learned)
        self.edge_strengths_, self.edge_signs_ = interactions(data, learned.field)
        if not learned.converged:
            warn(
                f"The field did not reach the tolerance in {self.max_iter} iterations. Scale the"
                " features, raise max_iter, or give a stronger ridge.",
                ConvergenceWarning,
            )

    def reusing(self, fitted: Self) -> Self:
        """Return an unfitted copy that takes over the C and the ridge that a fitted one chose."""
        model: Self = clone(self).set_params(ridge=fitted.ridge_)
        model.__dict__["_taken"] = fitted.C_
        return model

    def _keep(self, learned: crf.LearnedField) -> None:
        """Set the fitted attributes."""
        self.field_, self.graph_ = learned.field, learned.field.layout.edges
        self.ridge_, self.ridge_scores_ = learned.ridge, learned.ridge_scores
        self.n_iter_ = max(learned.n_iter, self.models_.n_iter)

    def _joint(self, X: Any) -> Joint:
        alone = [table.argmax(axis=1) for table in self.models_.log_prob(X)]
        return PairwiseField(
            self.label_space_,
            self.field_.node_tables(X),
            self.graph_,
            self.field_.edge_tables(X),
            start=np.stack(alone, axis=1),
            engine=self.engine,
            n_jobs=self.n_jobs,
        )

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        r"""Return what nodes and edges say of each label.

        A node has a score for 0 alone, and an edge (i, j) for the cells 00, 01 and 10: its share in
        the log-odds of i is :math:`(e_{10} - e_{00}) + y_j (e_{00} - e_{01} - e_{10})`.
        """
        field, layout = self.field_, self.field_.layout
        forms = -field.node.T.astype(np.float64)  # (d, p + 1), the constant last
        at = np.append(field.edge_columns, field.node.shape[0] - 1)
        row: Array = np.asarray(dense(x), dtype=np.float64)[0]
        edge_x = np.append(row[field.edge_columns], 1.0)
        weights = np.zeros((len(forms), len(forms)))
        for e, (i, j) in enumerate(layout.edges.tolist()):
            neither, second, first = field.edge[:, layout.edge_start[e] :][:, :3].T
            both = neither - second - first
            forms[i, at] += first - neither + others[j] * both
            forms[j, at] += second - neither + others[i] * both
            weights[i, j] = weights[j, i] = edge_x @ both
        return LinearLogOdds(forms[:, :-1], forms[:, -1], weights)

    def label_graph(self) -> LabelGraph:
        """Return the edges of the field and how strong they are."""
        return LabelGraph.of_field(
            self.label_names_, self.graph_, self.edge_strengths_, self.edge_signs_
        )


Training = Literal["enumeration", "supported", "pseudo"]
# "auto" enumerates up to this many label vectors; a request for enumeration may go further.
_FEW_VECTORS = 1 << 12
_MOST_VECTORS = 1 << 16
_MOST_MISSING = 2 / 3  # share of the labels, of a likelihood in which they are summed out
MOST_PAIRS = 2016  # all pairs of 64 labels


@stored("collective-crf")
class CollectiveCRF(FieldModel):
    r"""A random field whose weights of label pairs do not depend on x.

    Take it where pairs of labels go together whatever the features are. Cost: high.

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
        pseudo-likelihood beyond, which keeps every vector possible. Missing labels are summed out
        in a likelihood (among vectors that are supported, or drawn); in the pseudo-likelihood they
        are drawn from a chain as neighbours only, and "auto" takes it, too, where less than a third
        of the labels is known.
    engine : str
        How the joint distribution is answered, see `PairwiseField`; without effect for
        "supported".
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    n_jobs : int or None
        Threads; None for all cores.
    random_state : int, RandomState or None
        Seed of the folds.

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
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(300, 6))
    >>> Y = np.eye(4, 3, dtype=int)[rng.integers(4, size=300)]  # at most one of three labels
    >>> model = CollectiveCRF(C=1.0, ridge=0.1, random_state=0).fit(X, Y)
    >>> model.training_, model.edge_signs_.tolist()
    ('enumeration', [-1, -1, -1])
    """

    training: Training | Literal["auto"] = "auto"
    training_: Training = attribute()
    vectors_: Annotated[Codes, "_ d", CODES, NOT_EMPTY, SOMETIMES] = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        FieldModel._check_stored(fields, dims)
        supported = fields["training_"] == "supported"
        has_vectors = fields.get("vectors_") is not None
        check_that(supported == has_vectors, "vectors_ does not fit training_")

    def _field_learner(self, data: TrainingData, known: TrainingData) -> crf.FieldLearner:
        self.training_ = _resolved(self.training, known)
        objective, score = self._likelihood(data)
        return crf.FieldLearner(
            ridges=strengths(self.ridge, "ridge", positive=True),
            groups=[0.0],
            edge_columns=np.empty(0, dtype=np.intp),
            most_candidates=candidate_limit(self.max_candidates, data.n_labels, MOST_PAIRS),
            form="proximal",
            tol=self.tol,
            max_iter=self.max_iter,
            standard_errors=0.0,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
            objective=objective,
            score=score,
        )

    def _likelihood(self, data: TrainingData) -> tuple[crf.MakeObjective, Score]:
        """What is maximised, and how rows held out are scored."""
        if self.training_ == "pseudo":
            return PseudoLikelihood, crf.held_out_score
        if self.training_ == "enumeration":
            states = all_vectors(data.cardinalities)
            return partial(StateLikelihood, states=states), crf.held_out_score
        self.vectors_ = data.sum(seen_vectors, combine=joined_vectors).astype(np.int32)
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
        unary, tables = self.field_.node_tables(X), self.field_.edge_tables(X)
        scores = np.zeros((len(unary[0]), len(self.vectors_)))
        for i, table in enumerate(unary):
            scores += table[:, self.vectors_[:, i]]
        for (i, j), table in zip(self.graph_, tables, strict=True):
            scores += table[:, self.vectors_[:, i], self.vectors_[:, j]]
        return VectorList(self.label_space_, self.vectors_, scores)

    short_name = "collective"


def _resolved(training: Training | Literal["auto"], data: TrainingData) -> Training:
    n_vectors = math.prod(data.cardinalities)
    if training == "auto":
        few = n_vectors <= _FEW_VECTORS
        if few and data.missing_labels[0]:
            # of fewer known labels tables of pairs would be bent to fit each label alone
            few = missing_share(data) <= _MOST_MISSING
        return "enumeration" if few else "pseudo"
    if training == "enumeration" and n_vectors > _MOST_VECTORS:
        raise ValueError(
            f'training="enumeration" would enumerate {n_vectors:.3g} label vectors for every row;'
            f' at most {_MOST_VECTORS} are allowed. Use "supported" or "pseudo".'
        )
    return training


@stored("pairwise-crf")
class PairwiseCRF(FieldModel):
    r"""A random field over labels and pairs of labels; its graph is learned.

    Take it where whole label sets must be right, and training may take longer. Cost: high.

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
        "auto" takes all where that makes at most 2^21 parameters, none otherwise.
    constant : {"free", "penalised", "none"}
        What there is besides features. "free": constants of nodes are not penalised, and those of
        edges are scaled to the typical length of a row, since the penalty would shrink them like
        one feature among many. "penalised": each is a feature that is 1. "none": f(x) is x alone;
        an edge without features keeps its constant.
    centre : bool
        Whether dense features are centred first, so that the penalty does not depend on where
        their zero is. Sparse features never are.
    max_candidates : int or None
        Most edges to consider; the pairs of labels whose residuals after independent regressions
        are most correlated. None: all up to 500, or 5 per label where that is more.
    standard_errors : float
        Of all graphs the sparsest is taken whose held-out score is at most this many standard
        errors (of the difference, over rows) below the best.
    form : {"proximal", "constrained"}
        Form in which the final structure is solved: group soft-threshold, or the paper's slack
        variables (equation 2.10). Both have the same solution.
    max_structure_iter : int or None
        Bound on the iterations of structure learning, 50 in the paper; None for `max_iter`.
    tune : bool
        Whether parameters are tuned on the final graph. False keeps those of structure learning,
        which the group term has shrunk: what the paper says costs up to 10 % of the exact matches.
        Penalties are chosen for tuned parameters in both cases, and where all edges are kept, or
        none, there is nothing to leave out.
    engine : str
        How the joint distribution is answered, see `PairwiseField`.
    tol : float
        Bound on the gradient of the mean objective, for nodes and for the final tuning.
    n_jobs : int or None
        Threads; None for all cores.
    random_state : int, RandomState or None
        Seed of the folds.

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

    Notes
    -----
    To the letter of the paper: ``edge_features="all", constant="none", centre=False,
    form="constrained", max_structure_iter=50``; where its x is meant to hold a constant,
    ``constant="penalised"``. The independent regressions, which choose `C`, keep a free constant.

    References
    ----------
    M. P. Naeini, I. Batal, Z. Liu, C. Hong, M. Hauskrecht: An optimization-based framework to learn
    conditional random fields for multi-label classification. SDM 2014.

    Examples
    --------
    >>> from colabel import PairwiseCRF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(300, 6))
    >>> Y = np.column_stack([np.eye(3, 2, dtype=int)[rng.integers(3, size=300)], X[:, 0] > 0])
    >>> model = PairwiseCRF(C=1.0, cv=3, random_state=0).fit(X, Y)
    >>> model.graph_.tolist(), model.edge_signs_.tolist()
    ([[0, 1]], [-1])
    >>> model.joint(X[:1]).given({0: 1}).mode()[0, 1]
    np.int64(0)
    """

    group: Strengths = "auto"
    edge_features: EdgeFeatures = "auto"
    constant: Literal["free", "penalised", "none"] = "free"
    centre: bool = True
    standard_errors: Annotated[float, Between(0)] = 1.0
    form: Literal["proximal", "constrained"] = "proximal"
    max_structure_iter: Annotated[int | None, Between(1)] = None
    tune: bool = True
    candidates_: Annotated[Indices, "_ 2", Below("d")] = attribute()
    alpha_profile_: Annotated[Array, "_ _"] = attribute()
    group_: Annotated[float, Between(0.0, np.inf)] = attribute()
    group_scores_: dict[Any, Any] = attribute()
    lambda_w_: Annotated[float, Between(0.0, np.inf)] = attribute()
    eta_: Annotated[float, Between(0.0, 1.0)] = attribute()

    def _field_learner(self, data: TrainingData, known: TrainingData) -> crf.FieldLearner:
        limit = candidate_limit(self.max_candidates, data.n_labels)
        return crf.FieldLearner(
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
            centred=self.centre,
            constant=self.constant,
            max_structure_iter=self.max_structure_iter,
        )

    def _keep(self, learned: crf.LearnedField) -> None:
        super()._keep(learned)
        self.candidates_ = learned.candidates
        self.alpha_profile_ = learned.profile
        self.group_, self.group_scores_ = learned.group, learned.group_scores
        self.lambda_w_ = self.ridge_ + self.group_
        self.eta_ = 1.0 if np.isinf(self.group_) else self.group_ / max(self.lambda_w_, 1e-300)

    short_name = "pairwise"
