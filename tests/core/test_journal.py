"""A journal gives back what was written, drops what is cut short, and runs nothing."""

from __future__ import annotations

import hashlib
import json
import os
import pickle

import numpy as np
import pytest
from scipy import sparse

from colabel.core.journal import Journal, JournalError, from_bytes, to_bytes
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
    with pytest.raises(JournalError, match="is no file: name another"):
        Journal(tmp_path, "key")


def named(module: str, name: str, *fields: object) -> bytes:
    """A payload that names what is to be made."""
    tree = json.dumps({"tuple": [{"record": [module, name, list(fields)]}]}).encode()
    return len(tree).to_bytes(8, "big") + tree


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps((Harmful(),)),
        named("os", "mkdir", "harm"),
        named("colabel.core.journal", "Journal", "harm", "key"),
        named("colabel.learn.chunks.chunked_data", "Journal", "harm", "key"),
        named("colabel.learn.linear", "np", "harm"),
        named("colabel.learn.nowhere", "Path", "harm"),
        named("colabel.learn..", "Path", "harm"),
        named("colabel.labels.space", "LabelSpace", 1, 2),
        to_bytes([1, 2]),
        b"",
        bytes(8),
        (2**63).to_bytes(8, "big") + b"{}",
        to_bytes((np.ones(3),))[:-8],
        b"[" * 100_000,
    ],
)
def test_nothing_is_run(tmp_path, monkeypatch, payload):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "j"
    with Journal(file, "key"):
        pass
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    with file.open("ab") as out:
        out.write(len(payload).to_bytes(8, "big") + digest + payload)
    with pytest.raises(JournalError, match="remove it"):
        Journal(file, "key")
    assert not (tmp_path / "harm").exists()


def test_a_matrix_whose_indices_lie_outside(tmp_path):
    """Compiled code would read there."""
    rows = sparse.csr_array(np.eye(3))
    rows.indices[0] = 1000
    with pytest.raises(ValueError, match="no plain values"):
        from_bytes(to_bytes(rows))


@pytest.mark.parametrize("value", [object(), np.load, Harmful(), b"bytes", {1: object()}])
def test_only_journal_are_written(value):
    with pytest.raises(TypeError, match="no plain value"):
        to_bytes((value,))


@pytest.mark.parametrize(
    "value", [1.5, float("inf"), 2**70, {"a": (1, [2])}, {1, 2}, np.int32(3), np.array("x")]
)
def test_values_of_every_kind(value):
    found = from_bytes(to_bytes(value))
    assert type(found) is type(value)
    assert found == value


@pytest.mark.parametrize("length", [2**64 - 1, 2**62, 2**40])
def test_a_length_that_no_file_has(tmp_path, length):
    """It was handed to `read`: an OverflowError or all of the memory."""
    file = tmp_path / "j"
    with Journal(file, "key") as journal:
        journal.add((1,))
    with file.open("ab") as out:
        out.write(length.to_bytes(8, "big") + bytes(100))
    with Journal(file, "key") as journal:
        assert journal.n_recorded == 1
