"""The language of rules: one line of text to an expression over names of labels, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: number for number, word in enumerate(_WORDS)}
_KEYWORDS = {"and", "or", "not", "of", "exactly", "at", "least", "most", "none", "all"}
_TOKEN = re.compile(
    r"\s*(?:(?P<mark>->|\.\.|!=|[(),=;])"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*\"|'[^']*')"
    r"|(?P<word>(?:(?!->|\.\.|!=)[^\s(),=;\"'#])+))"
)
_PLAIN = re.compile(r"(?:(?!->|\.\.|!=)[^\s(),=;:\"'#*?\[])+\Z")
# Common mistakes, and the hint that the error gives for each.
_HINTS = {
    "<->|<=>": "write two rules, one with -> in each direction",
    "=>|→|⇒|(?i:^if )": "write -> for 'implies'",
    "&|∧": "write and",
    r"[|]|∨": "write or",
    r"\b(AND|OR|NOT|OF)\b": "words of rules are in lower case",
    ";": "write a rule a line",
}
UNLIMITED = 1 << 30
_DEEPEST = 50  # levels of nested parentheses or arrows
ALL = -1  # of `all of`


class RuleError(ValueError):
    """A rule that cannot be read, or does not fit the labels."""


@dataclass(frozen=True)
class Is:
    """A label is there, or has a value (or, negated, has not); names and values may be globs."""

    name: str
    value: str | None = None
    negated: bool = False
    quoted: bool = False  # quoted names are not globs


@dataclass(frozen=True)
class Not:
    """The negation of an expression."""

    inner: Expression


@dataclass(frozen=True)
class And:
    """All of some expressions."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Or:
    """At least one of some expressions."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Count:
    """How many of some labels there are, from `low` (or ALL) to `high`."""

    low: int
    high: int
    parts: tuple[Is, ...]


@dataclass(frozen=True)
class Table:
    """The combinations of values of some labels that exist."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Expression = Is | Not | And | Or | Count | Table


def quoted(name: str) -> str:
    """Write a name or a value so that it is read back as it is."""
    if "\n" in name or "\r" in name:
        raise RuleError(f"{name!r} has a line break, but a rule is one line: rename it.")
    if _PLAIN.match(name) and name not in _KEYWORDS and not name.isdigit():
        return name
    return '"' + name.replace('"', '""') + '"'


def table_text(table: Table) -> str:
    """Write a table of combinations on one line."""
    rows = "; ".join(" ".join(map(_value_text, row)) for row in table.rows)
    return f"allowed {', '.join(map(quoted, table.names))} = {rows}"


def _value_text(value: str) -> str:
    return value if value.isdigit() else quoted(value)


def parse(text: str) -> Expression:
    """Read one rule."""
    reader = _Reader(text)
    if reader.next_is("allowed") and not reader.next_is("->", 1) and len(reader.tokens) > 1:
        found: Expression = reader.table()
    else:
        found = reader.rule()
    if reader.place < len(reader.tokens):
        reader.fail(f"{reader.tokens[reader.place][0]!r} was not expected here")
    return found


