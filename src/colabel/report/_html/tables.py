"""Tables that can be sorted, scrolled on a phone, printed and read aloud."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from colabel.report._html.markup import Html, join, name_text, tag


class Column(NamedTuple):
    """A column: its head, and whether it holds text rather than numbers."""

    name: str
    is_text: bool = False
    note: str | None = None


class Field(NamedTuple):
    """What stands in one place of a table.

    Attributes
    ----------
    content : str or Html
    key : float or None
        What numbers are sorted by; without one, a field comes last. Text is sorted by itself.
    kind : str or None
        CSS class.
    """

    content: str
    key: float | None = None
    kind: str | None = None


EMPTY = Field("–", None, "none")


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Field]],
    foot: Sequence[Sequence[Field]] = (),
    *,
    kind: str | None = None,
) -> Html:
    """Write a table; the first field of every row is its head.

    Parameters
    ----------
    caption : str or Html
    columns : sequence of Column
    rows, foot : sequences of sequences of Field
        The foot is not sorted with the rest.
    kind : str, optional
        CSS class.
    """
    head = [_column_head(column) for column in columns]
    body = [_row(row, columns) for row in rows]
    plain = caption if not isinstance(caption, Html) else None
    content = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", head)),
        tag("tbody", body),
        tag("tfoot", [_row(row, columns) for row in foot]) if foot else None,
        class_=kind,
    )
    # Something that scrolls must be reached by keyboard.
    return tag("div", content, class_="scroll", tabindex="0", role="group", aria_label=plain)


def _column_head(column: Column) -> Html:
    button = tag("button", column.name, type="button", title=column.note)
    return tag("th", button, scope="col", class_="text" if column.is_text else None)


def _row(fields: Sequence[Field], columns: Sequence[Column]) -> Html:
    head = tag("th", _content(fields[0]), scope="row", data_key=_key(fields[0]))
    rest = [
        tag(
            "td",
            _content(field) if column.is_text and field.kind is None else field.content,
            class_=_kind(field, column),
            data_key=_key(field),
        )
        for field, column in zip(fields[1:], columns[1:], strict=True)
    ]
    return join(tag("tr", head, rest), Html("\n"))


def _content(field: Field) -> Html:
    return field.content if isinstance(field.content, Html) else name_text(field.content)


def _kind(field: Field, column: Column) -> str | None:
    kinds = [kind for kind in ("text" if column.is_text else None, field.kind) if kind]
    return " ".join(kinds) or None


def _key(field: Field) -> str | None:
    return None if field.key is None or math.isnan(field.key) else repr(float(field.key))
