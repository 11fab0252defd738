"""A journal gives back what was written, drops what is cut short, and runs nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

from colabel.core.content import CannotBeWrittenError
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
    with pytest.raises(JournalError, match="is no file: name another"):
        Journal(tmp_path, "key")


def payload(tree: object, **arrays: bytes) -> bytes:
    """What an archive of a step holds."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("model.json", tree if isinstance(tree, str) else json.dumps(tree))
        for name, content in arrays.items():
            archive.writestr(f"arrays/{name}.npy", content)
    return out.getvalue()


def named(tag: str, **fields: object) -> bytes:
    """A payload that names what is to be made."""
    root = {"tuple": [{"object": 0}]}
    return payload({"root": root, "objects": [{"type": tag, "fields": fields}], "n_arrays": 0})


def written(file, *steps: bytes) -> None:
    """Write a journal of payloads, whose digests are right."""
    with Journal(file, "key"):
        pass
    with file.open("ab") as out:
        for step in steps:
            digest = hashlib.blake2b(step, digest_size=16).digest()
            out.write(len(step).to_bytes(8, "big") + digest + step)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    "step",
    [
        pickle.dumps((Harmful(),)),
        named("os:mkdir", name="harm"),
        named("colabel.core.journal:Journal", path="harm", key="key"),
        named("colabel.learn.chunks.chunked_data:Journal", path="harm", key="key"),
        named("colabel.learn.conditional:np", name="harm"),
        named("colabel.learn.nowhere:Path", name="harm"),
        named("colabel.learn..:Path", name="harm"),
        named("colabel.labels.space:LabelSpace", names=1, classes=2),
        named("colabel.labels.space:SeenLabels", harm=1),
        payload({"root": {"tuple": [{"foreign": 0}]}, "objects": [], "n_arrays": 0}),
        payload({"root": [1, 2], "objects": [], "n_arrays": 0}),
        payload("[" * 100_000),
        b"",
        bytes(8),
    ],
)
def test_nothing_is_run(tmp_path, monkeypatch, step):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "j", step)
    with pytest.raises(JournalError, match=r"holds what no fit has written .*remove it"):
        Journal(tmp_path / "j", "key")
    assert not (tmp_path / "harm").exists()


def test_a_matrix_whose_indices_lie_outside(tmp_path):
    """Compiled code would read there."""
    rows = sparse.csr_array(np.eye(3))
    rows.indices[0] = 1000
    with Journal(tmp_path / "j", "key") as journal:
        journal.add((rows,))
    with pytest.raises(JournalError, match="indices holds numbers that are not between"):
        Journal(tmp_path / "j", "key")


@pytest.mark.parametrize(
    "value", [object(), np.load, Harmful(), b"bytes", {1: object()}, {1, 2}, KNeighborsClassifier()]
)
def test_only_plain_data_are_written(tmp_path, value):
    with (
        Journal(tmp_path / "j", "key") as journal,
        pytest.raises(CannotBeWrittenError, match="no plain data"),
    ):
        journal.add((value,))


@pytest.mark.parametrize(
    "value", [1.5, float("inf"), 2**70, {"a": (1, [2])}, np.array([np.nan]), np.array("x")]
)
def test_values_of_every_kind(tmp_path, value):
    with Journal(tmp_path / "j", "key") as journal:
        journal.add((value,))
    with Journal(tmp_path / "j", "key") as journal:
        (found,) = journal.next()
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)


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
