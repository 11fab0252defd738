from colabel.models.evidence.record import Exploration as Exploration
from colabel.models.evidence.record import ExploredRow as ExploredRow
from colabel.models.evidence.record import FeatureEvidence as FeatureEvidence
from colabel.models.evidence.record import RowExplanation as RowExplanation
from colabel.models.evidence.record import explain_row as explain_row
from colabel.models.evidence.record import explored_rows as explored_rows
from colabel.models.label_graph import LabelGraph as LabelGraph
from colabel.report.comparison_page import comparison_html as comparison_html
from colabel.report.displays import CalibrationDisplay as CalibrationDisplay
from colabel.report.displays import JointProbabilityDisplay as JointProbabilityDisplay
from colabel.report.displays import LabelGraphDisplay as LabelGraphDisplay
from colabel.report.displays import Reliability as Reliability
from colabel.report.displays import reliability as reliability
from colabel.report.graphs import graph_svg as graph_svg
from colabel.report.graphs import graph_text as graph_text
from colabel.report.graphs import label_graph as label_graph
from colabel.report.graphs import plot_label_graph as plot_label_graph
from colabel.report.pages import write_page as write_page
from colabel.report.row_pages import explanation_html as explanation_html
from colabel.report.row_pages import exploration_html as exploration_html
from colabel.report.score_pages import audit_html as audit_html
from colabel.report.score_pages import evaluation_html as evaluation_html

__all__ = [
    "CalibrationDisplay",
    "FeatureEvidence",
    "JointProbabilityDisplay",
    "LabelGraph",
    "LabelGraphDisplay",
    "RowExplanation",
    "comparison_html",
    "explain_row",
    "explanation_html",
    "exploration_html",
    "graph_svg",
    "graph_text",
    "label_graph",
    "plot_label_graph",
    "reliability",
]
