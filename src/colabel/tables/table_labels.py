"""Which columns of a table are labels, and what their values are.

Nothing is guessed silently: a column that could be read in two ways raises an error, which gives
the option for each reading.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from colabel.core.arrays import Codes, Flags
from colabel.core.schema import stored
from colabel.labels import MISSING, SEPARATORS, LabelSpace
from colabel.labels.columns import ABSENT_PRESENT, object_array
from colabel.labels.space import written_list
from colabel.tables.source import Frame, TableError, as_numbers, first_repeat, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_LIST = 1 << 24  # characters of a list of names
_MOST_LABELS = 20_000
# With at least this many rows, a column with more than this share of distinct values is no label.
_FEWEST_OF_KEY = 20
_SHARE_OF_KEY = 0.9
_LISTS: Mapping[str, Callable[[list[str]], str]] = {
    "['']": repr,
    '[""]': lambda tags: json.dumps(tags, ensure_ascii=False),
}
"""How a list of tags is written in a column, by the name of its style."""


@stored("label-source")
@dataclass(frozen=True)
class LabelSource:
    """Where the labels are in a table.

    Attributes
    ----------
    columns : tuple of str
        The label columns, or the one column of tags.
    separator : str
        What separates the tags in it; ``['']`` for lists as Python writes them, ``[""]`` for JSON;
        "" if each label has a column.
    """

    columns: tuple[str, ...]
    separator: str = ""

    def written(self, tags: Sequence[str]) -> str:
        """Write tags in the style of the column."""
        separator = self.separator or ";"
        return _LISTS[separator](list(tags)) if separator in _LISTS else separator.join(tags)


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels read from a table: their values as they were given, and the codes (n, d) of rows."""

    space: LabelSpace
    codes: Codes
    source: LabelSource

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.space.names

    @cached_property
    def Y(self) -> NDArray[Any]:  # noqa: N802
        """The values (n, d); where some are missing, an array of objects with None."""
        return self.space.values(self.codes)

    def rows(self, index: Any) -> Labels:
        """Return the labels of some rows."""
        return replace(self, codes=self.codes[index])


def match_columns(patterns: Iterable[str], names: Sequence[str], what: str) -> tuple[str, ...]:
    """Find columns by name, by glob ("tag_*"), from a list file, or by "a,b,c".

    A list file has one name per line ("@names.txt"), or is an XML file of Mulan ("@labels.xml").

    Examples
    --------
    >>> from colabel.tables import match_columns
    >>> match_columns(["tag_*", "size"], ["size", "tag_red", "tag_round", "x"], "label")
    ('size', 'tag_red', 'tag_round')
    """
    have = set(names)
    chosen: set[str] = set()
    for pattern in expanded(patterns):
        if pattern in have:
            chosen.add(pattern)
            continue
        matches = [name for name in names if fnmatchcase(name, pattern)]
        parts = [part.strip() for part in pattern.split(",")]
        if not matches and len(parts) > 1:
            matches = list(match_columns([part for part in parts if part], names, what))
        if not matches:
            lower = {name.lower(): name for name in names}
            close = get_close_matches(pattern.lower(), lower, n=3)
            hint = (
                f": did you mean {', '.join(repr(lower[name]) for name in close)}?"
                if close
                else "."
            )
            raise TableError(
                f"No column is named {pattern!r} (wanted as {what}){hint} The columns are "
                f"{listed(names, 200)}."
            )
        chosen.update(matches)
    return tuple(name for name in names if name in chosen)


def expanded(patterns: Iterable[str]) -> list[str]:
    """Replace list files among the patterns by their lines, or by the labels of a Mulan file."""
    every: list[str] = []
    for pattern in patterns:
        if not pattern.startswith("@"):
            every.append(pattern)
            continue
        file = Path(pattern[1:])
        try:
            with file.open(encoding="utf-8-sig") as text:
                content = text.read(_LARGEST_LIST)
            is_xml = file.suffix.lower() == ".xml"
            names = _xml_names(content, file) if is_xml else content.splitlines()
        except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            if isinstance(error, ElementTree.ParseError):
                reason = f"it is not well-formed XML: {error}"
            raise TableError(f"The list {file} cannot be read ({reason}).") from error
        every += [name.strip() for name in names if name.strip()]
    if not any(every):
        raise TableError(
            "No label is named (--labels): name columns, a glob such as 'tag_*', or a @list. Only"
            " a MEKA file says itself, by -C in its relation, which columns are labels."
        )
    return every


