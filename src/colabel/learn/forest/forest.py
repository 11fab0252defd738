"""The trees of a forest as plain arrays, walked by compiled loops and grown by scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from colabel.core.arrays import Array, Codes, Flags, Indices, dense, is_sparse, row_slices
from colabel.core.compiling import njit
from colabel.core.progress import progress_bar
from colabel.core.schema import ASCENDING, Below, Between, Dims, Fields, Is, check_that, stored
from colabel.core.threads import map_threads, n_threads, one_blas_thread

Singles = NDArray[np.float32]


# A node in one piece, so that a step costs one line of the cache.
NODE = np.dtype(
    [("threshold", np.float32), ("feature", np.uint32), ("left", np.uint32), ("right", np.uint32)]
)
_ABREAST = 8


@njit(nogil=True, cache=True, error_model="numpy")
def walk_rows(
    rows: Singles, roots: Indices, nodes: Any, missing_left: Flags, leaf: Codes, found: Codes
) -> None:
    """Fill `found` (n, T) with the leaf in which each row (n, p) ends in each tree.

    From a node one goes left if x <= threshold; NaN, which compares with nothing, goes where
    `missing_left` sends it. Both children of a leaf are the leaf itself, so that eight rows can go
    down abreast until none of them moves: each waits for memory while the others step. Trees are
    the outer loop, since one tree stays in the cache for all rows.
    """
    n_rows = rows.shape[0]
    at = np.empty(_ABREAST, dtype=np.uint32)
    for tree in range(found.shape[1]):
        root = np.uint32(roots[tree])
        for start in range(0, n_rows, _ABREAST):
            abreast = min(_ABREAST, n_rows - start)
            for k in range(abreast):
                at[k] = root
            moved = np.uint32(1)
            while moved:
                moved = np.uint32(0)
                for k in range(abreast):
                    node = at[k]
                    own = nodes[node]
                    x = rows[np.uint64(start + k), np.uint64(own.feature)]
                    below = own.right if x > own.threshold else own.left
                    if x != x:
                        below = own.left if missing_left[node] else own.right
                    moved |= node ^ below
                    at[k] = below
            for k in range(abreast):
                found[start + k, tree] = leaf[at[k]]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def mean_over_trees(leaves: Codes, table: Array | Singles, mean: Array) -> None:
    """Fill `mean` (n, e) with the average over trees of a row's leaves in `table` (L, e)."""
    n_rows, n_trees = leaves.shape
    width = table.shape[1]
    for row in range(n_rows):
        for c in range(width):
            mean[row, c] = 0.0
        for tree in range(n_trees):
            own = leaves[row, tree]
            for c in range(width):
                mean[row, c] += table[own, c]
        for c in range(width):
            mean[row, c] /= n_trees


@njit(nogil=True, cache=True, error_model="numpy")
def add_without_own(
    leaves: Codes,
    used: Flags,
    own_value: Array,
    own_known: Array,
    counts: Array,
    known: Array,
    prior: Array,
    strength: float,
    total: Array,
) -> None:
    """Add to `total` (n, e) smoothed frequencies in the trees `used` (n, T) marks, rows left out.

    What a row has put into the contents (L, e) of each leaf l leaves it before it is smoothed:

        (counts_l - own_value + m prior) / (known_l - own_known + m)
    """
    for row in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            if not used[row, tree]:
                continue
            leaf = leaves[row, tree]
            for c in range(len(prior)):
                # differences of sums of weights may fall below zero by rounding
                of_value = max(counts[leaf, c] - own_value[row, c], 0.0)
                of_known = max(known[leaf, c] - own_known[row, c], of_value)
                total[row, c] += (of_value + strength * prior[c]) / (of_known + strength)


_LARGEST_SINGLE = float(np.finfo(np.float32).max)
# Sparse rows are made dense so many numbers at a time, and all rows walk so many at a time.
_NUMBERS_AT_ONCE = 1 << 18
_FEWEST_ROWS = 256
_FAR = 2.0**-10


