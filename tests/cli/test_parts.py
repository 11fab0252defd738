"""Tables in parts, as typed: the same models, one file of answers a part, sentences for faults."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import colabel
from colabel.tables import read_frame
from tests.cli.typed import read, run, said

dask = pytest.importorskip("dask")
N = 120


@pytest.fixture
def folder(tmp_path, rng):
    """A table as one file and as three parts; the labels follow the features and each other."""
    X = rng.normal(size=(N, 3)).round(3)
    a = X[:, 0] + rng.normal(size=N) > 0
    b = 2 * a - 1 + X[:, 1] + rng.normal(size=N) > 0
    rows = [[*x, int(one), int(two)] for x, one, two in zip(X.tolist(), a, b, strict=True)]
    header = ["u", "v", "w", "tag_a", "tag_b"]
    for name, some in [
        ("all.csv", rows),
        ("part-0.csv", rows[:50]),
        ("part-1.csv", rows[50:51]),
        ("part-2.csv", rows[51:]),
    ]:
        with (tmp_path / name).open("w", newline="") as text:
            csv.writer(text).writerows([header, *some])
    return tmp_path


def fit(folder, *more, table="part-*.csv", code=0):
    labels = ["--labels", "tag_*", "--set", "C=0.1"]
    target = folder / "m.colabel"
    return run("fit", folder / table, *labels, "-o", target, *more, code=code)


def test_the_same_model_as_of_one_file(folder):
    fit(folder, table="all.csv")
    expected = colabel.load(folder / "m.colabel")
    result = fit(folder)
    assert "3 parts are read in passes" in result.stderr
    assert "120 rows, 3 features, 2 labels" in result.stdout
    found = colabel.load(folder / "m.colabel")
    frame = read_frame(folder / "all.csv")
    np.testing.assert_allclose(found.predict_proba(frame), expected.predict_proba(frame), atol=1e-6)
    assert found.n_rows == N
    left = {file.name for file in folder.iterdir()}
    assert left == {"all.csv", "part-0.csv", "part-1.csv", "part-2.csv", "m.colabel"}


def test_a_large_file_is_read_in_passes(folder, monkeypatch):
    monkeypatch.setattr("colabel.tables.reading.LARGE_BYTES", 1000)
    assert "read in passes" in fit(folder, table="all.csv").stderr
    # a model that needs its rows in memory has them there, as long as they fit
    ask = ["fit", folder / "all.csv", "--labels", "tag_*", "-o", folder / "m.colabel"]
    assert "read in passes" not in run(*ask, "--model", "mlknn").stderr


def test_a_forest_says_that_it_learns_from_a_sample(folder):
    ask = ["fit", folder / "part-*.csv", "--labels", "tag_*", "-o", folder / "m.colabel"]
    ask += ["--model", "forest", "--set", "n_estimators=5", "--set"]
    assert "a sample of about 60 of the 120 rows" in run(*ask, "max_rows=60").stderr
    assert "sample" not in run(*ask, "max_rows=120").stderr
    found = colabel.load(folder / "m.colabel").predict_proba(read_frame(folder / "all.csv"))
    assert found.shape == (N, 2)


def test_answers_of_each_part(folder):
    fit(folder, table="all.csv")
    model, out = folder / "m.colabel", folder / "answers"
    run("predict", model, folder / "all.csv", "-o", folder / "all-answers.csv")
    result = run("predict", model, folder / "part-*.csv", "-o", out)
    assert "120 rows predicted" in result.stdout
    whole = (folder / "all-answers.csv").read_text().splitlines()
    parts = [(out / f"part-{k}.csv").read_text().splitlines() for k in range(3)]
    assert all(part[0] == whole[0] for part in parts)
    without_number = [line.split(",", 1)[1] for part in parts for line in part[1:]]
    assert without_number == [line.split(",", 1)[1] for line in whole[1:]]


def test_finished_parts_are_not_done_again(folder):
    fit(folder, table="all.csv")
    model, out = folder / "m.colabel", folder / "answers"
    ask = ["predict", model, folder / "part-*.csv", "-o", out]
    run(*ask)
    (out / "part-1.csv").write_text("of an earlier run")
    assert "0 rows predicted" in (again := run(*ask).stdout)
    assert "3 of 3 parts were finished before." in again
    (out / "part-2.csv").unlink()
    os.utime(folder / "part-0.csv", (1, 1))  # another state of the part
    assert "119 rows predicted" in run(*ask).stdout
    assert (out / "part-1.csv").read_text() == "of an earlier run"
    # another question is another request
    assert "120 rows predicted" in run(*ask, "--top-k", 1).stdout
    assert "set_1" in (out / "part-1.csv").read_text()


def test_a_part_that_fails_leaves_the_finished_ones(folder):
    fit(folder, table="all.csv")
    (folder / "part-1.csv").write_text("u,v,w\n1,2\n")
    ask = ["predict", folder / "m.colabel", folder / "part-*.csv", "-o", folder / "answers"]
    assert "part-1.csv, line 2: the row has 2 values" in run(*ask, code=2).stderr
    assert [file.name for file in sorted((folder / "answers").glob("*.csv"))] == ["part-0.csv"]
    (folder / "part-1.csv").write_text("u,v,w\n1,2,3\n")
    assert "1 of 3 parts were finished before" in run(*ask).stdout


def test_answers_in_parquet(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow_csv = pytest.importorskip("pyarrow.csv")
    fit(folder, table="all.csv")
    parquet.write_table(arrow_csv.read_csv(folder / "part-0.csv"), folder / "part-0.parquet")
    out = folder / "answers"
    run("predict", folder / "m.colabel", folder / "part-0.parquet", "-o", out)
    run("predict", folder / "m.colabel", folder / "part-0.csv", "-o", folder / "one.csv")
    found = parquet.read_table(out / "part-0.parquet").to_pydict()
    expected = read(folder / "one.csv")
    assert list(found) == list(expected[0])
    assert found["tag_a"] == [int(row["tag_a"]) for row in expected]
    probabilities = [float(row["p_tag_b"]) for row in expected]
    np.testing.assert_allclose(found["p_tag_b"], probabilities, rtol=1e-5)


def test_parts_that_cannot_be_answered(folder):
    fit(folder, table="all.csv")
    ask = ["predict", folder / "m.colabel", folder / "part-*.csv"]
    assert "into a folder: name it with -o" in run(*ask, code=2).stderr
    assert "is a file" in run(*ask, "-o", folder / "all.csv", code=2).stderr
    (folder / "more").mkdir()
    (folder / "more" / "part-0.csv").write_text("u,v,w\n1,2,3\n")
    both = run(*ask, folder / "more" / "part-0.csv", "-o", folder / "answers", code=2)
    assert "would both be answered to" in both.stderr
    none = run("predict", folder / "m.colabel", folder / "no-*.csv", "-o", folder / "x", code=2)
    assert "No file matches" in none.stderr


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--cluster", "localhost"], "write it like tcp://host:8786"),
        (["--cluster", "tcp://localhost:8786", "--workers", "2"], "give one of them"),
        (["--scratch", "nowhere"], "nowhere is no folder"),
        (["--model", "mlknn"], "MLkNN learns from rows in memory only"),
        (["--model", "kernel+br"], "learns from rows in memory only"),
        (["--set", "calibrate=True"], "calibrate"),
        (["--model", "br", "--set", "class_weight=balanced"], "leave class_weight out"),
    ],
)
def test_what_cannot_be_meant(folder, more, sentence):
    settings = ["--labels", "tag_*", "-o", folder / "m.colabel"]
    result = run("fit", folder / "part-*.csv", *settings, *more, code=2)
    assert sentence in said(result.stderr)


def test_a_stopped_fit_goes_on(folder, monkeypatch):
    """The passes that were made are not made again, and the model is the same to the bit."""
    fit(folder)
    expected = colabel.load(folder / "m.colabel").model.models_.coef
    kept = folder / "fit.checkpoint"
    made = []

    @contextmanager
    def stopping(description, **options):
        passes = []

        def count(n_rows):
            passes.append(n_rows)
            if len(passes) == 20:
                raise KeyboardInterrupt

        yield count

    with monkeypatch.context() as patch:
        patch.setattr("colabel.cli.fitting.pass_counter", stopping)
        fit(folder, "--checkpoint", kept, code=130)
    assert kept.exists()
    with kept.open("ab") as file:
        file.write(b"cut short")  # as if the process had ended while it wrote
    other = fit(folder, "--checkpoint", kept, "--set", "tol=0.1", code=2).stderr
    assert "is of another fit" in said(other)

    compute = dask.compute
    monkeypatch.setattr("dask.compute", lambda *a, **k: (made.append(1), compute(*a, **k))[1])
    result = fit(folder, "--checkpoint", kept)
    assert not kept.exists()
    n_before = int(result.stderr.split("Goes on after ")[1].split()[0])
    assert n_before >= 15
    found = colabel.load(folder / "m.colabel").model.models_.coef
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    n_made = len(made)
    made.clear()
    fit(folder)
    assert n_made == len(made) - n_before


def test_workers_that_fail_are_one_sentence(folder, monkeypatch):
    distributed = pytest.importorskip("distributed")

    def fail(*arguments):
        raise distributed.KilledWorker("task", "tcp://127.0.0.1:1", 3)

    monkeypatch.setattr("colabel.tables.TableModel.fit_parts", fail)
    result = fit(folder, code=2)
    assert "One worker after the other failed" in said(result.stderr)


def test_a_fault_is_not_called_wrong_use(folder, monkeypatch):
    def fail(*arguments):
        raise TypeError("of its own")

    monkeypatch.setattr("colabel.tables.TableModel.fit_parts", fail)
    assert "a fault of its own" in fit(folder, code=1).stderr


def test_no_scheduler_there(folder):
    pytest.importorskip("distributed")
    with dask.config.set({"distributed.comm.timeouts.connect": "500 ms"}):
        result = fit(folder, "--cluster", "tcp://127.0.0.1:1", code=2)
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in said(result.stderr)


# A cluster whose scheduler is closed in the fifth pass of a fit, in a process of its own.
_LOST = """
import sys
from contextlib import contextmanager
from distributed import LocalCluster
from colabel.cli import app, fitting

