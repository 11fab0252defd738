"""Peak memory of CTBN on bibtex: 159 labels, 7395 x 1836 sparse rows.

Usage: python -m benchmarks.memory [--data DIR] [--C 0.1] [--cv 0.33]
"""

from __future__ import annotations

import resource
import time

from benchmarks._common import machine, parser
from colabel import CTBN
from studies.datasets import load


def main() -> None:
    """Fit once and report seconds and the process's peak resident memory."""
    options = parser(__doc__)
    options.add_argument("--C", type=float, default=0.1)
    options.add_argument("--cv", type=float, default=0.33, help="folds, or the share held out")
    arguments = options.parse_args()
    data = load("bibtex", data_home=arguments.data)
    cv = arguments.cv if arguments.cv < 1 else int(arguments.cv)
    start = time.perf_counter()
    model = CTBN(C=arguments.C, cv=cv, random_state=0, verbose=1).fit(data.X, data.Y)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(machine())
    print(f"bibtex, C = {arguments.C}, cv = {cv}: {seconds:.0f} s, peak memory {peak:.2f} GiB")
    print(f"{int((model.tree_ >= 0).sum())} of {data.n_labels} labels have a parent")


if __name__ == "__main__":
    main()
