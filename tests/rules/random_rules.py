"""Random rules as text, each with the obvious test of a label vector."""

from __future__ import annotations


def atom(rng, sizes):
    i = int(rng.integers(len(sizes)))
    if sizes[i] == 2 and rng.random() < 0.6:
        return f"y{i}", lambda y: y[i] == 1
    v = int(rng.integers(sizes[i]))
    if rng.random() < 0.3:
        return f"y{i}!={v}", lambda y: y[i] != v
    return f"y{i}={v}", lambda y: y[i] == v


def count(rng, sizes):
    """A count of atoms of different labels."""
    labels = rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)].tolist()
    values = [int(rng.integers(sizes[i])) for i in labels]
    named = ", ".join(f"y{i}={v}" for i, v in zip(labels, values, strict=True))
    low = int(rng.integers(0, len(labels) + 1))
    high = int(rng.integers(low, len(labels) + 1))

    def number(y):
        return sum(y[i] == v for i, v in zip(labels, values, strict=True))

    kinds = {
        f"exactly {low} of {named}": lambda y: number(y) == low,
        f"at least {low} of {named}": lambda y: number(y) >= low,
        f"at most {high} of {named}": lambda y: number(y) <= high,
        f"{low}..{high} of {named}": lambda y: low <= number(y) <= high,
        f"none of {named}": lambda y: number(y) == 0,
        f"all of {named}": lambda y: number(y) == len(labels),
    }
    text = list(kinds)[rng.integers(len(kinds))]
    return text, kinds[text]


def expression(rng, sizes, depth=2):
    """An expression in parentheses."""
    kind = rng.choice(["atom", "not", "and", "or", "->", "count"])
    if depth == 0 or kind == "atom":
        return atom(rng, sizes)
    if kind == "count":
        text, test = count(rng, sizes)
        return f"({text})", test
    left, first = expression(rng, sizes, depth - 1)
    if kind == "not":
        return f"not {left}", lambda y: not first(y)
    right, second = expression(rng, sizes, depth - 1)
    tests = {
        "and": lambda y: first(y) and second(y),
        "or": lambda y: first(y) or second(y),
        "->": lambda y: not first(y) or second(y),
    }
    return f"({left} {kind} {right})", tests[kind]


def table(rng, sizes):
    """Some combinations of some labels."""
    labels = rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)].tolist()
    rows = {
        tuple(int(rng.integers(sizes[i])) for i in labels) for _ in range(int(rng.integers(1, 12)))
    }
    named = ", ".join(f"y{i}" for i in labels)
    listed = "; ".join(" ".join(map(str, row)) for row in sorted(rows))
    return f"allowed {named} = {listed}", lambda y: tuple(y[i] for i in labels) in rows


def rule_set(rng, sizes):
    """Lines of text, and the test of a vector by all of them."""
    lines, tests = [], []
    for _ in range(int(rng.integers(1, 4))):
        text, test = [expression, count, table][rng.choice(3, p=[0.6, 0.3, 0.1])](rng, sizes)
        lines.append(text)
        tests.append(test)
    return "\n".join(lines), lambda y: all(test(y) for test in tests)
