"""Studies: a plan becomes cells, cells become rows in a store, rows become statistics."""

from colabel.experiments.cells import Cell, expand
from colabel.experiments.comparing import (
    ComparisonRequest,
    TableComparison,
    compare,
    run_comparison,
)
from colabel.experiments.cross_validation import cross_validate
from colabel.experiments.evaluate import Outcome, evaluate
from colabel.experiments.held_out import HeldOut, Method, Task
from colabel.experiments.measures import MEASURES
from colabel.experiments.plan import Plan, PlanError, load_plan
from colabel.experiments.profiles import EdgeProfile, edge_profiles
from colabel.experiments.published import Figure
from colabel.experiments.results import Comparison, Results
from colabel.experiments.runner import Runner, Summary
from colabel.experiments.statistics import Ranking, corrected_t, paired_t, rank_methods
from colabel.experiments.store import Row, Store, StoreError

__all__ = [
    "MEASURES",
    "Cell",
    "Comparison",
    "ComparisonRequest",
    "EdgeProfile",
    "Figure",
    "HeldOut",
    "Method",
    "Outcome",
    "Plan",
    "PlanError",
    "Ranking",
    "Results",
    "Row",
    "Runner",
    "Store",
    "StoreError",
    "Summary",
    "TableComparison",
    "Task",
    "compare",
    "corrected_t",
    "cross_validate",
    "edge_profiles",
    "evaluate",
    "expand",
    "load_plan",
    "paired_t",
    "rank_methods",
    "run_comparison",
]
