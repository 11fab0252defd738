"""Yes, no or unsure for each label, with a controlled risk of being wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes
from colabel.core.schema import Ascending, Between, Dims, Fields, refuse_unless, stored
from colabel.joint import Joint
from colabel.labels import MISSING, LabelSpace

RiskName = Literal["row", "label"]
RISKS: tuple[RiskName, ...] = get_args(RiskName)


def confident_codes(joint: Joint) -> tuple[Codes, Array]:
    """Return the most probable value of each label, codes (n, d), and its probability (n, d)."""
    tables = joint.marginal_tables()
    codes = np.stack([table.argmax(axis=1) for table in tables], axis=1).astype(np.int32)
    return codes, np.stack([table.max(axis=1) for table in tables], axis=1)


@stored("held-out-errors")
@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    r"""How sure a model was of what was wrong, in rows that it had not seen.

    A label is stated if its probability exceeds a threshold t. The loss of a row, between 0 and 1,
    falls as t rises: whether any stated label is wrong, or the share of its labels that are stated
    and wrong. *Conformal risk control* takes the least t with

    .. math:: \frac{1 + \sum_i L_i(t)}{n + 1} \le 1 - \mathrm{coverage};

    the expected loss of a new row is then at most 1 - coverage.

    Attributes
    ----------
    confidence : (m,) array
        Probabilities of values that were wrong, ascending: a row's largest, or those of its labels.
    weight : (m,) array
        What each adds to the loss.
    total : float
        Number of rows held out.
    """

    confidence: Annotated[Array, "n", Between(0.0, 1.0 + 1e-6), Ascending(strictly=False)]
    weight: Annotated[Array, "n", Between(0.0)]
    total: Annotated[float, Between(0.0)]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        enough = fields["weight"].sum() <= fields["total"] * (1 + 1e-9)
        refuse_unless(enough, "weight says that more is wrong than there is")

    @classmethod
    def of_codes(cls, joint: Joint, codes: Codes, weights: Array, per: RiskName) -> HeldOutErrors:
        """Compare the joint of rows held out with their true vectors (n, d), weights (n,)."""
        values, confidence = confident_codes(joint)
        wrong = values != codes
        if per == "row":
            largest = np.where(wrong, confidence, 0.0).max(axis=1)
            found, weight = largest[wrong.any(axis=1)], weights[wrong.any(axis=1)]
        else:
            found = confidence[wrong]
            weight = np.broadcast_to(weights[:, None] / codes.shape[1], codes.shape)[wrong]
        order = np.argsort(found, kind="stable")
        return cls(found[order], weight[order], float(weights.sum()))

    @classmethod
    def joined(cls, *parts: HeldOutErrors) -> HeldOutErrors:
        """Gather the errors of several folds."""
        confidence = np.concatenate([part.confidence for part in parts])
        weight = np.concatenate([part.weight for part in parts])
        order = np.argsort(confidence, kind="stable")
        return cls(confidence[order], weight[order], sum(part.total for part in parts))

    def threshold(self, coverage: float) -> float:
        """Return the least t for which the risk is controlled; infinite if there is none."""
        allowed = (1.0 - coverage) * (self.total + 1.0) - 1.0
        if allowed < 0:
            return np.inf
        # loss[j]: what is lost if the confidence must exceed that of the j-th error
        loss = self.weight[::-1].cumsum()[::-1] - self.weight
        enough = loss <= allowed + 1e-9
        if self.weight.sum() <= allowed + 1e-9:
            return 0.0
        return float(self.confidence[enough.argmax()])

    def stated_codes(self, joint: Joint, coverage: float) -> Codes:
        """Return the codes (n, d) of the labels that are sure enough, MISSING for the others."""
        codes, confidence = confident_codes(joint)
        return np.where(confidence > self.threshold(coverage), codes, MISSING).astype(np.int32)


def stated_words(codes: Codes, space: LabelSpace) -> NDArray[Any]:
    """Write codes (n, d) as yes, no (or a value) and unsure, (n, d)."""
    columns = []
    for of_label, classes in zip(codes.T, space.classes, strict=True):
        values = ["no", "yes"] if space.is_indicator else list(map(str, classes.tolist()))
        columns.append(np.array([*values, "unsure"], dtype=object)[of_label])
    return np.stack(columns, axis=1).astype(str)
