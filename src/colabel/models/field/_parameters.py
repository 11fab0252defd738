"""Parameters and summaries that the estimators of pairwise fields share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from colabel.core.arrays import Array, Indices, dense
from colabel.learn.chunks.passes import added
from colabel.learn.conditional import TrainingData
from colabel.learn.crf.learner import FittedField
from colabel.learn.linear import LinearModels
from colabel.models.linear_log_odds import LinearLogOdds

Strengths = float | Sequence[float] | Literal["auto"]
EdgeFeatures = Literal["auto", "all", "none"] | Sequence[int]

_MOST_PARAMETERS = 1 << 21
_MOST_CANDIDATES = 500
_CANDIDATES_PER_LABEL = 5
# Solvers turn the cells of a table to their axes, which takes the cube of their number.
_MOST_CELLS = 2_500


def refuse_large_tables(data: TrainingData, names: Sequence[str]) -> None:
    """Raise ValueError if the table of some pair of labels has too many cells to be learned."""
    pair = np.argsort(data.cardinalities)[-2:]
    cells = int(np.prod([data.cardinalities[label] for label in pair]))
    if len(pair) == 2 and cells > _MOST_CELLS:
        first, second = (repr(names[label]) for label in sorted(pair))
        raise ValueError(
            f"A field has a table for each pair of labels, and that of {first} and {second} has "
            f"{cells:,} cells: more than {_MOST_CELLS:,} are too many to learn. Join values that "
            "are rare, or use CTBN or BinaryRelevance."
        )


def strengths(given: Strengths, name: str, *, positive: bool) -> list[float] | None:
    """Return the strengths a parameter asks for; None for "auto"."""
    if isinstance(given, str):
        if given == "auto":
            return None
        raise ValueError(f'{name}={given!r} must be "auto", a number or a sequence of numbers.')
    values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    smallest_ok = values > 0 if positive else values >= 0
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & smallest_ok).all():
        bound = "positive" if positive else "non-negative"
        raise ValueError(f'{name}={given!r} must be "auto", or {bound} numbers.')
    return [float(value) for value in values]


def candidate_limit(given: int | None, n_labels: int, usual: int = _MOST_CANDIDATES) -> int:
    """Return the most candidate edges that a parameter asks for; by default `usual` or more."""
    if given is None:
        return max(usual, _CANDIDATES_PER_LABEL * n_labels)
    if given < 0:
        raise ValueError(f"max_candidates={given!r} must not be negative.")
    return int(given)


def edge_columns(given: EdgeFeatures, data: TrainingData, limit: int) -> Indices:
    """Return the columns of X that edges depend on."""
    n_features = data.n_features
    every = np.arange(n_features, dtype=np.intp)
    if isinstance(given, str):
        if given not in ("auto", "all", "none"):
            raise ValueError(
                f'edge_features={given!r} must be "auto", "all", "none" or a sequence of columns.'
            )
        wide = given == "auto" and _n_parameters(data, limit) > _MOST_PARAMETERS
        return every[:0] if given == "none" or wide else every
    columns = np.unique(np.asarray(given, dtype=np.intp))
    if len(columns) and not (-n_features <= columns[0] and columns[-1] < n_features):
        raise ValueError(
            f"edge_features names columns {columns.tolist()}, but X has {n_features} columns."
        )
    return np.unique(columns % n_features) if len(columns) else every[:0]


def _n_parameters(data: TrainingData, limit: int) -> float:
    """Bound on the parameters of all candidate edges if they depend on all features."""
    sizes = np.asarray(data.cardinalities, dtype=np.float64)
    cells = (sizes.sum() ** 2 - (sizes**2).sum()) / 2.0
    n_pairs = data.n_labels * (data.n_labels - 1) / 2.0
    share = min(1.0, limit / n_pairs) if n_pairs else 0.0
    return float(cells * share * (data.n_features + 1))


def node_scores(field: FittedField, models: LinearModels, X: Any) -> list[Array]:
    """Node scores, d arrays (n, K_i); labels without edges keep their independent regression."""
    tables = field.node_tables(X)
    alone = np.setdiff1d(np.arange(len(tables)), field.layout.edges)
    if len(alone):
        log_prob = models.log_prob(X)
        for label in alone:
            tables[label] = log_prob[label]
    return tables


def linear_log_odds(
    field: FittedField, models: LinearModels, x: Any, others: Array
) -> LinearLogOdds:
    r"""Log-odds of labels of two values, given the others, from nodes and edges.

    A node has a score for 0 alone, and an edge (i, j) for the cells 00, 01 and 10: its share in
    the log-odds of i is :math:`(e_{10} - e_{00}) + y_j (e_{00} - e_{01} - e_{10})`.
    """
    layout, n_features = field.layout, field.node.shape[0] - 1
    forms = -field.node.T.astype(np.float64)  # (d, p + 1), the constant last
    at = np.append(field.edge_columns, n_features)
    edge_x = np.append(_row(x)[field.edge_columns], 1.0)
    weights = np.zeros((len(forms), len(forms)))
    for e, (i, j) in enumerate(layout.edges.tolist()):
        neither, second, first = field.edge[:, layout.edge_start[e] :][:, :3].T
        both = neither - second - first
        forms[i, at] += first - neither + others[j] * both
        forms[j, at] += second - neither + others[i] * both
        weights[i, j] = weights[j, i] = edge_x @ both
    for label in np.setdiff1d(np.arange(len(forms)), layout.edges):
        forms[label] = models.coef[label][0]
    return LinearLogOdds(forms[:, :-1], forms[:, -1], weights)


def _row(x: Any) -> Array:
    row: Array = np.asarray(dense(x), dtype=np.float64)[0]
    return row


def interactions(data: TrainingData, field: FittedField) -> tuple[Array, Indices]:
    """Strengths (E,) and signs (E,) of the edges of a field over rows.

    Row and column means of a table belong to the nodes; what is left is the interaction. For two
    labels of two values it is a quarter of the log odds ratio in each cell.
    """
    squares, corners = data.total(_interaction_sums, field, combine=added)
    strength: Array = 2.0 * np.sqrt(squares / data.total_weight)
    return strength, np.sign(corners).astype(np.intp)


def _interaction_sums(data: TrainingData, field: FittedField) -> tuple[Array, Array]:
    """Weighted sums (E,) of squared interactions, and of those of two second values of two."""
    tables, weight = field.edge_tables(data.X), data.row_weights
    squares, corners = np.zeros((2, len(tables)))
    for place, table in enumerate(tables):
        # a table that all rows share has the weight of all
        row_weight = weight if len(table) == len(weight) else weight.sum(keepdims=True)
        centred = table - table.mean(axis=1, keepdims=True)
        centred = centred - centred.mean(axis=2, keepdims=True)
        squares[place] = row_weight @ (centred**2).sum(axis=(1, 2))
        if table.shape[1:] == (2, 2):
            corners[place] = row_weight @ centred[:, 1, 1]
    return squares, corners
