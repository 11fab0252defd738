"""Rules over the codes of a label space: which vectors obey, and which still can."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import says_presence
from colabel.rules import _language as language

_MOST_CLAUSES = 32  # of a nested rule that is written as a conjunction
_CELLS_AT_ONCE = 1 << 22
_MOST_STATES = 4096  # of a variable that stands for a rule
MOST_LISTED, MEMORY = 1 << 12, 1 << 24


@dataclass(frozen=True, eq=False)
class Tally:
    """From `low` to `high` of some labels: label i adds ``worth[i][v]`` if its value is v.

    One value of one label, a clause (low of 1) and a count are all of this kind.
    """

    low: int
    high: int
    worth: dict[int, Indices]

    @property
    def scope(self) -> frozenset[int]:
        """The labels."""
        return frozenset(self.worth)

    @property
    def total(self) -> int:
        """The largest count there can be."""
        return sum(int(worth.max()) for worth in self.worth.values())

    def may_hold(self, codes: Codes) -> Flags:
        """Whether vectors (m, d) can be completed so that the count fits."""
        counts = np.zeros((2, len(codes)), dtype=np.intp)
        for i, worth in self._at_least_and_most.items():
            counts += worth[:, codes[:, i]]
        return np.asarray((counts[1] >= self.low) & (counts[0] <= self.high))

    @cached_property
    def _at_least_and_most(self) -> dict[int, Indices]:
        """What each label adds at least and at most, (2, K + 1): at last, where it is MISSING."""
        return {
            i: np.array([[*worth, worth.min()], [*worth, worth.max()]])
            for i, worth in self.worth.items()
        }


@dataclass(frozen=True, eq=False)
class Nested:
    """Every one of the parts, or at least one of them."""

    parts: tuple[Node, ...]
    every: bool

    @property
    def scope(self) -> frozenset[int]:
        """The labels of all parts."""
        return frozenset().union(*(part.scope for part in self.parts))

    def may_hold(self, codes: Codes) -> Flags:
        """Whether one of them can hold, or each of them can; not whether all can at once."""
        found = np.array([part.may_hold(codes) for part in self.parts])
        return np.asarray(found.all(axis=0) if self.every else found.any(axis=0))


@dataclass(frozen=True, eq=False)
class Combinations:
    """Vectors (m, k) of some labels (k,); a row must have one of them."""

    labels: Indices
    vectors: Codes

    @property
    def scope(self) -> frozenset[int]:
        """The labels."""
        return frozenset(self.labels.tolist())

    def may_hold(self, codes: Codes) -> Flags:
        """Whether some combination agrees with vectors (m, d)."""
        found = np.zeros(len(codes), dtype=bool)
        step = max(1, _CELLS_AT_ONCE // max(1, len(self.vectors)))
        for start in range(0, len(codes), step):
            some = codes[start : start + step, self.labels]
            agrees = np.ones((len(some), len(self.vectors)), dtype=bool)
            for column, values in zip(some.T, self.vectors.T, strict=True):
                agrees &= (column[:, None] == MISSING) | (column[:, None] == values)
            found[start : start + step] = agrees.any(axis=1)
        return found


Node = Tally | Nested | Combinations


@dataclass(frozen=True, eq=False)
class Helper:
    """A variable that is a function of the labels, by which a rule has factors of pairs only.

    Attributes
    ----------
    n_states : int
    masks : dict of variable -> (K, n_states) array of bool
        Values of the other variable that agree with each state.
    unary : (n_states,) array of bool
        States that obey.
    """

    n_states: int
    masks: dict[int, Flags]
    unary: Flags


class Factors(NamedTuple):
    """Rules as masks of values, and of pairs of values; and those that need more variables."""

    single: dict[int, Flags]
    pairs: dict[tuple[int, int], Flags]
    helpers: list[Helper]
    counts: list[Tally]


class CompiledRules:
    """Rules bound to a label space.

    Parameters
    ----------
    space : LabelSpace
    nodes : sequence of Node
        The rules over codes.
    max_listed : int
        Label vectors that are written out at most where that is a way to an answer.
    memory : int
        Bytes that the tables of one row may take where elimination is.
    """

    def __init__(
        self,
        space: LabelSpace,
        nodes: Sequence[Node],
        max_listed: int = MOST_LISTED,
        memory: int = MEMORY,
    ) -> None:
        self.space, self.nodes = space, tuple(nodes)
        self.max_listed, self.memory = max_listed, memory

    @classmethod
    def of(
        cls, space: LabelSpace, rules: Sequence[tuple[language.Expression, str]]
    ) -> CompiledRules:
        """Bind expressions to a label space; texts name them in errors."""
        return cls(space, [_Compiler(space, text).node(each, True) for each, text in rules])

    @classmethod
    def joined(cls, *parts: CompiledRules) -> CompiledRules:
        """Return the rules of all parts, which are of the same labels."""
        nodes = [node for part in parts for node in part.nodes]
        least = (min(part.max_listed for part in parts), min(part.memory for part in parts))
        return cls(parts[0].space, nodes, *least)

    def may_hold(self, codes: Codes, label: int | None = None) -> Flags:
        """Whether vectors (m, d) obey every rule; where labels are MISSING, whether each can.

        With a `label`, only the rules that it is in are looked at.
        """
        found = np.ones(len(codes), dtype=bool)
        for node in self.nodes if label is None else self.touching[label]:
            found &= node.may_hold(codes)
        return found

    # Enumeration

    @cached_property
    def touching(self) -> list[list[Node]]:
        """The rules that each label is in."""
        found: list[list[Node]] = [[] for _ in self.space.names]
        for node in self.nodes:
            for i in node.scope:
                found[i].append(node)
        return found

    @cached_property
    def vectors(self) -> Codes | None:
        """All vectors (m, d) that obey, or None if there are more than `max_listed`."""
        limit = self.max_listed
        tables = [node for node in self.nodes if isinstance(node, Combinations)]
        found = np.full((1, self.space.n_labels), MISSING, dtype=np.int32)
        for table in sorted(tables, key=lambda node: len(node.vectors))[:1]:
            found = np.repeat(found, len(table.vectors), axis=0)
            found[:, table.labels] = table.vectors
        found = found[self.may_hold(found)]
        # labels of many rules first: they leave least to be tried
        order = sorted(range(self.space.n_labels), key=lambda i: -len(self.touching[i]))
        for i in order:
            if len(found) > 4 * limit:
                return None
            is_open = found[:, i] == MISSING
            if is_open.any():
                size = self.space.cardinalities[i]
                grown = np.repeat(found[is_open], size, axis=0)
                grown[:, i] = np.tile(np.arange(size, dtype=np.int32), int(is_open.sum()))
                keep = np.ones(len(grown), dtype=bool)
                for node in self.touching[i]:
                    keep &= node.may_hold(grown)
                found = np.concatenate([found[~is_open], grown[keep]])
        if len(found) > limit:
            return None
        return found[np.lexsort(found.T[::-1])]

    # Contradictions

    def is_possible(self, which: Sequence[int]) -> bool:
        """Whether some vector obeys some of the rules."""
        nodes = [self.nodes[place] for place in which]
        return _Program(self.space.cardinalities).solved(nodes) is not None

    def best_vector(self, scores: Sequence[Array]) -> Codes:
        """Return the vector (d,) that obeys and has the largest sum of its values' scores (K,)."""
        found = _Program(self.space.cardinalities).solved(self.nodes, scores)
        assert found is not None  # rules that contradict each other are refused before
        return found

    def contradiction(self) -> list[int]:
        """Positions of rules that nothing can satisfy together, none of them superfluous.

        Empty if there is no contradiction.
        """
        core = list(range(len(self.nodes)))
        if self.is_possible(core):
            return []
        step = max(1, len(core) // 2)
        while step:  # drop runs of rules while the others still contradict each other
            place = 0
            while place < len(core):
                rest = core[:place] + core[place + step :]
                if self.is_possible(rest):
                    place += step
                else:
                    core = rest
            step //= 2
        return core

    # Factors of pairs

    @cached_property
    def factors(self) -> Factors | None:
        """The rules as factors; None where a rule would need a variable of too many states."""
        single: dict[int, Flags] = {}
        pairs: dict[tuple[int, int], Flags] = {}
        helpers: list[Helper] = []
        counts: list[Tally] = []
        nodes = list(self.nodes)
        while nodes:
            node = nodes.pop()
            labels = sorted(node.scope)
            sizes = [self.space.cardinalities[i] for i in labels]
            clauses = _clauses(node) if isinstance(node, Nested) else None
            if isinstance(node, Nested) and node.every:
                nodes += node.parts
            elif len(labels) <= 2:
                mask = node.may_hold(self._every(labels)).reshape(sizes)
                if len(labels) == 2:
                    pair = labels[0], labels[1]
                    pairs[pair] = pairs.get(pair, True) & mask
                elif labels:
                    single[labels[0]] = single.get(labels[0], True) & mask
                elif not mask:
                    return None
            elif isinstance(node, Tally):
                if node.low > 0 or node.high < node.total:
                    counts.append(node)
            elif clauses is not None:
                nodes += clauses
            else:
                if isinstance(node, Combinations):
                    labels, found = node.labels.tolist(), node.vectors
                elif math.prod(sizes) > 64 * _MOST_STATES:
                    return None
                else:
                    every = self._every(labels)
                    found = every[node.may_hold(every)][:, labels]
                if len(found) > _MOST_STATES:
                    return None
                # a variable that says which of the combinations (m, k) the labels have
                values = (np.arange(self.space.cardinalities[i])[:, None] for i in labels)
                masks = (value == column for value, column in zip(values, found.T, strict=True))
                states = np.ones(len(found), dtype=bool)
                helpers.append(Helper(len(found), dict(zip(labels, masks, strict=True)), states))
        return Factors(single, pairs, helpers, counts)

    def _every(self, labels: Sequence[int]) -> Codes:
        """Return vectors (m, d) with all values of some labels, the last changing fastest."""
        values = itertools.product(*(range(self.space.cardinalities[i]) for i in labels))
        each = np.array(list(values), dtype=np.int32)
        codes = np.full((len(each), self.space.n_labels), MISSING, dtype=np.int32)
        codes[:, list(labels)] = each
        return codes


def _clauses(node: Node) -> list[Tally] | None:
    """A nested rule as clauses whose conjunction it is, None if they are many or it counts."""
    if isinstance(node, Tally):
        if (
            node.low <= 1
            and node.high >= node.total
            and all(w.max() <= 1 for w in node.worth.values())
        ):
            return [node]
        return None
    if isinstance(node, Combinations):
        return None
    parts = [clauses for part in node.parts if (clauses := _clauses(part)) is not None]
    if len(parts) < len(node.parts):
        return None
    if node.every:
        return [clause for part in parts for clause in part]
    if math.prod(map(len, parts)) > _MOST_CLAUSES:
        return None
    return [_joined(clauses) for clauses in itertools.product(*parts)]


def _joined(clauses: Sequence[Tally]) -> Tally:
    """The disjunction of clauses."""
    worth: dict[int, Indices] = {}
    for clause in clauses:
        if clause.low == 0:
            return Tally(0, language.UNLIMITED, {})
        for i, own in clause.worth.items():
            worth[i] = np.maximum(worth[i], own) if i in worth else own
    return Tally(1, language.UNLIMITED, worth)


def counters(node: Tally, order: Sequence[int], above: Sequence[int], first: int) -> list[Helper]:
    """Count along a forest of variables: a state is the count below, and what was last added.

    Each variable of `order` comes before the one `above` it, or is a root, -1. The helpers' own
    positions begin at `first`.
    """
    most = node.low if node.high >= node.total else node.high + 1  # counts beyond are all alike
    helpers: list[Helper] = []
    parts: dict[int, list[tuple[int, Indices]]] = {v: [] for v in (*order, -1)}
    for v in (*order, -1):
        own = [(v, np.minimum(node.worth[v], most))] if v in node.worth else []
        # variables and the counts of their states; those of few counts are added to others
        counted = sorted(own + parts[v], key=lambda part: -len(np.unique(part[1])))
        for i, added in counted[1:]:
            before, count = counted[0]
            pairs = itertools.product(np.unique(count).tolist(), np.unique(added).tolist())
            states = np.array(sorted({(min(a + b, most), b) for a, b in pairs}), dtype=np.intp)
            # counts never fall: too many are too many already
            states = states[states[:, 0] <= node.high]
            sums = np.minimum(count[:, None] + states[:, 1], most)
            masks = {before: sums == states[:, 0], i: added[:, None] == states[:, 1]}
            helpers.append(Helper(len(states), masks, np.ones(len(states), dtype=bool)))
            counted[0] = first + len(helpers) - 1, states[:, 0]
        if v >= 0 and counted:
            parts[above[v]].append(counted[0])
    last = helpers[-1]
    return [*helpers[:-1], replace(last, unary=counted[0][1] >= node.low)]


class _Compiler:
    """From names to codes, negations at the values."""

    def __init__(self, space: LabelSpace, text: str) -> None:
        self.space, self.text = space, text

    def fail(self, reason: str) -> language.RuleError:
        return language.RuleError(f"{self.text}: {reason}")

    def node(self, expression: language.Expression, positive: bool) -> Node:
        if isinstance(expression, language.Not):
            return self.node(expression.inner, not positive)
        if isinstance(expression, language.And | language.Or):
            parts = tuple(self.node(part, positive) for part in expression.parts)
            if isinstance(expression, language.And) == positive:
                return Nested(parts, every=True)
            clauses = [part for part in parts if isinstance(part, Tally) and _clauses(part)]
            return Nested(parts, every=False) if len(clauses) < len(parts) else _joined(clauses)
        if isinstance(expression, language.Table):
            return self.table(expression)
        if isinstance(expression, language.Is):
            ((i, mask), *more) = self.values(expression)
            if more:
                raise self.fail(
                    f"{expression.name!r} matches {len(more) + 1} labels: say how many are meant, "
                    f"as in 'at least one of {expression.name}' or 'all of {expression.name}'."
                )
            return Tally(1, language.UNLIMITED, {i: (mask == positive).astype(np.intp)})
        worth: dict[int, Indices] = {}
        for i, mask in [found for atom in expression.parts for found in self.values(atom)]:
            worth[i] = np.maximum(worth.get(i, 0), mask.astype(np.intp))
        total = sum(int(own.max()) for own in worth.values())
        low, high = total if expression.low == language.ALL else expression.low, expression.high
        if positive:
            return Tally(low, high, worth)
        outside = [Tally(0, low - 1, worth)] * (low > 0)
        outside += [Tally(high + 1, language.UNLIMITED, worth)] * (high < total)
        return Nested(tuple(outside), every=False) if outside else Tally(1, language.UNLIMITED, {})

    def values(self, atom: language.Is) -> Iterator[tuple[int, Flags]]:
        """Yield the labels that an atom matches, with the values (K,) that it means."""
        names = self.space.names
        is_glob = not atom.quoted and any(sign in atom.name for sign in "*?[")
        matched = [atom.name] if atom.name in names else []
        if not matched and is_glob:
            matched = fnmatch.filter(names, atom.name)
            if not matched:
                raise self.fail(f"no label matches {atom.name!r}.")
        matched = matched or [self.known(atom.name)]
        for name in matched:
            i = names.index(name)
            yield i, self.mask(i, atom) ^ atom.negated

    def known(self, name: str) -> str:
        """Return the name of a label, which may write accents in another way."""
        if name in self.space.names:
            return name
        for other in self.space.names:
            if unicodedata.normalize("NFC", other) == unicodedata.normalize("NFC", name):
                return other
        hint = did_you_mean(name, self.space.names) or "."
        raise self.fail(f"no label is called {name!r}{hint}")

    def mask(self, i: int, atom: language.Is) -> Flags:
        name, classes = self.space.names[i], self.space.classes[i]
        shown = [str(value) for value in classes.tolist()]
        if atom.value is None:
            if not says_presence(classes):
                raise self.fail(
                    f"{name!r} has the values {', '.join(shown)}: write {name}={shown[-1]} to say "
                    "which is meant."
                )
            return np.array([False, True])
        mask = np.array([atom.value in _texts(value) for value in classes.tolist()])
        if not mask.any():
            mask = np.array([fnmatch.fnmatchcase(text, atom.value) for text in shown])
        if not mask.any():
            hint = did_you_mean(atom.value, shown) or f": it has {', '.join(shown[:8])}."
            raise self.fail(f"{name!r} has no value {atom.value!r}{hint}")
        return mask

    def table(self, table: language.Table) -> Combinations:
        labels = [self.space.names.index(self.known(name)) for name in table.names]
        if len(set(labels)) < len(labels):
            twice = next(name for name in table.names if table.names.count(name) > 1)
            raise self.fail(f"{twice!r} is named twice.")
        columns = []
        for i, values in zip(labels, zip(*table.rows, strict=True), strict=True):
            classes = self.space.classes[i].tolist()
            code = {text: c for c, value in enumerate(classes) for text in _texts(value)}
            # a value that the labels do not have belongs to a combination that cannot occur
            columns.append([code.get(value, MISSING) for value in values])
            if max(columns[-1]) == MISSING:
                shown = ", ".join(map(str, classes[:8]))
                raise self.fail(
                    f"{self.space.names[i]!r} has the values {shown}: no combination has one."
                )
        vectors = np.array(columns, dtype=np.int32).T.reshape(-1, len(labels))
        vectors = np.unique(vectors[(vectors != MISSING).all(axis=1)], axis=0)
        return Combinations(np.array(labels, dtype=np.intp), vectors)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a suggestion to be added to a sentence, if something is close."""
    close = difflib.get_close_matches(word, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _texts(value: object) -> set[str]:
    """How a value may be written."""
    texts = {str(value)}
    if isinstance(value, bool):
        texts.add(str(int(value)))
    elif isinstance(value, int | float) and value == int(value):
        texts |= {str(int(value)), str(float(value))}
    return texts


class _Program:
    """The rules as an integer program: is there any vector? Solved by SciPy's HiGHS."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.n_columns = int(self.first[-1])
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        for i, size in enumerate(sizes):
            self.add({int(self.first[i]) + v: 1.0 for v in range(size)}, 1.0, 1.0)

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        self.entries += [(len(self.low), column, value) for column, value in row.items()]
        self.low.append(low)
        self.high.append(high)

    def require(self, node: Node, switch: int | None = None) -> None:
        """Demand a node, or that a switch (a column of 0 or 1) is on only where it holds."""
        if isinstance(node, Nested) and node.every:
            for part in node.parts:
                self.require(part, switch)
        elif isinstance(node, Tally):
            row = {
                int(self.first[i]) + v: float(w)
                for i, worth in node.worth.items()
                for v, w in enumerate(worth.tolist())
                if w
            }
            at = {} if switch is None else {switch: 1.0}
            if node.low > 0:
                scaled = {column: -float(node.low) for column in at}
                self.add(row | scaled, 0.0 if at else float(node.low), np.inf)
            if node.high < node.total:
                slack = float(node.total - node.high)
                scaled = dict.fromkeys(at, slack)
                self.add(row | scaled, -np.inf, node.high + (slack if at else 0.0))
        else:
            n_branches = len(node.parts if isinstance(node, Nested) else node.vectors)
            branches = range(self.n_columns, self.n_columns + n_branches)
            self.n_columns += n_branches
            if isinstance(node, Nested):
                for branch, part in zip(branches, node.parts, strict=True):
                    self.require(part, branch)
            else:
                for branch, vector in zip(branches, node.vectors.tolist(), strict=True):
                    for i, value in zip(node.labels.tolist(), vector, strict=True):
                        self.add({branch: -1.0, int(self.first[i]) + value: 1.0}, 0.0, np.inf)
            row = dict.fromkeys(branches, 1.0)
            if switch is None:
                self.add(row, 1.0, np.inf)
            else:
                self.add(row | {switch: -1.0}, 0.0, np.inf)

    def solved(self, nodes: Sequence[Node], scores: Sequence[Array] = ()) -> Codes | None:
        """Return a vector (d,) that obeys, the best by the scores (K,) of values; or None."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        for node in nodes:
            self.require(node)
        rows, columns, values = map(np.array, zip(*self.entries, strict=True))
        places = rows.astype(np.int32), columns.astype(np.int32)  # what SciPy before 1.15 takes
        matrix = sp.csr_array((values, places), shape=(len(self.low), self.n_columns))
        cost = np.zeros(self.n_columns)
        if scores:
            cost[: self.first[-1]] = -np.concatenate(scores)
        solved = milp(
            cost,
            integrality=np.ones(self.n_columns, dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, self.low, self.high),
        )
        if solved.status != 0:
            return None
        parts = np.split(solved.x[: self.first[-1]], self.first[1:-1])
        return np.array([part.argmax() for part in parts], dtype=np.int32)
