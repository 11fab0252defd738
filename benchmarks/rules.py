"""What rules cost: 500 labels in a hierarchy of depth five, exclusions among siblings.

`python -m benchmarks.rules` prints CPU seconds for a thousand rows, with and without the rules: of
a tree along the hierarchy, of independent labels, and (200 rows) of a tree across the hierarchy,
which no elimination fits, so that there are draws.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array
from colabel.joint import Tree
from colabel.labels import LabelSpace
from colabel.rules import Rules

N_LABELS, DEPTH, MOST_CHILDREN, N_ROOTS = 500, 5, 6, 4


def hierarchy(rng: np.random.Generator) -> list[int]:
    """Return the parent of each label, -1 for a root."""
    parents, depth, children = [-1] * N_ROOTS, [1] * N_ROOTS, [0] * N_LABELS
    while len(parents) < N_LABELS:
        above = int(rng.integers(len(parents)))
        if depth[above] < DEPTH and children[above] < MOST_CHILDREN:
            parents.append(above)
            depth.append(depth[above] + 1)
            children[above] += 1
    return parents


def rules_of(parents: Sequence[int], names: Sequence[str]) -> Rules:
    """Each label needs its parent, and siblings exclude each other."""
    siblings: dict[int, list[str]] = {}
    for name, parent in zip(names, parents, strict=True):
        siblings.setdefault(parent, []).append(name)
    groups = (group for parent, group in siblings.items() if parent >= 0 and len(group) > 1)
    excluded = "\n".join(f"at most one of {', '.join(group)}" for group in groups)
    pairs = [(names[i], names[p]) for i, p in enumerate(parents) if p >= 0]
    return Rules.hierarchy(pairs) & Rules.parse(excluded)


def tables(rng: np.random.Generator, parents: Sequence[int], n_rows: int) -> list[Array]:
    """Random conditionals; a label without its parent is rare."""
    found = []
    for parent in parents:
        scores = rng.normal(size=(n_rows, 1 if parent < 0 else 2, 2)) - [0.0, 1.0]
        if parent >= 0:
            scores[:, 0, 1] -= 2.0
        found.append(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))
    return found


def main() -> None:
    """Print a line for each joint."""
    rng = np.random.default_rng(0)
    names = [f"g{i}" for i in range(N_LABELS)]
    space = LabelSpace(tuple(names), (np.array([0, 1]),) * N_LABELS, "matrix")
    parents = hierarchy(rng)
    rules = rules_of(parents, names)
    across = [-1, *(int(rng.integers(0, i)) for i in range(1, N_LABELS))]
    cases = {
        "tree along the hierarchy": (parents, 1000),
        "independent labels": ([-1] * N_LABELS, 1000),
        "tree across the hierarchy": (across, 200),
    }
    print(f"{len(rules)} rules")
    for name, (shape, n_rows) in cases.items():
        joint = Tree(space, shape, tables(rng, shape, n_rows))
        started = time.process_time()
        joint.mode(), joint.marginals()
        plain = time.process_time() - started
        started = time.process_time()
        obeying = joint.subject_to(rules)
        mode, _ = obeying.mode(), obeying.marginals()
        seconds = time.process_time() - started
        broken = len(rules.violations(mode, names).rows)
        print(
            f"{name:26} {n_rows:5} rows: {plain:6.2f} s without, {seconds:6.2f} s with rules, "
            f"{obeying.exact}, {broken} rules broken"
        )


if __name__ == "__main__":
    main()
