"""The trees of a forest as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices, is_sparse
from colabel.core.chunks import row_slices
from colabel.core.schema import Ascending, Below, Between, Dims, Fields, Is, refuse_unless, stored
from colabel.core.threads import map_threads, n_threads
from colabel.learn.forest._kernels import NODE, Singles, walk_rows, walk_sparse_rows

__all__ = ["Forest", "far_from_zero", "shifted", "single_precision"]

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
    >>> from colabel.learn.forest import Forest
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
    roots: Annotated[Indices, "_", Ascending()]
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
        refuse_unless(whole, "the trees do not follow one another")
        inner = np.flatnonzero(feature >= 0)
        below = children[inner]
        refuse_unless(
            (children[feature < 0] == -1).all() and (below >= 0).all(),
            "a node is neither a leaf without children nor a split with two",
        )
        tree = np.searchsorted(roots, inner, side="right")
        refuse_unless(
            (below > inner[:, None]).all() and (below < roots[tree][:, None]).all(),
            "the children of a node do not come after it in its tree",
        )
        reached = np.bincount(below.ravel(), minlength=n_nodes)
        reached[roots[:-1]] += 1
        refuse_unless((reached == 1).all(), "a node has no parent, or two")
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
        found = np.empty((X.shape[0], self.n_trees), dtype=np.int32)
        trees = (self.roots, self._nodes, self.missing_left, self._leaf_of_node)

        def walk(part: slice) -> None:
            if is_sparse(rows):
                own = rows[part]
                at_once = max(1, min(own.shape[0], _NUMBERS_AT_ONCE // self.n_features))
                scratch = np.empty((at_once, self.n_features), dtype=np.float32)
                walk_sparse_rows(own.data, own.indices, own.indptr, scratch, *trees, found[part])
            else:
                walk_rows(rows[part], *trees, found[part])

        map_threads(walk, list(row_blocks(X.shape[0], n_jobs)), n_jobs, lambda: None)
        return found


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
