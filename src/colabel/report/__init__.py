"""Results and fitted models as text and figures."""

from colabel.report.feature_drivers import plot_feature_drivers
from colabel.report.label_graph import plot_alpha_profile, plot_label_graph
from colabel.report.label_tree import plot_label_tree
from colabel.report.tree_shape import tree_layout, tree_text

__all__ = [
    "plot_alpha_profile",
    "plot_feature_drivers",
    "plot_label_graph",
    "plot_label_tree",
    "tree_layout",
    "tree_text",
]