@stored("forest")
@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees, their nodes end to end; children come after their parents.

    A row goes left from a node if ``x[feature] <= threshold`` in single precision, as in
    scikit-learn. Thresholds are rounded down to single precision, which changes no comparison.
    Leaves are numbered through all trees, in the order of their nodes.

    Attributes
    ----------
    n_features : int
    roots : (T + 1,)
        The nodes of tree t stand from ``roots[t]``, its root, to ``roots[t + 1]``.
    feature : (N,)
        The column that a node looks at, -1 for a leaf.
    threshold : (N,) of single precision
    children : (N, 2)
        Nodes to the left and to the right, -1 for a leaf.
    missing_left : (N,) of bool
        Whether a row that lacks the feature (NaN) goes left.
    shift : (p,) or None
        What is taken off each column first, see `far_from_zero`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from colabel.learn.forest.forest import Forest
    >>> X, y = np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1]
    >>> grown = RandomForestClassifier(2, max_depth=1, random_state=0).fit(X, y)
    >>> forest = Forest.of(grown)
    >>> forest.n_trees, forest.n_leaves
    (2, 4)
    >>> forest.leaves(X[[0, 7]])
    array([[0, 2],
           [1, 3]], dtype=int32)
    """

    n_features: Annotated[int, Between(1, 2**31 - 1), Is("p")]
    roots: Annotated[Indices, "_", ASCENDING]
    feature: Annotated[Codes, "nodes", Below("p", or_none=True)]
    threshold: Annotated[Singles, "nodes", Between(-_LARGEST_SINGLE, _LARGEST_SINGLE)]
    children: Annotated[Codes, "nodes 2", Below("nodes", or_none=True)]
    missing_left: Annotated[Flags, "nodes"]
    shift: Annotated[Array | None, "p"] = None

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        """Refuse nodes that lead nowhere, twice to the same place, or back: walks never end."""
        roots, feature, children = fields["roots"], fields["feature"], fields["children"]
        n_nodes = dims["nodes"]
        whole = len(roots) > 1 and roots[0] == 0 and roots[-1] == n_nodes
        check_that(whole, "the trees do not follow one another")
        inner = np.flatnonzero(feature >= 0)
        below = children[inner]
        check_that(
            (children[feature < 0] == -1).all() and (below >= 0).all(),
            "a node is neither a leaf without children nor a split with two",
        )
        tree = np.searchsorted(roots, inner, side="right")
        check_that(
            (below > inner[:, None]).all() and (below < roots[tree][:, None]).all(),
            "the children of a node do not come after it in its tree",
        )
        n_parents = np.bincount(below.ravel(), minlength=n_nodes)
        n_parents[roots[:-1]] += 1
        check_that((n_parents == 1).all(), "a node has no parent, or two")
        dims["leaves"] = int(n_nodes - len(inner))
        dims["trees"] = len(roots) - 1

    @classmethod
    def of(cls, grown: Any, shift: Array | None = None) -> Forest:
        """Take the trees of a fitted forest, or the one of a tree, of scikit-learn.

        `shift` (p,) is what had been taken off the columns when they were grown.
        """
        trees = [each.tree_ for each in getattr(grown, "estimators_", [grown])]
        roots = _roots_of([tree.node_count for tree in trees])
        left = [tree.children_left for tree in trees]
        right = [tree.children_right for tree in trees]
        children = np.stack([np.concatenate(left), np.concatenate(right)], axis=1)
        leaf = children[:, 0] < 0
        children += np.repeat(roots[:-1], np.diff(roots))[:, None]
        children[leaf] = -1
        missing = np.concatenate([tree.missing_go_to_left for tree in trees]).astype(bool)
        return cls(
            int(grown.n_features_in_),
            roots,
            np.where(leaf, -1, np.concatenate([tree.feature for tree in trees])).astype(np.int32),
            _rounded_down(np.where(leaf, 0.0, np.concatenate([t.threshold for t in trees]))),
            children.astype(np.int32),
            missing & ~leaf,
            shift,
        )

    def joined(self, *others: Forest) -> Forest:
        """Return these trees and then those of others on the same columns."""
        parts = (self, *others)
        first = np.cumsum([0, *(len(part.feature) for part in parts)])
        children = [
            np.where(p.children < 0, -1, p.children + start)
            for p, start in zip(parts, first[:-1], strict=True)
        ]
        return Forest(
            self.n_features,
            _roots_of(np.concatenate([np.diff(part.roots) for part in parts])),
            np.concatenate([part.feature for part in parts]),
            np.concatenate([part.threshold for part in parts]),
            np.concatenate(children).astype(np.int32),
            np.concatenate([part.missing_left for part in parts]),
            self.shift,
        )

    @property
    def n_trees(self) -> int:
        """Number of trees T."""
        return len(self.roots) - 1

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves L of all trees."""
        return int((self.feature < 0).sum())

    @cached_property
    def leaf_nodes(self) -> Indices:
        """Nodes (L,) that are leaves, in order."""
        return np.flatnonzero(self.feature < 0)

    @cached_property
    def first_leaves(self) -> Indices:
        """Leaves of tree t are numbered from ``first_leaves[t]`` to ``first_leaves[t + 1]``."""
        return np.searchsorted(self.leaf_nodes, self.roots)

    @cached_property
    def _leaf_of_node(self) -> Codes:
        return np.cumsum(self.feature < 0, dtype=np.int32) - np.int32(1)

    @cached_property
    def _nodes(self) -> NDArray[np.void]:
        """Nodes (N,) as the compiled walk takes them: a leaf is its own child."""
        own = np.arange(len(self.feature))
        nodes = np.empty(len(own), dtype=NODE)
        nodes["threshold"], nodes["feature"] = self.threshold, np.maximum(self.feature, 0)
        for side, name in enumerate(("left", "right")):
            nodes[name] = np.where(self.feature < 0, own, self.children[:, side])
        return nodes

    def leaves(self, X: Any, n_jobs: int | None = None) -> Codes:
        """Return the leaf (n, T) in which each row ends in each tree.

        Parameters
        ----------
        X : (n, p) array or CSR
            Rows; NaN goes where it went when the forest was grown.
        n_jobs : int or None
            Threads; None for all cores.
        """
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the forest was grown on {self.n_features}. Give "
                "the same columns."
            )
        rows = single_precision(shifted(X, self.shift))
        leaves = np.empty((X.shape[0], self.n_trees), dtype=np.int32)
        trees = (self.roots, self._nodes, self.missing_left, self._leaf_of_node)

        at_once = max(1, _NUMBERS_AT_ONCE // self.n_features)

        def walk(part: slice) -> None:
            if not is_sparse(rows):
                walk_rows(rows[part], *trees, leaves[part])
                return
            for start in range(part.start, part.stop, at_once):  # of which so many are dense
                some = slice(start, min(start + at_once, part.stop))
                walk_rows(rows[some].toarray(), *trees, leaves[some])

        map_threads(walk, list(row_blocks(X.shape[0], n_jobs)), n_jobs, lambda: None)
        return leaves


def _roots_of(node_counts: ArrayLike) -> Indices:
    """Where trees of so many nodes (T,) begin, and where the last ends (T + 1,)."""
    roots = np.concatenate([[0], np.cumsum(node_counts)]).astype(np.intp)
    if roots[-1] >= 2**31:
        raise ValueError(
            f"The forest has {roots[-1]} nodes, more than {2**31 - 1}. Grow fewer trees, or "
            "raise min_samples_leaf."
        )
    return roots


def row_blocks(n_rows: int, n_jobs: int | None) -> list[slice]:
    """Blocks of rows for threads to share; a few each, so that none waits long for the last."""
    step = max(_FEWEST_ROWS, -(-n_rows // (4 * n_threads(n_jobs))))
    return row_slices(n_rows, step)


def far_from_zero(X: Any) -> Array | None:
    """Means (p,) of columns that single precision could not tell apart, 0 for others; or None.

    A column that varies by less than a thousandth of its mean loses too many of its 24 bits. Trees
    do not mind what is taken off a column. Sparse columns are near zero.
    """
    if is_sparse(X) or np.asarray(X).dtype == np.float32 or not X.shape[0]:
        return None
    observed = np.isfinite(X)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, X, 0.0).sum(axis=0) / count
    spread = np.abs(np.where(observed, X - mean, 0.0)).max(axis=0)
    far = (spread > 0) & (spread < _FAR * np.abs(mean))
    return np.where(far, mean, 0.0) if far.any() else None


def shifted(X: Any, shift: Array | None) -> Any:
    """Rows less what is taken off their columns."""
    if shift is None:
        return X
    return (X.toarray() if is_sparse(X) else np.asarray(X, dtype=np.float64)) - shift


def single_precision(X: Any) -> Any:
    """Return rows (n, p) as scikit-learn's trees see them; CSR stays CSR.

    Raises
    ------
    ValueError
        If a number has no place in single precision.
    """
    values = X.data if is_sparse(X) else np.asarray(X)
    if values.dtype == np.float32:
        return X if is_sparse(X) else np.ascontiguousarray(X)
    if (np.abs(values) > _LARGEST_SINGLE).any():
        raise ValueError(
            f"X holds numbers beyond {_LARGEST_SINGLE:.3g}, which trees, that work in single "
            "precision, cannot hold. Divide the column by a power of ten."
        )
    return X.astype(np.float32) if is_sparse(X) else np.ascontiguousarray(X, dtype=np.float32)


def _rounded_down(threshold: Array) -> NDArray[np.float32]:
    """Largest numbers (N,) of single precision that are not above the thresholds.

    x <= t is the same for all x of single precision. Above all of them is infinity, by which
    scikit-learn splits the missing from the rest.
    """
    with np.errstate(over="ignore"):
        single = np.clip(threshold, -_LARGEST_SINGLE, _LARGEST_SINGLE).astype(np.float32)
    above = single.astype(np.float64) > threshold
    single[above] = np.nextafter(single[above], np.float32(-np.inf))
    return single


ForestKind = Literal["random", "extra"]
KINDS: tuple[ForestKind, ...] = get_args(ForestKind)

_CLASSIFIERS = {"random": RandomForestClassifier, "extra": ExtraTreesClassifier}
_REGRESSORS = {"random": RandomForestRegressor, "extra": ExtraTreesRegressor}

_MOST_AT_ONCE = 20  # trees, between two steps of progress
_DIRECTIONS = 16  # in which trees tell rows of more targets apart
_MOST_DENSE = 1 << 25  # numbers of sparse rows that are made dense
_BYTES_AT_ONCE = 1 << 29  # of what scikit-learn keeps in the nodes of trees, and we do not


class Grown(NamedTuple):
    """A forest, and which rows its trees have seen.

    Attributes
    ----------
    forest : Forest
    in_bag : (n, T)
        How often each row was drawn for each tree.
    """

    forest: Forest
    in_bag: NDArray[np.uint16]

    @property
    def out_of_bag(self) -> Flags:
        """Which rows which trees have not seen, (n, T)."""
        unseen: Flags = self.in_bag == 0
        return unseen


def grow(
    X: Any,
    targets: NDArray[Any],
    weight: Array | None = None,
    *,
    kind: ForestKind = "random",
    n_estimators: int = 300,
    max_features: Any = "sqrt",
    min_samples_leaf: int | float = 1,
    min_weight_fraction_leaf: float = 0.0,
    max_depth: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Grown:
    """Grow a forest on bootstrap samples of the rows, so that every tree has rows it never saw.

    What the leaves hold is not kept: it is counted from the rows that reach them.

    Parameters
    ----------
    X : (n, p) array or CSR
        Rows; NaN may be among them.
    targets : (n,) or (n, m)
        What the trees are to tell apart: classes, if these are integers (the mean Gini impurity of
        all columns is reduced), otherwise numbers (the mean variance is). For 0/1 columns these are
        the same; in numbers the mean of a column may stand for what is missing in it. Of more than
        16 classes or columns the trees see random directions, every 20 trees others.
    weight : (n,), optional
        Weights of the rows.
    kind : {"random", "extra"}
        The best cut of each feature that is tried, or the best of one random cut each.
    n_estimators : int
        Number of trees T.
    max_features : str, int or float
        How many features are tried at a node, as in scikit-learn.
    min_samples_leaf : int or float
        Fewest drawn rows in a leaf, or their share of all.
    min_weight_fraction_leaf : float
        Least share of the weight of all drawn rows in a leaf, at most a half.
    max_depth : int or None
    random_state : int
    n_jobs : int or None
        Threads; None for all cores.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    Grown

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.forest.forest import grow
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> forest, in_bag = grow(X, (X > 0).astype(int), n_estimators=10)
    >>> forest.n_trees, in_bag.shape
    (10, (50, 10))
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known: choose one of {KINDS}.")
    many = _n_targets(targets) > _DIRECTIONS
    classes = np.issubdtype(targets.dtype, np.integer) and not many
    estimator = (_CLASSIFIERS if classes else _REGRESSORS)[kind](
        max_features=max_features,
        min_samples_leaf=min_samples_leaf,
        min_weight_fraction_leaf=min_weight_fraction_leaf,
        max_depth=max_depth,
        bootstrap=True,
        warm_start=True,
        random_state=random_state,
        n_jobs=n_threads(n_jobs),
    )
    flat = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    random = np.random.default_rng(random_state)
    shift = far_from_zero(X)
    rows = single_precision(shifted(X, shift))
    if is_sparse(rows):  # the trees are several times as fast on dense rows
        if rows.shape[0] * rows.shape[1] <= _MOST_DENSE:
            rows = np.ascontiguousarray(dense(rows))
        elif rows.nnz <= np.iinfo(np.int32).max:  # the 32 bits an index that trees take
            parts32 = (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
            rows = type(rows)(parts32, shape=rows.shape)
    # A few trees at a time are the same trees, since each has a seed of its own. Their nodes hold
    # a number for every class: thousands of label vectors would fill the memory before the last.
    step = _MOST_AT_ONCE if many else trees_at_once(X.shape[0], flat, estimator.n_jobs)
    ends = [*range(step, n_estimators, step), n_estimators]
    parts: list[Forest] = []
    in_bag = np.zeros((X.shape[0], n_estimators), dtype=np.uint16)
    with (
        one_blas_thread,
        warnings.catch_warnings(),
        progress_bar("growing trees", len(ends), shown=verbose) as advance,
    ):
        # label vectors may be as many as the rows: scikit-learn takes them for numbers
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        for start, end in zip([0, *ends], ends, strict=False):
            seen = _directions(flat, random) if many else flat
            estimator.set_params(n_estimators=end).fit(rows, seen, sample_weight=weight)
            estimator.estimators_ = estimator.estimators_[start:]
            parts.append(Forest.of(estimator, shift))
            for tree, drawn in enumerate(estimator.estimators_samples_, start):
                often = np.bincount(drawn, minlength=X.shape[0])
                in_bag[:, tree] = np.minimum(often, np.iinfo(np.uint16).max)
            estimator.estimators_ = [None] * end  # it only counts those it has
            advance()
    return Grown(parts[0].joined(*parts[1:]), in_bag)


def _n_targets(targets: NDArray[Any]) -> int:
    """How many numbers a node keeps: one for each class of each column, or for each column."""
    if not np.issubdtype(targets.dtype, np.integer):
        return targets.shape[1] if targets.ndim == 2 else 1
    return int(np.sum(np.max(np.atleast_2d(targets.T), axis=1, initial=0) + 1))


def _directions(targets: NDArray[Any], random: np.random.Generator) -> Array:
    """Targets (n, D) in a few random directions, whose variance approximates that of all columns.

    So a tree on hundreds of labels, or thousands of label vectors, costs as much as one on a few
    (A. Joly, P. Geurts & L. Wehenkel, Random forests with random projections of the output space
    for high dimensional multi-label classification, 2014).
    """
    if not np.issubdtype(targets.dtype, np.integer):
        return np.asarray(targets @ random.normal(size=(targets.shape[1], _DIRECTIONS)))
    directions = np.zeros((len(targets), _DIRECTIONS))
    for column in np.atleast_2d(targets.T):
        directions += random.normal(size=(int(column.max(initial=0)) + 1, _DIRECTIONS))[column]
    return directions


def trees_at_once(n_rows: int, targets: NDArray[Any], n_threads: int) -> int:
    """How many trees on targets (n,) or (n, m) may be in memory as scikit-learn has them."""
    columns = np.atleast_2d(targets.T)
    classes = np.issubdtype(targets.dtype, np.integer)
    values = len(columns) * (max(len(np.unique(own)) for own in columns) if classes else 1)
    fit = _BYTES_AT_ONCE // (2 * n_rows * values * 8)
    return int(np.clip(fit, n_threads, _MOST_AT_ONCE))
