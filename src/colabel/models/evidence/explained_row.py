"""One row with what it is compared with: its evidence, by coefficients or by Shapley values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from colabel.core.arrays import Array, Indices, dense, is_sparse
from colabel.joint import Joint
from colabel.models.base import LinearLogOdds
from colabel.models.evidence.label_terms import LabelTerms, log_odds_of
from colabel.models.evidence.record import FeatureEvidence
from colabel.models.evidence.shapley import Attribution, shapley_values
from colabel.models.evidence.terms import FeatureTerms

# Rows asked about for Shapley values, unless that makes fewer or more orders than these.
_ASKED, _FEWEST, _ORDERS = 16_000, 10, 400
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


@dataclass(frozen=True)
class ExplainedRow:
    """A row and all that is needed to explain it.

    Attributes
    ----------
    model : fitted model, or a pipeline or search around one
    x : (1, p)
    background : (b, p)
        What the row is compared with.
    terms : FeatureTerms
    joint_at : function from rows to their joint
        Given what is known.
    others : LabelTerms
        The joint of x, and its answer.
    positions : (L,)
        Labels to explain.
    """

    model: Any
    x: Any
    background: Any
    terms: FeatureTerms
    joint_at: Callable[[Any], Joint]
    others: LabelTerms
    positions: Indices

    def linear(self) -> FeatureEvidence | None:
        """Return the exact terms of a model with linear log-odds; None for any other."""
        joint, answer = self.others.joint, self.others.answer
        tempered = hasattr(self.model, "calibration_")
        if tempered or not joint.space.is_binary or not hasattr(self.model, "linear_log_odds"):
            return None
        tables = self.joint_at(self.background).marginal_tables()
        usual = np.array([table[:, 1].mean() for table in tables])
        form: LinearLogOdds | None = self.model.linear_log_odds(self.x, usual)
        if form is None:
            return None
        mean = np.asarray(self.background.mean(axis=0)).ravel()
        coef = form.coef[self.positions]
        columns = self.terms.sums(coef * (_dense(self.x)[0] - mean))
        average = coef @ mean + form.intercept[self.positions]
        labels = form.weights[self.positions] * (answer - usual)
        found = self._record(
            Attribution(average, columns, np.zeros_like(columns)),
            np.pad(labels, ((0, 0), (0, 1))),
            "linear",
            _LINEAR.format(n=self.background.shape[0]),
        )
        return found if _agrees(found, joint) else None

    def shapley(self, n_orders: int | None, seed: int) -> FeatureEvidence:
        """Return Shapley values: first of the columns, then of the other labels."""
        if n_orders is None:
            asked = _ASKED if "sums" in self.others.joint.exact else _ASKED_OF_DRAWS
            n_orders = min(_ORDERS, max(_FEWEST, asked // (self.terms.n_terms + 1)))
        n_orders -= n_orders % 2  # each serves forwards and backwards
        found = shapley_values(
            self._log_odds,
            _dense(self.x)[0],
            _dense(self.background),
            self.terms.owner,
            n_orders,
            np.random.default_rng(seed),
        )
        # what the labels add starts where the columns have led to
        labels = np.stack([self.others.of(*pair) for pair in self._explained])
        used = min(self.background.shape[0], n_orders // 2)
        how = _SHAPLEY.format(orders=n_orders, n=used, seed=seed)
        return self._record(found, labels, "shapley", how)

    @property
    def _explained(self) -> list[tuple[int, int]]:
        """Labels and the codes of their values that are explained."""
        binary, answer = self.others.joint.space.is_binary, self.others.answer
        return [(int(i), 1 if binary else int(answer[i])) for i in self.positions]

    def _log_odds(self, rows: Array) -> Array:
        """Return the log-odds (n, L) of each label by itself."""
        joint = self.joint_at(sparse.csr_array(rows) if is_sparse(self.x) else rows)
        tables = joint.marginal_tables()
        return np.stack([log_odds_of(tables[i], value) for i, value in self._explained], axis=1)

    def _record(
        self,
        columns: Attribution,
        labels: Array,
        method: Literal["linear", "shapley"],
        how: str,
    ) -> FeatureEvidence:
        pairs = self._explained
        return FeatureEvidence(
            space=self.others.joint.space,
            positions=self.positions,
            answer=self.others.answer,
            values=np.array([value for _, value in pairs], dtype=np.intp),
            prob=np.array([self.others.tables[i][value] for i, value in pairs]),
            names=self.terms.names,
            shown=self.terms.values,
            average=columns.base,
            columns=columns.values,
            errors=columns.errors,
            labels=labels,
            method=method,
            how=how,
        )


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


def _dense(X: Any) -> Array:
    return np.asarray(dense(X), dtype=np.float64)
