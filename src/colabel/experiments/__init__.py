"""Studies: a plan becomes cells, cells become rows in a store, rows become statistics."""

from colabel.experiments.cells import Cell, expand
from colabel.experiments.evaluate import Outcome, evaluate
from colabel.experiments.measures import MEASURES
from colabel.experiments.plan import Plan, PlanError, load_plan
from colabel.experiments.published import Figure
from colabel.experiments.results import Comparison, Results
from colabel.experiments.runner import Runner, Summary
from colabel.experiments.statistics import Ranking, corrected_t, paired_t, rank_methods
from colabel.experiments.store import Row, Store, StoreError

__all__ = [
    "MEASURES",
    "Cell",
    "Comparison",
    "Figure",
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
    "corrected_t",
    "evaluate",
    "expand",
    "load_plan",
    "paired_t",
    "rank_methods",
]
