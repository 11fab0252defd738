"""Many regularised regressions over one X, solved together.

A *task* is one regression: its target, its rows, its penalty. Tasks that share rows form a
*batch*; a batch is solved by one Newton iteration over matrices, not one per task.
"""

from colabel.learn.glm.batch import Batch, Solution
from colabel.learn.glm.design import Design, DesignBlock, as_design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.losses import Logistic, Loss, Softmax, loss_for
from colabel.learn.glm.path import FittedTasks, HeldOut, PathCoef, Tasks, fit_tasks, held_out_path

__all__ = [
    "LBFGS",
    "Batch",
    "Design",
    "DesignBlock",
    "FittedTasks",
    "HeldOut",
    "Logistic",
    "Loss",
    "PathCoef",
    "Softmax",
    "Solution",
    "Tasks",
    "as_design",
    "fit_tasks",
    "held_out_path",
    "loss_for",
]
