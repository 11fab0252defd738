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


def add(file, *results):
    with Journal(file, "key") as journal:
        for result in results:
            journal.add(result)


def recorded(file):
    with Journal(file, "key") as journal:
        found = [journal.next() for _ in range(journal.n_recorded)]
        assert journal.next() is None
        return found


def test_what_was_written_comes_back(tmp_path):
    labels = SeenLabels(("a",), (np.array(["x", "y"], dtype=object),), "matrix")
    empty = np.zeros((0, 2), dtype=np.int32)
    assert recorded(tmp_path / "j") == []
    add(tmp_path / "j", (np.arange(6.0).reshape(2, 3), np.float64(1.5), 3, None), (labels,))
    add(tmp_path / "j", (sparse.csr_array(np.eye(2)), empty, "text", True))
    (X, *others), (again,), (rows, *more) = recorded(tmp_path / "j")
    np.testing.assert_array_equal(X, np.arange(6.0).reshape(2, 3))
    assert others == [1.5, 3, None]
    assert again.values[0].tolist() == ["x", "y"]
    np.testing.assert_array_equal(rows.toarray(), np.eye(2))
    assert (more[0].shape, more[0].dtype, *more[1:]) == ((0, 2), np.int32, "text", True)


@pytest.mark.parametrize("n_lost", [1, 20, 40])
def test_an_incomplete_end_is_cut_off(tmp_path, n_lost):
    file = tmp_path / "j"
    add(file, (1,), (np.zeros(100),))
    os.truncate(file, file.stat().st_size - n_lost)
    assert recorded(file) == [(1,)]
    add(file, (2,))
    assert recorded(file) == [(1,), (2,)]


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "j"
    add(file, (1,))
    with pytest.raises(JournalError, match="of another fit"):
        Journal(file, "other")
    file.write_text("a table")
    with pytest.raises(JournalError, match="no checkpoint"):
        Journal(file, "key")
    assert file.read_text() == "a table"
    with pytest.raises(JournalError, match="is no file: name another"):
        Journal(tmp_path, "key")


def payload(tree: str) -> bytes:
    """What an archive of a step holds."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("model.json", tree)
    return out.getvalue()


def rooted(root: object, *objects: object) -> bytes:
    return payload(json.dumps({"root": root, "objects": objects, "n_arrays": 0}))


def named(tag: str, **fields: object) -> bytes:
    """A payload that names what is to be made."""
    return rooted({"tuple": [{"object": 0}]}, {"type": tag, "fields": fields})


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
        rooted({"tuple": [{"foreign": 0}]}),
        rooted([1, 2]),
        payload("[" * 100_000),
        b"",
        bytes(8),
    ],
)
def test_nothing_is_run(tmp_path, monkeypatch, step):
    monkeypatch.chdir(tmp_path)
    add(tmp_path / "j")
    digest = hashlib.blake2b(step, digest_size=16).digest()
    with (tmp_path / "j").open("ab") as out:
        out.write(len(step).to_bytes(8, "big") + digest + step)
    with pytest.raises(JournalError, match=r"holds what no fit has written .*remove it"):
        Journal(tmp_path / "j", "key")
    assert not (tmp_path / "harm").exists()


def test_a_matrix_whose_indices_lie_outside(tmp_path):
    """Compiled code would read there."""
    rows = sparse.csr_array(np.eye(3))
    rows.indices[0] = 1000
    add(tmp_path / "j", (rows,))
    with pytest.raises(JournalError, match="indices holds numbers that are not between"):
        Journal(tmp_path / "j", "key")


@pytest.mark.parametrize(
    "value", [object(), np.load, Harmful(), b"bytes", {1: object()}, {1, 2}, KNeighborsClassifier()]
)
def test_only_plain_data_are_written(tmp_path, value):
    with pytest.raises(CannotBeWrittenError, match="no plain data"):
        add(tmp_path / "j", (value,))


@pytest.mark.parametrize(
    "value", [1.5, float("inf"), 2**70, {"a": (1, [2])}, np.array([np.nan]), np.array("x")]
)
def test_values_of_every_kind(tmp_path, value):
    add(tmp_path / "j", (value,))
    ((found,),) = recorded(tmp_path / "j")
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)


@pytest.mark.parametrize("length", [2**64 - 1, 2**62, 2**40])
def test_a_length_that_no_file_has(tmp_path, length):
    """It was handed to `read`: an OverflowError or all of the memory."""
    add(tmp_path / "j", (1,))
    with (tmp_path / "j").open("ab") as out:
        out.write(length.to_bytes(8, "big") + bytes(100))
    assert recorded(tmp_path / "j") == [(1,)]
