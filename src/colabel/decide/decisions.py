"""Decisions: the label vector to predict, given a joint distribution and a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Indices, row_slices
from colabel.core.schema import stored
from colabel.joint import Joint, Mixture
from colabel.joint.sizes import (
    MOST_ENUMERATED,
    N_DRAWS,
    SizeMarginals,
    binary_vectors,
    draws_of,
    require_zero_one,
    vector_probabilities,
)
from colabel.labels import MISSING, LabelSpace

_N_BEST = 10  # most probable vectors among the candidates


class Decision(ABC):
    """A rule that turns a joint distribution into one label vector per row."""

    counts_ones: ClassVar[str] = ""  # the name of a rule for 0/1 labels only
    over_rows: ClassVar[bool] = False  # whether the labels of a row depend on the other rows

    def __call__(self, joint: Joint) -> NDArray[Any]:
        """Return label values (n, d)."""
        return joint.space.values(self.codes(joint))

    @abstractmethod
    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); for library code."""

    def check(self, space: LabelSpace) -> None:
        """Raise ValueError if the rule does not suit such labels."""
        if self.counts_ones:
            require_zero_one(space, f"The decision {self.counts_ones!r}")


@dataclass(frozen=True)
class _Overlap(Decision):
    """Maximise an expected overlap of a row's labels with the predicted ones, at most one."""

    zero_division: float = 1.0

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the best vectors."""
        self.check(joint.space)

        def best(part: Joint) -> Codes:
            codes, value = self._valued(part)
            picked: Codes = codes[np.arange(len(codes)), value.argmax(axis=1)]
            return picked

        return _by_chunks(joint, best)

    def risk(self, joint: Joint) -> Array:
        """Return one minus the largest expected overlap of each row, (n,)."""
        self.check(joint.space)
        return _by_chunks(joint, lambda part: 1.0 - self._valued(part)[1].max(axis=1))

    @abstractmethod
    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        """Vectors (n, m, d) that may be best, and their expected overlaps (n, m)."""


@stored("f1")
@dataclass(frozen=True)
class F1(_Overlap):
    r"""Maximise the expected F1 of a row's labels, by the general F-measure maximiser.

    .. math::
        F(y, h) = \frac{2 \sum_i y_i h_i}{|y| + |h|}, \qquad
        E[F(y, h)] = \sum_{i : h_i = 1} \sum_s \frac{2 P(y_i = 1, |y| = s)}{s + |h|}

    For each size of h the best labels are those with the largest inner sums, so the best vector
    is found exactly from ``P(y_i = 1, |y| = s)``, in O(d^3) per row. `Joint.size_marginals` says
    which families know these exactly; for others the answer is the maximiser under draws.

    In a tie the smaller set wins, then the labels that come first. For class variables every pair
    (variable, value) is a label, and a row has one such label per variable: F1 is then the Hamming
    accuracy, and the decision is that of `Hamming`.

    Parameters
    ----------
    zero_division : float, default=1.0
        F of a row that has no labels and gets none predicted, 0/0. With 0.0 a label is always
        predicted, which is best for `sklearn.metrics.f1_score` as it is by default.

    References
    ----------
    K. Dembczynski, W. Waegeman, W. Cheng, E. Huellermeier: An exact algorithm for F-measure
    maximization. NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.3, 0.7]]), np.log([[0.6, 0.4]])])
    >>> joint.mode(), F1()(joint)
    (array([[1, 0]]), array([[1, 1]]))
    """

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the best vectors."""
        return super().codes(joint) if joint.space.is_indicator else Hamming().codes(joint)

    def risk(self, joint: Joint) -> Array:
        """Return one minus the largest expected F1 of each row, (n,)."""
        return super().risk(joint) if joint.space.is_indicator else Hamming().risk(joint)

    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        sizes = joint.size_marginals()
        codes, expected = best_of_each_size(sizes)
        expected[:, 0] = self.zero_division * sizes.size[:, 0]
        return codes, expected