@contextmanager
def closing(description, **options):
    passes = []

    def count(n_rows):
        passes.append(n_rows)
        if len(passes) == 5:
            cluster.close()

    yield count

if __name__ == "__main__":
    fitting.pass_counter = closing
    cluster = LocalCluster(
        1, processes=False, threads_per_worker=1, dashboard_address=None, protocol="tcp://"
    )
    app([*sys.argv[1:], "--cluster", cluster.scheduler_address])
"""


def test_a_lost_scheduler_is_one_sentence(folder):
    pytest.importorskip("distributed")
    script = folder / "lost.py"
    script.write_text(_LOST)
    command = [sys.executable, script, "fit", folder / "part-0.csv", "--labels", "tag_*"]
    command += ["--set", "C=0.1", "-o", folder / "m.colabel"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "Error: The Dask scheduler is gone" in said(done.stderr)
    assert "Traceback" not in done.stderr
    assert not (folder / "m.colabel").exists()


def test_worker_processes(folder):
    pytest.importorskip("distributed")
    few_passes = ["--model", "br", "--set", "C=0.1", "--set", "tol=0.1"]
    ask = ["fit", folder / "part-*.csv", "--labels", "tag_*", *few_passes]
    run(*ask, "-o", folder / "m.colabel")
    expected = colabel.load(folder / "m.colabel")
    code = "from colabel.cli import main; main()"
    command = [sys.executable, "-c", code, *ask, "-o", folder / "w.colabel", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    frame = read_frame(folder / "all.csv")
    found = colabel.load(folder / "w.colabel")
    np.testing.assert_allclose(found.predict_proba(frame), expected.predict_proba(frame), atol=1e-6)


def test_tables_are_never_overwritten_by_what_is_made_of_them(folder):
    """Answers took the place of the parts, a model or a page that of its table."""
    table, model = folder / "all.csv", folder / "m.colabel"
    fit(folder, table="all.csv")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    link = folder / "link.csv"
    link.symlink_to(table)
    for words in [
        ("predict", model, folder / "part-*.csv", "-o", folder),
        ("predict", model, table, "-o", table),
        ("predict", model, table, "-o", link),
        ("ask", model, table, "-o", table),
        ("explore", model, table, "-o", table),
        ("explain", model, table, "--html", model),
        ("compare", table, "--labels", "tag_*", "--report", table),
        ("fit", table, "--labels", "tag_*", "-o", table),
        ("fit", folder / "part-*.csv", "--labels", "tag_*", "--checkpoint", folder / "part-0.csv"),
    ]:
        assert "would be overwritten: name another file" in said(run(*words, code=2).stderr), words
    link.unlink()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
