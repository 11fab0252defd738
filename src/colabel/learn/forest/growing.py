"""Growing forests, by scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from colabel.core.arrays import Array, Flags, dense, is_sparse
from colabel.core.progress import progress_bar
from colabel.core.threads import n_threads, one_blas_thread
from colabel.learn.forest.forest import Forest, far_from_zero, shifted, single_precision

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
    >>> from colabel.learn.forest import grow
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
        few = rows.shape[0] * rows.shape[1] <= _MOST_DENSE
        rows = np.ascontiguousarray(dense(rows)) if few else _with_short_indices(rows)
    # A few trees at a time are the same trees, since each has a seed of its own. Their nodes hold
    # a number for every class: thousands of label vectors would fill the memory before the last.
    step = _MOST_AT_ONCE if many else _trees_at_once(X.shape[0], flat, estimator.n_jobs)
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
    found = np.zeros((len(targets), _DIRECTIONS))
    for column in np.atleast_2d(targets.T):
        found += random.normal(size=(int(column.max(initial=0)) + 1, _DIRECTIONS))[column]
    return found


def _with_short_indices(X: Any) -> Any:
    """Return CSR rows with the 32 bits an index that scikit-learn's trees take, where these do."""
    if not is_sparse(X) or X.indices.dtype == np.int32 or X.nnz > np.iinfo(np.int32).max:
        return X
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return type(X)(parts, shape=X.shape)


def _trees_at_once(n_rows: int, targets: NDArray[Any], n_threads: int) -> int:
    """How many trees on targets (n,) or (n, m) may be in memory as scikit-learn has them."""
    columns = np.atleast_2d(targets.T)
    classes = np.issubdtype(targets.dtype, np.integer)
    values = len(columns) * (max(len(np.unique(own)) for own in columns) if classes else 1)
    fit = _BYTES_AT_ONCE // (2 * n_rows * values * 8)
    return int(np.clip(fit, n_threads, _MOST_AT_ONCE))
