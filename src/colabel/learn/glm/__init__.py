"""Many regularised regressions over one X, solved together.

A *task* is one regression: its target, its rows, its penalty. Tasks that share rows form a
*block*, solved by one L-BFGS iteration over matrices, not one per task. The solver sees
coefficients and numbers per task; all that is as long as the rows stays behind an `Objective`.
"""

from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge, Solution
from colabel.learn.glm.losses import Logistic, Loss, Softmax, loss_for
from colabel.learn.glm.objective import Line, Objective, RowsObjective
from colabel.learn.glm.path import HeldOutPath, fit_tasks, held_out_path
from colabel.learn.glm.tasks import FittedTasks, Tasks

__all__ = [
    "LBFGS",
    "CurvaturePairs",
    "FittedTasks",
    "HeldOutPath",
    "Line",
    "Logistic",
    "Loss",
    "Objective",
    "Ridge",
    "RowsObjective",
    "Softmax",
    "Solution",
    "Tasks",
    "fit_tasks",
    "held_out_path",
    "loss_for",
]
