"""Many regularised regressions over one X, solved together.

A *task* is one regression: its target, its rows, its penalty. Tasks that share rows form a
*block*, solved by one L-BFGS iteration over matrices, not one per task. The solver sees
coefficients and numbers per task; all that is as long as the rows stays behind an objective.
"""

from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge, Solution
from colabel.learn.glm.losses import Logistic, Loss, Softmax, loss_for
from colabel.learn.glm.objective import Line, RowsObjective
from colabel.learn.glm.path import Block, LocalRows, fit_block, held_out_path
from colabel.learn.glm.tasks import FittedTasks, Tasks

__all__ = [
    "LBFGS",
    "Block",
    "CurvaturePairs",
    "FittedTasks",
    "Line",
    "LocalRows",
    "Logistic",
    "Loss",
    "Ridge",
    "RowsObjective",
    "Softmax",
    "Solution",
    "Tasks",
    "fit_block",
    "held_out_path",
    "loss_for",
]
