"""Which model suits a table: cross-validation, the record of held-out answers, comparisons.

The function of the same purpose is `colabel.compare`; this room is where it lives.
"""

from colabel.comparing.auditing import audit, audit_table
from colabel.comparing.comparison import TableComparison, ordered
from colabel.comparing.cross_validation import cross_validate
from colabel.comparing.evaluating import (
    Confusion,
    Evaluation,
    LabelScores,
    Value,
    evaluate,
    evaluate_table,
)
from colabel.comparing.graphs import averaged_graph, dependence_graph
from colabel.comparing.held_out import Ask, Fitted, HeldOut, Method, Task, answer, learn
from colabel.comparing.measures import MEASURES, Measure
from colabel.comparing.own_data import compare
from colabel.comparing.request import DEFAULT_MODELS, MOST_ROWS, ComparisonRequest
from colabel.comparing.result import BASELINE, THRESHOLDS, ModelResult, recommend, warnings_about
from colabel.comparing.running import Progress, run_comparison

__all__ = [
    "BASELINE",
    "DEFAULT_MODELS",
    "MEASURES",
    "MOST_ROWS",
    "THRESHOLDS",
    "Ask",
    "ComparisonRequest",
    "Confusion",
    "Evaluation",
    "Fitted",
    "HeldOut",
    "LabelScores",
    "Measure",
    "Method",
    "ModelResult",
    "Progress",
    "TableComparison",
    "Task",
    "Value",
    "answer",
    "audit",
    "audit_table",
    "averaged_graph",
    "compare",
    "cross_validate",
    "dependence_graph",
    "evaluate",
    "evaluate_table",
    "learn",
    "ordered",
    "recommend",
    "run_comparison",
    "warnings_about",
]