def _xml_names(content: str, file: Path) -> list[str]:
    """Return the names of labels in an XML file of Mulan; nested ones follow their parent.

    Files may be hostile, so entities are refused before they are expanded.
    """
    if "<!" in content.replace("<!--", ""):
        raise TableError(
            f"{file} declares a document type or entities, which a list of labels does not need "
            "and which can harm: remove the declaration."
        )
    elements = ElementTree.fromstring(content).iter()
    names = [e.get("name", "") for e in elements if e.tag.rpartition("}")[2] == "label"]
    twice = first_repeat(names)
    if not names or "" in names or twice is not None:
        problem = "names no labels" if not names else f"names the label {twice!r} twice"
        problem = "has a label without a name" if "" in names else problem
        raise TableError(f'{file} {problem}: write <labels><label name="..."/></labels>.')
    return names


@dataclass(frozen=True)
class LabelStatistics:
    """Values of label columns and their numbers of rows; the statistics of parts add up.

    Attributes
    ----------
    counts : tuple of {text: rows}
        For each column.
    first : tuple of {text: place}
        Where each value occurs first.
    n_rows : int
    """

    counts: tuple[Counter[str], ...]
    first: tuple[Mapping[str, str], ...]
    n_rows: int

    @classmethod
    def of(
        cls, frame: Frame, columns: Sequence[str], path: Path | None = None, n_before: int = 0
    ) -> LabelStatistics:
        """Count in the rows of a frame, which follow `n_before` other rows of a file."""
        counts, first = [], []
        row = "Row" if path is None else f"{path}, row"
        for name in columns:
            values, codes = frame.coded(name)
            known = codes[codes >= 0]
            times = np.bincount(known, minlength=len(values)).tolist()
            counts.append(Counter({v: n for v, n in zip(values, times, strict=True) if n}))
            places, rows = np.unique(codes, return_index=True)
            pairs = zip(places.tolist(), rows.tolist(), strict=True)
            first.append({values[k]: f"{row} {n_before + i + 1}: " for k, i in pairs if k >= 0})
        return cls(tuple(counts), tuple(first), frame.n_rows)

    def __add__(self, other: LabelStatistics) -> LabelStatistics:
        return LabelStatistics(
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            tuple({**b, **a} for a, b in zip(self.first, other.first, strict=True)),
            self.n_rows + other.n_rows,
        )

    def reader(
        self, columns: Sequence[str], separator: str | None = None, settled: Sequence[str] = ()
    ) -> LabelReader:
        """Return a reader of labels with these values.

        Parameters
        ----------
        columns : names of the label columns
        separator : str, optional
            What separates the tags of the one label column; None detects it, "" means no tags.
        settled : sequence of str
            Columns that the user has declared as class variables.
        """
        if separator and len(columns) > 1:
            raise TableError(
                f"A separator is for a single column of tags, but {len(columns)} label columns are "
                "named: name one, or leave the separator out."
            )
        if len(columns) == 1 and columns[0] not in settled:
            separator = self._separator(columns[0], separator)
        source = LabelSource(tuple(columns), separator or "")
        if source.separator:
            return self._tags(source)
        classes: list[list[Any]] = []
        codes: list[Mapping[str, int]] = []
        for name, counts, first in zip(columns, self.counts, self.first, strict=True):
            of_texts = _values_of(name, counts, first, is_settled=name in settled)
            own = sorted(set(of_texts.values()), key=lambda v: (isinstance(v, str), v))
            if own and set(map(type, own)) <= {int} and {*own} <= {0, 1}:
                own = [0, 1]
            place = {value: k for k, value in enumerate(own)}
            classes.append(own)
            codes.append({text: place[value] for text, value in of_texts.items()})
        if not any(self.counts):
            raise TableError("Every label is missing: fill in the label columns.")
        empty = [name for name, own in zip(columns, classes, strict=True) if not own]
        if empty and not all(set(own) <= {0, 1} for own in classes):
            raise TableError(f"The label column {empty[0]!r} is empty: fill it in.")
        values = tuple(
            object_array(own) if any(isinstance(v, str) for v in own) else np.array(own or [0, 1])
            for own in classes
        )
        return LabelReader(source, LabelSpace(tuple(columns), values, "matrix"), tuple(codes))

    def _separator(self, name: str, given: str | None) -> str:
        """Detect what separates tags in the one label column, or check what the user gives."""
        (counts,) = self.counts
        lists = counts and all(written_list(text) is not None for text in counts)
        seen = {s: next((t for t in counts if s in t), "") for s in SEPARATORS}
        seen = {separator: example for separator, example in seen.items() if example}
        if given is not None:
            if given and given not in _LISTS and not any(given in text for text in counts):
                better = next(iter(counts), "") if lists else next(iter(seen.values()), "")
                if better:
                    other = "lists written out" if lists else f"{next(iter(seen))!r} between tags"
                    raise TableError(
                        f"The separator {given!r} stands in none of the values of {name!r}, which "
                        f"hold {other} (such as {better!r}): leave it out (--separator)."
                    )
            return given
        if lists:
            return '[""]' if any('"' in text for text in counts) else "['']"
        if not seen:
            return ""
        separator, example = next(iter(seen.items()))
        if separator == ",":  # which may as well stand in a name, such as "Paris, France"
            rows = [split_tags(text, separator) for text in counts]
            times = Counter(tag for tags in rows for tag in set(tags))
            joined = {tag for tags in rows if len(tags) > 1 for tag in tags}
            if 2 * sum(times[tag] > 1 for tag in joined) <= len(joined):
                raise TableError(
                    f"The label column {name!r} holds {example!r}: is that two tags, or one value "
                    "with a comma in it? Say --separator , for tags, --separator '' for one value."
                )
        return separator

    def _tags(self, source: LabelSource) -> LabelReader:
        (counts,), (first,) = self.counts, self.first
        tags: set[str] = set()
        for text in counts:
            if source.separator in _LISTS and written_list(text) is None:
                raise TableError(
                    f"{first[text]}The column {source.columns[0]!r} holds {text!r}, where other "
                    "rows have lists of tags: write it as a list, or leave it empty."
                )
            tags.update(split_tags(text, source.separator))
        if not tags:
            raise TableError(f"The column {source.columns[0]!r} holds no tag: every row is empty.")
        if len(tags) > _MOST_LABELS:
            raise TableError(
                f"The column {source.columns[0]!r} holds {len(tags)} different tags, more than "
                f"{_MOST_LABELS}: is it text? Or are tags separated by something else than "
                f"{source.separator!r}?"
            )
        space = LabelSpace(tuple(sorted(tags)), (np.array([0, 1]),) * len(tags), "matrix")
        return LabelReader(source, space, ())


