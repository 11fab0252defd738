"""Which columns and which other labels speak for and against each label of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from colabel.core.arrays import Array, Codes, Indices, is_sparse
from colabel.joint import Joint
from colabel.joint.user_terms import codes_of_evidence
from colabel.labels import LabelSpace
from colabel.models.evidence.label_terms import LabelTerms, log_odds_of
from colabel.models.evidence.record import FeatureEvidence
from colabel.models.evidence.shapley import shapley_values
from colabel.models.evidence.terms import FeatureTerms, plain_terms
from colabel.models.linear_log_odds import LinearLogOdds
from colabel.models.wrapped import joint_of, title_of

Method = Literal["auto", "linear", "shapley"]

_BACKGROUND = 200  # rows of the background that are looked at
_ALL, _MOST = 12, 8  # labels that are all explained; else, how many
# Rows asked about for Shapley values, unless that makes fewer or more orders than these.
_ASKED, _FEWEST, _ORDERS = 4000, 10, 100
_ASKED_OF_DRAWS = 1000  # where each answer is a mean of draws, and so takes long
_TOLERANCE = 1e-6  # of the sum, relative to the log-odds
_LINEAR = (
    "Exact: the log-odds of a label given the others are linear in the columns; each term is "
    "measured from the mean of {n} rows."
)
_SHAPLEY = (
    "Shapley values of the log-odds of each label by itself, from {orders} random orders of "
    "replacing the columns of {n} other rows (seed {seed}); then of the other labels, in the joint."
)


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
        Orders of replacing columns; by default as many as ask for 4000 rows (1000, where the
        joint's sums are not exact), from 10 to 100.
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
    if method not in get_args(Method):
        raise ValueError(f'method={method!r} must be "auto", "linear" or "shapley".')
    if n_orders is not None and n_orders < 2:
        raise ValueError(f"n_orders={n_orders!r} must be at least 2.")
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
    if not hasattr(X, "columns"):
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
    rng = np.random.default_rng(random_state)
    if background.shape[0] > _BACKGROUND:
        chosen = rng.choice(background.shape[0], _BACKGROUND, replace=False)
        background = background[np.sort(chosen)]

    def joint_at(X: Any) -> Joint:
        joint = joint_of(model, framed(X))
        return (
            joint.given_codes(codes_of_evidence(joint.space, given, X.shape[0])) if given else joint
        )

    joint = joint_at(x)
    answer = joint.mode_codes()[0]
    others = LabelTerms(joint, answer)
    positions = _chosen(joint.space, labels, answer, others.tables, given)
    found = None
    if method != "shapley":
        found = _linear(model, x, background, terms, joint_at, joint, answer, positions)
        if found is None and method == "linear":
            raise ValueError(
                f"{title_of(model)} has no log-odds that are linear in its columns: use"
                ' method="shapley".'
            )
    if found is None:
        found = _shapley(
            x, background, terms, joint_at, others, positions, n_orders, random_state, rng
        )
    return found


def _as_rows(X: Any) -> Any:
    return check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan")


def _chosen(
    space: LabelSpace,
    labels: Sequence[str | int] | None,
    answer: Codes,
    tables: list[Array],
    given: Mapping[str | int, Any] | None,
) -> Indices:
    """Positions of the labels to explain: those asked for, or those worth it."""
    if labels is not None:
        return np.array([space.index(label) for label in labels], dtype=np.intp)
    known = {space.index(label) for label in given or {}}
    open_labels = np.array([i for i in range(space.n_labels) if i not in known], dtype=np.intp)
    if len(open_labels) <= _ALL:
        return open_labels
    sure = np.array([table.max() for table in tables])[open_labels]
    present = answer[open_labels] > 0 if space.is_indicator else np.zeros(len(sure), dtype=bool)
    return np.sort(open_labels[np.lexsort((sure, ~present))[:_MOST]])


def _linear(
    model: Any,
    x: Any,
    background: Any,
    terms: FeatureTerms,
    joint_at: Callable[[Any], Joint],
    joint: Joint,
    answer: Codes,
    positions: Indices,
) -> FeatureEvidence | None:
    """Return the exact terms of a model with linear log-odds; None for any other."""
    tempered = hasattr(model, "calibration_")
    if tempered or not joint.space.is_binary or not hasattr(model, "linear_log_odds"):
        return None
    others = np.stack([table[:, 1].mean() for table in joint_at(background).marginal_tables()])
    form: LinearLogOdds | None = model.linear_log_odds(x, others)
    if form is None:
        return None
    mean = np.asarray(background.mean(axis=0)).ravel()
    row = _dense(x)[0]
    coef = form.coef[positions]
    weights = form.weights[positions]
    labels = np.zeros((len(positions), len(answer) + 1))
    labels[:, :-1] = weights * (answer - others)
    tables = joint.marginal_tables()
    found = FeatureEvidence(
        space=joint.space,
        positions=positions,
        answer=answer,
        values=np.ones(len(positions), dtype=np.intp),
        prob=np.array([tables[i][0, 1] for i in positions]),
        names=terms.names,
        shown=terms.values,
        average=coef @ mean + form.intercept[positions],
        columns=terms.sums(coef * (row - mean)),
        errors=np.zeros((len(positions), terms.n_terms)),
        labels=labels,
        method="linear",
        how=_LINEAR.format(n=background.shape[0]),
    )
    return found if _agrees(found, joint) else None


def _agrees(found: FeatureEvidence, joint: Joint) -> bool:
    """Whether the sums are the log-odds that the joint has, where it knows them exactly.

    They are not where the joint is tempered, or restricted to some label vectors.
    """
    if "log_prob" not in joint.exact:
        return True
    both = np.repeat(found.answer[None], 2 * len(found.positions), axis=0)
    both[np.arange(len(both)), np.repeat(found.positions, 2)] = np.tile([0, 1], len(both) // 2)
    same = joint.rows(np.zeros(len(both), dtype=np.intp))
    log_prob = same.log_prob_codes(both.astype(np.int32)).reshape(-1, 2)
    if not np.isfinite(log_prob).all():
        return False
    true = log_prob[:, 1] - log_prob[:, 0]
    return bool(np.allclose(found.log_odds, true, rtol=_TOLERANCE, atol=_TOLERANCE))


def _shapley(
    x: Any,
    background: Any,
    terms: FeatureTerms,
    joint_at: Callable[[Any], Joint],
    others: LabelTerms,
    positions: Indices,
    n_orders: int | None,
    seed: int,
    rng: np.random.Generator,
) -> FeatureEvidence:
    joint, answer = others.joint, others.answer
    values = np.ones(len(positions), dtype=np.intp) if joint.space.is_binary else answer[positions]

    def log_odds(rows: Array) -> Array:
        asked = sparse.csr_array(rows) if is_sparse(x) else rows
        tables = joint_at(asked).marginal_tables()
        of_labels = [log_odds_of(tables[i], v) for i, v in zip(positions, values, strict=True)]
        return np.stack(of_labels, axis=1)

    if n_orders is None:
        asked = _ASKED if "sums" in joint.exact else _ASKED_OF_DRAWS
        n_orders = min(_ORDERS, max(_FEWEST, asked // (terms.n_terms + 1)))
    n_orders -= n_orders % 2  # each serves forwards and backwards
    found = shapley_values(log_odds, _dense(x)[0], _dense(background), terms.owner, n_orders, rng)
    # What the labels add starts where the columns have led to.
    labels = np.stack([others.of(int(i), int(v)) for i, v in zip(positions, values, strict=True)])
    used = min(background.shape[0], n_orders // 2)
    return FeatureEvidence(
        space=joint.space,
        positions=positions,
        answer=answer,
        values=np.asarray(values, dtype=np.intp),
        prob=np.array([others.tables[i][v] for i, v in zip(positions, values, strict=True)]),
        names=terms.names,
        shown=terms.values,
        average=found.base,
        columns=found.values,
        errors=found.errors,
        labels=labels,
        method="shapley",
        how=_SHAPLEY.format(orders=n_orders, n=used, seed=seed),
    )


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
