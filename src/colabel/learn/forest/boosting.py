"""Gradient boosting of all labels together: one tree a round, whose leaves hold a vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.tree import DecisionTreeRegressor

from colabel.core.arrays import Array, Indices, column_owner, dense, is_sparse, label_columns
from colabel.core.progress import progress_bar
from colabel.core.schema import Between, Is, stored
from colabel.core.threads import map_threads, one_blas_thread
from colabel.labels import MISSING
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.forest.contents import tree_means
from colabel.learn.forest.forest import Forest, far_from_zero, shifted, single_precision

_BLOCK = 10  # rounds between two looks at the held-out rows
_DIRECTIONS = 12  # of the gradients, in which a tree tells rows apart
_FEWEST_FEATURES = {"random": 32, "best": 16}  # that a node tries
_RATES = {"random": 0.07, "best": 0.1}
_N_VALUES = 32  # to which columns are rounded for best cuts
# The sum of learning rates after which the cuts are compared, and by which share of what random
# cuts have gained so far the best ones must be ahead: they gain faster, and over-fit sooner.
_PILOT, _AHEAD = 3.0, 0.05
_LEAST_CURVATURE = 1e-6


@stored("boosted-trees")
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Scores of every label's values: a constant and the sum of what the leaves of trees hold.

    Attributes
    ----------
    cardinalities : (d,)
    start : (e,)
        In label columns: one for a variable of two values, K for one of K.
    forest : Forest
    values : (L, e) of single precision
    """

    cardinalities: Annotated[tuple[int, ...], "d", Between(1), Is("sizes")]
    start: Annotated[Array, "columns(sizes)"]
    forest: Annotated[Forest, "leaves p"]
    values: Annotated[NDArray[np.float32], "leaves columns(sizes)"]

    def scores(self, X: Any, n_jobs: int | None = None) -> Array:
        """Log-odds (n, e) of variables of two values, log-probabilities less their mean of others.

        Parameters
        ----------
        X : (n, p) array or CSR
        n_jobs : int or None
            Threads; None for all cores.
        """
        mean = tree_means(self.forest.leaves(X, n_jobs), self.values, n_jobs)
        return self.start + self.forest.n_trees * mean