def _values_of(
    name: str, counts: Mapping[str, int], first: Mapping[str, str], *, is_settled: bool
) -> dict[str, Any]:
    """Return the value of each text of a label column: a whole number, a Boolean, or the text.

    Refuses ids, fractions, and a single stray value among those of a label.
    """
    n_known = sum(counts.values())
    if n_known >= _FEWEST_OF_KEY and len(counts) > _SHARE_OF_KEY * n_known:
        raise TableError(
            f"The label column {name!r} holds {len(counts)} different values in {n_known} rows: is "
            "it an id, or text? Name columns whose values recur; if it holds tags, say what "
            "separates them (--separator)."
        )
    texts = list(counts)
    numbers, odd = as_numbers(pa.array(texts, "string"), [])
    whole = {text: int(v) for text, v, no in zip(texts, numbers, odd, strict=True) if not no}
    if is_settled:
        return {text: text for text in texts} if len(whole) < len(texts) else dict(whole)
    words = {text.lower() for text in texts}
    pairs = [{*pair} for pair in ABSENT_PRESENT if len(words & {*pair}) == 2]
    for usual, said in (
        ({t for t, v in zip(texts, numbers.tolist(), strict=True) if v in (0, 1)}, "0 or 1"),
        *(({text for text in texts if text.lower() in pair}, " or ".join(pair)) for pair in pairs),
    ):
        others = [text for text in texts if text not in usual]
        if len(usual) > 1 and n_known >= _FEWEST_OF_KEY and sum(counts[t] for t in others) == 1:
            _raise_stray(name, others[0], first, f"all other {n_known - 1} values are {said}")
    n_odd = sum(counts[text] for text in texts if text not in whole)
    if n_odd and 2 * n_odd <= n_known:
        stray = next(text for text in texts if text not in whole)
        _raise_stray(name, stray, first, f"{n_known - n_odd} of its {n_known} values are numbers")
    if whole and not n_odd:
        for text, value in zip(texts, numbers.tolist(), strict=True):
            if value != whole[text] or abs(value) > 2**53:
                raise TableError(
                    f"{first[text]}The label column {name!r} holds {text}: labels are whole "
                    "numbers or names. Is this column a feature?"
                )
        return dict(whole)
    if set(texts) <= {"True", "False"}:
        return {text: text == "True" for text in texts}
    if pairs and len(texts) > 2 and words == pairs[0]:  # spelled in several ways
        common = {
            word: max((t for t in texts if t.lower() == word), key=counts.__getitem__)
            for word in words
        }
        return {text: common[text.lower()] for text in texts}
    return {text: text for text in texts}


