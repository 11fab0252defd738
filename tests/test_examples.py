"""Every lesson runs, prints or draws something, and is short."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LESSONS = sorted(EXAMPLES.glob("plot_*.py"))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lesson_runs_and_draws(lesson, monkeypatch, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.close("all")
    try:
        runpy.run_path(str(lesson))
        assert plt.get_fignums(), "a lesson has a picture"
        assert not list(tmp_path.iterdir()), "a lesson leaves no file behind"
    finally:
        plt.close("all")


def test_lessons_are_several_and_short():
    assert len(LESSONS) >= 5
    for lesson in LESSONS:
        assert len(lesson.read_text(encoding="utf-8").splitlines()) <= 90, lesson
