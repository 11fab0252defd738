"""JointProbabilityDisplay: the most probable label sets of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from colabel.core.arrays import Array
from colabel.core.optional import require
from colabel.joint import Joint
from colabel.joint.views import label_set_text
from colabel.models.wrapped import joint_of
from colabel.report._axes import ACCENT, INK, QUIET, axes_or_new

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 48


class JointProbabilityDisplay:
    """The most probable label sets of a row, with their joint probabilities.

    Parameters
    ----------
    label_sets : sequence of k str
    probabilities : array of shape (k,)
        Joint probabilities, descending.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> from colabel.report import JointProbabilityDisplay
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = Independent(space, [np.log([[0.2, 0.8]]), np.log([[0.6, 0.4]])])
    >>> display = JointProbabilityDisplay.from_joint(joint, k=2)
    >>> display.label_sets, display.probabilities.round(2).tolist()
    (('a', 'a, b'), [0.48, 0.32])
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, label_sets: Sequence[str], probabilities: Array) -> None:
        self.label_sets = tuple(label_sets)
        self.probabilities = np.asarray(probabilities, dtype=np.float64)
        if self.probabilities.shape != (len(self.label_sets),):
            raise ValueError(
                f"There are {len(self.label_sets)} label sets but probabilities of shape "
                f"{self.probabilities.shape}: give one for each."
            )

    @classmethod
    def from_joint(cls, joint: Joint, row: int = 0, *, k: int = 5, ax: Axes | None = None) -> Self:
        """Draw the k most probable label sets of one row of a joint."""
        one = joint[row]
        codes, log_prob = one.top_k_codes(one._at_most_all(k))
        texts = [label_set_text(vector, one.space) for vector in codes[0].tolist()]
        return cls(texts, np.exp(log_prob[0])).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, row: int = 0, *, k: int = 5, ax: Axes | None = None
    ) -> Self:
        """Draw the k most probable label sets of one row of X, by a fitted model or pipeline."""
        return cls.from_joint(joint_of(estimator, X)[row], k=k, ax=ax)

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a data frame (needs pandas)."""
        require("pandas", "A data frame")
        import pandas as pd

        return pd.DataFrame({"label set": self.label_sets, "probability": self.probabilities})

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw a bar for each label set.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.

        Returns
        -------
        self
        """
        n_sets = len(self.label_sets)
        ax = axes_or_new(ax, "probabilities", 6.5, 0.8 + 0.38 * n_sets)
        places = np.arange(n_sets)
        colours = [ACCENT] + [QUIET] * (n_sets - 1)
        ax.barh(places, self.probabilities, color=colours, height=0.62)
        for place, prob in enumerate(self.probabilities.tolist()):
            ax.text(prob, place, f" {prob:.3f}", va="center", ha="left", color=INK, fontsize=9)
        names = [_cut(text).replace("$", r"\$") for text in self.label_sets]
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set_xlim(0.0, max(1e-3, 1.18 * float(self.probabilities.max(initial=0.0))))
        ax.set_xlabel("joint probability")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
