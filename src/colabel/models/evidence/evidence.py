"""Which columns and which other labels speak for and against each label of a row.

Shapley values: of the columns of a row by random orders, of the other labels by their joint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import factorial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator
from scipy import sparse
from sklearn.utils.validation import check_array

from colabel.core.arrays import Array, Codes, Indices, dense, is_sparse
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_choice, check_integer
from colabel.joint import Joint
from colabel.joint.user_terms import codes_of_evidence
from colabel.labels import MISSING
from colabel.models.base import LinearLogOdds
from colabel.models.evidence.record import FeatureEvidence
from colabel.models.wrapped import joint_of, title_of

_NUMBERS_AT_ONCE = 1 << 22  # in the rows that are asked about at once
_CANDIDATES = 20  # labels that are set alone, to see what each does; the least certain ones
_NAMED = 5  # of them, those with a term of their own; the others share one

MOST = float(np.log(1e9))
"""Log-odds are cut here: a probability of 1 has none."""


class Attribution(NamedTuple):
    """What terms add to some answers.

    Attributes
    ----------
    base : (m,)
        Mean of the answers for the rows that it was compared with.
    values : (m, G)
        Shapley values: ``base + values.sum(axis=1)`` are the answers for the row.
    errors : (m, G)
        Their standard errors.
    """

    base: Array
    values: Array
    errors: Array


def shapley_values(
    answer: Callable[[Array], Array],
    x: Array,
    background: Array,
    owner: Indices,
    n_orders: int,
    rng: Generator,
) -> Attribution:
    r"""Estimate what each term of a row adds to answers about it.

    With z another row and S a set of terms, let :math:`v_z(S)` be the answer for z with the terms
    in S taken from x. The Shapley value of a term is the mean of
    :math:`v_z(S \cup \{g\}) - v_z(S)` over rows z of the background and over random orders of the
    terms, S being those that come before g. Each order is also used backwards, which cancels
    interactions of two terms; along an order the differences sum to v(x) - v(z), so their means
    sum exactly too.

    Parameters
    ----------
    answer : function from rows (n, p) to answers (n, m)
    x : (p,)
    background : (b, p)
    owner : (p,)
        Term of each feature.
    n_orders : int
        Orders, forwards and backwards together.
    rng : Generator
    """
    features = [np.flatnonzero(owner == term) for term in range(int(owner.max()) + 1)]
    n_pairs = max(1, n_orders // 2)
    pairs = []
    for z in background[np.resize(rng.permutation(len(background)), n_pairs)]:
        # a term that is the same in both rows adds nothing, whatever the order
        different = [g for g, own in enumerate(features) if (x[own] != z[own]).any()]
        pairs.append((z, rng.permutation(np.array(different, dtype=np.intp))))
    longest = 2 * (len(features) + 1) * len(x)
    at_once = max(1, _NUMBERS_AT_ONCE // longest)
    base, values = [], []
    for start in range(0, n_pairs, at_once):
        part = pairs[start : start + at_once]
        paths = [_path(x, z, way, features) for z, order in part for way in (order, order[::-1])]
        found = np.split(answer(np.concatenate(paths)), np.cumsum([len(p) for p in paths])[:-1])
        for (_, order), there, back in zip(part, found[::2], found[1::2], strict=True):
            steps = np.zeros((there.shape[1], len(features)))
            steps[:, order] = np.diff(there, axis=0).T / 2.0
            steps[:, order[::-1]] += np.diff(back, axis=0).T / 2.0
            base.append(there[0])
            values.append(steps)
    spread = np.std(values, axis=0, ddof=1) if n_pairs > 1 else np.full_like(values[0], np.nan)
    return Attribution(np.mean(base, axis=0), np.mean(values, axis=0), spread / np.sqrt(n_pairs))


def _path(x: Array, z: Array, order: Indices, features: list[Indices]) -> Array:
    """Return z, and z with ever more terms of x, in their order; the last is as x."""
    rows = np.tile(z, (len(order) + 1, 1))
    for step, term in enumerate(order, start=1):
        rows[step:, features[term]] = x[features[term]]
    return rows


def log_odds_of(table: Array, value: int) -> Array:
    """Return log P(v) - log P(not v), cut, from probabilities (n, K)."""
    with np.errstate(divide="ignore"):
        return _log_odds(np.log(table), value)


def _log_odds(log_prob: Array, value: int) -> Array:
    """Return the log-odds (n,) of one of K values with log-probabilities (n, K), cut."""
    others = np.delete(log_prob, value, axis=1)
    rest = log_sum_exp(others, axis=1) if others.shape[1] else np.full(len(log_prob), -np.inf)
    both = np.stack([log_prob[:, value], rest])
    # what is impossible altogether says nothing
    known = np.isfinite(both).any(axis=0)
    with np.errstate(invalid="ignore"):
        return np.clip(np.where(known, both[0] - both[1], 0.0), -MOST, MOST)


class LabelTerms:
    r"""The joint of one row and an answer: what some labels of it say of another.

    :math:`v(T)` is the log-odds of a label given that the labels in T have the values of the
    answer. The terms are the Shapley values of v: exact over the five labels that change it most
    when set alone, and all the others together as a sixth.

    Parameters
    ----------
    joint : Joint
        Of one row.
    answer : (d,)
        Codes.
    """

    def __init__(self, joint: Joint, answer: Codes) -> None:
        self.joint, self.answer = joint, answer
        self.tables = [table[0] for table in joint.marginal_tables()]
        sure = [table[code] for table, code in zip(self.tables, answer, strict=True)]
        self.candidates: Indices = np.sort(np.argsort(sure, kind="stable")[:_CANDIDATES])

    def given(self, label: int, value: int, known: list[list[int]]) -> Array:
        """Return v of each of some lists of labels, (len(known),)."""
        size = len(self.tables[label])
        codes = np.full((len(known), size, len(self.answer)), MISSING, dtype=np.int32)
        for place, labels in enumerate(known):
            codes[place, :, labels] = self.answer[labels, None]
        codes[:, :, label] = np.arange(size)
        flat = codes.reshape(-1, len(self.answer))
        repeated = self.joint.rows(np.zeros(len(flat), dtype=np.intp))
        return _log_odds(repeated.log_prob_codes(flat).reshape(len(known), size), value)

    def of(self, label: int, value: int) -> Array:
        """Return the terms (d + 1,): of each label, and of all without a term of their own."""
        terms = np.zeros(len(self.answer) + 1)
        others = [int(j) for j in self.candidates if j != label]
        if len(self.answer) < 2:
            return terms
        alone = float(log_odds_of(self.tables[label][None], value)[0])  # nothing being known
        effects = np.abs(self.given(label, value, [[j] for j in others]) - alone)
        named = [others[k] for k in np.argsort(-effects, kind="stable")[:_NAMED]]
        rest = [j for j in range(len(self.answer)) if j != label and j not in named]
        players = [[j] for j in named] + ([rest] if rest else [])
        subsets = [*chain(*(combinations(range(len(players)), k) for k in range(len(players) + 1)))]
        known = [[j for player in subset for j in players[player]] for subset in subsets]
        found = dict(zip(subsets, self.given(label, value, known).tolist(), strict=True))
        found[()] = alone
        shares = _shapley(found, len(players))
        terms[named] = shares[: len(named)]
        terms[-1] = shares[len(named) :].sum()
        return terms


def _shapley(value: dict[tuple[int, ...], float], n_players: int) -> Array:
    r"""Shapley values from v of every subset: means of v(S + g) - v(S) over all orders.

    .. math:: \sum_S \frac{|S|! \, (n - |S| - 1)!}{n!} \left( v(S \cup g) - v(S) \right)
    """
    shares = np.zeros(n_players)
    for subset, before in value.items():
        for player in set(range(n_players)) - set(subset):
            after = value[tuple(sorted((*subset, player)))]
            weight = factorial(len(subset)) * factorial(n_players - len(subset) - 1)
            shares[player] += weight * (after - before)
    return shares / factorial(n_players)


Method = Literal["auto", "linear", "shapley"]

_BACKGROUND = 200  # rows of the background that are looked at
_ALL, _MOST = 12, 8  # labels that are all explained; else, how many
# Rows asked about for Shapley values, unless that makes fewer or more orders than these.
_ASKED, _FEWEST, _ORDERS = 16_000, 10, 400
_ASKED_OF_DRAWS = 1000  # where each answer is a mean of draws, and so takes long
_TOLERANCE = 1e-6  # of the sum, relative to the log-odds


@dataclass(frozen=True)
class FeatureTerms:
    """What the evidence of a row is told by: G terms, each of one or several features.

    Attributes
    ----------
    names : tuple of G str
    values : tuple of G str
        What the row has there, as it is shown; "" where the name says it all.
    owner : (p,) array of int
        The term that each feature belongs to.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    owner: Indices

    def sums(self, of_features: Array) -> Array:
        """Sum numbers (m, p) of features by term, (m, G)."""
        total = np.zeros((len(of_features), len(self.names)))
        np.add.at(total.T, self.owner, of_features.T)
        return total