def best_of_each_size(sizes: SizeMarginals) -> tuple[Codes, Array]:
    """For each number of labels 0..d the vector with the largest expected F1, and that F1.

    Returns
    -------
    codes : (n, d + 1, d)
    expected : (n, d + 1)
        Zero for the empty vector, which nothing overlaps with.
    """
    n_rows, n_labels, _ = sizes.with_label.shape
    counts = np.arange(1, n_labels + 1)
    # (n, label, size of h): what a label adds to the expected F1 of a vector of that size
    worth = sizes.with_label[:, :, 1:] @ (2.0 / (counts[:, None] + counts))
    order = np.argsort(-worth, axis=1, kind="stable")
    best_first = np.take_along_axis(worth, order, axis=1).cumsum(axis=1)
    expected = np.zeros((n_rows, n_labels + 1))
    expected[:, 1:] = np.diagonal(best_first, axis1=1, axis2=2)
    rank = np.argsort(order, axis=1)
    codes = np.zeros((n_rows, n_labels + 1, n_labels), dtype=np.int32)
    codes[:, 1:] = (rank < counts).transpose(0, 2, 1)
    return codes, expected


@stored("jaccard")
@dataclass(frozen=True)
class Jaccard(_Overlap):
    r"""Maximise the expected overlap of a row's labels with the predicted ones.

    .. math:: J(y, h) = \frac{|y \cap h|}{|y \cup h|}

    No efficient exact algorithm is known. Up to ten labels, the best of all label vectors is
    taken, exactly if `log_prob` is exact and by the frequencies of 1000 draws otherwise. With
    more labels, the best of these candidates is taken, by their mean overlap with 1000 draws of
    the row from a fixed seed:

    - the k labels of largest marginal probability, for each k = 0..d,
    - the k labels of largest expected F1, for each k = 1..d (see `F1`),
    - the mode, and the 10 most probable vectors.

    Only for 0/1 labels. In a tie the first candidate wins.

    Parameters
    ----------
    zero_division : float, default=1.0
        J of a row that has no labels and gets none predicted, 0/0; as in
        `colabel.metrics.multilabel_accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.55, 0.45]]), np.log([[0.55, 0.45]])])
    >>> joint.mode(), Jaccard()(joint)
    (array([[0, 0]]), array([[1, 1]]))
    """

    counts_ones: ClassVar[str] = "jaccard"

    def _valued(self, joint: Joint) -> tuple[Codes, Array]:
        n_labels = joint.space.n_labels
        if n_labels > MOST_ENUMERATED:
            codes = candidates(joint)
            return codes, mean_overlap(codes, draws_of(joint), self.zero_division)
        every = binary_vectors(n_labels)
        expected = vector_probabilities(joint) @ _overlaps(n_labels, self.zero_division)
        return np.broadcast_to(every, (joint.n_rows, *every.shape)), expected


def candidates(joint: Joint) -> Codes:
    """Vectors (n, m, d) that may have a large expected overlap, see `Jaccard`."""
    n_labels = joint.space.n_labels
    prob = np.stack([table[:, 1] for table in joint.marginal_tables()], axis=1)
    rank = np.argsort(np.argsort(-prob, axis=1, kind="stable"), axis=1)
    prefixes = (rank[:, None, :] < np.arange(n_labels + 1)[:, None]).astype(np.int32)
    by_f1, _ = best_of_each_size(joint.size_marginals())
    likely = joint.top_k_codes(min(_N_BEST, 2**n_labels))[0]
    # the mode of an approximate family need not be among its most probable vectors
    return np.concatenate([prefixes, by_f1[:, 1:], joint.mode_codes()[:, None], likely], axis=1)


def mean_overlap(codes: Codes, draws: Codes, zero_division: float) -> Array:
    """Mean overlap (n, m) of vectors (n, m, d) with draws (N, n, d) of the same rows."""
    # single precision counts labels exactly, and a row at a time stays in the processor's cache
    drawn = draws.transpose(1, 2, 0).astype(np.float32)
    found = np.empty(codes.shape[:2])
    for row, vectors in enumerate(codes.astype(np.float32)):
        shared = vectors @ drawn[row]
        union = vectors.sum(axis=1)[:, None] + drawn[row].sum(axis=0) - shared
        found[row] = _ratio(shared, union, zero_division).mean(axis=1, dtype=np.float64)
    return found


