"""What scikit-learn calls displays: numbers first, drawn second, from a joint or a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.lazy import require
from colabel.joint import Joint
from colabel.joint.base import label_set_text
from colabel.joint.user_terms import codes_of_labels
from colabel.labels import MISSING
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import joint_of
from colabel.report.graphs import graph_svg, label_graph, plot_label_graph
from colabel.report.pages import cut

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, ACCENT = "#1b2430", "#5c6773", "#0072b2"
Of = Literal["marginals", "joint"]


def axes_or_new(ax: Axes | None, what: str, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return the axes, or those of a new figure; a sentence if matplotlib is not there."""
    require("matplotlib", f"Drawing {what}")
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(width, height), facecolor="white", layout="constrained")
    return figure.add_subplot()


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predictions in bins of equal width; empty bins are left out.

    Attributes
    ----------
    predicted : (B,)
        Mean probability in each bin.
    observed : (B,)
        Share of them that came true.
    counts : (B,)
    """

    predicted: Array
    observed: Array
    counts: Indices

    @property
    def error(self) -> float:
        """Expected calibration error: how far observed is from predicted, averaged by counts."""
        if not self.counts.sum():
            return float("nan")
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.counts))

    def to_frame(self) -> pd.DataFrame:
        """Return the bins as a data frame (needs pandas)."""
        require("pandas", "A data frame")
        import pandas as pd

        columns = {"predicted": self.predicted, "observed": self.observed, "count": self.counts}
        return pd.DataFrame(columns)


def reliability(prob: ArrayLike, came_true: ArrayLike, n_bins: int = 10) -> Reliability:
    """Sort predictions into bins of equal width and compare them with what came true.

    Parameters
    ----------
    prob : (n,)
        Probabilities.
    came_true : (n,)
        0 or 1; NaN where it is not known.
    n_bins : int

    Examples
    --------
    >>> from colabel.report import reliability
    >>> curve = reliability([0.1, 0.2, 0.9, 0.8], [0, 1, 1, 1], n_bins=2)
    >>> curve.predicted.round(2).tolist(), curve.observed.tolist()
    ([0.15, 0.85], [0.5, 1.0])
    """
    if n_bins < 1:
        raise ValueError(f"n_bins is {n_bins}: give at least 1.")
    p = np.asarray(prob, dtype=np.float64).ravel()
    y = np.asarray(came_true, dtype=np.float64).ravel()
    if p.shape != y.shape:
        raise ValueError(f"There are {len(p)} probabilities but {len(y)} outcomes.")
    known = ~np.isnan(y)
    p, y = p[known], y[known]
    if len(p) and not (p.min() >= 0 and p.max() <= 1 + 1e-9):
        raise ValueError(f"Probabilities are between 0 and 1, but go from {p.min()} to {p.max()}.")
    bins = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    used = counts > 0
    each = np.maximum(counts, 1)
    predicted = np.bincount(bins, weights=p, minlength=n_bins) / each
    observed = np.bincount(bins, weights=y, minlength=n_bins) / each
    return Reliability(predicted[used], observed[used], counts[used])


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
        curve = reliability(np.clip(prob, 0.0, 1.0), came_true, n_bins)
        return cls(curve, of).plot(ax=ax, name=name)

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
        curve = self.reliability
        ax.plot([0, 1], [0, 1], color=QUIET, linestyle="--", linewidth=1, zorder=1)
        what = "single labels" if self.of == "marginals" else "whole label sets"
        legend = f"{name or what} (off by {curve.error:.3f})"
        line = ax.plot(curve.predicted, curve.observed, linewidth=1.5, label=legend, zorder=2)[0]
        share = curve.counts / max(1, int(curve.counts.max(initial=1)))
        colour = line.get_color() or ACCENT
        ax.scatter(curve.predicted, curve.observed, s=12 + 90 * share, color=colour, zorder=3)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="probability said")
        ax.set_ylabel("observed share")
        ax.set_aspect("equal")
        ax.legend(loc="upper left", frameon=False, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


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
        names = [cut(text, 48).replace("$", r"\$") for text in self.label_sets]
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set_xlim(0.0, max(1e-3, 1.18 * float(self.probabilities.max(initial=0.0))))
        ax.set_xlabel("joint probability")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self


class LabelGraphDisplay:
    """The label graph of a fitted model; a notebook shows it as SVG.

    Parameters
    ----------
    graph : LabelGraph

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.datasets import load_digit_traits
    >>> from colabel.report import LabelGraphDisplay
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0)
    >>> model = model.fit(data.X[:300], data.Y[:300], label_names=data.label_names)
    >>> display = LabelGraphDisplay.from_estimator(model)
    >>> display.figure_.savefig("tree.png")  # doctest: +SKIP
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, graph: LabelGraph) -> None:
        self.graph = graph

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, title: str | None = None
    ) -> Self:
        """Draw the graph that a fitted model, or a pipeline around one, has learned."""
        return cls(label_graph(estimator)).plot(ax=ax, title=title)

    def plot(self, *, ax: Axes | None = None, title: str | None = None) -> Self:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        title : str, optional

        Returns
        -------
        self
        """
        self.ax_ = plot_label_graph(self.graph, ax, title=title)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        return self

    def _repr_html_(self) -> str | None:
        """Draw it in a notebook as SVG, unless it has been drawn by matplotlib."""
        if hasattr(self, "figure_"):
            return None
        return f"<div>{graph_svg(self.graph)}</div><p>{escape(self.graph.meaning)}</p>"
