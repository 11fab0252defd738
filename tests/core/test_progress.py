"""What is said of the time left."""

from __future__ import annotations

import pytest

from colabel.core.progress import Rehearsal


def test_the_time_left_is_that_of_the_rehearsal_scaled():
    """Ten times slower than a rehearsal of 8 seconds, of which 3 were over at the third pass."""
    rehearsal = Rehearsal((0.0, 1.0, 3.0, 7.0), 8.0)
    assert rehearsal.left(3, 30.0) == pytest.approx(50.0)
    assert rehearsal.left(4, 70.0) == pytest.approx(10.0)


def test_nothing_is_said_before_the_first_pass_and_after_the_last():
    rehearsal = Rehearsal((0.0, 1.0), 2.0)
    assert rehearsal.left(1, 5.0) is None
    assert rehearsal.left(3, 5.0) is None
