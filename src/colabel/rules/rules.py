"""Rules: what is known about label sets beforehand."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.schema import declare
from colabel.labels import LabelSpace
from colabel.labels.columns import says_presence
from colabel.rules._language import (
    Expression,
    Is,
    Not,
    Or,
    RuleError,
    Table,
    parse,
    quoted,
    table_text,
)
from colabel.rules.compiled import CompiledRules

_SHOWN, _SHOWN_RULES = 5, 20  # in a sentence about rows that break rules


class Rule(NamedTuple):
    """One rule.

    Attributes
    ----------
    text : str
        The rule as one line that `Rules.parse` reads again.
    source : str
        Where it stands, such as "line 3".
    """

    text: str
    source: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.source}, {self.text!r}" if self.source else repr(self.text)


class Violations(NamedTuple):
    """Rows that break rules.

    Attributes
    ----------
    rows : (m,) array of int
        Row of each violation, ascending, from 0.
    broken : (m,) array of int
        Position of the rule that it breaks.
    rules : Rules
    """

    rows: Indices
    broken: Indices
    rules: Rules

    def __str__(self) -> str:
        if not len(self.rows):
            return "No row breaks a rule."
        lines = [f"{len(np.unique(self.rows))} rows break rules:"]
        rules = np.unique(self.broken).tolist()
        for place in rules[:_SHOWN_RULES]:
            own = self.rows[self.broken == place]
            shown = ", ".join(map(str, own[:_SHOWN])) + (", ..." if len(own) > _SHOWN else "")
            lines.append(f"  {self.rules[place]}: {len(own)} rows ({shown})")
        if len(rules) > _SHOWN_RULES:
            lines.append(f"  and {len(rules) - _SHOWN_RULES} more rules")
        return "\n".join(lines)


class Suggestion(NamedTuple):
    """A rule that all rows obey.

    Attributes
    ----------
    rule : Rule
    support : int
        Rows that could have broken it: that have the label on its left, or either of the two.
    log_chance : float
        Log-probability that none would break it if the labels were independent: the more below
        zero, the more surprising.
    """

    rule: Rule
    support: int
    log_chance: float


@dataclass(frozen=True, repr=False)
class Rules:
    """What is known about label sets beforehand, one rule per line.

    =================================== =====================================================
    ``whale -> mammal``                 implication; of class values ``stage=IV -> treated=yes``
    ``not (sand and bleached)``         `and`, `or`, `not`, parentheses
    ``exactly one of a, b, c``          counts: also `at least`, `at most`, `none of`, `all of`
    ``1..3 of *``                       a range of counts; ``..3 of`` and ``2.. of`` are open;
                                        names with ``*``, ``?`` or ``[`` are patterns
    ``hierarchy: taxa.csv``             a file of child,parent: each child needs its parent
    ``allowed: combinations.csv``       a file whose header names labels: nothing but its rows
    =================================== =====================================================

    Names with spaces or such signs stand in quotes; ``#`` begins a comment. ``a & b`` of two sets
    of rules demands both. `str` is the text of all rules, files written out, which `parse` reads
    again.

    Examples
    --------
    >>> import numpy as np
    >>> rules = Rules.parse('''
    ...     whale -> mammal
    ...     at most one of fish, mammal   # nothing is both
    ... ''')
    >>> Y = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    >>> print(rules.violations(Y, names=["whale", "mammal", "fish"]))
    2 rows break rules:
      line 2, 'whale -> mammal': 1 rows (0)
      line 3, 'at most one of fish, mammal': 1 rows (2)
    """

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, text: str, folder: str | Path | None = ".") -> Rules:
        """Read rules, one per line; files that they name are in `folder`, or an error if None."""
        if not isinstance(text, str):
            raise RuleError(f"Rules are text, a rule a line, but {type(text).__name__} was given.")
        found: list[Rule] = []
        lines = re.split("\r\n|\r|\n", text.removeprefix("\ufeff"))
        for number, line in enumerate(map(_without_comment, lines), start=1):
            name, _, path = (part.strip() for part in line.partition(":"))
            try:
                if not path or name not in ("hierarchy", "allowed"):
                    found += [Rule(line, f"line {number}", parse(line))] if line else []
                elif folder is None:
                    raise RuleError(f"{line!r} names a file, which is not read here.")
                else:
                    read = cls.hierarchy if name == "hierarchy" else cls._allowed_file
                    found += read(Path(folder, path.strip("\"'"))).rules
            except RuleError as error:
                raise RuleError(f"Line {number} of the rules: {error}") from None
        return cls(tuple(found))

    @classmethod
    def load(cls, path: str | Path) -> Rules:
        """Read a file of rules; files that it names are beside it."""
        return cls.parse(_read(Path(path)), Path(path).parent)

    @classmethod
    def hierarchy(
        cls, parents: str | Path | Mapping[str, str] | Iterable[tuple[str, str]]
    ) -> Rules:
        """Demand the parent of each label that is there.

        Parameters
        ----------
        parents : mapping, pairs or path
            Child -> parent, pairs (child, parent), or a CSV file of such pairs, with or without
            the header ``child,parent``. A child may have several parents, and needs all of them.

        Examples
        --------
        >>> print(Rules.hierarchy({"whale": "mammal", "mammal": "animal"}))
        whale -> mammal
        mammal -> animal
        """
        if isinstance(parents, str | Path):
            name = Path(parents).name
            rows = [(f"{name}, line {place}", row) for place, row in _read_csv(Path(parents))]
            if rows and [cell.lower() for cell in rows[0][1]] == ["child", "parent"]:
                rows = rows[1:]
        else:
            given = parents.items() if isinstance(parents, Mapping) else parents
            rows = [("", ["" if name is None else str(name) for name in pair]) for pair in given]
        for source, row in rows:
            if len(row) != 2:
                raise RuleError(
                    f"{source or row!r} has {len(row)} columns: a hierarchy has two, child and "
                    "parent, with a comma between them."
                )
        pairs = [(source, child, parent) for source, (child, parent) in rows if parent]
        above: dict[str, set[str]] = {}
        for _, child, parent in pairs:
            above.setdefault(child, set()).add(parent)
        try:
            TopologicalSorter(above).prepare()
        except CycleError as error:
            raise RuleError(
                f"The hierarchy has a cycle, {' -> '.join(error.args[1][::-1])}: no label can be "
                "above itself. Take one of these lines out."
            ) from None
        return cls(
            tuple(
                Rule(
                    f"{quoted(child)} -> {quoted(parent)}",
                    source,
                    Or((Not(Is(child, quoted=True)), Is(parent, quoted=True))),
                )
                for source, child, parent in pairs
            )
        )

    @classmethod
    def allowed(cls, Y: Any, names: Sequence[str] | None = None) -> Rules:
        """Allow only the label vectors of some rows.

        Parameters
        ----------
        Y : labels of n rows, in any container that a model's `fit` takes
        names : sequence of d str, optional
            Of the labels, where Y has no names.

        Examples
        --------
        >>> print(Rules.allowed([[0, 0], [1, 0], [0, 0]], names=["a", "b"]))
        allowed a, b = 0 0; 1 0
        """
        space, codes = LabelSpace.infer(Y, names)
        complete = codes[(codes >= 0).all(axis=1)]
        if not len(complete):
            raise RuleError(
                "Y has no row without missing labels: there is no combination to allow."
            )
        vectors = space.values(np.unique(complete, axis=0)).tolist()
        return cls._table(space.names, [[str(v) for v in row] for row in vectors], "")

    @classmethod
    def _allowed_file(cls, path: Path) -> Rules:
        rows = _read_csv(path)
        if len(rows) < 2:
            raise RuleError(
                f"{path.name} has no combinations: give a header that names labels, and a line "
                "each."
            )
        names = rows[0][1]
        for place, row in rows:
            if len(row) != len(names):
                raise RuleError(
                    f"{path.name} has {len(row)} values in line {place}, but its header names "
                    f"{len(names)} labels."
                )
        return cls._table(names, [row for _, row in rows[1:]], path.name)

    @classmethod
    def _table(cls, names: Sequence[str], rows: Sequence[Sequence[str]], source: str) -> Rules:
        table = Table(tuple(names), tuple(dict.fromkeys(map(tuple, rows))))
        return cls((Rule(table_text(table), source, table),))

    @classmethod
    def suggest(
        cls, Y: Any, names: Sequence[str] | None = None, *, min_support: int = 10
    ) -> list[Suggestion]:
        """List implications, exclusions and counts that all rows obey, the most surprising first.

        Class variables count by their values, 0/1 labels where they are there. Rows in which one of
        two labels is missing do not count for the two. Exclusions and implications that a rarer
        label would break in less than `min_support` rows are left out, and so are implications that
        follow from two others, and exclusions that follow from an implication. Counts are of 0/1
        labels.

        Parameters
        ----------
        Y : labels of n rows
        names : sequence of d str, optional
        min_support : int
            Rows that could have broken a rule, at least.

        Examples
        --------
        >>> import numpy as np
        >>> Y = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]] * 20)
        >>> for found in Rules.suggest(Y, names=["whale", "mammal", "fish"]):
        ...     print(found.rule.text, found.support, round(found.log_chance, 1))
        at most one of mammal, fish 60 -16.2
        1..2 of whale, mammal, fish 60 -15.1
        whale -> mammal 20 -8.1
        at most one of whale, fish 40 -8.1
        >>> stages = np.array([["IV", "drug"], ["I", "rest"], ["I", "drug"]] * 20)
        >>> for found in Rules.suggest(stages, names=["stage", "treatment"]):
        ...     print(found.rule.text, found.support, round(found.log_chance, 1))
        stage=IV -> treatment=drug 20 -8.1
        """
        space, codes = LabelSpace.infer(Y, names)
        return _suggested(space, codes, min_support)

    def __and__(self, other: Rules) -> Rules:
        return Rules(self.rules + other.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, place: int) -> Rule:
        return self.rules[place]

    def __str__(self) -> str:
        return "\n".join(rule.text for rule in self.rules)

    def __repr__(self) -> str:
        return f"<Rules: {len(self)} rule{'' if len(self) == 1 else 's'}>"

    def compiled(self, space: LabelSpace) -> CompiledRules:
        """Return the rules in codes of a label space; for library code.

        Raises
        ------
        RuleError
            If a rule does not fit the labels, or if nothing can obey all rules: the message names
            rules that contradict each other.
        """
        found = CompiledRules.of(space, [(rule.expression, str(rule)) for rule in self.rules])
        core = found.contradiction()
        if core:
            listed = "; ".join(map(str, (self.rules[place] for place in core)))
            if len(core) == 1:
                raise RuleError(f"No label vector can obey the rule {listed}.")
            raise RuleError(
                f"No label vector can obey all rules: these {len(core)} contradict each other: "
                f"{listed}. Drop or change one of them."
            )
        return found

    def violations(
        self, Y: Any, names: Sequence[str] | None = None, *, space: LabelSpace | None = None
    ) -> Violations:
        """Say which rows break which rules.

        A row with missing labels breaks a rule only if no value of theirs would make it hold.

        Parameters
        ----------
        Y : labels of n rows, in any container that a model's `fit` takes
        names : sequence of d str, optional
            Of the labels, where Y has no names.
        space : LabelSpace, optional
            Of a model (``model.label_space_``); by default the values of Y are all there are.
        """
        if space is None:
            space, codes = LabelSpace.infer(Y, names)
        else:
            codes = space.encode(Y)
        return self.broken_by(codes, self.compiled(space))

    def broken_by(self, codes: Codes, compiled: CompiledRules) -> Violations:
        """Say which codes (n, d) break which rules; for library code."""
        broken = [~node.may_hold(codes) for node in compiled.nodes]
        rows, place = np.nonzero(np.reshape(broken, (len(self), len(codes))).T)
        return Violations(rows, place, self)


# A model file holds the text of the rules: loading it reads no other file.
class _Stored:
    text: str


declare(
    Rules,
    "rules",
    spec=_Stored,
    taken=lambda rules: {"text": str(rules)},
    made=lambda _, fields: Rules.parse(fields["text"], folder=None),
)


def _without_comment(line: str) -> str:
    """The line up to a # outside of quotes."""
    quote = ""
    for place, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "#":
            return line[:place].strip()
    return line.strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RuleError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise RuleError(f"{path} is not in UTF-8: save it in that encoding.") from None


