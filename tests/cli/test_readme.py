"""What the README shows is what happens: its Python runs, its outputs are real, its links lead."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fenced import Block, blocks, run_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_blocks_are_found():
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```console\nls\n```\n"
    assert blocks(page) == [Block(2, "print(1)\n", "1\n")]
    assert len(blocks(README)) >= 1


def test_python_runs_and_prints_what_is_shown():
    run_page(ROOT / "README.md")


def test_pictures_are_there():
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        begin = b"<svg" if picture.endswith(".svg") else b"\x89PNG"
        assert (ROOT / picture).read_bytes().startswith(begin)


def test_every_name_in_backticks_exists():
    import colabel
    from colabel import Joint

    models = set(re.findall(r"`([A-Z]\w+)(?:\(\))?`", README)) - {
        "Joint",
        "Pipeline",
        "GridSearchCV",
    }
    assert len(models) >= 4
    assert all(hasattr(colabel, name) for name in models)
    calls = set(re.findall(r"`(?:joint\.)?(\w+)\([^)`]*\)`", README)) - models - {"P"}
    assert len(calls) >= 6
    assert all(callable(getattr(Joint, name)) for name in calls)


def test_it_fits_on_two_screens():
    assert len(README.encode()) <= 7000
