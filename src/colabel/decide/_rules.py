"""What a decision is, and the two that need no search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from colabel.core.arrays import Codes
from colabel.core.schema import stored
from colabel.joint import Joint


class Decision(Protocol):
    """A rule that turns a joint distribution into one label vector per row."""

    needs: ClassVar[frozenset[str]]  # the questions it asks: "mode", "marginals", ...

    def __call__(self, joint: Joint) -> Codes:
        """Return codes (n, d)."""
        ...


@stored("subset")
@dataclass(frozen=True)
class Subset:
    """Minimise the expected subset 0/1 loss, 1[y != h]: announce the most probable vector.

    Examples
    --------
    >>> Subset().needs
    frozenset({'mode'})
    """

    needs: ClassVar[frozenset[str]] = frozenset({"mode"})

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the mode."""
        return joint.mode_codes()


@stored("hamming")
@dataclass(frozen=True)
class Hamming:
    """Minimise the expected Hamming loss, mean_i 1[y_i != h_i]: each label's own best value.

    A tie goes to the smaller code. For a label of two values the decision is P(y=1) > 1/2, which
    agrees with rounding the probability (NumPy rounds one half to the even number, 0).

    Examples
    --------
    >>> Hamming().needs
    frozenset({'marginals'})
    """

    needs: ClassVar[frozenset[str]] = frozenset({"marginals"})

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the most probable value of each label."""
        best = [
            # not argmax: P(y=0) may be off one half by a rounding error where P(y=1) is not
            table[:, 1] > 0.5 if table.shape[1] == 2 else table.argmax(axis=1)
            for table in joint.marginal_tables()
        ]
        return np.stack(best, axis=1).astype(np.int32)
