"""Results and fitted models as text and figures."""

from colabel.report.label_graph import plot_alpha_profile, plot_label_graph
from colabel.report.label_tree import plot_label_tree
from colabel.report.learned_graph import LabelGraph, label_graph
from colabel.report.row_explanation import RowExplanation, explain_row
from colabel.report.tree_shape import tree_layout, tree_text

__all__ = [
    "LabelGraph",
    "RowExplanation",
    "explain_row",
    "label_graph",
    "plot_alpha_profile",
    "plot_label_graph",
    "plot_label_tree",
    "tree_layout",
    "tree_text",
]