def _raise_stray(name: str, text: str, first: Mapping[str, str], others: str) -> None:
    raise TableError(
        f"{first[text]}The label column {name!r} holds {text!r}, while {others}: correct it or "
        "leave it empty; where it is a value, fit with the column as a category (--category)."
    )


@dataclass(frozen=True)
class LabelReader:
    """Reads the labels of rows, in chunks.

    Attributes
    ----------
    source : LabelSource
    space : LabelSpace
    codes : tuple of d {text: code}
        Codes of the texts in each column; empty for tags.
    """

    source: LabelSource
    space: LabelSpace
    codes: tuple[Mapping[str, int], ...]

    def read(self, frame: Frame) -> Labels:
        """Read the labels of the rows of a frame."""
        names = self.space.names
        if self.source.separator:
            position = {tag: i for i, tag in enumerate(names)}
            texts, places = frame.coded(self.source.columns[0])
            of_texts = np.zeros((len(texts) + 1, len(names)), dtype=np.int32)
            for k, text in enumerate(texts):
                of_texts[k, [position[t] for t in split_tags(text, self.source.separator)]] = 1
            return Labels(self.space, of_texts[places], self.source)
        out = np.empty((frame.n_rows, len(names)), dtype=np.int32)
        for i, (name, codes) in enumerate(zip(names, self.codes, strict=True)):
            texts, places = frame.coded(name)
            out[:, i] = np.array([*(codes.get(text, MISSING) for text in texts), MISSING])[places]
        return Labels(self.space, out, self.source)


def is_labelled(frame: Frame, source: LabelSource) -> Flags:
    """Return which rows (n,) have a known label; with tags, an empty cell is a label set too."""
    known = np.full(frame.n_rows, bool(source.separator))
    for name in () if source.separator else source.columns:
        known |= frame.coded(name)[1] >= 0
    return known


def read_labels(frame: Frame, columns: Sequence[str], separator: str | None = None) -> Labels:
    """Read label columns, or one column of separated tags.

    Parameters
    ----------
    frame : Frame
    columns : names of the label columns
    separator : str, optional
        What separates the tags of the one label column. By default it is detected: a single column
        holds tags if its values contain ; or | or a comma, or are lists written out. "" means that
        it holds no tags.

    Returns
    -------
    Labels

    Examples
    --------
    >>> from colabel.tables import Frame, read_labels
    >>> frame = Frame.of({"tags": ["red;round", "red", None]})
    >>> labels = read_labels(frame, ["tags"])
    >>> labels.names, labels.Y.tolist()
    (('red', 'round'), [[1, 1], [1, 0], [0, 0]])
    """
    return LabelStatistics.of(frame, columns).reader(columns, separator).read(frame)


def split_tags(text: str | None, separator: str) -> list[str]:
    """Return the tags of a cell, without the blanks around them."""
    if separator in _LISTS:
        return list(dict.fromkeys(tag.strip() for tag in written_list(text or "") or ()))
    return [tag.strip() for tag in (text or "").split(separator) if tag.strip()]
