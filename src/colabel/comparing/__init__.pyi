from colabel.comparing.auditing import audit as audit
from colabel.comparing.auditing import audit_table as audit_table
from colabel.comparing.comparison import DEFAULT_MODELS as DEFAULT_MODELS
from colabel.comparing.comparison import MOST_ROWS as MOST_ROWS
from colabel.comparing.comparison import TableComparison as TableComparison
from colabel.comparing.comparison import ordered as ordered
from colabel.comparing.evaluating import Description as Description
from colabel.comparing.evaluating import Evaluation as Evaluation
from colabel.comparing.evaluating import dependence_graph as dependence_graph
from colabel.comparing.evaluating import describe as describe
from colabel.comparing.evaluating import evaluate as evaluate
from colabel.comparing.evaluating import evaluate_table as evaluate_table
from colabel.comparing.held_out import Ask as Ask
from colabel.comparing.held_out import HeldOut as HeldOut
from colabel.comparing.held_out import Task as Task
from colabel.comparing.held_out import answer as answer
from colabel.comparing.held_out import cross_validate as cross_validate
from colabel.comparing.held_out import learn as learn
from colabel.comparing.result import BASELINE as BASELINE
from colabel.comparing.result import MEASURES as MEASURES
from colabel.comparing.result import THRESHOLDS as THRESHOLDS
from colabel.comparing.result import Measure as Measure
from colabel.comparing.result import ModelResult as ModelResult
from colabel.comparing.result import recommend as recommend
from colabel.comparing.running import Progress as Progress
from colabel.comparing.running import compare as compare

__all__ = [
    "MEASURES",
    "Ask",
    "Evaluation",
    "HeldOut",
    "Measure",
    "ModelResult",
    "TableComparison",
    "Task",
    "answer",
    "audit",
    "compare",
    "evaluate",
    "learn",
]
