"""Files appear whole, through links, and never over what is no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from colabel.core.files import written_whole
from tests.platforms import with_pipes, with_signals


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "file"
    target.write_text("old")
    (tmp_path / "link").symlink_to(target)
    with written_whole(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new"


def test_a_link_to_nothing_yet_makes_its_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with written_whole(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_an_error_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_text("old")

    def fail():
        with written_whole(tmp_path / "file") as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [f.name for f in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


@with_pipes
@pytest.mark.parametrize("special", ["pipe", "link to a pipe"])
def test_what_is_no_file_is_refused(tmp_path, special):
    # a pipe of our own: were it not refused, a real device would be replaced by a file
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if special != "pipe":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    with pytest.raises(OSError, match="a device, a pipe or a socket"), written_whole(path):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_the_mode_is_that_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with written_whole(tmp_path / "file") as part:
        part.write_text("")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_other_threads_may_write(tmp_path):
    def write():
        with written_whole(tmp_path / "file") as part:
            part.write_text("new")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (tmp_path / "file").read_text() == "new"


ENDED = """
import os, signal, sys, time
from pathlib import Path
from colabel.core.files import scratch_folder, written_whole
path, is_file = Path(sys.argv[1]), sys.argv[2] == "file"
with written_whole(path / "file") if is_file else scratch_folder(path, ".rows-") as own:
    assert len(list(path.iterdir())) == 1
    if is_file:
        own.write_text("half")
    else:
        (own / "more").mkdir()
        (own / "more" / "rows.npy").write_text("half")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


@with_signals
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_process_asked_to_end_leaves_nothing_behind(what, tmp_path):
    """A fit of parts left all of its rows in a hidden folder."""
    done = subprocess.run([sys.executable, "-c", ENDED, str(tmp_path), what], timeout=60)
    assert done.returncode == -signal.SIGTERM
    assert not list(tmp_path.iterdir())