def plain_terms(x: Any, names: Sequence[str] | None = None) -> FeatureTerms:
    """Return the terms of a row x (1, p): each feature; of sparse rows the zeros together."""
    n_features = int(x.shape[1])
    if names is None:
        names = [f"x{i}" for i in range(n_features)]
    if not is_sparse(x):
        values = tuple(f"{value:.4g}" for value in np.asarray(x)[0].tolist())
        return FeatureTerms(tuple(names), values, np.arange(n_features))
    row = np.asarray(x.toarray())[0]
    present = np.flatnonzero(row)
    owner = np.full(n_features, len(present), dtype=np.intp)
    owner[present] = np.arange(len(present))
    absent = [] if len(present) == n_features else ["features that are 0"]
    return FeatureTerms(
        (*(names[int(i)] for i in present), *absent),
        (*(f"{row[i]:.4g}" for i in present), *([""] * len(absent))),
        owner,
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
    # labels and the codes of their values that are explained
    pairs = [(int(i), 1 if joint.space.is_binary else int(others.answer[i])) for i in positions]

    def record(
        columns: Attribution, labels: Array, method: Literal["linear", "shapley"], how: str
    ) -> FeatureEvidence:
        return FeatureEvidence(
            space=joint.space,
            positions=positions,
            answer=others.answer,
            values=np.array([value for _, value in pairs], dtype=np.intp),
            prob=np.array([others.tables[i][value] for i, value in pairs]),
            names=terms.names,
            shown=terms.values,
            average=columns.base,
            columns=columns.values,
            errors=columns.errors,
            labels=labels,
            method=method,
            how=how,
        )

    n_rows = background.shape[0]
    if method != "shapley":
        linear = _linear(model, x, background, terms, joint_at, others, positions)
        if linear is not None:
            how = (
                "Exact: the log-odds of a label given the others are linear in the columns; each"
                f" term is measured from the mean of {n_rows} rows."
            )
            found = record(*linear, "linear", how)
            if _agrees(found, joint):
                return found
    if method == "linear":
        raise ValueError(
            f"{title_of(model)} has no log-odds that are linear in its columns: use"
            ' method="shapley".'
        )
    if n_orders is None:
        asked = _ASKED if "sums" in joint.exact else _ASKED_OF_DRAWS
        n_orders = min(_ORDERS, max(_FEWEST, asked // (len(terms.names) + 1)))
    n_orders -= n_orders % 2  # each serves forwards and backwards

    def log_odds(rows: Array) -> Array:
        """Return the log-odds (n, L) of each label by itself."""
        tables = joint_at(sparse.csr_array(rows) if is_sparse(x) else rows).marginal_tables()
        return np.stack([log_odds_of(tables[i], value) for i, value in pairs], axis=1)

    rng = np.random.default_rng(random_state)
    row, around = (np.asarray(dense(rows), dtype=np.float64) for rows in (x, background))
    columns = shapley_values(log_odds, row[0], around, terms.owner, n_orders, rng)
    how = (
        "The columns' terms are Shapley values of the log-odds of each label by itself, estimated"
        f" from {n_orders} random orders of replacing the columns of"
        f" {min(n_rows, n_orders // 2)} other rows (seed {random_state}); those of the other labels"
        " are computed from the joint."
    )
    # what the labels add starts where the columns have led to
    return record(columns, np.stack([others.of(*pair) for pair in pairs]), "shapley", how)


def _linear(
    model: Any,
    x: Any,
    background: Any,
    terms: FeatureTerms,
    joint_at: Callable[[Any], Joint],
    others: LabelTerms,
    positions: Indices,
) -> tuple[Attribution, Array] | None:
    """Terms of the columns, and (L, d + 1) of the labels; None without linear log-odds."""
    tempered, binary = hasattr(model, "calibration_"), others.joint.space.is_binary
    if tempered or not binary or not hasattr(model, "linear_log_odds"):
        return None
    usual = np.array([table[:, 1].mean() for table in joint_at(background).marginal_tables()])
    form: LinearLogOdds | None = model.linear_log_odds(x, usual)
    if form is None:
        return None
    mean, coef = np.asarray(background.mean(axis=0)).ravel(), form.coef[positions]
    row = np.asarray(dense(x), dtype=np.float64)[0]
    columns = terms.sums(coef * (row - mean))
    average = coef @ mean + form.intercept[positions]
    labels = form.weights[positions] * (others.answer - usual)
    return Attribution(average, columns, np.zeros_like(columns)), np.pad(labels, ((0, 0), (0, 1)))


def _agrees(found: FeatureEvidence, joint: Joint) -> bool:
    """Whether the sums are the log-odds that the joint has, where it knows them exactly.

    They are not where the joint is restricted to some label vectors.
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
