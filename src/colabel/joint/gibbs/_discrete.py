"""Discrete inference (Algorithm 2 of Guo & Gu, 2011): set labels in turn until none changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Codes, Indices
from colabel.joint.gibbs.sampler import Conditionals
from colabel.labels import MISSING

CONVERGED, CYCLED, CAPPED = range(3)


@dataclass(frozen=True, eq=False, repr=False)
class FixedPointReport:
    """How discrete inference ended for each row.

    Attributes
    ----------
    status : (n,) array of str
        "converged": a pass changed nothing. "cycled": the labels came back to an earlier vector
        and would go round for ever. "capped": neither happened within the passes allowed.
    passes : (n,) array of int
        Passes over the labels until then.
    """

    status: NDArray[np.str_]
    passes: Indices

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each status."""
        return {name: int((self.status == name).sum()) for name in STATUS_NAMES}

    def to_text(self) -> str:
        """Return one line with the counts."""
        found = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        most = int(self.passes.max()) if self.passes.size else 0
        return f"{len(self.status)} rows: {found}; at most {most} passes."

    def __repr__(self) -> str:
        return f"FixedPointReport({self.to_text()})"


STATUS_NAMES = ("converged", "cycled", "capped")


class Settled(NamedTuple):
    """Labels (n, d), how each row ended (n,) and the passes it took (n,)."""

    labels: Codes
    status: Indices
    passes: Indices


def settle(
    model: Conditionals,
    initial: Codes,
    order: Indices,
    evidence: Codes,
    max_iterations: int,
) -> Settled:
    """Set each label in turn to its most probable value given the others, until none changes.

    A pass is a function of the label vector, so a row that meets a vector it has met before
    will go round for ever. Such a row is decided as Algorithm 1 decides its samples: by the
    marginals of the vectors it visits for ever, a tie going to the smaller code.

    Parameters
    ----------
    initial : (n, d)
        Where to start; labels known by the evidence start there.
    order : (d,)
        In which a pass visits the labels.
    evidence : (n, d)
        Known labels, MISSING elsewhere; they never change.
    """
    labels = np.where(evidence == MISSING, initial, evidence).astype(np.int32)
    status = np.full(len(labels), CAPPED, dtype=np.intp)
    passes = np.full(len(labels), max_iterations, dtype=np.intp)
    moving = np.arange(len(labels))
    past = labels[None].copy()  # (passes + 1, moving rows, d)
    for number in range(1, max_iterations + 1):
        if not len(moving):
            break
        part = model if len(moving) == len(labels) else model.rows(moving)
        now = one_pass(part, past[-1], order, evidence[moving])
        met = (past == now).all(axis=2)  # (passes + 1, moving rows)
        settled, repeated = met[-1], met.any(axis=0)
        labels[moving] = now
        for row in np.flatnonzero(repeated & ~settled):
            since = int(met[:, row].argmax())
            labels[moving[row]] = _majority(past[since:, row], model.cardinalities)
        status[moving[settled]], status[moving[repeated & ~settled]] = CONVERGED, CYCLED
        passes[moving[repeated]] = number
        past = np.concatenate([past, now[None]])[:, ~repeated]
        moving = moving[~repeated]
    return Settled(labels, status, passes)


def one_pass(model: Conditionals, labels: Codes, order: Indices, evidence: Codes) -> Codes:
    """Set every label that is not known to its most probable value, in order; all rows at once."""
    labels = labels.copy()
    for i in order:
        best = model.log_prob(labels[None], int(i))[0].argmax(axis=1)
        labels[:, i] = np.where(evidence[:, i] == MISSING, best, labels[:, i])
    return labels


def _majority(vectors: Codes, cardinalities: tuple[int, ...]) -> Codes:
    """Return the most frequent value of each label in vectors (m, d)."""
    counts = [
        np.bincount(column, minlength=size)
        for column, size in zip(vectors.T, cardinalities, strict=True)
    ]
    return np.array([count.argmax() for count in counts], dtype=np.int32)
