"""Which model suits a table: cross-validation, the record of held-out answers, comparisons.

The function of the same purpose is `colabel.compare`; this room is where it lives.
"""

from colabel.comparing.auditing import audit, audit_table
from colabel.comparing.comparison import (
    DEFAULT_MODELS,
    MOST_ROWS,
    ComparisonRequest,
    TableComparison,
    ordered,
)
from colabel.comparing.evaluating import Evaluation, evaluate, evaluate_table
from colabel.comparing.graphs import averaged_graph, dependence_graph
from colabel.comparing.held_out import (
    Ask,
    Fitted,
    HeldOut,
    Method,
    Task,
    answer,
    cross_validate,
    learn,
)
from colabel.comparing.result import (
    BASELINE,
    COMPARED,
    DECIDED_MEASURES,
    MEASURES,
    THRESHOLDS,
    Measure,
    ModelResult,
    recommend,
)
from colabel.comparing.running import Progress, compare, run_comparison

__all__ = [
    "BASELINE",
    "COMPARED",
    "DECIDED_MEASURES",
    "DEFAULT_MODELS",
    "MEASURES",
    "MOST_ROWS",
    "THRESHOLDS",
    "Ask",
    "ComparisonRequest",
    "Evaluation",
    "Fitted",
    "HeldOut",
    "Measure",
    "Method",
    "ModelResult",
    "Progress",
    "TableComparison",
    "Task",
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
]
