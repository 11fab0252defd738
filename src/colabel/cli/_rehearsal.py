"""How many passes a fit will take, and how long each, by a fit on a few of the rows."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from colabel.core.progress import Rehearsal

if TYPE_CHECKING:
    from colabel.tables import PreparedTable

_ROWS = 1 << 13
_TIMES = 50  # as many rows has a table whose fit is rehearsed: that is two hundredths of its time


def rehearsed(estimator: Any, table: PreparedTable) -> Rehearsal | None:
    """Fit a model to the first rows of a table; None where it is small, or they are too few.

    A solver takes about as many passes over few rows as over many.
    """
    if table.n_rows < _TIMES * _ROWS:
        return None
    from colabel.learn.chunks import counting_passes
    from colabel.tables import TableModel

    started = time.monotonic()
    began: list[float] = []
    with warnings.catch_warnings(), counting_passes(lambda _: began.append(_since(started))):
        warnings.simplefilter("ignore")
        try:
            TableModel.fit_parts(estimator, table.first_rows(_ROWS))
        except ValueError:
            return None  # a label that these rows do not have: all rows will tell
    return Rehearsal(tuple(began), _since(started)) if began else None


def _since(started: float) -> float:
    return time.monotonic() - started
