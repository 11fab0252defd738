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
from colabel.core.numeric import as_bytes
from colabel.learn.conditional import TrainingData
from colabel.models.binary_relevance import BinaryRelevance
from colabel.models.chain.chains import ProbabilisticClassifierChain
from colabel.models.cross_fitting import Members
from colabel.models.field import CollectiveCRF
from colabel.models.forest.joint_forest import JointForest
from colabel.preprocess import BoostedFeatures, KernelFeatures, SplineFeatures

_TREES, _EXTRA_TREES = 150, 300
_MANY_ROWS = 20_000
_LANDMARKS = 200
_FEW_LABELS = 8  # whose vectors a random field adds up quickly
_FOLDS = 3  # by which C and label scales are chosen
_GRID = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)  # values of C, of standardised columns
# Numbers of a dense design up to which columns are curved, and boosted.
_MOST_NUMBERS = 3e7
_MOST_COUNTS = 5e6  # rows times label vectors, up to which these are the classes of trees
_MANY_LABELS, _BEAM = 32, 12  # beyond which chains keep so many prefixes, and prove nothing
_VERY_MANY_LABELS = 100  # beyond which links of a chain use the labels that matter most
_MOST_CHAINED = 400  # labels; beyond, only trees know of their dependence
_MOST_PARENTS = 12


def default_members(data: TrainingData) -> Members:
    """Return the members that suit some data: what x is like, and how many label vectors.

    They are few and different: random and extra trees whose leaves hold label vectors; a chain on
    the columns; and random fields (chains, of many labels or values) on curves of them, on
    kernel features and on the log-odds of boosted trees. They have no seeds of their own: the stack
    seeds them.
    """
    sparse = is_sparse(data.X)
    gaps = not sparse and bool(np.isnan(data.X).any())
    binary = all(size == 2 for size in data.cardinalities)

    def chain(**options: Any) -> BaseEstimator:
        if data.n_labels > _MOST_CHAINED:
            return BinaryRelevance(cv=_FOLDS, **options)
        many = data.n_labels > _MANY_LABELS
        if many:
            options |= {"inference": "beam", "beam_width": _BEAM}
        parents = _MOST_PARENTS if data.n_labels > _VERY_MANY_LABELS else None
        return ProbabilisticClassifierChain(max_parents=parents, cv=_FOLDS, **options)

    def field(**options: Any) -> BaseEstimator:
        few = binary and data.n_labels <= _FEW_LABELS
        return CollectiveCRF(cv=_FOLDS) if few else chain(**options)

    # trees that tell vectors of labels apart have the better modes, where vectors repeat
    n_distinct = len(np.unique(as_bytes(data.codes)))
    repeat = binary and 2 * n_distinct <= data.n_rows and data.n_rows * n_distinct <= _MOST_COUNTS
    # of many rows, trees of fewer leaves, and fewer trees, know all that can be known of vectors
    share = min(1.0, _MANY_ROWS / data.n_rows)
    n_trees, n_extra = max(50, int(share * _TREES)), max(50, int(share * _EXTRA_TREES))
    least = data.n_rows // _MANY_ROWS
    found: Members = [
        ("forest", JointForest(n_trees, min_samples_leaf=3 + 2 * least)),
        (
            "extra trees",
            JointForest(
                n_extra,
                kind="extra",
                target="vectors" if repeat else "labels",
                min_samples_leaf=1 + least,
            ),
        ),
    ]
    if not gaps:  # which only trees take
        found.append(("lines", chain()))
    if not gaps and not sparse:
        most = max(data.n_features, int(_MOST_NUMBERS / data.n_rows))
        found.append(("curves", make_pipeline(SplineFeatures(max_columns=most), field(C=_GRID))))
        # of standardised columns, rows are about 1.4 times the root of their number apart
        width = 0.7 * math.sqrt(data.n_features)
        kernel = KernelFeatures(width, _LANDMARKS, scaling="columns")
        found.append(("kernel", make_pipeline(kernel, field(C=_GRID))))
    if data.n_rows * data.n_features <= _MOST_NUMBERS:
        found.append(("boosting", make_pipeline(BoostedFeatures(), field())))
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