def _read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank, by number, as stripped cells."""
    reader = csv.reader(_read(path).splitlines(keepends=True))
    rows = ([cell.strip() for cell in row] for row in reader)
    return [(reader.line_num, row) for row in rows if any(row)]


def _suggested(space: LabelSpace, codes: Codes, min_support: int) -> list[Suggestion]:
    # a column for each 0/1 label that is there, and for each value of a class variable
    owner: list[int] = []
    value: list[int] = []
    names: list[str] = []
    labels: list[int] = []  # columns of 0/1 labels
    for i, classes in enumerate(space.classes):
        if says_presence(classes):
            labels.append(len(owner))
            owner.append(i)
            value.append(1)
            names.append(quoted(space.names[i]))
        else:
            owner += [i] * len(classes)
            value += range(len(classes))
            names += [f"{quoted(space.names[i])}={quoted(str(v))}" for v in classes.tolist()]
    own = np.array(owner, dtype=np.intp)
    on = (codes[:, own] == np.array(value, dtype=np.intp)).astype(np.float64)
    seen = (codes[:, own] >= 0).astype(np.float64)
    found = []

    def add(text: str, support: float, log_chance: float) -> None:
        rule = Rule(text, "", parse(text))
        found.append(Suggestion(rule, int(support), float(log_chance)))

    both, rows = on.T @ on, seen.T @ seen
    ones = on.T @ seen  # rows with label i in which label j is known
    with np.errstate(divide="ignore", invalid="ignore"):
        share = ones.T / rows  # [i, j]: share of label j where both are known
        implied = (ones == both) & (ones >= min_support) & (ones < ones.T)
        excluded = (both == 0) & (np.minimum(ones, ones.T) >= min_support)
        log_implied, log_excluded = ones * np.log(share), ones * np.log1p(-share)
    same = own[:, None] == own
    implied &= ~same
    # an implication already excludes the other values of its variable
    says = (implied.astype(int) @ same.astype(int)) > 0
    excluded &= ~(same | ((says | says.T) & ~(implied | implied.T)))
    # a -> c follows from a -> b and b -> c
    direct = implied & ~((implied.astype(int) @ implied.astype(int)) > 0)
    # with two values each, one column is the complement of the other: a -> b is not b -> not a
    pairs = same & ~np.eye(len(own), dtype=bool) & (same.sum(axis=1) == 2)
    contrary = np.where(pairs.any(axis=1), pairs.argmax(axis=1), -1).tolist()
    for i, j in np.argwhere(direct).tolist():
        left, right = contrary[j], contrary[i]
        if left < 0 or right < 0 or i < left or not direct[left, right]:
            add(f"{names[i]} -> {names[j]}", ones[i, j], log_implied[i, j])
    for i, j in np.argwhere(np.triu(excluded, 1)).tolist():
        support = ones[i, j] + ones[j, i]
        add(f"at most one of {names[i]}, {names[j]}", support, log_excluded[i, j])
    on, seen = on[:, labels], seen[:, labels]
    names = [names[place] for place in labels]
    complete = on[seen.all(axis=1)] if labels else on[:0]
    if len(labels) > 1 and len(complete) >= min_support:
        sizes = complete.sum(axis=1)
        low, high = int(sizes.min()), int(sizes.max())
        if low > 0 or high < len(labels):
            alone = _size_distribution(complete.mean(axis=0))[low : high + 1].sum()
            counted = f"{low}..{high} of " + ", ".join(names)
            with np.errstate(divide="ignore"):
                add(counted, len(complete), len(complete) * np.log(min(alone, 1.0)))
    return sorted(found, key=lambda one: (one.log_chance, -one.support, one.rule.text))


def _size_distribution(prob: Array) -> Array:
    """Distribution (d + 1,) of the number of independent labels that are there."""
    found = np.ones(1)
    for p in prob.tolist():
        found = np.convolve(found, [1.0 - p, p])
    return found
