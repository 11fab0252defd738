"""Inference in pairwise fields: seconds for a batch of rows, by the engine chosen by itself.

The yeast-sized field has 14 labels and all 91 edges: 2^14 label vectors, summed one by one. The
other two have the 53 labels of enron, with few edges and with all 1378.

Usage: python -m benchmarks.field [--rows 1000] [--strength 0.2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np

from benchmarks._common import machine, print_table
from colabel import LabelSpace
from colabel.joint import PairwiseField


def random_field(n_labels: int, share: float, n_rows: int, strength: float) -> PairwiseField:
    """Make a field of 0/1 labels with a share of all edges and tables that differ by row."""
    rng = np.random.default_rng(0)
    edges = [edge for edge in combinations(range(n_labels), 2) if rng.random() < share]
    unary = [rng.normal(size=(n_rows, 2)) for _ in range(n_labels)]
    tables = [rng.normal(scale=strength, size=(n_rows, 2, 2)) for _ in edges]
    names = tuple(f"y{i}" for i in range(n_labels))
    space = LabelSpace(names, (np.array([0, 1]),) * n_labels, "matrix")
    return PairwiseField(space, unary, edges, tables)


def seconds(answer: Callable[[], object]) -> str:
    """Time one answer."""
    start = time.perf_counter()
    answer()
    return f"{time.perf_counter() - start:.2f}"


def measure(name: str, joint: PairwiseField) -> list[str]:
    """Time the answers of one field, the first two also together with the compilation."""
    labels = np.zeros((joint.n_rows, joint.space.n_labels), dtype=int)
    joint[:1].top_k(2), joint[:1].sample(1, 0)  # compiles
    return [
        name,
        joint.engine,
        seconds(joint.marginals),
        seconds(joint.mode),
        seconds(lambda: joint.log_prob(labels)),
        seconds(joint.edge_tables),
        seconds(lambda: joint.top_k(5)),
        seconds(lambda: joint.sample(10, 0)),
    ]


def main() -> None:
    """Run and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--strength", type=float, default=0.2, help="scale of the edges' scores")
    arguments = options.parse_args()
    cases = {
        "14 labels, all edges": (14, 1.0),
        "53 labels, 5 % of the edges": (53, 0.05),
        "53 labels, all edges": (53, 1.0),
    }
    print(f"{machine()}; {arguments.rows} rows, seconds\n")
    header = [
        "field",
        "engine",
        "marginals, log Z",
        "mode",
        "log_prob",
        "edges",
        "top 5",
        "10 draws",
    ]
    rows = [
        measure(name, random_field(*case, arguments.rows, arguments.strength))
        for name, case in cases.items()
    ]
    print_table(header, rows)


if __name__ == "__main__":
    main()
