"""Columns that say what is certain enough: sets of label vectors, and labels that are sure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colabel.datasets.frame import Frame, TableError
from colabel.decide import LabelSets
from colabel.labels import LabelSpace
from colabel.models.conformal_sets import ConformalSets
from colabel.tables.model import TableModel

_NO_LABEL = "no label"


def require_sets(model: TableModel, coverage: float, given: Any) -> None:
    """Refuse to promise what the model, or the question, does not allow."""
    if not isinstance(model.model, ConformalSets):
        raise TableError(
            "A coverage can only be promised by a model that has held rows out: fit it with "
            "colabel fit --conformal."
        )
    if given:
        raise TableError(
            "A coverage was measured on rows of which no label was known: leave either --coverage "
            "or --given away."
        )
    if not 0 < coverage < 1:
        raise TableError(f"The coverage is {coverage:g}: give a probability, such as 0.9.")


def coverage_header(space: LabelSpace) -> list[str]:
    """Return the names of the columns that `coverage_columns` gives."""
    return ["n_sets", "sets", "sets_listed", *(f"sure_{name}" for name in space.names)]


def coverage_columns(
    model: TableModel, frame: Frame, coverage: float, write: Callable[[list[int]], str]
) -> list[list[str]]:
    """Return the columns for the rows of a frame, as texts.

    - n_sets: how many label sets are listed; sets: these, joined by " | ";
    - sets_listed: "all", or "not listed within K" where the set has more than could be listed, so
      that the true one is in the set, but perhaps not in the list;
    - sure_<label>: yes, no or unsure; in a row, all that are not unsure are right with the
      probability asked for.
    """
    X = model.preprocessor.transform(frame)
    sets: LabelSets = model.model.predict_sets(X, coverage)
    written = [write(codes) or _NO_LABEL for codes in sets.codes.tolist()]
    ends = sets.sizes.cumsum().tolist()
    starts = [0, *ends[:-1]] if ends else []
    beyond = f"not listed within {sets.max_listed}"
    words = model.model.predict_labels(X, coverage)
    return [
        [str(size) for size in sets.sizes.tolist()],
        [" | ".join(written[first:last]) for first, last in zip(starts, ends, strict=True)],
        [beyond if cut else "all" for cut in sets.cut.tolist()],
        *words.T.tolist(),
    ]
