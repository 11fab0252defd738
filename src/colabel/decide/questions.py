"""What to ask next: the label whose value would reduce the expected loss most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.lazy import require
from colabel.decide.decisions import DECISIONS, RiskMinimiser, resolve_decision
from colabel.joint import Joint
from colabel.labels import MISSING, LabelSpace

if TYPE_CHECKING:
    import pandas as pd

LOSSES = (*(name for name, rule in DECISIONS.items() if isinstance(rule, RiskMinimiser)), "log")
"""Losses of a row by name; the expectation of each is known."""
_TIED = 1e-9  # gains that differ by less are equal
_CERTAIN = 1e-12  # smaller probabilities count as zero


@dataclass(frozen=True, eq=False)
class Questions:
    """How useful it is to ask for each label of each row.

    Attributes
    ----------
    space : LabelSpace
    risk : (n,) array
        Expected loss of the best answer, as things are.
    gain : (n, d) array
        How much of it the label's value would remove on average; 0 for labels that are certain.
    is_open : (n, d) array of bool
        Labels that are not certain.
    """

    space: LabelSpace
    risk: Array
    gain: Array
    is_open: Flags

    @property
    def order(self) -> Indices:
        """Positions (n, d) of the labels, the most useful first, certain ones last.

        Labels that are equally useful but for rounding errors keep their order.
        """
        cost = np.where(self.is_open, -self.gain, 1.0)
        order = np.argsort(cost, axis=1, kind="stable")
        steps = np.diff(np.take_along_axis(cost, order, axis=1), axis=1, prepend=-np.inf)
        group = np.cumsum(steps > _TIED, axis=1)
        return np.take_along_axis(order, np.lexsort((order, group), axis=1), axis=1)

    @property
    def labels(self) -> NDArray[Any]:
        """Name (n,) of the label to ask first; None where all labels are certain."""
        names = np.array([*self.space.names, None], dtype=object)
        first: NDArray[Any] = names[np.where(self.is_open.any(axis=1), self.order[:, 0], -1)]
        return first

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one line per row: the label to ask, its gain, the risk."""
        require("pandas", "A data frame")
        import pandas as pd

        gain = self.gain.max(axis=1, initial=0.0)
        return pd.DataFrame({"ask": self.labels, "gain": gain, "risk": self.risk})


def next_question(joint: Joint, loss: str | RiskMinimiser = "subset") -> Questions:
    r"""Rank the labels of each row by the expected loss that knowing them would remove.

    With :math:`R(P) = \min_h E_{y \sim P}[\ell(y, h)]`, the expected loss of the best decision,
    the value of asking for label j is

    .. math:: R(P) - \sum_v P(y_j = v) \, R(P(\cdot \mid y_j = v)) \ge 0,

    the *expected value of sample information*. It is exact where the joint answers exactly what
    the loss needs ("mode" and "log_prob" for ``"subset"``, "sums" for the others); draws may make
    it slightly negative, which is then written as 0. Only one question is looked ahead.

    The loss ``"log"`` is -log P(y), whose expectation is the entropy of the joint: a label's value
    removes the entropy of the label from it. That looks farthest ahead where several questions
    will be asked of a row.

    Parameters
    ----------
    joint : Joint
        Condition it on the labels that are already known, by ``joint.given``.
    loss : {"subset", "hamming", "f1", "jaccard", "log"} or object with `risk`
        What a wrong answer costs, see `decide`; or, with ``"log"``, to be unsure.

    Returns
    -------
    Questions
        `labels` (n,), the names to ask first; `gain` (n, d) and `risk` (n,), which with ``"log"``
        is NaN for families that do not know their entropy.

    Examples
    --------
    Whether it has rained says most about all three labels.

    >>> import numpy as np
    >>> from colabel.joint import Tree
    >>> from colabel.labels import LabelSpace
    >>> names = "umbrella", "rain", "puddles"
    >>> space = LabelSpace(names, (np.array([0, 1]),) * 3, "matrix")
    >>> rain, seen = np.log([[[0.5, 0.5]]]), np.log([[[0.8, 0.2], [0.2, 0.8]]])
    >>> joint = Tree(space, parents=[1, -1, 1], log_tables=[seen, rain, seen])
    >>> found = next_question(joint, "hamming")
    >>> found.labels, found.gain.round(2), found.risk.round(2)
    (array(['rain'], dtype=object), array([[0.33, 0.37, 0.33]]), array([0.5]))
    >>> next_question(joint.given({"rain": 1, "umbrella": 0}), "hamming").labels
    array(['puddles'], dtype=object)
    """
    tables = joint.marginal_tables()
    is_open = np.stack([table.max(axis=1) < 1.0 - _CERTAIN for table in tables], axis=1)
    if loss == "log":
        risk, gain = _entropy(joint), np.stack([entr(t).sum(axis=1) for t in tables], axis=1)
    else:
        rule = _risk_minimiser(loss)
        risk = rule.risk(joint)
        gain = risk[:, None] - _left(joint, rule, tables, is_open)
    return Questions(joint.space, risk, np.where(is_open, np.maximum(gain, 0.0), 0.0), is_open)


def _left(joint: Joint, rule: RiskMinimiser, tables: list[Array], is_open: Flags) -> Array:
    """Risk (n, d) that is left on average when a label is known."""
    left = np.zeros(is_open.shape)
    for label, table in enumerate(tables):
        for value, prob in enumerate(table.T):
            rows = np.flatnonzero(is_open[:, label] & (prob > _CERTAIN))
            if rows.size:
                evidence = np.full((rows.size, joint.space.n_labels), MISSING, dtype=np.int32)
                evidence[:, label] = value
                known = joint.rows(rows).given_codes(evidence)
                left[rows, label] += prob[rows] * rule.risk(known)
    return left


def _entropy(joint: Joint) -> Array:
    try:
        return joint.entropy()
    except NotImplementedError:  # gains do not need it
        return np.full(joint.n_rows, np.nan)


def _risk_minimiser(loss: str | RiskMinimiser) -> RiskMinimiser:
    rule = loss if isinstance(loss, RiskMinimiser) else resolve_decision(loss)
    if not isinstance(rule, RiskMinimiser):
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(
            f"The decision {rule!r} has no risk(joint), the expected loss of its answer: choose"
            f" one of {known}, or give it one."
        )
    return rule
