"""Write a large table of one's own, to try `colabel compare` on: 100,000 rows, 30 columns, 10 tags.

Each tag depends on the columns, in one of them through a wave; the last five also on one of the
first five each.

Usage: python -m benchmarks.large_table large.csv [--rows 100000]
       time colabel compare large.csv --labels 'tag_*'
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from colabel.core.arrays import Array
from colabel.core.files import written_whole


def table(n_rows: int, n_features: int = 30, n_tags: int = 10) -> tuple[Array, Array]:
    """Draw columns (n, p) and tags (n, d) of 0 and 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    Y = np.zeros((n_rows, n_tags))
    for i in range(n_tags):
        score = X @ rng.normal(size=n_features) * 0.3 + np.sin(2 * X[:, i]) - 0.7
        if i >= n_tags // 2:
            score += 2.0 * Y[:, i - n_tags // 2] - 1.0
        Y[:, i] = score + rng.logistic(size=n_rows) > 0
    return X, Y


def main() -> None:
    """Write the table."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--rows", type=int, default=100_000)
    asked = arguments.parse_args()
    X, Y = table(asked.rows)
    names = [*(f"x{i}" for i in range(X.shape[1])), *(f"tag_{i}" for i in range(Y.shape[1]))]
    with written_whole(asked.file) as part:
        both = np.hstack([X.round(4), Y])
        np.savetxt(part, both, "%g", ",", header=",".join(names), comments="")


if __name__ == "__main__":
    main()