def boost(
    data: TrainingData,
    folds: Folds,
    *,
    n_rounds: int = 400,
    learning_rate: float | Literal["auto"] = "auto",
    splitter: Literal["auto", "random", "best"] = "auto",
    max_leaf_nodes: int = 16,
    min_samples_leaf: int = 5,
    max_features: Any = "auto",
    subsample: float = 0.8,
    penalty: float = 3.0,
    patience: int = 20,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[BoostedTrees, Array, Array]:
    r"""Boost the logistic and softmax likelihood of all labels, held-out rows saying how long.

    A round grows one tree for all label columns. With the gradients :math:`g = y - p` and the
    curvatures :math:`h = p (1 - p)` of the rows in a leaf, its value in each column is a Newton
    step, and the tree is grown on gradients over the root of their column's mean curvature, whose
    variance a split reduces by its gain in likelihood (to second order):

    .. math:: v = \eta \, \frac{\sum_i w_i g_i}{\sum_i w_i h_i + \lambda}

    A tree sees a sample of the rows and one random cut of each feature tried; of many columns it
    sees a few random directions, drawn anew each round (Iosipoi & Vakhrushev, SketchBoost, 2022).
    Or it sees all cuts between `_N_VALUES` values of each feature tried, and the columns of a
    quarter of the labels, but two at least: thresholds and interactions are found in fewer rounds.
    One model is boosted without each fold; all stop at the round after which the fold held out was
    most probable, and their average is returned.

    Parameters
    ----------
    data : TrainingData
        Labels may be missing, and numbers of X too (NaN).
    folds : Folds
        At least two folds that cover all rows.
    n_rounds : int
        Most rounds.
    learning_rate : float or "auto"
        The shrinkage eta; "auto": 0.07 of random cuts, 0.1 of the best.
    splitter : {"auto", "random", "best"}
        Cuts that a node tries; "auto": the best, if a fold held out is then clearly more probable
        after the first rounds.
    max_leaf_nodes, min_samples_leaf
        Of the trees, as in scikit-learn.
    max_features
        How many features a node tries, as in scikit-learn; "auto": the root of their number, but
        32 of them at least, or 16 where all cuts are tried.
    subsample : float
        Share of the rows that a tree is grown on.
    penalty : float
        The ridge lambda.
    patience : int
        Rounds without improvement on held-out rows, after which boosting ends.
    random_state : int
    n_jobs : int or None
        Threads over folds; None for all cores.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    model : BoostedTrees
    held_out : (n, e)
        Scores of each row by the model that has not seen it.
    losses : (blocks,)
        Held-out nats per row after 0, 10, 20, ... rounds, as far as they were boosted.
    """
    shift = far_from_zero(data.X)
    rows = single_precision(shifted(data.X, shift))
    rows = np.ascontiguousarray(dense(rows)) if is_sparse(rows) else rows
    owner = column_owner(data.cardinalities)
    columns = label_columns(data.codes, data.cardinalities)
    weight = (data.codes != MISSING)[:, owner] * data.row_weights[:, None]
    n_features = rows.shape[1]

    coarse = rounded(rows, _N_VALUES) if splitter != "random" else rows

    def run_of(fold: int, cuts: str) -> _Run:
        most = min(n_features, max(_FEWEST_FEATURES[cuts], math.isqrt(n_features)))
        return _Run(
            rows,
            coarse if cuts == "best" else rows,
            columns,
            weight,
            data.cardinalities,
            np.flatnonzero(folds.of_row == fold),
            random_state + fold,
            _RATES[cuts] if learning_rate == "auto" else learning_rate,
            {
                "splitter": cuts,
                "max_leaf_nodes": max_leaf_nodes,
                "min_samples_leaf": min_samples_leaf,
                "max_features": most if isinstance(max_features, str) else max_features,
            },
        )

    def boosted(run: _Run, n_steps: int = _BLOCK) -> float:
        for _ in range(n_steps):
            run.step(subsample, penalty)
        return run.held_out_loss()

    total = data.total_weight
    if splitter == "auto":
        pilots = [run_of(0, cuts) for cuts in ("random", "best")]
        start = pilots[0].held_out_loss()
        with one_blas_thread:
            random, best_cuts = (boosted(run, round(_PILOT / run.rate)) for run in pilots)
        splitter = "best" if random - best_cuts > _AHEAD * abs(start - random) else "random"
    runs = [run_of(fold, splitter) for fold in range(folds.n_folds)]
    losses = [sum(run.held_out_loss() for run in runs) / total]
    best, kept = 0, [run.scores[run.held] for run in runs]
    n_blocks = -(-n_rounds // _BLOCK)
    with one_blas_thread, progress_bar("boosting", n_blocks, shown=verbose) as advance:
        for done in range(1, n_blocks + 1):
            losses.append(sum(map_threads(boosted, runs, n_jobs, lambda: None)) / total)
            advance()
            if losses[-1] < losses[best]:
                best, kept = done, [run.scores[run.held] for run in runs]
            elif (done - best) * _BLOCK >= patience:
                break
    held_out = np.empty((data.n_rows, len(runs[0].start)))
    for run, scores in zip(runs, kept, strict=True):
        held_out[run.held] = scores
    n_kept = max(1, best * _BLOCK)
    trees = [tree for run in runs for tree, _ in run.trees[:n_kept]]
    values = [value for run in runs for _, value in run.trees[:n_kept]]
    grown = SimpleNamespace(estimators_=trees, n_features_in_=rows.shape[1])
    share = (1.0 if best else 0.0) / len(runs)  # without a useful round only the start counts
    model = BoostedTrees(
        data.cardinalities,
        np.mean([run.start for run in runs], axis=0),
        Forest.of(grown, shift),
        (share * np.concatenate(values)).astype(np.float32),
    )
    return model, runs[0].centred(held_out), np.array(losses)


def rounded(rows: NDArray[Any], n_values: int) -> NDArray[Any]:
    """Round each column of rows (n, p) to the nearest of a few of its values, spread by rank.

    Trees that are grown on the result cut between two of these values, and so divide the rows
    themselves alike. Missing values (NaN) stay.
    """
    found = np.empty_like(rows)
    for column, values in enumerate(rows.T):
        distinct = np.unique(values[~np.isnan(values)])
        if len(distinct) > n_values:
            distinct = distinct[
                ((np.arange(n_values) + 0.5) * len(distinct) / n_values).astype(int)
            ]
        middle = (distinct[1:].astype(np.float64) + distinct[:-1]) / 2
        nearest = np.append(distinct, np.nan)[np.searchsorted(middle, values)]
        found[:, column] = np.where(np.isnan(values), values, nearest)
    return found


class _Run:
    """Boosting without the rows of one fold, which are held out.

    Label columns (n, e) have the weight (n, e) of each known one. Trees with these settings are
    grown on the features `seen`, perhaps rounded ones.
    """

    def __init__(
        self,
        rows: Any,
        seen: Any,
        columns: Array,
        weight: Array,
        cardinalities: tuple[int, ...],
        held: Indices,
        seed: int,
        rate: float,
        settings: dict[str, Any],
    ) -> None:
        owner, sizes = column_owner(cardinalities), np.asarray(cardinalities)
        self.rows, self.columns, self.weight, self.held = rows, columns, weight, held
        self.seen, self.rate, self.settings = seen, rate, settings
        # only checked input tells best cuts which features are missing
        self.check_input = settings["splitter"] == "best" and bool(np.isnan(seen).any())
        self.labels = [np.flatnonzero(owner == i) for i in range(len(sizes))]
        self.binary = sizes[owner] == 2
        self.groups = [own for own, size in zip(self.labels, sizes, strict=True) if size != 2]
        self.used = np.setdiff1d(np.arange(len(columns)), held)
        self.random = np.random.RandomState(seed % 2**32)
        # the smoothed frequencies
        known = weight[self.used]
        share = (known * columns[self.used]).sum(axis=0) + 1.0 / sizes[owner]
        share /= known.sum(axis=0) + 1.0
        start = np.log(share) - self.binary * np.log1p(-np.minimum(share, 1 - 1e-12))
        self.start: Array = self.centred(start[None])[0]
        self.scores = np.tile(self.start, (len(columns), 1))
        self.trees: list[tuple[Any, Array]] = []

    def centred(self, scores: Array) -> Array:
        """Scores (n, e) less their mean over the values of each variable that has not two."""
        for own in self.groups:
            scores[:, own] -= scores[:, own].mean(axis=1, keepdims=True)
        return scores

    def _probabilities(self, rows: Indices) -> Array:
        """Probabilities (m, e) of the columns' values, as boosted so far."""
        prob: Array = expit(self.scores[rows])
        for own in self.groups:
            prob[:, own] = softmax(self.scores[rows][:, own], axis=1)
        return prob

    def held_out_loss(self) -> float:
        """Weighted sum of the negative log-probabilities of the known labels held out."""
        prob = np.clip(self._probabilities(self.held), 1e-15, 1.0)
        columns = self.columns[self.held]
        log_prob = columns * np.log(prob)
        log_prob += self.binary * (1.0 - columns) * np.log1p(-np.minimum(prob, 1.0 - 1e-15))
        return -float((self.weight[self.held] * log_prob).sum())

    def step(self, subsample: float, penalty: float) -> None:
        """Grow one more tree and add what its leaves hold to the scores."""
        random, used = self.random, self.used
        n_drawn = max(1, round(subsample * len(used)))
        drawn = used if subsample >= 1 else used[random.permutation(len(used))[:n_drawn]]
        prob, weight = self._probabilities(used), self.weight[used]
        gradient = weight * (self.columns[used] - prob)
        curvature = weight * prob * (1.0 - prob)
        place = np.searchsorted(used, drawn)
        scale = 1.0 / np.sqrt(curvature.mean(axis=0) + _LEAST_CURVATURE)
        n_columns = gradient.shape[1]
        if self.settings["splitter"] == "best":
            some = random.permutation(len(self.labels))[: max(2, len(self.labels) // 4)]
            own = np.concatenate([self.labels[i] for i in some])
            seen = gradient[np.ix_(place, own)] * scale[own]
        elif n_columns > _DIRECTIONS:
            turn = scale[:, None] * random.normal(size=(n_columns, _DIRECTIONS))
            seen = gradient[place] @ turn
        else:
            seen = gradient[place] * scale
        tree = DecisionTreeRegressor(random_state=random.randint(2**31 - 1), **self.settings)
        grown = tree.fit(self.seen[drawn], seen, check_input=self.check_input).tree_
        leaf = grown.apply(self.rows)
        shape = len(used), grown.node_count
        member = sp.csr_array((np.ones(len(used)), leaf[used], np.arange(len(used) + 1)), shape)
        value = self.rate * (member.T @ gradient) / (member.T @ curvature + penalty)
        self.scores += value[leaf]
        self.trees.append((tree, value[grown.children_left < 0]))
