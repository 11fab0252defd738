"""What a fitted model says of all rows: columns that matter, and labels that depend on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from colabel.comparing.result import plain
from colabel.core.arrays import Array, Indices, dense, is_sparse
from colabel.joint import Joint, label_dependence
from colabel.labels import MISSING
from colabel.models.wrapped import joint_of, title_of, unwrapped
from colabel.tables import Frame, TableModel

if TYPE_CHECKING:
    import pandas as pd

# Of graphs that are measured: rows, labels, and what an edge must be worth.
_MEASURED_ROWS, _MOST_LABELS, _LEAST_NATS = 300, 40, 0.005


def dependence_graph(model: Any, X: Any) -> dict[str, Any] | None:
    """Measure which labels depend on each other given x, in the joints of a fitted model.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline or search around one
    X : (n, p)
        Rows, as the outermost estimator takes them.

    Returns
    -------
    dict or None
        "labels": names; "probability": P(y = 1) of each averaged over rows; "edges": list of dicts
        with "from" and "to" (positions), "nats", the conditional mutual information given x
        averaged over up to 300 rows, and "given_on", "given_off", "back_on", "back_off": the
        probability that the one is 1 given that the other is 1 or 0, see `label_dependence`; NaN
        for class variables. Edges below 0.005 nats, or a fiftieth of the strongest, are left out.
        "n_labels" counts all labels; of more than 40, the 40 least certain ones are looked at.
        None for models without probabilities.
    """
    model, X = unwrapped(model, X)
    if not hasattr(model, "joint"):
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_MEASURED_ROWS, X.shape[0])).astype(int)
    joint: Joint = model.joint(X[rows])
    try:
        tables = joint.marginal_tables()
    except NotImplementedError:  # of classifiers that only decide
        return None
    unsure = np.array([1.0 - float((table**2).sum(axis=1).mean()) for table in tables])
    labels = np.sort(np.argsort(-unsure, kind="stable")[:_MOST_LABELS])
    dependence = label_dependence(joint, labels.tolist())
    least = max(_LEAST_NATS, float(dependence.nats.max()) / 50)
    edges = [
        {
            "from": int(i),
            "to": int(j),
            "nats": float(dependence.nats[i, j]),
            "given_on": float(dependence.given_on[i, j]),
            "given_off": float(dependence.given_off[i, j]),
            "back_on": float(dependence.given_on[j, i]),
            "back_off": float(dependence.given_off[j, i]),
        }
        for i, j in np.argwhere(np.triu(dependence.nats >= least, 1))
    ]
    return {
        "labels": [joint.space.names[i] for i in labels],
        "probability": [float(tables[i][:, -1].mean()) for i in labels],
        "edges": sorted(edges, key=lambda edge: -float(edge["nats"])),
        "n_labels": joint.space.n_labels,
        "title": title_of(model),
    }


@dataclass(frozen=True, eq=False)
class Description:
    """Which columns matter to a fitted model, for which labels, and how its labels depend.

    Attributes
    ----------
    columns : tuple of p str
        Those measured, the most important first.
    labels : tuple of d str
    importance : (p,)
        By how much the joint log-loss grows, in nats per row, where a column is shuffled.
    errors : (p,)
        Standard errors over the shuffles.
    by_label : (p, d)
        The same of the log-loss of each label by itself.
    effects : (p, d)
        Average change of the log-odds of a label where a column grows by its standard deviation;
        of `BinaryRelevance` that is the coefficient. NaN for class variables, and for columns of
        categories or text.
    graph : dict or None
        Which labels depend on each other given the features, see `dependence_graph`.
    """

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    importance: Array
    errors: Array
    by_label: Array
    effects: Array
    graph: dict[str, Any] | None

    def to_frame(self) -> pd.DataFrame:
        """Return a line for each column and label (needs pandas)."""
        import pandas as pd

        index = pd.MultiIndex.from_product([self.columns, self.labels], names=["column", "label"])
        values = {"importance": self.by_label.ravel(), "effect": self.effects.ravel()}
        return pd.DataFrame(values, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not defined is None."""
        values: dict[str, Any] = plain(vars(self))
        return values

    def matters_for(self, column: int, most: int = 3) -> list[str]:
        """Name the labels that a column matters for, with the sign of its effect."""
        own = self.by_label[column]
        strong = [i for i in np.argsort(-own)[:most] if own[i] > max(0.001, 0.1 * own.max())]
        signs = {1.0: "+", -1.0: "−"}
        return [
            signs.get(float(np.sign(self.effects[column, i])), "") + self.labels[i] for i in strong
        ]


