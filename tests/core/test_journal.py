"""A journal gives back what was written, drops what is cut short, and runs nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import sparse

from colabel.core import journal as module
from colabel.core.journal import Journal, JournalError
from colabel.labels.space import SeenLabels


def results():
    labels = SeenLabels(("a",), (np.array(["x", "y"], dtype=object),), "matrix")
    rows = sparse.csr_array(np.eye(2))
    return [
        (np.arange(6.0).reshape(2, 3), np.float64(1.5), 3, None),
        (labels,),
        (rows, np.zeros((0, 2), dtype=np.int32), "text", True),
    ]


def test_what_was_written_comes_back(tmp_path):
    file = tmp_path / "j"
    with Journal(file, "key") as journal:
        for result in results():
            assert journal.next() is None
            journal.add(result)
    with Journal(file, "key") as journal:
        assert journal.n_recorded == 3
        (X, number, whole, nothing), (labels,), (rows, *_) = (journal.next() for _ in range(3))
        np.testing.assert_array_equal(X, results()[0][0])
        assert (number, whole, nothing) == (1.5, 3, None)
        assert labels.values[0].tolist() == ["x", "y"]
        np.testing.assert_array_equal(rows.toarray(), np.eye(2))
        assert journal.next() is None


@pytest.mark.parametrize("n_lost", [1, 20, 40])
def test_an_incomplete_end_is_cut_off(tmp_path, n_lost):
    file = tmp_path / "j"
    with Journal(file, "key") as journal:
        journal.add((np.ones(3),))
        journal.add((np.zeros(100),))
    os.truncate(file, file.stat().st_size - n_lost)
    with Journal(file, "key") as journal:
        assert journal.n_recorded == 1
        journal.next()
        journal.add((2,))
    with Journal(file, "key") as journal:
        assert [journal.next() for _ in range(3)][1:] == [(2,), None]


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "j"
    with Journal(file, "key") as journal:
        journal.add((1,))
    with pytest.raises(JournalError, match="of another fit"):
        Journal(file, "other")
    file.write_text("a table")
    with pytest.raises(JournalError, match="no checkpoint"):
        Journal(file, "key")
    assert file.read_text() == "a table"


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


class Opens:
    def __reduce__(self):
        return Journal, ("harm", "key")


class Indirect:
    def __reduce__(self):
        return module.Path, ("harm",)


@pytest.mark.parametrize("harm", [Harmful(), Opens(), Indirect(), np.load, Journal.add])
def test_nothing_is_run(tmp_path, monkeypatch, harm):
    monkeypatch.chdir(tmp_path)
    with Journal(tmp_path / "j", "key") as journal:
        journal.add((harm,))
    with pytest.raises(JournalError, match="remove it"):
        Journal(tmp_path / "j", "key")
    assert not (tmp_path / "harm").exists()
