"""The members of a stack: those it has by default, and how one is fitted and asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags

from colabel.core.arrays import is_sparse
from colabel.core.label_features import n_label_columns
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.models._cross_fitting import Members
from colabel.models.chain import ProbabilisticClassifierChain
from colabel.models.ctbn import CTBN
from colabel.models.field import CollectiveCRF, PairwiseCRF
from colabel.models.forest import JointForest
from colabel.preprocess import ForestFeatures, KernelFeatures

_FEW_VECTORS = 2.0**10  # label vectors up to which random fields add them up, quickly
_WIDEST_KERNEL = 2000  # columns of X up to which distances say something
_MOST_VALUES = 32  # of all labels together, up to which chains on kernel features are quick
# labels times numbers of a chain's design, up to which all of this is a matter of minutes
_MOST_WORK = 5e7
_MANY_TARGETS = 2e5  # rows times label columns, beyond which fewer trees do, and each takes long
# rows times label columns squared, up to which regressions of all labels on all log-odds are a
# matter of minutes
_MOST_PRODUCTS = 2e9
_FEW_TREES = 100
_MOST_DISTINCT = 1000  # label vectors as classes of a tree, each of whose nodes counts them all
# rows times these classes, of which the nodes of a tree keep up to twice as many counts: the most,
# and how many make each tree take long
_MOST_COUNTS, _MANY_COUNTS = 5e6, 2e6
_MOST_LANDMARKS = 800  # columns that kernel features may add


def default_members(data: TrainingData) -> Members:
    """Return the members that suit some data: what x is like, and how many label vectors.

    Straight lines, a forest's log-odds and kernels, each under a joint that is cheap for so many
    labels, and a forest of label vectors. They have no seeds of their own: the stack seeds them.
    """
    missing = bool((data.codes == MISSING).any())
    gaps = not is_sparse(data.X) and bool(np.isnan(data.X).any())
    vectors = math.prod(map(float, data.cardinalities))
    n_distinct = len(np.unique(data.codes, axis=0))
    kernels = (
        data.X.shape[1] <= _WIDEST_KERNEL
        and not is_sparse(data.X)
        and not gaps
        and sum(data.cardinalities) <= _MOST_VALUES
        and data.n_rows * (data.X.shape[1] + _MOST_LANDMARKS) * data.n_labels <= _MOST_WORK
    )

    # a chain's links have the features and the labels before them
    stored_numbers = data.X.nnz if is_sparse(data.X) else data.X.size
    work = data.n_labels * (stored_numbers + data.n_rows * data.n_labels)
    large = work > _MOST_WORK

    def chain() -> BaseEstimator:
        return CTBN() if missing or large else ProbabilisticClassifierChain()

    # Trees grown to the end on the label vectors have the best modes, and the smooth parts of the
    # joint see to the probabilities; but vectors that are nearly all different are no target.
    repeat = (
        2 * n_distinct <= data.n_rows
        and n_distinct <= _MOST_DISTINCT
        and data.n_rows * n_distinct <= _MOST_COUNTS
    )
    of_vectors: dict[str, Any] = {"target": "vectors", "min_samples_leaf": 1} if repeat else {}
    trees: dict[str, Any] = {}
    dear = repeat and data.n_rows * n_distinct > _MANY_COUNTS
    targets = data.n_rows * n_label_columns(data.cardinalities)
    if dear or targets > _MANY_TARGETS:
        trees["n_estimators"] = _FEW_TREES
    forest, kernel = ForestFeatures(**trees), KernelFeatures()
    found: Members = [("forest", JointForest(**of_vectors, **trees))]
    if not gaps:  # which only trees take
        found.append(("linear", chain()))
    if targets * n_label_columns(data.cardinalities) <= _MOST_PRODUCTS:
        found.append(("forest features", make_pipeline(forest, chain())))
    if large:
        return found
    if not repeat:
        # where no row nearby has the same vector, what is nearest still says most of each label
        found.append(("forest, fine", JointForest(min_samples_leaf=1, **trees)))
    if vectors <= _FEW_VECTORS and not missing:
        if not gaps:
            found.append(("linear field", CollectiveCRF()))
        found.append(("forest features, field", make_pipeline(forest, PairwiseCRF())))
        if kernels:
            field = make_pipeline(kernel, CollectiveCRF())
            found.append(("kernel features, field", field))
        return found
    if kernels:
        found.append(("kernel features", make_pipeline(kernel, chain())))
    if not missing and not gaps:
        found.append(("linear tree", CTBN()))
    return found


def takes_nan(model: BaseEstimator) -> bool:
    """Whether a member takes rows with missing features; of a pipeline, whether its first step."""
    first = model[0] if isinstance(model, Pipeline) else model
    return bool(get_tags(first).input_tags.allow_nan)


def checked_members(members: Any) -> Members:
    """Return members as pairs of a name and an estimator, or say what is wrong with them."""
    if not isinstance(members, Sequence) or isinstance(members, str) or not members:
        raise ValueError(
            f"members={members!r} must be 'auto' or a list of models, or of pairs (name, model)."
        )
    found: Members = []
    for position, member in enumerate(members):
        pair = member if isinstance(member, tuple) and len(member) == 2 else (None, member)
        name, model = pair
        if not hasattr(model, "fit"):
            raise ValueError(
                f"Member {position} is {model!r}: give a model of colabel, or a pipeline that ends"
                " with one."
            )
        last = model[-1] if isinstance(model, Pipeline) else model
        found.append((str(name or getattr(last, "short_name", "") or type(last).__name__), model))
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice and all(isinstance(m, tuple) for m in members):
        raise ValueError(f"Two members are called {twice[0]!r}: give each a name of its own.")
    # models without names are numbered where they are alike
    return [
        (f"{name} {names[: i + 1].count(name)}" if name in twice else name, model)
        for i, (name, model) in enumerate(found)
    ]
