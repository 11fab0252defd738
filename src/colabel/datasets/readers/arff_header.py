"""The header of an ARFF file: relation, attributes, and the quoting rules of values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from colabel.datasets.dataset import DatasetError
from colabel.datasets.readers.text import FilePath, at, shown

Kind = Literal["numeric", "nominal", "other"]


class _OnlyItself(str):
    """A string that equals no other, whatever a file holds."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


# Stands for a value '?' that was written in quotes: a plain ? means missing, a quoted one does not.
QUOTED_QUESTION_MARK: str = _OnlyItself("'?'")

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"\s*({QUOTED}|[^\s{{]+|\S+)\s*(.*)", re.DOTALL)
# Both alternatives run to a comma or the end, so no input makes this backtrack for long.
_VALUE = re.compile(rf"\s*(?:({QUOTED})\s*|([^,]*))(,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its kind, and (nominal) its values in the order of their codes."""

    name: str
    kind: Kind
    values: tuple[str, ...] = ()
    declared: str = "numeric"


@dataclass(frozen=True)
class Header:
    """The relation name, the attributes, and the line that holds @data."""

    relation: str
    attributes: tuple[Attribute, ...]


def unquote(token: str) -> str:
    """Remove quotes and resolve escapes; a token without quotes is returned as it is."""
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token

    def resolve(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(resolve, token[1:-1])


def split_values(text: str) -> list[str] | None:
    """Split comma-separated values that may be quoted; None when a quote is left open.

    A quoted question mark comes back as QUOTED_QUESTION_MARK.
    """
    values: list[str] = []
    position = 0
    while True:
        match = _VALUE.match(text, position)
        if match is None:
            return None
        if match[1] is not None:
            value = unquote(match[1])
            values.append(QUOTED_QUESTION_MARK if value == "?" else value)
        else:
            values.append(match[2].strip())
            if match[2][:1] in ("'", '"'):
                return None  # a quote that is not closed before the next comma
        if not match[3]:
            return values
        position = match.end()


def read_header(lines: Iterable[tuple[int, str]], path: FilePath) -> Header:
    """Read up to and including @data from (line number, line) pairs."""
    relation = ""
    attributes: list[Attribute] = []
    seen: set[str] = set()
    number = 0
    for number, raw in lines:
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        keyword, rest = [*line.split(None, 1), ""][:2]
        match keyword.lower():
            case "@relation":
                relation = unquote(rest.strip())
            case "@attribute":
                attribute = _attribute(rest, path, number)
                if attribute.name in seen:
                    raise at(
                        path,
                        number,
                        f"the attribute {attribute.name!r} is declared twice: rename one.",
                    )
                seen.add(attribute.name)
                attributes.append(attribute)
            case "@data":
                if not attributes:
                    raise at(
                        path, number, "@data comes before any @attribute: declare the columns."
                    )
                return Header(relation, tuple(attributes))
            case _:
                raise at(
                    path,
                    number,
                    f"expected @relation, @attribute or @data but found {shown(line)}: is this "
                    "an ARFF file?",
                )
    if number == 0:
        raise DatasetError(f"{path} is empty: fetch the file again.")
    raise at(path, number, "the file ends without a @data line: it is cut short; fetch it again.")


def _attribute(rest: str, path: FilePath, number: int) -> Attribute:
    """Parse what follows @attribute: a name, then a type."""
    match = _NAME.fullmatch(rest)
    name, declared = (unquote(match[1]), match[2].strip()) if match else ("", "")
    if not name or not declared:
        raise at(
            path, number, f"an attribute needs a name and a type but the line says {shown(rest)}."
        )
    if declared.startswith("{"):
        return _nominal(name, declared, path, number)
    word = declared.split("%")[0].split()[0].lower() if declared[0] != "%" else ""
    if word in ("numeric", "real", "integer"):
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, "other", declared=word)
    raise at(
        path,
        number,
        f"the attribute {name!r} has the type {shown(declared)}, which is not read: use numeric, "
        "real, integer, {a, b, ...}, or string or date with the column listed in drop.",
    )


def _nominal(name: str, declared: str, path: FilePath, number: int) -> Attribute:
    """Parse the value list of a nominal attribute."""
    end = declared.rfind("}")
    values = split_values(declared[1:end]) if end > 0 else None
    if values is None or (values == [""] and "'" not in declared and '"' not in declared):
        raise at(
            path,
            number,
            f"the value list of {name!r} is empty, or a bracket or quote in it is not closed: "
            "write {a, b, ...}.",
        )
    if len(set(values)) != len(values):
        raise at(path, number, f"the attribute {name!r} lists a value twice: remove one of them.")
    plain = tuple("?" if value is QUOTED_QUESTION_MARK else value for value in values)
    return Attribute(name, "nominal", plain, declared="nominal")
