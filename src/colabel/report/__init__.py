"""Results and fitted models as text, figures and pages."""

from colabel.models.evidence.record import FeatureEvidence
from colabel.models.evidence.rows import (
    Exploration,
    ExploredRow,
    RowExplanation,
    explain_row,
    explored_rows,
)
from colabel.models.label_graph import LabelGraph
from colabel.report.comparison_page import comparison_html, write_comparison_html
from colabel.report.displays import (
    CalibrationDisplay,
    JointProbabilityDisplay,
    LabelGraphDisplay,
    Reliability,
    reliability,
)
from colabel.report.figures import plot_alpha_profile, plot_feature_drivers
from colabel.report.graphs import graph_svg, graph_text, label_graph, plot_label_graph
from colabel.report.row_pages import (
    explanation_html,
    exploration_html,
    write_explanation_html,
    write_exploration_html,
)
from colabel.report.score_pages import write_audit_html, write_evaluation_html

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
    "comparison_html",
    "explain_row",
    "explanation_html",
    "exploration_html",
    "explored_rows",
    "graph_svg",
    "graph_text",
    "label_graph",
    "plot_alpha_profile",
    "plot_feature_drivers",
    "plot_label_graph",
    "reliability",
    "write_audit_html",
    "write_comparison_html",
    "write_evaluation_html",
    "write_explanation_html",
    "write_exploration_html",
]
