"""How many label sets a model must list to hold the true one, measured on rows held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from colabel.comparing.held_out import Ask, Method, OwnCodes, Task, answer, learn
from colabel.core.arrays import Array
from colabel.decide import Nonconformity, measured_coverage
from colabel.labels import MISSING

_MOST = 1000


@dataclass(frozen=True)
class CoveredSets:
    """Sets of label vectors of rows held out, see `colabel.decide.measured_coverage`.

    Attributes
    ----------
    coverage : float
        Asked for.
    covered, size, cut : (n_folds,) array
        Share of the rows whose set has the true vector, vectors a row, share of the rows whose set
        has more than are listed.
    """

    coverage: float
    covered: Array
    size: Array
    cut: Array

    @classmethod
    def of(cls, method: Method, task: Task, folds: Any, coverage: float) -> Self | None:
        """Fit a method to each training fold and measure its sets; None if it cannot list any."""
        lines = []
        for train, test in folds:
            ask = Ask(marginals=False, confidence=False, joint=True)
            held = answer(learn(method, task, train), task, test, ask)
            if held.joint is None:
                return None
            own, seen = OwnCodes(task.space, held.joint.space).to_own(held.true)
            complete = (held.true != MISSING).all(axis=1)
            rows = np.flatnonzero(seen & complete)
            try:
                rule = Nonconformity("mass", _MOST)
                true = held.joint.space.values(own[rows])
                found = measured_coverage(held.joint.rows(rows), true, coverage, rule)
            except (ValueError, NotImplementedError):  # too few rows, or a family without lists
                return None
            # a value that no training row has is in no set
            covered = found.covered.sum() / complete.sum()
            lines.append((covered, found.size.mean(), found.cut.mean()))
        return cls(coverage, *np.array(lines).T)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "coverage": self.coverage,
            "covered": self.covered.tolist(),
            "size": self.size.tolist(),
            "cut": self.cut.tolist(),
        }

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        error = ""
        if len(self.covered) > 1:
            error = f" ± {self.covered.std(ddof=1) / np.sqrt(len(self.covered)):.3f}"
        cut = f" In {self.cut.mean():.0%} of the rows more than {_MOST} would be needed."
        return (
            f"Fitted with --conformal, for a coverage of {self.coverage:g} it lists "
            f"{self.size.mean():.1f} label sets a row; of the rows held out "
            f"{self.covered.mean():.3f}{error} have the true one among them."
            f"{cut * bool(self.cut.any())}"
        )