@lru_cache(maxsize=4)
def _overlaps(n_labels: int, zero_division: float) -> Array:
    """J(y, h) of all pairs of label vectors, (2^d, 2^d)."""
    vectors = binary_vectors(n_labels).astype(np.float64)
    sizes = vectors.sum(axis=1)
    shared = vectors @ vectors.T
    return _ratio(shared, sizes[:, None] + sizes - shared, zero_division)


def _ratio(shared: NDArray[Any], union: NDArray[Any], zero_division: float) -> NDArray[Any]:
    return np.where(union > 0, shared / np.maximum(union, 1.0), zero_division)


def _by_chunks(joint: Joint, answer: Callable[[Joint], NDArray[Any]]) -> NDArray[Any]:
    """Return what `answer` finds, (n, ...), for rows in chunks of a few megabytes."""
    d = joint.space.n_labels
    # each row and label needs several arrays of d + 1 sizes, and perhaps draws
    chunks = row_slices(joint.n_rows, joint.codes_at_once // 2, d * max(8 * (d + 1), N_DRAWS))
    if len(chunks) == 1:
        return answer(joint)
    return np.concatenate([answer(joint.rows(chunk)) for chunk in chunks])


_BLOCKS, _MOST_PASSES = 200, 30  # of the coordinate ascent for the macro F1 of a variable
_FEWEST_TRUE = 5.0  # a threshold is tuned if at least so many held-out rows carry the label
_DEVIATIONS = 2.0


@dataclass(frozen=True)
class Above(Decision):
    """The decision for every label whose probability exceeds its threshold (d,)."""

    thresholds: Array

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d)."""
        prob = np.stack([table[:, 1] for table in joint.marginal_tables()], axis=1)
        return (prob > self.thresholds).astype(np.int32)


def best_threshold(
    prob: Array, truth: NDArray[Any], weight: Array | None = None
) -> tuple[float, float]:
    """Return the threshold of one label with the largest F1, and that F1.

    Parameters
    ----------
    prob : (n,)
        Probabilities of the label.
    truth : (n,)
        1 where the label is true, 0 where it is not; other entries do not count.
    weight : (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> threshold, f1 = best_threshold(np.array([0.1, 0.2, 0.4]), np.array([0, 1, 1]))
    >>> round(threshold, 2), f1
    (0.15, 1.0)
    """
    seen = truth != MISSING
    weight = np.ones(len(prob)) if weight is None else weight
    prob, truth, weight = prob[seen], truth[seen], weight[seen]
    order = np.argsort(-prob, kind="stable")
    prob, weight, positive = prob[order], weight[order], (truth * weight)[order]
    # cutting behind the j-th largest probability predicts j labels
    predicted = weight.cumsum() + positive.sum()
    f1 = 2 * positive.cumsum() / np.where(predicted > 0, predicted, 1.0)
    below = np.append(prob[1:], 0.0)
    cuts = (prob + below) / 2
    f1[prob <= below] = 0.0  # no cut between equal probabilities, nor at zero
    if not f1.any():
        return 0.5, 0.0
    # the midpoint may round up to the upper neighbour, and would then exclude it
    cuts = np.where(cuts < prob, cuts, below)
    best = np.flatnonzero(f1 >= f1.max() * (1 - 1e-12))
    chosen = best[np.abs(cuts[best] - 0.5).argmin()]
    return float(cuts[chosen]), float(f1[chosen])


def tuned_threshold(prob: Array, truth: NDArray[Any], weight: Array) -> tuple[float, float]:
    r"""Return the best threshold of one label and its F1; 1/2 where there is no evidence for it.

    Of N rows (by weight), M carry the label. The cut predicts it in A rows, and H of these carry
    it. If the predicted rows were drawn at random, H would be hypergeometric, with

    .. math:: \mathrm E H = A M / N, \qquad
        \mathrm{Var}\, H = \frac{A M (N - M) (N - A)}{N^2 (N - 1)}.

    A label that at most half of the rows carry needs H to exceed its mean by two deviations.

    Parameters
    ----------
    prob, truth, weight : (n,)
        See `best_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.arange(200) == 7
    >>> tuned_threshold(np.full(200, 0.005), truth.astype(int), np.ones(200))
    (0.5, 0.0)
    """
    threshold, f1 = best_threshold(prob, truth, weight)
    seen = truth != MISSING
    prob, weight = prob[seen], weight[seen]
    positive = weight * (truth[seen] == 1)
    n_rows, n_true = float(weight.sum()), float(positive.sum())
    predicted = prob > threshold
    n_predicted, n_hit = float(weight[predicted].sum()), float(positive[predicted].sum())
    by_chance = n_predicted * n_true / max(n_rows, 1e-300)
    spread = by_chance * (n_rows - n_true) * (n_rows - n_predicted) / max(n_rows, 1e-300)
    deviation = np.sqrt(max(spread, 0.0) / max(n_rows - 1.0, 1.0))
    informed = n_hit > by_chance + _DEVIATIONS * deviation
    if n_true >= _FEWEST_TRUE and (informed or 2 * n_true > n_rows):
        return threshold, f1
    half = prob > 0.5
    total = float(weight[half].sum()) + n_true
    return 0.5, 2 * float(positive[half].sum()) / total if total > 0 else 0.0


@runtime_checkable
class RiskMinimiser(Protocol):
    """A decision that minimises an expected loss between 0 and 1, and says how large that is."""

    def risk(self, joint: Joint) -> Array:
        """Return the least expected loss, min_h E[loss(y, h)], of each row, (n,)."""


@stored("subset")
@dataclass(frozen=True)
class Subset(Decision):
    """Minimise the expected subset 0/1 loss, 1[y != h]: predict the most probable vector."""

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the mode."""
        return joint.mode_codes()

    def risk(self, joint: Joint) -> Array:
        """Return 1 - max_y P(y), (n,)."""
        found: Array = 1.0 - np.exp(joint.log_prob_codes(joint.mode_codes()))
        return found


@stored("seen")
@dataclass(frozen=True, eq=False)
class Seen(Decision):
    """Predict the most probable of some label vectors, such as those that training rows have.

    Where models know labels one by one or in pairs, their most probable vector may be one that
    never occurs. As a model's ``decision="seen"`` the vectors are those of its training rows. A
    softer way is ``calibrate=True``, which learns what a vector that was never seen shall pay.

    Attributes
    ----------
    vectors : (V, d) array of int
        Codes of the vectors, at least one.
    """

    vectors: Annotated[Codes, "v d"]

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); in a tie the first vector of the list wins."""
        if not len(self.vectors):
            raise ValueError("There is no label vector to choose from: no row has all its labels.")
        vectors = self.vectors.astype(np.int32)
        best = np.full(joint.n_rows, -np.inf)
        codes = np.repeat(vectors[:1], joint.n_rows, axis=0)
        step = 1
        # Lists look up many vectors at a time; other families would copy their rows for each.
        if type(joint).log_prob_at is not Joint.log_prob_at:
            step = max(1, joint.codes_at_once // 2 // max(1, codes.size))
        for start in range(0, len(vectors), step):
            some = vectors[start : start + step]
            values = _log_prob_of_each(joint, some)
            first = values.argmax(axis=1)
            value = values[np.arange(joint.n_rows), first]
            better = value > best
            best[better], codes[better] = value[better], some[first[better]]
        return codes


def _log_prob_of_each(joint: Joint, vectors: Codes) -> Array:
    """Log-probabilities (n, m) of vectors (m, d) in every row."""
    n_rows, shape = joint.n_rows, (joint.n_rows, vectors.shape[1])
    if len(vectors) == 1:
        return joint.log_prob_codes(np.broadcast_to(vectors[0], shape))[:, None]
    rows = np.repeat(np.arange(n_rows), len(vectors))
    found = joint.log_prob_at(rows, np.tile(vectors, (n_rows, 1)))
    return found.reshape(n_rows, len(vectors))


@stored("hamming")
@dataclass(frozen=True)
class Hamming(Decision):
    """Minimise the expected Hamming loss, mean_i 1[y_i != h_i]: each label's own best value.

    A tie goes to the smaller code. For a label of two values the decision is P(y=1) > 1/2, which
    agrees with rounding the probability (NumPy rounds one half to the even number, 0).
    """

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the most probable value of each label."""
        best = [
            # not argmax: P(y=0) may be off one half by a rounding error where P(y=1) is not
            table[:, 1] > 0.5 if table.shape[1] == 2 else table.argmax(axis=1)
            for table in joint.marginal_tables()
        ]
        return np.stack(best, axis=1).astype(np.int32)

    def risk(self, joint: Joint) -> Array:
        """Return mean_i (1 - max_v P(y_i = v)), (n,)."""
        right = [table.max(axis=1) for table in joint.marginal_tables()]
        found: Array = 1.0 - np.mean(right, axis=0)
        return found


@stored("f1-over-rows")
@dataclass(frozen=True)
class F1OverRows(Decision):
    r"""Maximise the micro or macro F1 over all rows of a joint, by thresholds.

    The F1 of many rows comes close to that of the expected counts. Where the set :math:`H` of
    labels (or of rows and labels) is predicted, this is

    .. math:: F = \frac{2 \sum_{r \in H} p_r}{|H| + \sum_r p_r}, \qquad p_r = P(y = 1 \mid x_r),

    and the best H is what is more probable than half of the largest F. For the micro F1 all labels
    have one threshold, for the macro F1 each has its own. They are those of the rows of the joint:
    ask about many at once, or see `ThresholdedClassifier`.

    For class variables the micro F1 is the Hamming accuracy, and the decision is that of `Hamming`.
    The macro F1 of a variable is the mean of the above over its values. It is maximised by block
    coordinate ascent from the most probable values: no change of a few rows adds to it, but
    another choice for many rows might.

    Parameters
    ----------
    average : {"micro", "macro"}, default="macro"

    References
    ----------
    Z. C. Lipton, C. Elkan, B. Naryanaswamy: Optimal thresholding of classifiers to maximize F1
    measure. ECML PKDD 2014.
    E. Schultheis, M. Wydmuch, W. Kotlowski, R. Babbar, K. Dembczynski: Generalized test utilities
    for long-tail performance in extreme multi-label classification. NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> tables = [np.log([[0.8, 0.2], [0.9, 0.1]]), np.log([[0.1, 0.9], [0.2, 0.8]])]
    >>> joint = Independent(space, tables)
    >>> F1OverRows("micro")(joint).tolist(), F1OverRows("macro")(joint).tolist()
    ([[0, 1], [0, 1]], [[1, 1], [0, 1]])
    """

    average: Literal["micro", "macro"] = "macro"
    over_rows: ClassVar[bool] = True

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the best vectors."""
        if self.average == "micro" and not joint.space.is_indicator:
            return Hamming().codes(joint)
        tables = joint.marginal_tables()
        if not joint.space.is_indicator:
            return np.stack([macro_f1_values(table) for table in tables], axis=1).astype(np.int32)
        prob = np.stack([table[:, 1] for table in tables], axis=1)
        groups = [prob] if self.average == "micro" else prob.T
        return (prob > np.array([half_of_largest_f1(own) for own in groups])).astype(np.int32)


def half_of_largest_f1(prob: Array) -> float:
    """Return half of the largest F1 of expected counts: the best threshold of probabilities."""
    ordered = np.sort(prob, axis=None)[::-1]
    f1 = 2 * ordered.cumsum() / np.maximum(np.arange(1, prob.size + 1) + ordered.sum(), 1e-300)
    return float(f1.max(initial=0.0)) / 2


def macro_f1_values(prob: Array) -> Indices:
    """Return values (n,) of a variable, of probabilities (n, K), with a large mean F1.

    The most probable values are changed a few rows at a time (up to `_BLOCKS` rows one at a time):
    each row takes the value that adds most to the sum of F1 of the counts without that row.
    """
    n_rows, columns = len(prob), np.arange(prob.shape[1])
    total = np.maximum(prob.sum(axis=0), 1e-300)
    values: Indices = prob.argmax(axis=1)
    best, found = -1.0, values
    # neighbouring rows may be similar, and would then all change at once
    order = np.random.default_rng(0).permutation(n_rows)
    blocks = np.array_split(order, min(n_rows, _BLOCKS)) if n_rows else []
    for _ in range(_MOST_PASSES):
        chosen = values[:, None] == columns
        counts, hits = chosen.sum(axis=0) + total, (prob * chosen).sum(axis=0)
        f1 = float((2 * hits / counts).sum())
        if f1 <= best:
            break
        best, found = f1, values.copy()
        for rows in blocks:
            own, before = prob[rows], values[rows, None] == columns
            fewer, missed = counts - before, hits - before * own
            gain = (missed + own) / (fewer + 1) - missed / fewer
            values[rows] = gain.argmax(axis=1)
            after = values[rows, None] == columns
            counts = counts + after.sum(axis=0) - before.sum(axis=0)
            hits = hits + (own * after).sum(axis=0) - (own * before).sum(axis=0)
    return found


DECISIONS: Mapping[str, Decision] = MappingProxyType(
    {
        "subset": Subset(),
        "hamming": Hamming(),
        "f1": F1(),
        "micro_f1": F1OverRows("micro"),
        "macro_f1": F1OverRows("macro"),
        "jaccard": Jaccard(),
    }
)


@dataclass(frozen=True)
class Votes(Decision):
    """Predict the value of each label that most members of a `Mixture` have in their mode."""

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); the smaller code wins a tie."""
        assert isinstance(joint, Mixture)
        return joint.vote_codes()


@dataclass(frozen=True)
class _Custom(Decision):
    """A user's function from a joint to label values (n, d)."""

    function: Callable[[Joint], ArrayLike]

    def codes(self, joint: Joint) -> Codes:
        values = np.asarray(self.function(joint))
        wanted = (joint.n_rows, joint.space.n_labels)
        if values.shape != wanted:
            raise ValueError(
                f"The decision {self.function!r} returned shape {values.shape}, but must return "
                f"label values of shape {wanted}, as joint.mode() does."
            )
        return joint.space.encode(values)


def decide(
    joint: Joint, loss: str | Decision | Callable[[Joint], ArrayLike] = "subset"
) -> NDArray[Any]:
    """Choose the label vector of each row that minimises the expected loss.

    Parameters
    ----------
    joint : Joint
        The distribution over label vectors, for n rows.
    loss : str or callable, default="subset"
        `"subset"` (the most probable vector), `"hamming"` (the most probable value of each
        label), `"f1"` (the vector with the largest expected F1 of the row, see `F1`),
        `"micro_f1"` or `"macro_f1"` (the largest F1 over all rows, of all labels together or of
        the mean label, see `F1OverRows`), `"jaccard"` (for 0/1 labels: the vector with
        the largest expected overlap, see `Jaccard`), a `Decision`, or any function from a joint
        to label values (n, d).

    Returns
    -------
    ndarray of shape (n, d)
        Label values, as `joint.mode()` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Tree
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> a, b = np.log([[[0.6, 0.4]]]), np.log([[[0.5, 0.5], [0.9, 0.1]]])
    >>> joint = Tree(space, [-1, 0], [a, b])
    >>> decide(joint).tolist(), decide(joint, "hamming").tolist()
    ([[1, 0]], [[0, 0]])

    F1 prefers to name a label too many over one too few.

    >>> decide(joint, "f1").tolist()
    [[1, 1]]
    """
    return resolve_decision(loss)(joint)


def resolve_decision(loss: str | Decision | Callable[[Joint], ArrayLike]) -> Decision:
    """Return the decision behind a name or a function, or the decision itself."""
    if isinstance(loss, Decision):
        return loss
    if isinstance(loss, str):
        if loss == "seen":
            raise ValueError(
                "The decision 'seen' needs the label vectors of the training rows: give it to a"
                " model before it is fitted."
            )
        if loss not in DECISIONS:
            known = ", ".join(map(repr, DECISIONS))
            raise ValueError(
                f"There is no decision for the loss {loss!r}: choose one of {known}, or pass a "
                "function from a joint to label values."
            )
        return DECISIONS[loss]
    if not callable(loss):
        raise ValueError(
            f"loss must be a name or a function from a joint to label values, but it is {loss!r}."
        )
    return _Custom(loss)
