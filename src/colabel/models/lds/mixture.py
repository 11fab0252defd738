"""LDSMixture: a generative mixture over label dependency sets (Simha & Shatkay)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from colabel.core import parameters
from colabel.core.arrays import Array, Codes
from colabel.core.estimators import attribute
from colabel.core.schema import CODES, POSITIVE, SOMETIMES, Below, Between, Distribution, stored
from colabel.joint import Joint, LDSPosterior
from colabel.joint.lds.network import LDSNetwork
from colabel.joint.lds.posterior import Inference, chosen_inference
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData, distinct_rows
from colabel.learn.structure.bayes_network import Parents, learn_bayes_network
from colabel.models.base import JointClassifier
from colabel.models.chain.learning import completed_by_chain
from colabel.models.discrete_features import (
    DiscreteFeatures,
    check_bins,
    choose_smoothing,
    feature_position,
    fit_features,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.lds import learning
from colabel.models.learning import DEFAULT_SMOOTHING, original_rows, smoothing_grid


class FeatureDrivers(NamedTuple):
    """How one feature depends on the label dependency sets.

    Attributes
    ----------
    feature : str
        Name of the feature.
    values : tuple of V str
        What its values mean.
    labels : tuple of d str
        Names of the labels; set k belongs to label k.
    sets : tuple of d tuples of str
        Names of the labels of each set: the parents, then the label itself.
    weights : (d,) array
        Probability that the feature's value comes from each set.
    information : (d,) array
        What the state of each set says about the feature where the value comes from it, in nats.
    states : tuple of d tuples of S_k tuples of str
        Values that the labels of each set have in each of its states.
    tables : tuple of d arrays (S_k, V)
        Probability of each value in each state of each set.
    state_prob : tuple of d arrays (S_k,)
        How probable the states are before the feature is seen.
    """

    feature: str
    values: tuple[str, ...]
    labels: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    weights: Array
    information: Array
    states: tuple[tuple[tuple[str, ...], ...], ...]
    tables: tuple[Array, ...]
    state_prob: tuple[Array, ...]

    @property
    def strength(self) -> Array:
        """Weight times information of each set, (d,)."""
        return self.weights * self.information

    def state_name(self, k: int, state: int) -> str:
        """Say which values the labels of set k have in a state."""
        pairs = zip(self.sets[k], self.states[k][state], strict=True)
        return ", ".join(f"{label}={value}" for label, value in pairs)

    def to_text(self, n_sets: int = 3) -> str:
        """Say it for people, the strongest sets first, in the states that occur."""
        lines = [f"{self.feature}:"]
        for k in np.argsort(-self.strength, kind="stable")[:n_sets]:
            lines.append(
                f"  {', '.join(self.sets[k])}: weight {self.weights[k]:.2f}, "
                f"{self.information[k]:.3f} nats"
            )
            for state in np.flatnonzero(self.state_prob[k] > 0):
                row, prob = self.tables[k][state], self.state_prob[k][state]
                best = int(row.argmax())
                lines.append(
                    f"    {self.state_name(k, int(state))} ({prob:.2f} of rows): "
                    f"{self.values[best]} ({row[best]:.2f})"
                )
        return "\n".join(lines)


def _information(prob: Array, table: Array) -> float:
    """Mutual information of a state with probabilities (S,) and a value, table (S, V)."""
    mean = prob @ table
    ratio = np.where(table > 0, table / np.where(mean > 0, mean, 1.0), 1.0)
    logs = np.log(np.where(ratio > 0, ratio, 1.0))
    return max(0.0, float(prob @ (table * logs).sum(axis=1)))


MStep = Literal["em", "printed"]
# Two gigabytes.
_MOST_WEIGHTS = 2**28
_FEWEST_UNLABELLED = 0.1  # share of the rows from which their weight is worth choosing


@stored("lds-mixture")
class LDSMixture(JointClassifier):
    r"""Generative: features given small sets of labels that depend on each other, by EM.

    Take it where features are counts or categories and rows are few. Cost: medium.

    .. math:: P(y, x) = \prod_i P(y_i \mid y_{Pa(i)}) \prod_j \sum_k \theta^y_{jk}
              \phi_{jk}(x_j \mid y_{LS_k}), \qquad LS_k = \{k\} \cup Pa(k)

    A feature depends on one *label dependency set* at a time: a label and its parents in the
    network. Which one it is may differ between label vectors: :math:`\theta^y_{jk}` is the
    probability of set k for feature j, learned by EM for every label vector of the training rows.
    A label vector that was never seen has equal weights, which is what Laplace smoothing leaves
    of a vector without rows. As the features are given too, P(y | x) follows by Bayes' rule.

    Learning goes in rounds: a network from the training labels, parameters, labels inferred for
    the training rows; then a network from the inferred labels, and so on, as long as the inferred
    labels get better.

    Features are discrete. Continuous ones are cut into bins inside; a value that training has
    not seen gets the probability that smoothing leaves for it. Missing labels are drawn
    given the known ones of their row, from a chain of regressions. Rows of which no label is known
    have the likelihood P(x), the sum of P(y, x) over all y (over those seen, where there are many),
    and EM goes on with it: see `unlabelled_weight`.

    Parameters
    ----------
    bins : int or None
        Number of bins of about equal frequency for each feature. None takes the features as they
        are: every distinct value is a category.
    unseen : bool
        Whether a feature without bins has one more value, for all that training has not seen.
        False, as in the paper: what is new counts as the nearest value seen.
    max_parents : int
        Most parents of a label; a dependency set has one label more.
    smoothing : float or sequence of float
        Pseudo-count added to every count (Laplace smoothing), positive. From a sequence the value
        that makes the labels of rows held out most probable is chosen. Rare labels and rare
        values want less than Laplace's 1. Where labels are missing, the default stands for 1, 10
        and 100.
    n_folds : int
        In how many parts rows are held out to choose the smoothing.
    network_score : {"bdeu", "bic"}
        Score of networks, see `learn_bayes_network`.
    equivalent_sample_size : float
        Weight of the prior in the BDeu score.
    criterion : {"hamming", "f1"}
        What must improve on the training rows for another round: the share of labels inferred
        right, or the F1-label score.
    max_rounds : int
        Most networks after the first; 0 learns from the training labels alone.
    inference : {"auto", "exact", "search", "coordinate ascent"}
        How questions are answered, see `LDSPosterior`: exactly by writing out all label vectors
        ("auto": up to 16,384 of them), by a search, or by coordinate ascent as published.
    tol : float
        EM stops when no mixture weight of a feature changes by as much. The paper stops at .05:
        fewer label vectors come out right then, but their probabilities are less extreme.
    max_iter : int
        Most iterations of EM for a feature.
    unlabelled_weight : float or sequence of float
        How much a row counts of which no label is known, beside 1 for one with labels. From a
        sequence the value is chosen that makes the labels of rows held out most probable, if by
        more than a standard error, else the smallest; the smallest, too, where fewer than a tenth
        of all rows are unlabelled. On data drawn from such a model these rows help. On real data,
        of which it is a rough one, they mostly harm (see Notes), so that 0 is chosen.
    m_step : {"em", "printed"}
        Whether the M-step is that of EM, which never lowers the likelihood, or the formula that the
        paper prints, in which a row counts the more, the more probable its value of the feature is.
    n_jobs : int or None
        Threads (None: all cores); they do not change the answers.
    random_state : int, RandomState or None
        Seed of the search for networks of more than 20 labels; smaller ones are the best there
        are.

    Attributes
    ----------
    network_ : tuple of d tuples of int
        Parents of every label.
    mixture_weights_ : (U, p, d) array
        Probability of each dependency set for each feature, given each of `label_vectors_`.
    label_vectors_ : (U, d) array
        Codes of the label vectors seen in training.
    parameters_ : LDSNetwork
        All parameters in codes.
    features_ : DiscreteFeatures
        How features become codes.
    smoothing_ : float
        Pseudo-count in use.
    rounds_ : tuple of float
        Training performance in each round.
    unlabelled_weight_ : float
        Weight in use of rows of which no label is known; only where there are some.
    n_iter_ : int
        Most iterations of EM that a feature took.

    Notes
    -----
    As in the paper: ``unseen=False, tol=0.05, inference="coordinate ascent"``; with
    ``m_step="printed"`` the M-step is the formula on its page too, with which scene is far from the
    paper's own figures. Read to the letter, its Figure 4 would learn the second network from labels
    that are all 0, before any has been inferred; here they are inferred by the first model, from 0
    on.

    Rows without labels: on data drawn from a model of 4 labels and 12 features, 60 rows with labels
    and 1,140 without have a log-loss of .64 nats where the 60 alone have .86. On the bundled digit
    traits 30 rows alone have 2.7, and 8.1 with 970 rows without labels of weight 1: EM believes a
    P(y | x) that is too sure of itself. The weight is 0 then.

    Several networks may have the best score: BDeu does not tell the directions of arcs that no
    collider fixes. Which of them is taken depends on the order of the label columns, and so do
    dependency sets and answers: with the columns reversed, 9 % of the rows of emotions and 12 % of
    those of scene are answered otherwise (ten folds), and exact match differs by .004 and .002.
    The paper does not say which it takes.

    References
    ----------
    R. Simha, H. Shatkay: Improved multi-label classification using inter-dependence structure
    via a generative mixture model. ECAI 2016.

    Examples
    --------
    >>> from colabel import LDSMixture
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = LDSMixture(smoothing=1.0, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[1000:1001])
    >>> joint.mode()
    array([[1, 1, 0, 0, 0, 0, 1]])
    >>> joint.given({"prime": 0}).mode()
    array([[1, 0, 0, 1, 1, 1, 0]])
    >>> drivers = model.drivers(58)
    >>> drivers.sets[int(drivers.strength.argmax())]
    ('square', 'loop', 'prime')
    """

    bins: int | None = field(default=4, kw_only=False)
    unseen: bool = True
    max_parents: Annotated[int, Between(0)] = 2
    smoothing: float | Sequence[float] = DEFAULT_SMOOTHING
    n_folds: Annotated[int, Between(2)] = 3
    network_score: Literal["bdeu", "bic"] = "bdeu"
    equivalent_sample_size: Annotated[float, POSITIVE] = 1.0
    criterion: learning.Criterion = "hamming"
    max_rounds: Annotated[int, Between(0)] = 10
    inference: Inference = "auto"
    tol: Annotated[float, POSITIVE] = 0.005
    max_iter: Annotated[int, Between(1)] = 1000
    unlabelled_weight: float | Sequence[float] = (0.0, 0.1, 1.0)
    m_step: MStep = "em"
    features_: Annotated[DiscreteFeatures, "p values"] = attribute()
    parameters_: Annotated[LDSNetwork, "d p sizes values u"] = attribute()
    network_: Annotated[tuple[tuple[int, ...], ...], "d _", Below("d")] = attribute()
    mixture_weights_: Annotated[Array, "u p d", Distribution()] = attribute()
    label_vectors_: Annotated[Codes, "u d", CODES] = attribute()
    smoothing_: Annotated[float, Between(0.0)] = attribute()
    rounds_: tuple[float, ...] = attribute()
    unlabelled_weight_: Annotated[float, Between(0.0), SOMETIMES] = attribute()

    unlabelled_rows: ClassVar[str] = "unlabelled_weight_ says how much they count"

    # Asking

    def drivers(self, feature: str | int, labels: ArrayLike | None = None) -> FeatureDrivers:
        """Say which labels drive a feature, and how.

        Parameters
        ----------
        feature : str or int
            Name or position.
        labels : label vector of shape (d,), optional
            Values of all labels: the answer for rows with these. By default the average over the
            training rows.

        Returns
        -------
        FeatureDrivers
            Weight of each dependency set, what it says about the feature, and the probability
            of the feature's values in each of its states; `to_text()` is for people.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        j = feature_position(feature, names, self.n_features_in_)
        network, space = self.parameters_, self.label_space_
        # averages over the training rows
        share = network.vector_weights / network.vector_weights.sum()
        weights = np.einsum("u,ukj->kj", share, network.theta)
        if labels is not None:
            codes = space.encode(np.asarray(labels, dtype=object).reshape(1, -1))
            if (codes == MISSING).any():
                raise ValueError(
                    "The label vector has missing entries: give a value for every label."
                )
            place = int(network.seen_positions(codes)[0])
            weights = network.fallback if place < 0 else network.theta[place]
        values = [tuple(map(str, each.tolist())) for each in space.classes]
        states = network.sets.states(network.vectors)
        n_states, columns = network.sets.n_states, network.columns.of(j)
        prob = tuple(
            np.bincount(own, share, minlength=most).astype(np.float64)
            for own, most in zip(states.T, n_states, strict=True)
        )
        tables = tuple(network.phi[k, :own, columns] for k, own in enumerate(n_states))
        return FeatureDrivers(
            feature=f"feature {j}" if names is None else str(names[j]),
            values=self.features_.value_names(j),
            labels=space.names,
            sets=tuple(tuple(space.names[i] for i in own) for own in network.sets.members),
            weights=weights[:, j],
            information=np.array([_information(p, t) for p, t in zip(prob, tables, strict=True)]),
            states=tuple(
                tuple(
                    tuple(values[i][v] for i, v in zip(members, state, strict=True))
                    for state in network.sets.assignments(k)
                )
                for k, members in enumerate(network.sets.members)
            ),
            tables=tables,
            state_prob=prob,
        )

    # Learning

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bins(self.bins)
        parameters.checked_grid("smoothing", self.smoothing)
        for value in np.atleast_1d(np.asarray(self.unlabelled_weight, dtype=object)):
            parameters.check_positive("unlabelled_weight", value, or_zero=True)

    def _labelled(self, data: TrainingData) -> TrainingData:
        return data

    def _learn(self, data: TrainingData) -> None:
        chosen_inference(self.inference, data.cardinalities)
        given, data = data, completed_by_chain(data, self._seed(), self.n_jobs)
        n_vectors, n_features = len(np.unique(data.codes, axis=0)), data.X.shape[1]
        if n_vectors * n_features * data.n_labels > _MOST_WEIGHTS:
            raise ValueError(
                f"There are mixture weights for each of {n_vectors} label vectors, {n_features} "
                f"features and {data.n_labels} dependency sets, more than {_MOST_WEIGHTS} in all. "
                "Choose fewer features, for example by scikit-learn's SelectKBest, or "
                "fewer labels; or use CTBN or ProbabilisticClassifierChain, which take them all."
            )
        self.features_ = fit_features(data.X, self.bins, data.weight, unseen=self.unseen)
        seed = self._seed()

        def structure(codes: Codes, weight: Array) -> Parents:
            return learn_bayes_network(
                codes,
                data.cardinalities,
                weight,
                score=self.network_score,
                max_parents=int(self.max_parents),
                equivalent_sample_size=float(self.equivalent_sample_size),
                random_state=seed,
            )

        options = learning.EMOptions(
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            printed=self.m_step == "printed",
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        without = given.take((given.codes == MISSING).all(axis=1) & (given.row_weights > 0))

        def chosen(name: str, grid: Sequence[Any]) -> float:
            """Choose an option on rows held out."""
            if len(grid) == 1:
                return float(grid[0])
            distinct = distinct_rows(data, self._seed())
            each = [options._replace(**{name: value}) for value in grid]
            return choose_smoothing(
                grid,
                distinct.row_weights,
                int(self.n_folds),
                learning.options_scorer(self._rows(distinct, without), structure, each),
                original_rows(distinct)[1],
                careful=name == "share",
                verbose=bool(self.verbose),
            )

        self.smoothing_ = chosen("smoothing", smoothing_grid(self.smoothing, data))
        options = options._replace(smoothing=self.smoothing_)
        if without.n_rows:
            grid = sorted(np.atleast_1d(self.unlabelled_weight).tolist())
            few = without.n_rows < _FEWEST_UNLABELLED * given.n_rows
            self.unlabelled_weight_ = chosen("share", grid[:1] if few else grid)
            options = options._replace(share=self.unlabelled_weight_)
        network, traces, self.rounds_ = learning.learn_network(
            self._rows(data, without),
            structure,
            options,
            criterion=self.criterion,
            max_rounds=int(self.max_rounds),
        )
        self.parameters_ = network
        self.network_ = network.sets.parents
        self.mixture_weights_ = network.theta.transpose(0, 2, 1)
        self.label_vectors_ = network.vectors
        self.n_iter_ = max((len(trace) - 1 for trace in traces), default=0)

    def _rows(self, data: TrainingData, without: TrainingData) -> learning.TrainingRows:
        """Labels and features in codes; of rows without labels, features."""
        codes, columns = self.features_.codes, self.features_.columns
        unlabelled = codes(without.X), without.row_weights
        own = data.codes, data.cardinalities, codes(data.X), columns, data.row_weights
        return learning.TrainingRows(*own, unlabelled)

    def _joint(self, X: Any) -> Joint:
        return LDSPosterior(
            self.label_space_,
            self.parameters_,
            self.features_.codes(X),
            inference=self.inference,
            n_jobs=self.n_jobs,
        )

    def label_graph(self) -> LabelGraph:
        """Return the arrows of the network over the labels."""
        arcs = [(parent, child) for child, own in enumerate(self.network_) for parent in own]
        ends = np.array(arcs, dtype=np.intp).reshape(-1, 2)
        meaning = "An arrow points to a label from a label that it depends on."
        return LabelGraph(self.label_names_, ends, meaning, directed=True)
