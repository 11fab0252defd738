"""Results and fitted models as text and figures."""

from colabel.models.evidence import (
    Exploration,
    ExploredRow,
    FeatureEvidence,
    RowExplanation,
    explain_row,
    explored_rows,
)
from colabel.models.label_graph import LabelGraph
from colabel.report.alpha_profile import alpha_profile_svg, plot_alpha_profile
from colabel.report.comparison_html import comparison_html, write_comparison_html
from colabel.report.displays import (
    CalibrationDisplay,
    JointProbabilityDisplay,
    LabelGraphDisplay,
)
from colabel.report.explanation_html import explanation_html, write_explanation_html
from colabel.report.exploration_html import exploration_html, write_exploration_html
from colabel.report.feature_drivers import plot_feature_drivers
from colabel.report.graph_plot import plot_label_graph
from colabel.report.graph_text import graph_text, label_graph
from colabel.report.label_tree import plot_label_tree
from colabel.report.reliability import Reliability, reliability
from colabel.report.tree_shape import tree_layout, tree_text

__all__ = [
    "CalibrationDisplay",
    "Exploration",
    "ExploredRow",
    "FeatureEvidence",
    "JointProbabilityDisplay",
    "LabelGraph",
    "LabelGraphDisplay",
    "Reliability",
    "RowExplanation",
    "alpha_profile_svg",
    "comparison_html",
    "explain_row",
    "explanation_html",
    "exploration_html",
    "explored_rows",
    "graph_text",
    "label_graph",
    "plot_alpha_profile",
    "plot_feature_drivers",
    "plot_label_graph",
    "plot_label_tree",
    "reliability",
    "tree_layout",
    "tree_text",
    "write_comparison_html",
    "write_explanation_html",
    "write_exploration_html",
]
