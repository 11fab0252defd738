"""A file of results that cannot be used is told in a sentence."""

from __future__ import annotations

import os
import sqlite3

import pytest

from studies.store import Store, StoreError
from tests.platforms import with_pipes


def test_not_a_database(tmp_path):
    (tmp_path / "results.sqlite").write_text("not a database at all, but long enough to be read")
    with pytest.raises(StoreError, match=r"Cannot use .*results\.sqlite.*name another file"):
        Store(tmp_path / "results.sqlite")


def test_a_file_cut_short(tmp_path):
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        store._connection.execute("PRAGMA journal_mode = DELETE")
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(StoreError), Store(path) as store:
        store.finished()


@with_pipes
def test_a_pipe_is_no_file_of_results(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match=r"Cannot use .*pipe.*name another file"):
        Store(tmp_path / "pipe")


def test_a_database_of_something_else_is_left_alone(tmp_path):
    """It was given tables of ours, and removed as a whole once these were empty."""
    path = tmp_path / "addresses.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE people (name TEXT)")
        other.execute("INSERT INTO people VALUES ('Ada')")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="a database of something else"):
        Store(path)
    assert path.read_bytes() == before


def test_columns_of_another_version_show_before_work_begins(tmp_path):
    path = tmp_path / "results.sqlite"
    Store(path).__exit__()
    with sqlite3.connect(path) as other:
        other.execute("ALTER TABLE cells ADD COLUMN memory_mb")
    other.close()
    with pytest.raises(StoreError, match="another version of the studies: name another file"):
        Store(path)
