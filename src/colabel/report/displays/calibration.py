"""CalibrationDisplay: whether what is said with probability p comes true in a share p."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from colabel.joint import Joint
from colabel.joint.user_terms import codes_of_labels
from colabel.labels import MISSING
from colabel.models.wrapped import joint_of
from colabel.report._axes import ACCENT, QUIET, axes_or_new
from colabel.report.reliability import Reliability, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Of = Literal["marginals", "joint"]


class CalibrationDisplay:
    """Reliability of a model's probabilities, of single labels or of whole label sets.

    Parameters
    ----------
    reliability : Reliability
    of : {"marginals", "joint"}
        Single labels, or the most probable label set of each row.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.datasets import load_digit_traits
    >>> from colabel.report import CalibrationDisplay
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0).fit(data.X[:500], data.Y[:500])
    >>> joint = model.joint(data.X[500:])
    >>> display = CalibrationDisplay.from_joint(joint, data.Y[500:], of="joint")
    >>> bool(display.reliability.error < 0.2)
    True
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, reliability: Reliability, of: Of = "marginals") -> None:
        self.reliability = reliability
        self.of = of

    @classmethod
    def from_joint(
        cls,
        joint: Joint,
        Y: Any,
        *,
        of: Of = "marginals",
        n_bins: int = 10,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> Self:
        """Draw the reliability of a joint, given the true labels Y (n, d).

        Missing labels are left out; for whole label sets, so are rows with any.
        """
        codes = codes_of_labels(joint.space, Y, joint.n_rows)
        known = codes != MISSING
        if of == "marginals":
            tables = joint.marginal_tables()
            # of a label of two values, the second; of others, every value
            pairs = [
                (table[known[:, i], v], codes[known[:, i], i] == v)
                for i, table in enumerate(tables)
                for v in range(1 if table.shape[1] == 2 else 0, table.shape[1])
            ]
            prob = np.concatenate([p for p, _ in pairs])
            came_true = np.concatenate([t for _, t in pairs]).astype(np.float64)
        elif of == "joint":
            best = joint.mode_codes()
            prob = np.exp(joint.log_prob_codes(best))
            right = (best == codes).all(axis=1)
            came_true = np.where(known.all(axis=1), right, np.nan)
        else:
            raise ValueError(f'of is {of!r}: choose "marginals" or "joint".')
        found = reliability(np.clip(prob, 0.0, 1.0), came_true, n_bins)
        return cls(found, of).plot(ax=ax, name=name)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        *,
        of: Of = "marginals",
        n_bins: int = 10,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> Self:
        """Draw the reliability of a fitted model, or a pipeline, on rows X with labels Y."""
        joint = joint_of(estimator, X)
        return cls.from_joint(joint, Y, of=of, n_bins=n_bins, ax=ax, name=name)

    def plot(self, *, ax: Axes | None = None, name: str | None = None) -> Self:
        """Draw observed shares against predicted probabilities.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        name : str, optional
            Name in the legend.

        Returns
        -------
        self
        """
        ax = axes_or_new(ax, "calibration", 4.6, 4.4)
        found = self.reliability
        ax.plot([0, 1], [0, 1], color=QUIET, linestyle="--", linewidth=1, zorder=1)
        what = "single labels" if self.of == "marginals" else "whole label sets"
        legend = f"{name or what} (off by {found.error:.3f})"
        line = ax.plot(found.predicted, found.observed, linewidth=1.5, label=legend, zorder=2)[0]
        share = found.counts / max(1, int(found.counts.max(initial=1)))
        colour = line.get_color() or ACCENT
        ax.scatter(found.predicted, found.observed, s=12 + 90 * share, color=colour, zorder=3)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="probability said")
        ax.set_ylabel("share that came true")
        ax.set_aspect("equal")
        ax.legend(loc="upper left", frameon=False, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self
