"""Regressions on a narrow, nearly separable table: few columns, several values, rare ones.

6,000 rows of 34 columns (heavy-tailed ones in different units, and flags); seven class variables of
two to five values lie beyond thresholds of a few columns, the rare values with 30 to 100 rows.

Usage: python -m benchmarks.narrow [--rows 6000] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import machine, print_table
from colabel import CTBN, ProbabilisticClassifierChain
from colabel.learn.glm.lbfgs import LBFGS

Array = NDArray[Any]
SIZES = (2, 2, 3, 3, 4, 5, 2)


def narrow_table(n_rows: int, seed: int) -> tuple[Array, Array]:
    """Return columns (n, 34) and the codes (n, 7) of the variables."""
    rng = np.random.default_rng(seed)
    # measurements of the same few causes, and so alike
    causes = rng.normal(size=(n_rows, 4)) @ rng.normal(size=(4, 24))
    latent = 0.5 * causes + 0.25 * rng.normal(size=(n_rows, 24))
    tails = np.sinh(1.2 * latent[:, :14])
    skewed = np.exp(1.3 * latent[:, 14:])
    flags = rng.random((n_rows, 10)) < rng.uniform(0.02, 0.5, size=10)
    units = 10.0 ** rng.uniform(-3, 4, size=24)
    columns = np.hstack([np.hstack([tails, skewed]) * units, flags])
    codes = np.zeros((n_rows, len(SIZES)), dtype=int)
    for variable, size in enumerate(SIZES):
        chosen = rng.choice(24, size=3, replace=False)
        raw = columns[:, chosen] / units[chosen]
        level = raw @ [1.0, 0.6, 0.3] + flags[:, variable] + 0.2 * rng.normal(size=n_rows)
        if variable:  # variables depend on each other
            level = level + 0.8 * codes[:, variable - 1]
        rare = rng.integers(30, 101, size=size - 1)  # rows beyond each threshold, at the far end
        far = (
            np.cumsum(rare)
            if variable % 2
            else n_rows * (1.0 - np.cumsum([0.6, 0.3, 0.08])[: size - 1])
        )
        if variable % 2 == 0:
            far = np.append(far[: size - 2], rare[0])
        cuts = np.sort(level)[n_rows - np.sort(far.astype(int))[::-1]]
        codes[:, variable] = np.searchsorted(cuts, level, side="right")
    return columns, codes


class Counts:
    """Counts the solves and their iterations while it is in use."""

    def __enter__(self) -> Counts:
        self.n_solves, self.n_tasks, self.n_iter = 0, 0, 0
        solve, counts = LBFGS.solve, self

        def counted(solver: LBFGS, *args: Any, **options: Any) -> Any:
            solution = solve(solver, *args, **options)
            counts.n_solves += 1
            counts.n_tasks += len(solution.n_iter)
            counts.n_iter += int(solution.n_iter.max(initial=0))
            return solution

        self._solve = solve
        LBFGS.solve = counted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        LBFGS.solve = self._solve  # type: ignore[method-assign]


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=6000)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    columns, codes = narrow_table(options.rows, options.seed)
    print(machine())
    print("rows of each value:", [np.bincount(own).tolist() for own in codes.T])
    train, test = slice(0, options.rows, 2), slice(1, options.rows, 2)
    CTBN().fit(columns[:200], codes[:200] > 0)  # compiles the kernels
    CTBN().fit(columns[:200], codes[:200] % 3)
    rows = []
    for model in (CTBN(random_state=0), ProbabilisticClassifierChain(random_state=0)):
        with Counts() as counts:
            began = time.process_time()
            model.fit(columns, codes)
            seconds = time.process_time() - began
        honest = type(model)(random_state=0).fit(columns[train], codes[train])
        log_prob = float(np.mean(honest.joint(columns[test]).log_prob(codes[test])))
        rows.append(
            (
                type(model).__name__,
                f"{seconds:.1f}",
                counts.n_solves,
                counts.n_tasks,
                counts.n_iter,
                f"{log_prob:.4f}",
            )
        )
    print_table(
        ("model", "CPU s", "solves", "tasks", "iterations", "held-out log-probability"), rows
    )


if __name__ == "__main__":
    main()
