"""Many regularised regressions over one X, solved together.

A *task* is one regression: its target, its rows, its penalty. Tasks that share rows form a
*block*, solved by one L-BFGS iteration over matrices, not one per task. The solver sees
coefficients and numbers per task; all that is as long as the rows stays behind an objective.
"""