def describe(
    model: Any,
    X: Any,
    Y: Any,
    *,
    n_repeats: int = 5,
    max_rows: int = 500,
    max_columns: int = 100,
    random_state: int = 0,
) -> Description:
    """Say which columns matter to a fitted model, for which labels, and how its labels depend.

    Parameters
    ----------
    model : fitted model with a joint, a pipeline or search around one, or a `TableModel`
    X : (n, p) array or sparse matrix; for a `TableModel` a frame
        Rows that the model has not seen, if what matters beyond training is asked for.
    Y : (n, d)
        Their labels; NaN or None where not known.
    n_repeats : int, default=5
        How often each column is shuffled.
    max_rows, max_columns : int
        Of more rows a sample is taken, and of more columns those that go most with the labels.
    random_state : int, default=0

    Returns
    -------
    Description

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import BinaryRelevance, describe
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> Y = (X[:, [2, 0]] > 0).astype(int)
    >>> model = BinaryRelevance(C=1.0).fit(X, Y, label_names=["a", "b"])
    >>> found = describe(model, X, Y)
    >>> found.columns[2], found.matters_for(found.columns.index("x0"))
    ('x1', ['+b'])
    """
    rng = np.random.default_rng(random_state)
    if isinstance(model, TableModel):
        owner, X = model.preprocessor.column_of_feature(), model.preprocessor.transform(Frame.of(X))
        names, model = [column.name for column in model.columns], model.model
    else:
        names = [str(name) for name in getattr(X, "columns", ())]
        X = X.to_numpy() if names else X if is_sparse(X) else np.asarray(X, dtype=np.float64)
        owner = np.arange(X.shape[1])
        names = names or [f"x{i}" for i in range(X.shape[1])]
    chosen = np.sort(rng.permutation(X.shape[0])[:max_rows])
    rows = X[chosen]
    joint = joint_of(model, rows)
    codes = joint.space.encode(Y)[chosen]
    losses = _losses(joint, codes)
    columns = _screened(rows, owner, codes, max_columns)
    grown = np.zeros((len(columns), n_repeats, 1 + codes.shape[1]))
    effects = np.full((len(columns), codes.shape[1]), np.nan)
    for k, column in enumerate(columns):
        own = np.flatnonzero(owner == column)
        for repeat in range(n_repeats):
            other = rows[rng.permutation(len(chosen))]
            grown[k, repeat] = _losses(joint_of(model, _mixed(rows, other, own)), codes) - losses
        spread = float(dense(rows[:, own]).std()) if len(own) == 1 else 0.0
        if spread > 0.0 and joint.space.is_indicator:
            step = np.zeros(rows.shape[1])
            step[own] = spread
            moved = (
                rows + sp.csr_array(np.tile(step, (len(chosen), 1)))
                if is_sparse(rows)
                else rows + step
            )
            after, before = (_log_odds(one) for one in (joint_of(model, moved), joint))
            effects[k] = (after - before).mean(axis=0)
    means = grown.mean(axis=1)
    errors = (
        grown[..., 0].std(axis=1, ddof=1) / n_repeats**0.5
        if n_repeats > 1
        else means[:, 0] * np.nan
    )
    order = np.argsort(-means[:, 0], kind="stable")
    return Description(
        tuple(names[columns[k]] for k in order),
        joint.space.names,
        means[order, 0],
        errors[order],
        means[order, 1:],
        effects[order],
        dependence_graph(model, rows),
    )


def _mixed(rows: Any, other: Any, own: Indices) -> Any:
    """Rows with some features of other rows."""
    if is_sparse(rows):
        taken = np.isin(np.arange(rows.shape[1]), own).astype(np.float64)
        return sp.csr_array(rows @ sp.diags_array(1.0 - taken) + other @ sp.diags_array(taken))
    mixed = rows.copy()
    mixed[:, own] = other[:, own]
    return mixed


def _losses(joint: Joint, codes: Any) -> Array:
    """Mean joint log-loss, and that of each label by itself where it is known, (1 + d,)."""
    means = [np.maximum(joint.log_prob_codes(codes), -700.0).mean()]
    for table, own in zip(joint.marginal_tables(), codes.T, strict=True):
        known = np.flatnonzero(own != MISSING)
        log_prob = np.log(np.maximum(table[known, own[known]], 1e-300))
        means.append(log_prob.mean() if len(known) else 0.0)
    return -np.array(means)


def _log_odds(joint: Joint) -> Array:
    prob = np.clip(joint.marginals(), 1e-9, 1 - 1e-9)
    return np.log(prob / (1.0 - prob))


def _screened(rows: Any, owner: Indices, codes: Any, most: int) -> Indices:
    """Columns whose features go most with the labels, by their correlations."""
    columns = np.unique(owner)
    if len(columns) <= most:
        return columns
    centred = np.where(codes == MISSING, 0.0, codes - codes.mean(axis=0))
    squares = (
        np.asarray((rows * rows).mean(axis=0)).ravel() - np.asarray(rows.mean(axis=0)).ravel() ** 2
    )
    shares = np.abs(np.asarray(rows.T @ centred)).sum(axis=1) / np.sqrt(np.maximum(squares, 1e-12))
    best = np.zeros(int(owner.max()) + 1)
    np.maximum.at(best, owner, shares)
    return np.sort(np.argsort(-best, kind="stable")[:most])
