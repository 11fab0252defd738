"""More that is fuzzed: whole tables on their way to a model, in parts too, pages, checkpoints."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import colabel
from colabel.comparing import dependence_graph
from colabel.core.journal import Journal, JournalError
from colabel.joint import Independent
from colabel.labels import LabelSpace
from colabel.report import Exploration, exploration_html, explored_rows
from colabel.tables import (
    Preprocessor,
    ReadingOptions,
    TableError,
    TableRequest,
    load_table,
    prepare_parts,
)
from tests.fuzz.mutations import change_bytes, change_text
from tests.report.html_page import Page

KINDS = ["red", "light blue", "", "?"]
OWN_TABLE = "when;size;big;colour;note;tags;tag_a;tag_b\n" + "".join(
    f"{2020 + i % 3}-0{i % 9 + 1}-1{i % 10};{i},5;1.{i % 10}00.000,25;{KINDS[i % 4]};"
    f"some words and {i};{['a', 'a|b', 'b|c', ''][i % 4]};{i % 2};{int(i % 3 > 0)}\n"
    for i in range(24)
)
LABELS = [["tags"], ["tag_*"], ["tag_a"], ["colour"], ["when"], ["size"], ["tags", "tag_a"], ["*"]]


def own_table_case(rng: np.random.Generator, folder: Path) -> str:
    """Make features and labels of a changed table: dates, decimal commas, tags, categories."""
    file = folder / "own.csv"
    file.write_bytes(change_text(rng, OWN_TABLE.encode()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = load_table(_request(rng, file))
            rows = Preprocessor(table.choice.used).fit(table.features).transform(table.features)
            values = rows.data if hasattr(rows, "tocsr") else rows
            if not np.isfinite(values).all():
                raise AssertionError("features that are not finite")
    except TableError:
        return "refused"
    return "answered"


def parts_case(rng: np.random.Generator, folder: Path) -> str:
    """Prepare a table whose second part was changed: other columns, other kinds of cells."""
    lines = OWN_TABLE.encode().split(b"\n")
    files = [folder / "part-0.csv", folder / "part-1.csv"]
    files[0].write_bytes(b"\n".join(lines[:13]) + b"\n")
    files[1].write_bytes(change_text(rng, b"\n".join([lines[0], *lines[13:]])))
    with tempfile.TemporaryDirectory(dir=folder) as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepare_parts(_request(rng, folder / "part-*.csv"), files, Path(scratch))
        except TableError:
            return "refused"
    return "answered"


def _request(rng: np.random.Generator, file: Path) -> TableRequest:
    """What somebody may say of the table."""
    labels = LABELS[rng.integers(len(LABELS))]
    separator = [None, None, "|", ""][rng.integers(4)] if len(labels) == 1 else None
    decimal = [None, None, ",", "."][rng.integers(4)]
    drop = ["tag*"] if labels not in (["tags"], ["tag_*"], ["tag_a"]) and "*" not in labels else []
    options = ReadingOptions(decimal=decimal) if decimal else ReadingOptions()
    return TableRequest(file, labels, separator, drop=drop, options=options)


# ------------------------------------------------------------------------------------- checkpoints


@functools.cache
def checkpoint() -> bytes:
    """What a stopped fit has left."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fit.checkpoint"
        with Journal(file, "a fit") as journal:
            journal.add((np.arange(6.0).reshape(2, 3), 7))
            journal.add((LabelSpace(("a",), (np.array([0, 1]),), "matrix"), [np.ones(2), None]))
            journal.add((1.5, "text"))
        return file.read_bytes()


def checkpoint_case(rng: np.random.Generator, folder: Path) -> str:
    """Read a changed checkpoint; half of the changes are made to what its digests protect."""
    file, content = folder / "fit.checkpoint", checkpoint()
    if rng.random() < 0.5:
        content = change_bytes(rng, content)
    else:
        at = 34  # behind the head: a payload of another content, with a digest that is right
        length = int.from_bytes(content[at : at + 8], "big")
        payload = change_bytes(rng, content[at + 24 : at + 24 + length])
        digest = hashlib.blake2b(payload, digest_size=16).digest()
        content = content[:at] + len(payload).to_bytes(8, "big") + digest + payload
    file.write_bytes(content)
    try:
        with Journal(file, "a fit") as journal:
            while journal.next() is not None:
                continue
    except JournalError:
        return "refused"
    finally:
        file.unlink()
    return "answered"


# ------------------------------------------------------------------------------------------- pages

HOSTILE = [
    "</script>", "<script>alert(1)</script>", "<!--", "-->", "]]>", "<img src=x onerror=alert(1)>",
    '"', "'", "&lt;", "&", "\u2028", "\u2029", "\ud800", "\x00", "\x1b[31m", "${x}", "{{x}}", "`",
    "javascript:alert(1)", "<svg/onload=alert(1)>", "\\u003c", "\\", "\r\n", "\u202e", "é", "名",
    "</title>", "</style>", "a" * 300, "", " ", "__proto__", "constructor", "toString", "0", "-1",
]  # fmt: skip


def hostile(rng: np.random.Generator) -> str:
    """A name that somebody hopes to be run."""
    return "".join(HOSTILE[i] for i in rng.integers(len(HOSTILE), size=int(rng.integers(1, 4))))


@functools.cache
def small_model() -> Any:
    """A tree over three labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    a = X[:, 0] + rng.normal(size=90) > 0
    Y = np.column_stack([a, X[:, 1] > 0, a ^ (rng.random(90) < 0.1)]).astype(int)
    return colabel.CTBN(C=1.0, random_state=0).fit(X, Y), X


def page_case(rng: np.random.Generator, folder: Path) -> str:
    """Write a page to explore rows with hostile names of labels, columns, values and rows."""
    model, X = small_model()
    names = tuple(f"{hostile(rng)}{i}" for i in range(3))
    values = tuple(np.array([hostile(rng), hostile(rng) + "2"], dtype=object) for _ in names)
    space = LabelSpace(names, values, "table")
    joint = Independent(space, [np.log([[0.25, 0.75]] * 2)] * 3)
    cells = [((hostile(rng), hostile(rng)),)] * 2
    rows = explored_rows(joint, [hostile(rng), hostile(rng)], cells)
    graph = dependence_graph(model, X)
    graph = json.loads(json.dumps(graph).replace('"y0"', json.dumps(names[0])))
    text = exploration_html(Exploration(space, tuple(rows), "", True, graph), hostile(rng))
    page = Page(text)
    assert page.open == []
    assert (page.count("script"), page.count("script", type="application/json")) == (4, 2)
    assert not {name for name, _ in page.elements} & {"img", "iframe", "object", "form", "embed"}
    events = [key for _, has in page.elements for key in has if key.startswith("on")]
    assert not events, events
    for found in re.findall(r'type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
        data = json.loads(found, parse_constant=_refuse)
    assert "labels" in data or "nodes" in data
    text.encode("utf-8", errors="replace")
    return "answered"


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