class _Reader:
    """Recursive descent over the tokens of a line."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tokens: list[tuple[str, bool]] = []  # a token, and whether it was quoted
        self.place = self.depth = 0
        at = 0
        while at < len(self.text) and self.text[at] != "#":
            match = _TOKEN.match(self.text, at)
            if match is None:
                rest = self.text[at:].strip()
                if not rest or rest.startswith("#"):
                    break
                self.fail(
                    f"{rest[:1]!r} is not closed or not known: put names with such signs "
                    "into quotes"
                )
            token, quote = match.group("mark") or match.group("word"), match.group("quoted")
            if quote:
                token = quote[1:-1].replace('""', '"') if quote[0] == '"' else quote[1:-1]
            self.tokens.append((token, bool(quote)))
            at = match.end()

    def fail(self, reason: str) -> NoReturn:
        hints = (hint for sign, hint in _HINTS.items() if re.search(sign, self.text))
        hint = next((f": {hint}" for hint in hints), "")
        raise RuleError(f"In the rule {self.text!r}, {reason}{hint}.")

    def next_is(self, token: str, ahead: int = 0) -> bool:
        place = self.place + ahead
        return place < len(self.tokens) and self.tokens[place] == (token, False)

    def take(self, token: str) -> bool:
        found = self.next_is(token)
        self.place += found
        return found

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"{token!r} was expected {self._where()}")

    def _where(self) -> str:
        if self.place < len(self.tokens):
            return f"before {self.tokens[self.place][0]!r}"
        return "at the end"

    def rule(self) -> Expression:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("too much is inside of something else: write several rules")
        found = self.any_of()
        if self.take("->"):
            found = Or((Not(found), self.rule()))
        self.depth -= 1
        return found

    def any_of(self) -> Expression:
        parts = [self.all_of()]
        while self.take("or"):
            parts.append(self.all_of())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def all_of(self) -> Expression:
        parts = [self.part()]
        while self.take("and"):
            parts.append(self.part())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def part(self) -> Expression:
        if self.take("not"):
            negated = True
            while self.take("not"):
                negated = not negated
            return Not(self.part()) if negated else self.part()
        if self.take("("):
            inner = self.rule()
            self.expect(")")
            return inner
        return self.count() or self.label()

    def count(self) -> Count | None:
        """Read a count, such as `1..3 of a, b`; None where there is none."""
        start, low, high, is_all = self.place, 0, UNLIMITED, False
        if self.take("exactly"):
            low = high = self.number()
        elif self.next_is("at") and (self.next_is("least", 1) or self.next_is("most", 1)):
            is_least = self.next_is("least", 1)
            self.place += 2
            low, high = (self.number(), UNLIMITED) if is_least else (0, self.number())
        elif self.take("none"):
            low = high = 0
        elif self.take("all"):
            is_all = True
        else:
            if not self.next_is(".."):
                if not self._is_number():
                    return None
                low = high = self.number()
            if self.take(".."):
                high = self.number() if self._is_number() else UNLIMITED
        if not self.take("of"):
            if (
                start == self.place
                or self.tokens[start][0] in ("none", "all")
                or (self.place == start + 1 and not self.tokens[start][1])
            ):
                self.place = start  # a label that is called like a number
                return None
            self.fail(f"'of' was expected {self._where()}")
        parts = [self.label()]
        while self.take(","):
            parts.append(self.label())
        if low > high:
            self.fail(f"{low} is more than {high}: write the smaller number first")
        return Count(ALL if is_all else low, high, tuple(parts))

    def _is_number(self) -> bool:
        if self.place >= len(self.tokens) or self.tokens[self.place][1]:
            return False
        token = self.tokens[self.place][0]
        return token.isdigit() or token in _NUMBERS

    def number(self) -> int:
        if not self._is_number():
            self.fail(f"a number was expected {self._where()}")
        token = self.tokens[self.place][0]
        self.place += 1
        return int(token) if token.isdigit() else _NUMBERS[token]

    def word(self, what: str) -> tuple[str, bool]:
        marks = {"->", "..", "!=", "(", ")", ",", "=", ";"}
        if self.place >= len(self.tokens):
            self.fail(f"{what} was expected at the end")
        token, is_quoted = self.tokens[self.place]
        if not is_quoted and (token in marks or token in _KEYWORDS):
            quotes = "; a name like this stands in quotes" if token in _KEYWORDS else ""
            self.fail(f"{what} was expected before {token!r}{quotes}")
        self.place += 1
        return token, is_quoted

    def label(self) -> Is:
        name, is_quoted = self.word("a label")
        if self.take("="):
            return Is(name, self.word("a value")[0], quoted=is_quoted)
        if self.take("!="):
            return Is(name, self.word("a value")[0], negated=True, quoted=is_quoted)
        return Is(name, quoted=is_quoted)

    def table(self) -> Table:
        """Read what `table_text` writes."""
        self.expect("allowed")
        names = [self.word("a label")[0]]
        while self.take(","):
            names.append(self.word("a label")[0])
        self.expect("=")
        rows: list[tuple[str, ...]] = []
        while self.place < len(self.tokens):
            rows.append(tuple(self.word("a value")[0] for _ in names))
            if self.place < len(self.tokens):
                self.expect(";")
        return Table(tuple(names), tuple(rows))
