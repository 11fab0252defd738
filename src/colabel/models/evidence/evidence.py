"""Which columns and which other labels speak for and against each label of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils.validation import check_array

from colabel.core.arrays import Indices
from colabel.core.parameters import check_choice, check_integer
from colabel.joint import Joint
from colabel.joint.user_terms import codes_of_evidence
from colabel.models.evidence.explained_row import ExplainedRow
from colabel.models.evidence.label_terms import LabelTerms
from colabel.models.evidence.record import FeatureEvidence
from colabel.models.evidence.terms import FeatureTerms, plain_terms
from colabel.models.wrapped import joint_of, title_of

Method = Literal["auto", "linear", "shapley"]

_BACKGROUND = 200  # rows of the background that are looked at
_ALL, _MOST = 12, 8  # labels that are all explained; else, how many


def feature_evidence(
    model: Any,
    X: Any,
    row: int = 0,
    *,
    background: Any = None,
    labels: Sequence[str | int] | None = None,
    given: Mapping[str | int, Any] | None = None,
    method: Method = "auto",
    n_orders: int | None = None,
    random_state: int = 0,
) -> FeatureEvidence:
    r"""Say which columns and which other labels speak for and against each label of a row.

    The log-odds of a label, given that the other labels are as in the most probable label vector,
    are taken apart into terms that sum to them: what holds for an average row, what each column
    of this row adds, and what each other label adds.

    - **Linear** models (`BinaryRelevance`, `CDN`, `PairwiseCRF`, and `CollectiveCRF` unless it is
      trained on supported vectors; for labels of two values) have exact terms: a column adds its
      coefficient times its distance from the mean of the background, another label its weight
      times its distance from its mean probability there.
    - **Every other** model gets Shapley values. A column adds what the log-odds of the label *by
      itself* gain on average when the column's value in another row is replaced by the one in
      this row, the other columns being replaced before or after it in random order. The other
      labels then add what is left: Shapley values of setting them in the joint, exact over the
      five that matter most and all others together.

    Either way the terms sum exactly; for Shapley values log-odds are cut at ±20.7, those of odds
    of a billion to one. As any attribution these describe the model, not the world: they are no
    effects of changing a column.

    Parameters
    ----------
    model : fitted model with a joint
        One of colabel's, or a pipeline or search around one, or a `TableModel`.
    X : (n, p) array, sparse matrix or data frame; for a `TableModel` a frame
    row : int
        The row of X to explain.
    background : rows like X, optional
        What the row is compared with; by default X. At most 200 of them are looked at.
    labels : sequence of names or positions, optional
        Labels to explain. By default all, if there are at most 12, and otherwise eight: those
        that the answer has and those that are least certain.
    given : {label: value}, optional
        Labels that are known.
    method : {"auto", "linear", "shapley"}
        "auto" is "linear" where the model allows it.
    n_orders : int, optional
        Orders of replacing columns; by default as many as ask for 16000 rows (1000, where the
        joint's sums are not exact), from 10 to 400.
    random_state : int
        Seed of the orders and of the rows of the background.

    Returns
    -------
    FeatureEvidence

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import CDN, feature_evidence
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> Y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 0], axis=1).astype(int)
    >>> model = CDN(C=1.0, random_state=0).fit(X, Y, label_names=["a", "b"])
    >>> evidence = feature_evidence(model, X, row=4)
    >>> evidence.terms("a")[0].name
    'x0'
    >>> evidence.method, bool(abs(evidence.labels[0, 1]) > 0)
    ('linear', True)
    """
    check_choice("method", method, get_args(Method))
    if n_orders is not None:
        check_integer("n_orders", n_orders, 2)
    own = getattr(model, "feature_evidence", None)
    options: dict[str, Any] = {
        "labels": labels,
        "given": given,
        "method": method,
        "n_orders": n_orders,
        "random_state": random_state,
    }
    if own is not None:
        evidence: FeatureEvidence = own(X, row, background=background, **options)
        return evidence
    rows, other = _as_rows(X), _as_rows(X if background is None else background)
    if not -rows.shape[0] <= row < rows.shape[0]:
        raise ValueError(f"row={row!r} is not there: X has {rows.shape[0]} rows, from 0.")
    x = rows[[row]]
    if not hasattr(X, "iloc"):
        return evidence_of_row(model, x, other, plain_terms(x), **options)

    def framed(rows: Any) -> Any:  # as the model was fitted: it looks at the names
        return type(X)(rows, columns=X.columns)

    terms = plain_terms(x, [str(name) for name in X.columns])
    return evidence_of_row(model, x, other, terms, framed, **options)


def evidence_of_row(
    model: Any,
    x: Any,
    background: Any,
    terms: FeatureTerms,
    framed: Callable[[Any], Any] = lambda rows: rows,
    *,
    labels: Sequence[str | int] | None = None,
    given: Mapping[str | int, Any] | None = None,
    method: Method = "auto",
    n_orders: int | None = None,
    random_state: int = 0,
) -> FeatureEvidence:
    """Return the evidence of a row x (1, p) against rows (b, p); see `feature_evidence`.

    `framed` makes of rows what the model takes.
    """
    if background.shape[1] != x.shape[1]:
        raise ValueError(
            f"The background has {background.shape[1]} columns and X has {x.shape[1]}: give rows"
            " of the same columns."
        )
    if background.shape[0] < 2:
        raise ValueError(
            "Evidence is relative to other rows, but there is only one: give some as background,"
            " such as the training rows."
        )
    if background.shape[0] > _BACKGROUND:
        rng = np.random.default_rng(random_state)
        chosen = rng.choice(background.shape[0], _BACKGROUND, replace=False)
        background = background[np.sort(chosen)]

    def joint_at(X: Any) -> Joint:
        joint = joint_of(model, framed(X))
        return (
            joint.given_codes(codes_of_evidence(joint.space, given, X.shape[0])) if given else joint
        )

    joint = joint_at(x)
    others = LabelTerms(joint, joint.mode_codes()[0])
    positions = _chosen(others, labels, given)
    asked = ExplainedRow(model, x, background, terms, joint_at, others, positions)
    found = None if method == "shapley" else asked.linear()
    if found is not None:
        return found
    if method == "linear":
        raise ValueError(
            f"{title_of(model)} has no log-odds that are linear in its columns: use"
            ' method="shapley".'
        )
    return asked.shapley(n_orders, random_state)


def _as_rows(X: Any) -> Any:
    return check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan")


def _chosen(
    others: LabelTerms,
    labels: Sequence[str | int] | None,
    given: Mapping[str | int, Any] | None,
) -> Indices:
    """Positions of the labels to explain: those asked for, or those worth it."""
    space = others.joint.space
    if labels is not None:
        return np.array([space.index(label) for label in labels], dtype=np.intp)
    known = {space.index(label) for label in given or {}}
    unknown = np.array([i for i in range(space.n_labels) if i not in known], dtype=np.intp)
    if len(unknown) <= _ALL:
        return unknown
    sure = np.array([table.max() for table in others.tables])[unknown]
    present = others.answer[unknown] > 0 if space.is_indicator else np.zeros(len(sure), dtype=bool)
    return np.sort(unknown[np.lexsort((sure, ~present))[:_MOST]])
