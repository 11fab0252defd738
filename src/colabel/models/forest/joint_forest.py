"""JointForest: trees whose leaves hold label vectors, mixed with smoother views of them.

From a grown forest to the parts of its mixture, all measured out of bag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.estimators import attribute
from colabel.core.hashing import row_keys
from colabel.core.numeric import log_sum_exp
from colabel.core.schema import Below, Between, Distribution, check_acyclic, check_that, stored
from colabel.joint import Joint, Mixture
from colabel.labels import MISSING, LabelSpace
from colabel.learn.chunks.chunked_data import ChunkedData
from colabel.learn.conditional import TrainingData, distinct_rows
from colabel.learn.forest.contents import label_targets
from colabel.learn.forest.forest import ForestKind, Grown, grow
from colabel.learn.pool import mixture_weights
from colabel.learn.row_hashing import copies, row_digests
from colabel.learn.structure.screening import maximum_branching
from colabel.models.base import JointClassifier
from colabel.models.chain.learning import chain_by_dependence, posterior_draws
from colabel.models.forest.vector_forest import (
    PARTS,
    Evidence,
    RowVectors,
    VectorForest,
    VectorPool,
    leaf_lists,
    members,
    smooth_tables,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import original_rows

LEAVES, INDEPENDENT, TREE, POOL = range(len(PARTS))
# of the tables of a tree's edges in all rows, several of which are in memory at once
_MOST_CELLS = 1e8
_HELD_OUT_TREES = 100  # of a forest that judges its own kind, where labels are missing


class Learned(NamedTuple):
    """What a forest has learned.

    Attributes
    ----------
    forest : VectorForest
    parents : (d,)
        Parent of each label in the tree, -1 for roots.
    gains : (d, d)
        What two labels gain by being taken together, nats per row out of bag.
    exponents : (5,)
        Of the pool.
    weights : (4,)
        Of the parts.
    log_loss : float or None
        Mean -log P(y | x) of rows out of bag; None if there are none.
    evidence : Evidence
        What its trees say of the rows, each by those that have not seen it.
    with_copies : Evidence
        The same, where of a row that stands for several only one is left out.
    """

    forest: VectorForest
    parents: Indices
    gains: Array
    exponents: Array
    weights: Array
    log_loss: float | None
    evidence: Evidence
    with_copies: Evidence


def learn(
    grown: Grown,
    data: TrainingData,
    rows: RowVectors,
    space: LabelSpace,
    n_jobs: int | None,
    most_cells: float = _MOST_CELLS,
) -> Learned:
    """Fill the leaves of a forest with label vectors, and learn its parts and their weights.

    There is no tree if the tables of its edges have more than so many cells in all rows.
    """
    forest, evidence, with_copies, own = _filled(grown, data, rows, n_jobs)
    codes, weight = data.codes, data.row_weights
    gains = evidence.pair_gains(codes, weight, n_jobs)
    parents = maximum_branching(gains, np.zeros(data.n_labels))
    sizes = np.asarray(data.cardinalities)
    cells = float(sizes @ np.where(parents < 0, 0, sizes[parents]))
    if data.n_rows * cells > most_cells:
        parents = np.full_like(parents, -1)
    pool = VectorPool(evidence, smooth_tables(evidence, parents), parents)
    exponents = pool.exponents(own, weight)
    there = available(parents)
    log_prob = np.full((data.n_rows, len(PARTS)), -np.inf)
    # of rows that lack labels every completion is judged: a list of vectors may hold the few that
    # are known, and few of the vectors that rows have
    whole, completed = bool((codes != MISSING).all()), own.tocoo()
    of_completed = np.full((0 if whole else own.nnz, len(PARTS)), -np.inf)
    for part, joint in zip(
        np.flatnonzero(there),
        members(evidence, space, parents, exponents, there),
        strict=True,
    ):
        log_prob[:, part] = joint.log_prob_codes(codes)
        if not whole:
            vectors = forest.vectors[completed.col]
            of_completed[:, part] = joint.log_prob_at(completed.row.astype(np.intp), vectors)
    listed = evidence.listed
    judged, share, seen = log_prob, weight, listed
    if not whole:
        judged, share, seen = of_completed, completed.data, listed[completed.row]
    weights = np.zeros(len(PARTS))
    weights[there] = _weights(judged[seen][:, there], share[seen])
    log_loss = None
    if listed.any():
        with np.errstate(divide="ignore"):
            of_rows = log_sum_exp(log_prob[listed] + np.log(weights))
        log_loss = float(-(weight[listed] @ of_rows) / weight[listed].sum())
    return Learned(forest, parents, gains, exponents, weights, log_loss, evidence, with_copies)


def available(parents: Indices) -> Flags:
    """Which parts there are (4,): a tree without edges is the independent part again."""
    found = np.ones(len(PARTS), dtype=bool)
    found[TREE] = (parents >= 0).any()
    return found


def _weights(log_prob: Array, weight: Array) -> Array:
    """Weights of the available parts, of which the last but one thinks every vector possible.

    To this one counts one row more, so that no label vector is impossible.
    """
    if not len(log_prob):
        return np.full(log_prob.shape[1], 1.0 / log_prob.shape[1])
    total = weight.sum()
    found = total * mixture_weights(log_prob, weight)
    found[-2] += 1.0
    weights: Array = found / (total + 1.0)
    return weights


def _filled(
    grown: Grown, data: TrainingData, rows: RowVectors, n_jobs: int | None
) -> tuple[VectorForest, Evidence, Evidence, sp.csr_array]:
    """Return the filled forest, what its trees say of rows they have not seen, and rows' own part.

    The last (n, V) is what of the counts of vectors is the row itself, which is left out of its own
    leaves and counts. A row of weight w stands for w copies, all of which are left out; but for w
    rows, of which it is one, where rows of equal features have other labels too.
    Rows with missing labels are completed, then completed again as their own lists say.
    """
    leaves = grown.forest.leaves(data.X, n_jobs)
    weight = data.row_weights
    _, alike = copies(row_keys(data.X), data.codes)
    own_weight = np.where(alike, weight, np.minimum(weight, 1.0))

    def fill(rows: RowVectors) -> tuple[VectorForest, sp.csr_array]:
        forest = VectorForest.of(grown.forest, data.cardinalities, leaves, rows, weight)
        return forest, forest.out_of_bag_lists(grown, leaves, rows, own_weight, n_jobs)

    forest, lists = fill(rows)
    if (data.codes == MISSING).any():
        rows = rows.informed(lists, data.codes)
        forest, lists = fill(rows)
    own = sp.csr_array(sp.diags_array(own_weight) @ rows.shares)
    evidence = Evidence(lists, forest.vectors, forest.counts, data.cardinalities, own)
    with_copies = evidence
    one = np.minimum(weight, 1.0)
    if (own_weight > one).any():
        # a tree that has seen a copy was grown as it would be without the row
        others = Grown(grown.forest, np.where(weight[:, None] >= 2.0, 0, grown.in_bag))
        lists = forest.out_of_bag_lists(others, leaves, rows, one, n_jobs)
        itself = sp.csr_array(sp.diags_array(one) @ rows.shares)
        with_copies = replace(evidence, lists=lists, own=itself)
    return forest, evidence, with_copies, own


Target = Literal["labels", "vectors"]
TARGETS: tuple[Target, ...] = get_args(Target)


@stored("joint-forest")
class JointForest(JointClassifier):
    r"""A forest whose leaves hold label vectors, mixed with smoother views of them.

    Take it where features act in thresholds, are unscaled or missing. Cost: medium.

    A row x ends in one leaf of each of T trees. The label vectors of the training rows there are a
    distribution over vectors,

    .. math:: P_{leaf}(y \mid x) = \frac1T \sum_t \frac{\text{weight of the rows of
        leaf}_t(x)\text{ with } y}{\text{weight of the rows of leaf}_t(x)}

    which knows of the labels' dependence whatever nearby rows show, but gives label vectors that no
    nearby row has no probability. So `joint` is a `Mixture` of

    - *leaves*: these lists (a `VectorList`);
    - *independent*: the product of their marginals, shrunk to the labels' frequencies;
    - *tree*: a `Tree` with the same edges for all rows and tables of the row's own: the pair
      marginals of its list, shrunk to those of all rows;
    - *pool*: the label vectors of the training rows, weighed by powers of what the other parts
      think of them, of their frequency, and of that of their values (a `VectorList`).

    Everything is learned out of bag, where each training row is judged by the trees that have not
    seen it, itself left out of their leaves: the exponents of the pool and the weights of the parts
    by likelihood, the edges of the tree by what two labels gain if they are taken together. Every
    label vector is possible.

    Features need no scaling and may be missing (NaN). A training row with missing labels counts in
    parts for label vectors that a chain draws given its known labels (where features are missing
    too, for those of complete rows), as probable as the trees that have not seen it find them; a
    row without any label is left out. Equal rows are one row of
    more weight, and a row of weight 2 is two rows.

    Of rows in chunks (Dask arrays) a sample is learned from, in memory: trees grow on rows that are
    together, and gain little from more of them. About `max_rows` are drawn, each alike, by the
    seed and their numbers: the same ones whatever the chunks. Rows in memory are all used.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees T.
    kind : {"random", "extra"}, default="random"
        "random": the best cut of each feature tried. "extra": the best of one random cut each
        (extremely randomised trees), several times as fast to grow.
    target : {"labels", "vectors", "auto"}, default="labels"
        What the trees tell apart. "labels": each label, by the mean of their Gini impurities.
        "vectors": whole label vectors, each a class. "auto": both forests are grown, and the one
        under which the labels out of bag are more probable is kept, for twice the time; they seldom
        differ much.
    max_features : str, int or float, default="sqrt"
        How many features are tried at a node, as in scikit-learn's forests.
    min_samples_leaf : int or float, default=4
        Fewest drawn rows in a leaf, or their share of all. Where rows have weights, or are equal
        to others, the least weight of a leaf.
    max_depth : int or None, default=None
        Most questions between the root of a tree and a leaf.
    max_rows : int, default=200_000
        Rows of Dask arrays that are learned from; where they have more, a sample of about so many.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState or None, default=None
        Seed of the trees.

    Attributes
    ----------
    forest_ : VectorForest
        The trees and what their leaves hold, as plain arrays.
    target_ : {"labels", "vectors"}
        What the trees were grown to tell apart.
    vectors_ : (V, d) array
        Codes of the label vectors of the training rows.
    weights_ : (4,) array
        Weights of the parts: leaves, independent, tree, pool.
    exponents_ : (5,) array
        Of the pool: of the independent part, the tree, the product of the labels' frequencies, the
        vector's frequency and the leaves.
    tree_ : (d,) array
        Parent of each label in the tree, -1 for roots.
    pair_gains_ : (d, d) array
        What two labels gain by being taken together, nats per row out of bag.
    oob_log_loss_ : float or None
        Mean of -log P(y | x) of the training rows, each by the trees that have not seen it; None
        where all trees have seen all rows. Too small where labels are missing: those drawn for
        other rows come from a chain that knows the labels of this one.

    References
    ----------
    L. Breiman, Random forests, 2001. D. Kocev, C. Vens, J. Struyf & S. Dzeroski, Tree ensembles for
    predicting structured outputs, 2013: forests over whole label vectors. The joint is ours.

    Examples
    --------
    >>> from colabel import JointForest
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = JointForest(50, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 1]])
    >>> joint.given({"even": 0}).mode()[0, 0]
    np.int64(0)
    """

    n_estimators: Annotated[int, Between(1)] = field(default=300, kw_only=False)
    kind: ForestKind = "random"
    target: Target | Literal["auto"] = "labels"
    max_features: Any = "sqrt"
    min_samples_leaf: int | float = 4
    max_depth: int | None = None
    max_rows: Annotated[int, Between(1)] = 200_000
    forest_: Annotated[VectorForest, "d sizes p"] = attribute()
    target_: Target = attribute()
    tree_: Annotated[Indices, "d", Below("d", or_none=True)] = attribute()
    pair_gains_: Annotated[Array, "d d"] = attribute()
    exponents_: Annotated[Array, "5"] = attribute()
    weights_: Annotated[Array, "4", Distribution()] = attribute()
    oob_log_loss_: Annotated[float | None, Between(0.0)] = attribute()

    short_name = "forest"
    part_names = ("leaves",)

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        check_acyclic([[int(parent)] if parent >= 0 else [] for parent in fields["tree_"]])
        there = available(fields["tree_"])
        check_that((fields["weights_"][~there] == 0).all(), "weights_ weighs a tree without edges")

    fits_chunks = True
    samples_chunks = True

    def _of_chunks(self, data: ChunkedData) -> TrainingData:
        few = data.n_rows <= self.max_rows  # no chance is needed
        return data.sampled(self.max_rows, 0 if few else self._seed())

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from rows X and their labels, see `LabelClassifier.fit`."""
        self.fit_held_out(X, y, sample_weight, label_names=label_names)
        return self

    def fit_held_out(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> HeldOutForest:
        """Fit; return what the trees say of these rows, each by those that have not seen it.

        Of rows written several times one is left out: the others are in the leaves, as they would
        be for a new row like them.
        """
        super().fit(X, y, sample_weight, label_names=label_names)
        evidence, rows = self.__dict__.pop("_out_of_bag")
        used = self.weights_ > 0
        return HeldOutForest(
            evidence,
            rows,
            self.label_space_,
            self.tree_,
            self.exponents_,
            used,
            self.weights_[used],
        )

    def reusing(self, fitted: Self) -> Self:
        """Return an unfitted copy for rows held out, by fewer trees where labels are missing.

        It takes over what the chain of a fitted one has chosen, from which these are drawn.
        """
        model: Self = clone(self)
        if hasattr(fitted, "_choices"):
            model.set_params(n_estimators=min(self.n_estimators, _HELD_OUT_TREES))
            model.__dict__["_chosen"] = fitted._choices
        return model

    def _labelled(self, data: TrainingData) -> TrainingData:
        return data  # `fit_held_out` answers for all rows

    def _learn(self, data: TrainingData) -> None:
        seed = self._seed()
        given = row_digests(data, seed)
        data = distinct_rows(_with_labels(data), seed)
        partial, X = np.flatnonzero((data.codes == MISSING).any(axis=1)), data.X
        if not len(partial) or (isinstance(X, np.ndarray) and np.isnan(X).any()):
            # rows whose features are missing too are completed from vectors of complete rows
            rows = RowVectors.of(data.codes, data.row_weights)
        else:
            chain = chain_by_dependence(data, seed, self.n_jobs, self.__dict__.pop("_chosen", None))
            self._choices = replace(chain, models=chain.models.take(np.empty(0, dtype=np.intp)))
            draws = posterior_draws(chain, X[partial], data.codes[partial], 10, seed)
            rows = RowVectors.drawn(data.codes, partial, draws)
        targets = TARGETS if self.target == "auto" else (self.target,)
        found = {target: self._learned(data, rows, target, seed) for target in targets}
        # in a tie, or where no row is out of bag, the first
        self.target_ = min(found, key=lambda target: found[target].log_loss or 0.0)
        best = found[self.target_]
        self.forest_, self.tree_, self.pair_gains_ = best.forest, best.parents, best.gains
        self.exponents_, self.weights_ = best.exponents, best.weights
        self.oob_log_loss_ = best.log_loss
        merged = row_digests(data, seed)
        order = np.argsort(merged)
        place = order[np.minimum(np.searchsorted(merged, given, sorter=order), len(order) - 1)]
        self._out_of_bag = best.with_copies, np.where(merged[place] == given, place, -1)

    def _learned(self, data: TrainingData, rows: RowVectors, target: str, seed: int) -> Learned:
        known = bool((data.codes != MISSING).all())
        labels = data.codes if known else label_targets(data)
        grown = grow(
            data.X,
            rows.likeliest if target == "vectors" else labels,
            None if (data.row_weights == 1.0).all() else data.weight,
            kind=self.kind,
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            **_smallest_leaf(self.min_samples_leaf, data),
            max_depth=self.max_depth,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        return learn(grown, data, rows, self.label_space_, self.n_jobs)

    def _allows_nan(self) -> bool:
        return True

    @property
    def vectors_(self) -> Codes:
        """Codes (V, d) of the label vectors of the training rows."""
        return self.forest_.vectors

    def _joint(self, X: Any) -> Joint:
        used = self.weights_ > 0
        parts = members(self._evidence(X), self.label_space_, self.tree_, self.exponents_, used)
        return Mixture(list(parts), self.weights_[used])

    def _evidence(self, X: Any) -> Evidence:
        forest = self.forest_
        lists = forest.lists(X, self.n_jobs)
        return Evidence(lists, forest.vectors, forest.counts, forest.cardinalities)

    def part_joints(self, joint: Joint, rows: Callable[[], Any]) -> tuple[Joint, ...]:
        """Return the lists of the leaves for the rows of a joint of this model.

        They are its first part; where that has no weight, the rows go down the trees again.
        """
        if isinstance(joint, Mixture) and self.weights_[LEAVES] > 0 and not self.calibrate:
            return joint.members[:1]
        evidence = self._evidence(self._checked(rows(), reset=False))
        return (leaf_lists(evidence, self.label_space_),)

    def label_graph(self) -> LabelGraph:
        """Return the tree, and what each pair gains by being taken together, out of bag."""
        return LabelGraph.of_tree(self.label_names_, self.tree_, self.pair_gains_)


@dataclass(frozen=True)
class HeldOutForest:
    """What a forest says of the rows it was grown on, each by trees that have not seen it."""

    evidence: Evidence
    place: Indices
    space: LabelSpace
    parents: Indices
    exponents: Array
    used: Flags
    weights: Array

    def joints(self, rows: Indices) -> tuple[Joint, Joint]:
        """P(y | x) of some of the rows, by the forest and by its leaves alone."""
        evidence = self.evidence.take(self.place[rows])
        parts = list(members(evidence, self.space, self.parents, self.exponents, self.used))
        leaves = parts[0] if self.used[LEAVES] else leaf_lists(evidence, self.space)
        return Mixture(parts, self.weights), leaves


def _smallest_leaf(least: int | float, data: TrainingData) -> dict[str, Any]:
    """How small leaves may be, as trees take it: by weight where rows stand for several.

    Rows of few-valued features, merged, are a handful; weights that are shares of one are not, and
    copies of a row are one.
    """
    weight, n_rows = data.row_weights, len(np.unique(original_rows(data)[1]))
    if (weight == weight[0]).all() and n_rows == len(weight):
        return {"min_samples_leaf": least}
    share = least if isinstance(least, float) else least / max(weight.sum(), n_rows)
    return {"min_weight_fraction_leaf": min(float(share), 0.5)}


def _with_labels(data: TrainingData) -> TrainingData:
    """Leave out rows of which no label is known."""
    some = (data.codes != MISSING).any(axis=1)
    if some.all():
        return data
    if not (some & (data.row_weights > 0)).any():
        raise ValueError("No row of positive weight has a known label. Give some rows labels.")
    return data.take(some)


__all__ = ["JointForest"]
