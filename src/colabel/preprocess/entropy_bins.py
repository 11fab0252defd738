"""Bins that tell the labels apart: entropy-minimising cuts with the MDL stop."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import Tags

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.core.refitting import fits_afresh
from colabel.core.schema import stored
from colabel.preprocess._cut_points import CutPoints, between, check_cuts
from colabel.preprocess._targets import Target, target_columns

__all__ = ["EntropyBins"]


@stored("entropy-bins", check=check_cuts)
class EntropyBins(CutPoints):
    r"""Cut each feature where the cut says most about the labels, as long as it pays.

    A set S of N rows is cut in two at the point with the least mean entropy of the classes. The
    cut is kept, and both sides are cut further, if its gain in entropy pays for writing it down
    (Fayyad and Irani, 1993):

    .. math::
        Gain > \frac{\log_2(N - 1)}{N}
            + \frac{\log_2(3^k - 2) - k H(S) + k_1 H(S_1) + k_2 H(S_2)}{N}

    where k, :math:`k_1` and :math:`k_2` count the classes that occur in S and in its two sides.

    Parameters
    ----------
    target : {"each label", "label set"}, default="each label"
        What the classes are. "each label": the values of one label; features are cut for every
        label alone and the cuts are united. "label set": the distinct label vectors. Where these
        are many, as in hundreds, hardly any cut pays for telling them all apart.

    Attributes
    ----------
    cuts_ : list of p arrays
        Ascending points at which each feature is cut; a value on a point belongs above it.
    n_bins_ : (p,) array of int
        Number of bins of each feature; 1 where no cut pays.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    References
    ----------
    U. Fayyad and K. Irani, Multi-interval discretization of continuous-valued attributes for
    classification learning, IJCAI 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.preprocess import EntropyBins
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.column_stack([X[:, 0] >= 8, X[:, 0] >= 14]).astype(int)
    >>> EntropyBins().fit(X, Y).cuts_
    [array([ 7.5, 13.5])]
    """

    def __init__(self, target: Target = "each label") -> None:
        self.target = target

    @fits_afresh
    def fit(self, X: Any, y: Any) -> Self:
        """Find the cuts of every feature.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : labels of n rows, in any form that `LabelSpace` reads
            Rows with missing labels are left out, for "each label" only where that one misses.
        """
        rows = self._dense(X, reset=True)
        targets = target_columns(y, len(rows), self.target)
        order = np.argsort(rows, axis=0, kind="stable").T  # sorted once, whatever the targets
        cuts: list[list[Array]] = [[] for _ in order]
        for known, codes, n_values in targets:
            class_of = np.full(len(rows), -1, dtype=np.intp)
            class_of[known] = codes
            for j, sorted_rows in enumerate(order):
                usable = sorted_rows[class_of[sorted_rows] >= 0]
                values = rows[usable, j]
                places = np.sort(_paying_cuts(values, class_of[usable], n_values))
                cuts[j].append(between(values[places - 1], values[places]))
        self._set_cuts([np.unique(np.concatenate(points)) for points in cuts])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@njit(nogil=True, cache=True)
def _count_log_count(count: float) -> float:
    return count * math.log2(count) if count > 0 else 0.0


@njit(nogil=True, cache=True)
def _entropy(n: float, sum_count_log_count: float) -> float:
    """Bits per row: log n - (sum of N log N) / n."""
    return math.log2(n) - sum_count_log_count / n


class _Cut(NamedTuple):
    """Place before which to cut (-1: nowhere), and on either side the classes and their counts.

    Counts are told by the sum of N log N, from which the entropy follows.
    """

    place: int
    k_left: int
    k_right: int
    sum_left: float
    sum_right: float


@njit(nogil=True, cache=True)
def _best_cut(values: Array, classes: Indices, start: int, stop: int, total: Array) -> _Cut:
    """Cut with the fewest bits on both sides; `total` (K,) counts the classes of the segment.

    Moving a row from the right to the left changes two counts, so one pass tries all places.
    """
    left, right = np.zeros(len(total)), total.copy()
    sum_left, sum_right = 0.0, 0.0
    k_left, k_right = 0, 0
    for count in right:
        sum_right += _count_log_count(count)
        k_right += count > 0
    fewest, best = np.inf, _Cut(-1, 0, 0, 0.0, 0.0)
    for at in range(start, stop - 1):
        c = classes[at]
        k_left += left[c] == 0
        k_right -= right[c] == 1
        sum_left += _count_log_count(left[c] + 1) - _count_log_count(left[c])
        sum_right += _count_log_count(right[c] - 1) - _count_log_count(right[c])
        left[c] += 1
        right[c] -= 1
        if values[at] == values[at + 1]:
            continue
        below, above = at + 1 - start, stop - at - 1
        bits = below * _entropy(below, sum_left) + above * _entropy(above, sum_right)
        if bits < fewest - 1e-9:
            fewest, best = bits, _Cut(at + 1, k_left, k_right, sum_left, sum_right)
    return best


@njit(nogil=True, cache=True)
def _segment(values: Array, classes: Indices, start: int, stop: int, n_classes: int) -> int:
    """Place at which to cut a segment, -1 if no cut pays."""
    total = np.zeros(n_classes)
    for at in range(start, stop):
        total[classes[at]] += 1
    n, k, summed = stop - start, 0, 0.0
    for count in total:
        k += int(count > 0)
        summed += _count_log_count(count)
    if k < 2:
        return -1
    cut = _best_cut(values, classes, start, stop, total)
    if cut.place < 0:
        return -1
    whole = _entropy(n, summed)
    left = _entropy(cut.place - start, cut.sum_left)
    right = _entropy(stop - cut.place, cut.sum_right)
    gain = n * whole - (cut.place - start) * left - (stop - cut.place) * right
    # log2(3^k - 2), where 3^k would overflow for many classes
    choices = k * math.log2(3.0) + math.log2(1.0 - 2.0 * 3.0 ** (-k))
    price = math.log2(n - 1) + choices - k * whole + cut.k_left * left + cut.k_right * right
    return cut.place if gain > price else -1


@njit(nogil=True, cache=True)
def _paying_cuts(values: Array, classes: Indices, n_classes: int) -> Indices:
    """Places (cuts,) in ascending values before which a cut pays, in no order."""
    # Segments still to be cut, at most one more than cuts made, lie between these bounds.
    starts, stops = np.empty(len(values) + 1, np.intp), np.empty(len(values) + 1, np.intp)
    found = np.empty(len(values), dtype=np.intp)
    n_waiting, n_found = 1, 0
    starts[0], stops[0] = 0, len(values)
    while n_waiting:
        n_waiting -= 1
        start, stop = starts[n_waiting], stops[n_waiting]
        place = _segment(values, classes, start, stop, n_classes)
        if place > 0:
            found[n_found] = place
            n_found += 1
            starts[n_waiting], stops[n_waiting] = start, place
            starts[n_waiting + 1], stops[n_waiting + 1] = place, stop
            n_waiting += 2
    return found[:n_found]
