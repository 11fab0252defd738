"""Models cross-validated on a user's own table, and which of them to take."""

from colabel.experiments.comparing.comparison import TableComparison
from colabel.experiments.comparing.own_data import compare
from colabel.experiments.comparing.recommending import BASELINE, recommend, warnings_about
from colabel.experiments.comparing.request import DEFAULT_MODELS, MOST_ROWS, ComparisonRequest
from colabel.experiments.comparing.result import THRESHOLDS, ModelResult
from colabel.experiments.comparing.running import Progress, run_comparison
from colabel.experiments.comparing.views import ordered

__all__ = [
    "BASELINE",
    "DEFAULT_MODELS",
    "MOST_ROWS",
    "THRESHOLDS",
    "ComparisonRequest",
    "ModelResult",
    "Progress",
    "TableComparison",
    "compare",
    "ordered",
    "recommend",
    "run_comparison",
    "warnings_about",
]
