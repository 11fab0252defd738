"""LabelGraphDisplay: which label depends on which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from colabel.models.label_graph import LabelGraph
from colabel.report.graph_plot import plot_label_graph
from colabel.report.graph_text import label_graph
from colabel.report.label_tree import plot_label_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class LabelGraphDisplay:
    """The label graph of a fitted model, as a tree or on a circle.

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
        graph = self.graph
        if graph.parents is not None:
            self.ax_ = plot_label_tree(
                graph.parents, graph.names, strengths=graph.into_labels, ax=ax, title=title
            )
        else:
            self.ax_ = plot_label_graph(
                graph.ends, graph.names, graph.strengths, graph.signs, ax, title=title
            )
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        return self
